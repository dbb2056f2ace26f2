//! Every method with every permission: whoever has only this permission is let in where the method needs it,
//! and denied everywhere else. The methods come from the descriptors, so that none is forgotten.

use std::collections::BTreeMap;

use prost::Message;
use prost_types::FileDescriptorSet;
use stateway_access::Permission;
use stateway_visitor::exchange;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use super::rig::{AccessRig, Caller};
use crate::support::{error_info, reason_of};

/// What each method needs, written down a second time.
const EXPECTED: &str = "
    StartExecution start
    GetExecution read
    ListExecutions read
    CountExecutions read
    WatchExecutions read
    WaitExecution read
    ListEvents read
    GetStep read
    ReadPayload read-payloads
    ExplainExecution read
    SignalExecution signal
    CancelExecution stop
    PauseExecution steer
    ResumeExecution steer
    RetryNow steer
    RetryFrom steer
    AdoptDefinition steer
    ProjectExecution read
    PurgeExecution operate
    ApplyDefinition define
    GetDefinition read
    ListDefinitions read
    DeleteDefinition define
    MigrateDefinition define
    ValidateDefinition read
    ListApprovals read
    WatchApprovals read
    GetApproval read
    DecideApproval approve
    ListEscalations read
    GetEscalation read
    ResolveEscalation approve
    ListProviders read
    GetProvider read
    VerifyExecution read
    VerifyExecutions operate
    RecoverExecution operate
    ReplayExecution read-payloads
    ListBranches read
    ExportHistory read
    PublishEvent start
    DisableTrigger steer
    EnableTrigger steer
    StreamTasks work
    ListWorkers read
    GetQueue read
    PurgeExecutions operate
    BackupStore operate
";

/// One rule and one caller for each permission.
fn rules() -> String {
    let rule = |permission: Permission| {
        format!(
            "[[rules]]\nname = \"{permission}\"\nwho = {{ role = \"{permission}\" }}\n\
             may = \"{permission}\"\n"
        )
    };
    Permission::ALL.map(rule).concat()
}

/// The path of every method, with its name.
fn methods() -> Vec<(String, String)> {
    let set = FileDescriptorSet::decode(stateway_proto::DESCRIPTORS).unwrap();
    let mut paths = Vec::new();
    for file in &set.file {
        for service in &file.service {
            let service_name = format!("{}.{}", file.package(), service.name());
            let methods = service.method.iter().map(|method| method.name().to_owned());
            paths.extend(methods.map(|name| (format!("/{service_name}/{name}"), name)));
        }
    }
    assert!(paths.len() > 40, "{paths:?}");
    paths
}

fn expected() -> BTreeMap<&'static str, Permission> {
    let lines = EXPECTED
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let lines = lines.map(|line| line.split_once(' ').unwrap());
    lines
        .map(|(method, permission)| (method, permission.parse().unwrap()))
        .collect()
}

async fn rig() -> AccessRig {
    let names = Permission::ALL.map(Permission::as_str);
    let roles = names.each_ref().map(std::slice::from_ref);
    let mut callers: Vec<Caller<'_>> = Vec::new();
    for (name, roles) in names.iter().zip(roles) {
        callers.push((name, roles, None));
    }
    callers.push(("none", &[], None));
    AccessRig::with(&rules(), &callers).await
}

/// Whether a caller with only this permission may call a method.
fn is_let_in(permission: Permission, needed: Permission) -> bool {
    let implied = permission == Permission::ReadPayloads && needed == Permission::Read;
    permission == needed || implied
}

#[test]
fn a_method_without_an_expected_permission_fails() {
    let mut described: Vec<_> = methods().into_iter().map(|(_, name)| name).collect();
    described.sort();
    let expected: Vec<_> = expected().into_keys().collect();
    assert_eq!(described, expected);
}

/// The answer to an empty message over gRPC.
async fn call(channel: &Channel, rig: &AccessRig, who: &str, path: &str) -> Result<(), Status> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let codec: ProstCodec<(), ()> = ProstCodec::default();
    let path = path.parse().unwrap();
    let answer = grpc.server_streaming(rig.by(who, ()), path, codec).await;
    let mut messages = answer?.into_inner();
    messages.message().await.map(|_| ())
}

/// The gRPC status of an answer to an empty message over gRPC-Web, and the answer.
async fn call_web(rig: &AccessRig, who: &str, path: &str) -> (String, String) {
    let key = rig.key(who);
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         content-type: application/grpc-web+proto\r\n"
    );
    let text = exchange(&rig.rig.gateway, &head, &[0; 5]).await;
    let status = text.split("grpc-status:").nth(1).unwrap_or_default();
    let status = status.trim_start().chars().take_while(char::is_ascii_digit);
    (status.collect(), text)
}

#[tokio::test]
async fn every_method_lets_in_whoever_has_its_permission_and_nobody_else() {
    let rig = rig().await;
    let channel = rig.rig.gateway.channel().await;
    let expected = expected();
    let mut let_in = 0;
    for (path, method) in methods() {
        for permission in Permission::ALL {
            let answer = call(&channel, &rig, permission.as_str(), &path).await;
            let is_let_in = is_let_in(permission, expected[&*method]);
            let_in += usize::from(is_let_in);
            match answer {
                Err(status) if status.code() == Code::PermissionDenied => {
                    assert!(!is_let_in, "{method} denies {permission}: {status}");
                    let (reason, metadata) = error_info(&status);
                    assert_eq!(reason, "ACCESS_DENIED");
                    let needed = expected[&*method].as_str();
                    assert_eq!(metadata["permission"], needed);
                }
                Err(status) => {
                    assert!(is_let_in, "{method} lets {permission} in: {status}");
                    assert_ne!(status.code(), Code::Unauthenticated, "{method}");
                }
                Ok(()) => assert!(is_let_in, "{method} answers {permission}"),
            }
        }
        let nobody = call(&channel, &rig, "none", &path).await.unwrap_err();
        assert_eq!(nobody.code(), Code::PermissionDenied, "{method}");
        assert_eq!(reason_of(&nobody), "ACCESS_DENIED");
    }
    // Every method once, and every method for readers a second time.
    assert!(let_in > methods().len(), "{let_in}");
}

#[tokio::test]
async fn every_method_is_decided_in_the_same_way_over_grpc_web() {
    let rig = rig().await;
    let expected = expected();
    for (path, method) in methods() {
        for permission in Permission::ALL {
            let (status, answer) = call_web(&rig, permission.as_str(), &path).await;
            let denied = status == (Code::PermissionDenied as i32).to_string();
            let is_let_in = is_let_in(permission, expected[&*method]);
            assert_eq!(denied, !is_let_in, "{method} {permission}: {answer}");
            assert_ne!(
                status,
                (Code::Unauthenticated as i32).to_string(),
                "{answer}"
            );
        }
    }
}

#[tokio::test]
async fn without_rules_everything_is_denied() {
    let rig = AccessRig::with("", &[("ada", &["admin"], Some("acme"))]).await;
    let channel = rig.rig.gateway.channel().await;
    for (path, method) in methods() {
        let status = call(&channel, &rig, "ada", &path).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{method}");
    }
}

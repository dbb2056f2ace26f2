//! Lists: pages, filters, all providers at once.

use stateway_client::v1::{
    Execution, ListExecutionsRequest, ListExecutionsResponse, StartExecutionRequest,
};
use tonic::Code;

use crate::support::{BuiltInRig, Puppet, Running, TestGateway, clock, error_info, reason_of};

async fn page(gateway: &Running, request: ListExecutionsRequest) -> ListExecutionsResponse {
    gateway
        .executions()
        .await
        .list_executions(request)
        .await
        .expect("a page")
        .into_inner()
}

/// Every execution over all pages, and how many pages there were.
async fn all_pages(
    gateway: &Running,
    mut request: ListExecutionsRequest,
) -> (Vec<Execution>, usize) {
    let (mut executions, mut pages) = (Vec::new(), 0);
    loop {
        let answer = page(gateway, request.clone()).await;
        executions.extend(answer.executions);
        pages += 1;
        assert!(pages < 1_000, "the listing does not end");
        if answer.next_page_token.is_empty() {
            return (executions, pages);
        }
        request.page_token = answer.next_page_token;
    }
}

fn everything(page_size: i32) -> ListExecutionsRequest {
    ListExecutionsRequest {
        parent: "providers/-".into(),
        page_size,
        ..Default::default()
    }
}

fn ids(executions: &[Execution]) -> Vec<&str> {
    let mut ids: Vec<_> = executions
        .iter()
        .map(|execution| execution.name.as_str())
        .collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn every_row_of_every_provider_comes_once_whatever_the_page_size() {
    let (a, b) = (Puppet::new(), Puppet::new());
    for number in 0..23 {
        a.show(&format!("a-{number:02}"), "RUNNING");
    }
    for number in 0..5 {
        b.show(&format!("b-{number:02}"), "SUCCEEDED");
    }
    let gateway = TestGateway::new()
        .with_puppet("a", &a)
        .with_puppet("b", &b)
        .start()
        .await;
    for page_size in [1, 2, 3, 7, 50] {
        let (executions, _) = all_pages(&gateway, everything(page_size)).await;
        let mut unique = ids(&executions);
        unique.dedup();
        assert_eq!(
            (executions.len(), unique.len()),
            (28, 28),
            "page size {page_size}"
        );
    }
}

#[tokio::test]
async fn a_page_never_has_more_than_was_asked_for() {
    let puppets = [Puppet::new(), Puppet::new(), Puppet::new()];
    let mut gateway = TestGateway::new();
    for (index, puppet) in puppets.iter().enumerate() {
        for number in 0..9 {
            puppet.show(&format!("e-{number}"), "RUNNING");
        }
        gateway = gateway.with_puppet(&format!("p{index}"), puppet);
    }
    let gateway = gateway.start().await;
    for page_size in [1, 2, 4, 5] {
        let answer = page(&gateway, everything(page_size)).await;
        assert!(
            answer.executions.len() <= page_size as usize,
            "page size {page_size}"
        );
    }
}

#[tokio::test]
async fn a_filter_is_applied_over_empty_pages_and_all_providers() {
    let puppet = Puppet::new();
    for number in 0..40 {
        puppet.show(
            &format!("{number:02}"),
            if number % 10 == 0 {
                "FAILED"
            } else {
                "RUNNING"
            },
        );
    }
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let filter = "sub_state = failed".to_owned();
    let (failed, pages) = all_pages(
        &gateway,
        ListExecutionsRequest {
            filter,
            ..everything(3)
        },
    )
    .await;
    assert_eq!(failed.len(), 4);
    assert!(pages > 1);
}

#[tokio::test]
async fn a_filter_on_the_provider_spares_the_others_the_question() {
    use stateway_provider_api::Verb;
    let (a, b) = (Puppet::new(), Puppet::new());
    a.show("x", "RUNNING");
    b.show("x", "RUNNING");
    let gateway = TestGateway::new()
        .with_puppet("a", &a)
        .with_puppet("b", &b)
        .start()
        .await;
    let filter = "name = providers/a/*".to_owned();
    let (executions, _) = all_pages(
        &gateway,
        ListExecutionsRequest {
            filter,
            ..everything(0)
        },
    )
    .await;
    assert_eq!(ids(&executions), ["providers/a/executions/x"]);
    assert_eq!((a.asked(Verb::List), b.asked(Verb::List)), (1, 0));
}

#[tokio::test]
async fn a_bad_filter_is_refused_with_the_position_and_the_fields() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    for (filter, column) in [
        ("sub_state = done", "13"),
        ("substate = running", "1"),
        ("sub_state = running AND", "24"),
    ] {
        let request = ListExecutionsRequest {
            filter: filter.into(),
            ..everything(0)
        };
        let status = gateway
            .executions()
            .await
            .list_executions(request)
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{filter}");
        let (reason, metadata) = error_info(&status);
        assert_eq!(
            (reason.as_str(), metadata["column"].as_str()),
            ("INVALID_FILTER", column)
        );
        assert!(
            status.message().contains(&format!("column {column}")),
            "{}",
            status.message()
        );
    }
}

#[tokio::test]
async fn a_page_token_is_bound_to_parent_and_filter() {
    let puppet = Puppet::new();
    puppet.show("a", "RUNNING");
    puppet.show("b", "RUNNING");
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let token = page(&gateway, everything(1)).await.next_page_token;
    assert!(!token.is_empty());
    let good = ListExecutionsRequest {
        page_token: token.clone(),
        ..everything(1)
    };
    let others = [
        ListExecutionsRequest {
            filter: "sub_state = running".into(),
            ..good.clone()
        },
        ListExecutionsRequest {
            parent: "providers/p".into(),
            ..good.clone()
        },
        ListExecutionsRequest {
            page_token: "nonsense".into(),
            ..good.clone()
        },
        ListExecutionsRequest {
            page_token: format!("{token}A"),
            ..good.clone()
        },
    ];
    for wrong in others {
        let status = gateway
            .executions()
            .await
            .list_executions(wrong)
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(reason_of(&status), "INVALID_PAGE_TOKEN");
    }
    page(&gateway, good).await;
}

#[tokio::test]
async fn a_page_size_is_clamped_above_and_refused_below_zero() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    page(&gateway, everything(i32::MAX)).await;
    let status = gateway
        .executions()
        .await
        .list_executions(everything(-1))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_provider_that_cannot_list_is_named_and_alone_it_is_refused() {
    use stateway_provider_api::Capabilities;
    let capabilities = Capabilities {
        list: false,
        watch_one: false,
        watch_end: false,
        watch_all: false,
        ..Capabilities::ALL
    };
    let mute = Puppet::with_capabilities(capabilities);
    let other = Puppet::new();
    other.show("x", "RUNNING");
    let gateway = TestGateway::new()
        .with_puppet("mute", &mute)
        .with_puppet("other", &other)
        .start()
        .await;
    let answer = page(&gateway, everything(0)).await;
    assert_eq!(answer.executions.len(), 1);
    assert_eq!(answer.unreachable, ["providers/mute"]);
    let alone = ListExecutionsRequest {
        parent: "providers/mute".into(),
        ..Default::default()
    };
    let status = gateway
        .executions()
        .await
        .list_executions(alone)
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert_eq!(reason_of(&status), "CAPABILITY_NOT_SUPPORTED");
}

#[tokio::test]
async fn a_definition_is_filtered_by_its_short_name_its_shown_name_and_its_full_name() {
    let rig = BuiltInRig::start_beside(|gateway| gateway.with_memory("m", &clock())).await;
    rig.apply("name: hello\nsteps: [{name: greet, agent: greeter}]\n")
        .await;
    rig.apply("name: hello-2\nsteps: [{name: greet, agent: greeter}]\n")
        .await;
    let mut client = rig.gateway.executions().await;
    for (definition, id) in [
        ("definitions/hello", "ours"),
        ("definitions/hello-2", "second"),
        ("providers/m/definitions/hello", "theirs"),
        ("providers/m/definitions/long", "long"),
    ] {
        let request = StartExecutionRequest {
            definition: definition.into(),
            execution_id: id.into(),
            ..Default::default()
        };
        client.start_execution(request).await.expect("it starts");
    }
    let (ours, theirs) = (
        "providers/b/executions/ours",
        "providers/m/executions/theirs",
    );
    let everything_else = [
        "providers/b/executions/second",
        "providers/m/executions/long",
    ];
    for (filter, expected) in [
        ("definition = hello", &[ours, theirs][..]),
        ("definition = definitions/hello", &[ours]),
        ("definition = m/hello", &[theirs]),
        ("definition = providers/m/definitions/hello", &[theirs]),
        ("definition = providers/b/definitions/hello", &[]),
        ("definition = hell", &[]),
        ("definition != hello", &everything_else),
        ("definition = hello AND name = providers/m/*", &[theirs]),
    ] {
        for parent in ["providers/-", "providers/b", "providers/m"] {
            let request = ListExecutionsRequest {
                parent: parent.into(),
                filter: filter.into(),
                ..Default::default()
            };
            let (found, _) = all_pages(&rig.gateway, request).await;
            let under = parent.trim_end_matches('-');
            let expected = expected.iter().filter(|name| name.starts_with(under));
            assert_eq!(
                ids(&found),
                expected.copied().collect::<Vec<_>>(),
                "{parent}: {filter}"
            );
        }
    }
}

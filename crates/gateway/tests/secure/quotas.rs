//! What one identity may use, and that others do not pay for it.

use std::time::Duration;

use jiff::Timestamp;
use stateway_client::{Cancel, Client, Code, Security};
use stateway_gateway::{Quota, QuotaRule};
use stateway_identity::Glob;
use stateway_identity::api_key::{KeyFile, NewKey, RANDOM_BYTES};

use crate::support::{Authority, Folder, Running, connect, get, settings, who};

struct Rig {
    folder: Folder,
    running: Running,
    keys: Vec<String>,
}

/// A gateway with two callers, `ada` and `bob`, and limits for `ada`.
async fn rig(quota: Quota) -> Rig {
    let (folder, mut file) = (Folder::new(), KeyFile::default());
    let mut keys = Vec::new();
    for (number, subject) in [(1, "ada"), (2, "bob")] {
        let new = NewKey {
            subject: subject.into(),
            roles: Vec::new(),
            tenant: None,
            expires: Some(Timestamp::now() + Duration::from_secs(3600)),
        };
        let made = file.create(new, &[number; RANDOM_BYTES], Timestamp::now());
        keys.push(made.unwrap().1.expose().to_owned());
    }
    let mut settings = settings(&folder, &Authority::new("servers"));
    settings.authentication.api_keys = Some(folder.write("keys.json", &file.to_json()));
    settings.quotas.rules.push(QuotaRule {
        identity: Some(Glob::new("a*")),
        role: None,
        tenant: None,
        quota,
    });
    Rig {
        running: Running::new(settings).await,
        folder,
        keys,
    }
}

impl Rig {
    fn client(&self, number: usize) -> Client {
        let security = Security::default().ca(self.folder.path("ca.pem"));
        self.running
            .client(&security.token(&self.keys[number]).unwrap())
    }
}

#[tokio::test]
async fn a_caller_beyond_its_rate_is_refused_with_a_pause_and_others_are_served() {
    let rig = rig(Quota {
        requests_per_second: Some(2.0),
        ..Quota::UNLIMITED
    })
    .await;
    let (ada, bob) = (rig.client(0), rig.client(1));
    let cancel = async |client: &Client| {
        let name = "providers/who/executions/x";
        client.cancel(Cancel::new(name)).await.unwrap_err()
    };
    let mut refused = Vec::new();
    for _ in 0..10 {
        let error = cancel(&ada).await;
        if error.code() == Code::ResourceExhausted {
            refused.push(error);
        }
        who(&bob).await.unwrap();
    }
    assert!(refused.len() >= 5, "{}", refused.len());
    assert_eq!(refused[0].reason(), "REQUEST_RATE_EXCEEDED");
    let pause = refused[0].retry_after().unwrap();
    assert!(
        pause > Duration::ZERO && pause <= Duration::from_millis(500),
        "{pause:?}"
    );
    // A page of the same caller.
    let mut stream = connect(rig.running.address, &rig.folder.path("ca.pem")).await;
    cancel(&ada).await;
    cancel(&ada).await;
    let key = format!("authorization: Bearer {}\r\n", rig.keys[0]);
    let page = get(&mut stream, "/metrics", &key).await.unwrap();
    assert!(page.starts_with("HTTP/1.1 429"), "{page}");
    assert!(page.contains("retry-after: 1"), "{page}");
}

#[tokio::test]
async fn the_request_bytes_of_one_caller_are_bounded() {
    let rig = rig(Quota {
        max_request_bytes: Some(64 * 1024),
        ..Quota::UNLIMITED
    })
    .await;
    let (ada, bob) = (rig.client(0), rig.client(1));
    let cancel = async |client: &Client, comment: usize| {
        let mut cancel = Cancel::new("providers/who/executions/x");
        cancel = cancel.comment("x".repeat(comment));
        client.cancel(cancel).await.unwrap_err()
    };
    let refused = cancel(&ada, 200_000).await;
    assert_eq!(refused.reason(), "REQUEST_BYTES_EXCEEDED", "{refused}");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.retry_after().is_some());
    for _ in 0..3 {
        // What was refused or has ended counts no more.
        assert_ne!(
            cancel(&ada, 40_000).await.reason(),
            "REQUEST_BYTES_EXCEEDED"
        );
    }
    assert_ne!(
        cancel(&bob, 200_000).await.reason(),
        "REQUEST_BYTES_EXCEEDED"
    );
}

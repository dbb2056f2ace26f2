//! API keys over the wire: shown once, expiring, revoked, and when they were used.

use std::time::Duration;

use jiff::Timestamp;
use stateway_client::Security;
use stateway_gateway::StartError;
use stateway_identity::Secret;
use stateway_identity::api_key::{KeyFile, NewKey, RANDOM_BYTES};

use crate::support::{Authority, Folder, Running, eventually, settings};

fn key(file: &mut KeyFile, number: u8, lifetime: Duration) -> (String, Secret) {
    let new = NewKey {
        subject: format!("ci-{number}"),
        roles: vec!["operator".into()],
        tenant: None,
        expires: Some(Timestamp::now() + lifetime),
    };
    file.create(new, &[number; RANDOM_BYTES], Timestamp::now())
        .unwrap()
}

async fn gateway(folder: &Folder, file: &KeyFile) -> Running {
    let mut settings = settings(folder, &Authority::new("servers"));
    settings.authentication.api_keys = Some(folder.write("keys.json", &file.to_json()));
    settings.authentication.reload_interval = Duration::from_millis(20);
    Running::new(settings).await
}

#[tokio::test]
async fn a_key_names_its_subject_until_it_is_revoked() {
    let (folder, mut file) = (Folder::new(), KeyFile::default());
    let hour = Duration::from_secs(3600);
    let (id, first) = key(&mut file, 1, hour);
    let (_, second) = key(&mut file, 2, hour);
    let (_, expired) = key(&mut file, 3, Duration::ZERO);
    let running = gateway(&folder, &file).await;
    let trusting = Security::default().ca(folder.path("ca.pem"));
    let who = async |key: &str| {
        let security = trusting.clone().token(key).unwrap();
        running.who(&security).await
    };
    assert_eq!(who(first.expose()).await.unwrap(), "ci-1 operator");
    assert_eq!(who(second.expose()).await.unwrap(), "ci-2 operator");
    assert_eq!(who(expired.expose()).await.unwrap_err(), "API_KEY_EXPIRED");
    let forged = format!("{}x", first.expose());
    assert_eq!(who(&forged).await.unwrap_err(), "API_KEY_UNKNOWN");
    let nobody = running.who(&trusting).await;
    assert_eq!(nobody.unwrap_err(), "CREDENTIALS_MISSING");

    file.revoke(&id, Timestamp::now()).unwrap();
    folder.write("keys.json", &file.to_json());
    eventually(async || who(first.expose()).await == Err("API_KEY_REVOKED".into())).await;
    assert_eq!(who(second.expose()).await.unwrap(), "ci-2 operator");
    // A broken file does not open the door, nor close it.
    folder.write("keys.json", "{}");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(who(first.expose()).await.unwrap_err(), "API_KEY_REVOKED");
    assert_eq!(who(second.expose()).await.unwrap(), "ci-2 operator");
}

#[tokio::test]
async fn the_time_of_the_last_use_is_written_beside_the_keys() {
    let (folder, mut file) = (Folder::new(), KeyFile::default());
    let (id, secret) = key(&mut file, 1, Duration::from_secs(3600));
    let (unused, _) = key(&mut file, 2, Duration::from_secs(3600));
    let running = gateway(&folder, &file).await;
    let trusting = Security::default().ca(folder.path("ca.pem"));
    let began = Timestamp::now();
    let security = trusting.token(secret.expose()).unwrap();
    running.who(&security).await.unwrap();
    running.stopped().await;
    let text = std::fs::read_to_string(folder.path("keys.json.used")).unwrap();
    let times: serde_json::Value = serde_json::from_str(&text).unwrap();
    let used: Timestamp = times[&id].as_str().unwrap().parse().unwrap();
    assert!(used >= began);
    assert!(times.get(&unused).is_none());
    assert!(!text.contains(secret.expose()));
}

#[tokio::test]
async fn a_file_that_is_none_is_reported_at_the_start() {
    let folder = Folder::new();
    let good = settings(&folder, &Authority::new("servers"));
    for file in [folder.write("keys.json", "garbage"), folder.path("missing")] {
        let mut settings = good.clone();
        settings.authentication.api_keys = Some(file);
        let Err(error) = Running::try_new(settings).await else {
            panic!("the file is used");
        };
        assert!(matches!(error, StartError::Authentication(_)), "{error}");
        assert!(error.to_string().contains("api_keys.file"), "{error}");
    }
}

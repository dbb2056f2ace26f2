//! Sign-in of people: what a session is good for, and every attack on it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use prost::Message;
use ring::hmac;
use serde_json::{Value, json};
use stateway_gateway::{
    AuditSettings, AuthenticationError, JwksSource, OidcSettings, SecretSource, Settings,
    StartError, TokenKey,
};
use stateway_identity::Secret;
use stateway_identity::api_key::{KeyFile, NewKey, RANDOM_BYTES};
use stateway_proto::v1;

use crate::audit::records;
use crate::provider::{CLIENT, Forge, Provider, SECRET, encoded};
use crate::support::{Authority, Folder, Running, eventually, settings};
use crate::tokens::accepting;
use crate::visit::Visitor;

const SESSION: &str = "__Host-stateway-identity";
const TRANSACTION: &str = "__Host-stateway-sign-in";
const ADA: &str = concat!(
    r#"200 {"method":"oidc","permissions":["read","read-payloads","start","signal","approve","#,
    r#""steer","stop","define","work","operate"],"roles":["ops"],"subject":"ada@example.org","#,
    r#""tenant":"acme"}"#
);
const NOBODY: &str = "401 ";

/// A port that the gateway will have: the provider sends people back to it.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn configured(folder: &Folder, provider: &Provider) -> Settings {
    let mut settings = settings(folder, &Authority::new("servers"));
    let port = free_port();
    settings.listen.set_port(port);
    let mut jwt = accepting(JwksSource::Discovered { ca: None });
    jwt.rules.issuer = provider.issuer();
    settings.authentication.jwt = Some(jwt);
    settings.authentication.sign_in.oidc = Some(OidcSettings {
        public_url: format!("https://localhost:{port}").parse().unwrap(),
        name: "Example ID".into(),
        client_id: CLIENT.into(),
        client_secret: Some(SecretSource::File(folder.write("secret", SECRET))),
        scopes: vec!["openid".into()],
    });
    settings
}

/// Adds an API key of `ci`.
fn with_key(folder: &Folder, settings: &mut Settings) -> (String, Secret) {
    let mut file = KeyFile::default();
    let new = NewKey {
        subject: "ci".into(),
        roles: vec!["dev".into()],
        tenant: None,
        expires: None,
    };
    let (id, key) = file
        .create(new, &[7; RANDOM_BYTES], Timestamp::now())
        .unwrap();
    settings.authentication.api_keys = Some(folder.write("keys.json", &file.to_json()));
    settings.authentication.reload_interval = Duration::from_millis(50);
    (id, key)
}

struct Scene {
    folder: Folder,
    provider: Arc<Provider>,
    running: Running,
}

impl Scene {
    async fn new() -> Self {
        Self::with(|_, _| {}).await
    }

    async fn with(change: impl FnOnce(&Folder, &mut Settings)) -> Self {
        let (folder, provider) = (Folder::new(), Provider::start().await);
        let mut settings = configured(&folder, &provider);
        change(&folder, &mut settings);
        let running = Running::new(settings).await;
        Self {
            folder,
            provider,
            running,
        }
    }

    fn visitor(&self) -> Visitor {
        Visitor::new(&self.running, &self.folder)
    }

    async fn signed_in(&self) -> Visitor {
        let mut visitor = self.visitor();
        let answer = visitor.sign_in("/executions").await;
        assert_eq!(answer.status, 303, "{answer:?}");
        visitor
    }
}

/// Asserts that a sign-in was refused for this reason and left no session behind.
#[track_caller]
fn assert_refused(visitor: &Visitor, answer: &crate::visit::Answer, reason: &str) {
    assert!(answer.text.contains(reason), "{reason}: {answer:?}");
    assert!(answer.status >= 400, "{answer:?}");
    assert!(answer.text.contains("Sign in"), "{answer:?}");
    assert!(!visitor.cookies.contains_key(SESSION), "{answer:?}");
}

#[tokio::test]
async fn a_person_signs_in_at_the_provider_and_out_again() {
    let scene = Scene::new().await;
    let mut visitor = scene.visitor();
    // A page leads to the sign-in, and the sign-in back to the page.
    let asked = visitor.open("/inbox?a=b").await;
    assert_eq!(
        (asked.status, asked.location.as_str()),
        (303, "/sign-in?back=%2Finbox%3Fa%3Db")
    );
    let page = visitor.open(&asked.location).await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("Sign in with Example ID"), "{page:?}");
    assert!(!page.text.contains("API key"), "{page:?}");
    assert!(page.headers.contains_key("content-security-policy"));
    let answer = visitor.sign_in("/inbox?a=b").await;
    assert_eq!(
        (answer.status, answer.location.as_str()),
        (303, "/inbox?a=b")
    );
    let cookie = answer
        .set_cookies
        .iter()
        .find(|it| it.starts_with(SESSION))
        .unwrap();
    for guard in [
        "; Secure",
        "; HttpOnly",
        "; SameSite=Lax",
        "; Path=/",
        "; Max-Age=1",
    ] {
        assert!(cookie.contains(guard), "{guard}: {cookie}");
    }
    assert!(!visitor.cookies.contains_key(TRANSACTION));
    assert_eq!(visitor.who().await, ADA);
    let page = visitor.open("/executions").await;
    assert!(page.text.contains("ada@example.org"), "{page:?}");
    assert!(page.text.contains("action=\"/sign-out\""), "{page:?}");
    // The client secret goes to the provider and the code with its proof key.
    let asked = scene.provider.habits().token_requests.pop().unwrap();
    assert_eq!(
        (asked["client_id"].as_str(), asked["client_secret"].as_str()),
        (CLIENT, SECRET)
    );
    // Sign-out ends the session for every copy of the cookie, and leads to the provider.
    let mut copy = visitor.copy();
    let out = visitor.post("/sign-out", &[]).await;
    assert_eq!(out.status, 200, "{out:?}");
    let refresh = out.headers["refresh"].to_str().unwrap();
    let end = format!(
        "0; url={}/end?client_id={CLIENT}&post_logout",
        scene.provider.issuer()
    );
    assert!(refresh.starts_with(&end), "{refresh}");
    assert!(!visitor.cookies.contains_key(SESSION));
    assert!(visitor.who().await.starts_with(NOBODY));
    let who = copy.who().await;
    assert!(
        who.starts_with(NOBODY) && who.contains("SESSION_ENDED"),
        "{who}"
    );
    scene.running.stopped().await;
}

#[tokio::test]
async fn pages_calls_and_streams_have_the_identity_of_the_session() {
    let scene = Scene::new().await;
    let mut visitor = scene.signed_in().await;
    let get = v1::GetExecutionRequest {
        name: "providers/who/executions/me".into(),
        ..v1::GetExecutionRequest::default()
    };
    let method = "/stateway.v1.Executions/GetExecution";
    let answer = visitor.call(method, &get.encode_to_vec()).await;
    let told = format!("{:?} {}", answer.headers, answer.text);
    assert!(told.contains("ada@example.org%20ops"), "{told}");
    // The page calls the API inside the process, in the same name.
    let page = visitor.open("/executions/who/me").await;
    assert!(page.text.contains("ada@example.org ops"), "{page:?}");
    // A header or a typed name changes nothing.
    visitor.cookies.insert(
        "stateway_acting".into(),
        "actor%3Droot%26roles%3Dadmin".into(),
    );
    let page = visitor.open("/executions/who/me").await;
    assert!(page.text.contains("ada@example.org ops"), "{page:?}");
    let spoofed = visitor
        .get("/whoami", &[("x-stateway-actor", "root")])
        .await;
    assert_eq!(spoofed.status, 401, "{spoofed:?}");
    assert!(spoofed.text.contains("IDENTITY_HEADERS_NOT_ACCEPTED"));
    // Plain gRPC does not take sessions.
    let message = get.encode_to_vec();
    let plain = visitor
        .call_as("application/grpc", method, &message, &[])
        .await;
    assert_eq!(plain.headers["grpc-status"], "16", "{plain:?}");
    // Two proofs are refused.
    let both = visitor
        .get("/whoami", &[("authorization", "Bearer a.b.c")])
        .await;
    assert!(both.text.contains("CREDENTIALS_CONFLICT"), "{both:?}");
}

#[tokio::test]
async fn a_program_that_is_refused_is_not_sent_to_a_page() {
    let scene = Scene::with(|folder, settings| drop(with_key(folder, settings))).await;
    let mut visitor = scene.visitor();
    let program = visitor.get("/metrics", &[("accept", "*/*")]).await;
    assert_eq!(program.status, 401);
    assert!(
        program.headers["www-authenticate"]
            .to_str()
            .unwrap()
            .contains("Basic")
    );
    // A script of a page gets an answer, and the browser does not ask for a password.
    let script = visitor
        .get(
            "/executions",
            &[
                ("sec-fetch-mode", "cors"),
                ("sec-fetch-site", "same-origin"),
            ],
        )
        .await;
    assert_eq!(script.status, 401);
    assert_eq!(script.headers["www-authenticate"], "Bearer");
    let answer = visitor
        .call("/stateway.v1.Providers/ListProviders", &[])
        .await;
    assert_eq!(answer.headers["grpc-status"], "16", "{answer:?}");
}

#[tokio::test]
async fn a_session_is_never_taken_over_from_the_browser() {
    let scene = Scene::new().await;
    // Session fixation: the attacker leaves the own session in the browser of the victim.
    let attacker = scene.signed_in().await;
    scene.provider.habits().claims = json!({"sub": "victim"});
    let mut victim = attacker.copy();
    let planted = victim.cookies[SESSION].clone();
    victim.sign_in("/executions").await;
    assert_ne!(victim.cookies[SESSION], planted);
    assert!(victim.who().await.contains("victim"));
    // The planted session has ended, and is not the session of the victim.
    let who = attacker.copy().who().await;
    assert!(who.contains("SESSION_ENDED"), "{who}");
    // A cookie of another name or another host does not count.
    let mut tossed = scene.visitor();
    tossed
        .cookies
        .insert("stateway-identity".into(), victim.cookies[SESSION].clone());
    assert!(tossed.who().await.contains("CREDENTIALS_MISSING"));
}

#[tokio::test]
async fn a_sign_in_that_another_browser_began_is_refused() {
    let scene = Scene::new().await;
    // Login CSRF: the attacker sends the own answer of the provider to the browser of the victim.
    let mut attacker = scene.visitor();
    let callback = attacker.until_callback("/executions").await;
    let mut victim = scene.visitor();
    let answer = victim.come_back(&callback).await;
    assert_refused(&victim, &answer, "SIGN_IN_EXPIRED");
    // The victim has begun a sign-in too.
    let other = victim.until_callback("/executions").await;
    let kept = victim.cookies.clone();
    let answer = victim.come_back(&callback).await;
    assert_refused(&victim, &answer, "SIGN_IN_STATE_MISMATCH");
    victim.cookies = kept;
    for wrong in [
        other.replace("state=", "state=x"),
        other.replace("state=", "other="),
        format!("{other}&state=x"),
        other.replace("code=", "other="),
    ] {
        let mut victim = victim.copy();
        let answer = victim.come_back(&wrong).await;
        assert_refused(&victim, &answer, "SIGN_IN_STATE_MISMATCH");
    }
}

#[tokio::test]
async fn a_code_counts_once() {
    let scene = Scene::new().await;
    let mut visitor = scene.visitor();
    let callback = visitor.until_callback("/executions").await;
    let before = visitor.copy();
    assert_eq!(visitor.come_back(&callback).await.status, 303);
    // The same answer with the same cookie.
    let mut again = before.copy();
    let answer = again.come_back(&callback).await;
    assert_refused(&again, &answer, "SIGN_IN_EXPIRED");
    assert_eq!(scene.provider.habits().token_requests.len(), 1);
    // The code of one sign-in in another one: the proof key is another.
    let mut thief = scene.visitor();
    let own = thief.until_callback("/executions").await;
    let mut other = scene.visitor();
    let stolen = other.until_callback("/executions").await;
    let part = |path: &str, name: &str| {
        let query = path.split_once('?').unwrap().1;
        let mut pairs = form_urlencoded::parse(query.as_bytes()).into_owned();
        pairs.find(|(key, _)| key == name).unwrap().1
    };
    let mixed = own.replace(&part(&own, "code"), &part(&stolen, "code"));
    let answer = thief.come_back(&mixed).await;
    assert_refused(&thief, &answer, "SIGN_IN_CODE_REFUSED");
    assert!(answer.text.contains("invalid_grant"), "{answer:?}");
    // The words of the provider are not shown.
    assert!(!answer.text.contains("alert(1)"), "{answer:?}");
}

#[tokio::test]
async fn an_answer_of_another_issuer_is_refused() {
    let scene = Scene::new().await;
    scene.provider.habits().iss = Some("https://evil.example".into());
    let mut visitor = scene.visitor();
    let answer = visitor.sign_in("/executions").await;
    assert_refused(&visitor, &answer, "SIGN_IN_ISSUER_MISMATCH");
    // No code has gone to anyone.
    assert!(scene.provider.habits().token_requests.is_empty());
    scene.provider.habits().iss = Some(scene.provider.issuer());
    assert_eq!(visitor.sign_in("/executions").await.status, 303);
}

#[tokio::test]
async fn a_provider_that_promises_its_name_must_give_it() {
    let (folder, provider) = (Folder::new(), Provider::start().await);
    provider.habits().discovery = json!({"authorization_response_iss_parameter_supported": true});
    let running = Running::new(configured(&folder, &provider)).await;
    let mut visitor = Visitor::new(&running, &folder);
    let answer = visitor.sign_in("/executions").await;
    assert_refused(&visitor, &answer, "SIGN_IN_ISSUER_MISMATCH");
}

#[tokio::test]
async fn the_configuration_of_another_issuer_is_not_used() {
    let (folder, provider) = (Folder::new(), Provider::start().await);
    provider.habits().discovery = json!({"issuer": "https://evil.example"});
    let running = Running::new(configured(&folder, &provider)).await;
    let mut visitor = Visitor::new(&running, &folder);
    let answer = visitor.open("/sign-in/start").await;
    assert_eq!(answer.status, 503);
    assert_refused(&visitor, &answer, "SIGN_IN_PROVIDER_UNAVAILABLE");
}

#[tokio::test]
async fn an_id_token_that_is_not_for_this_sign_in_is_refused() {
    let scene = Scene::new().await;
    let now = Timestamp::now().as_second();
    for (claims, reason) in [
        (json!({"nonce": "other"}), "TOKEN_NONCE_INVALID"),
        (json!({"nonce": null}), "TOKEN_NONCE_INVALID"),
        (
            json!({"aud": "another-client"}),
            "TOKEN_AUDIENCE_NOT_ACCEPTED",
        ),
        // The audience of bearer tokens is not that of a sign-in.
        (json!({"aud": "stateway"}), "TOKEN_AUDIENCE_NOT_ACCEPTED"),
        (
            json!({"aud": [CLIENT, "other"]}),
            "TOKEN_AUDIENCE_NOT_ACCEPTED",
        ),
        (json!({"azp": "other"}), "TOKEN_AUDIENCE_NOT_ACCEPTED"),
        (
            json!({"iss": "https://evil.example"}),
            "TOKEN_ISSUER_NOT_ACCEPTED",
        ),
        (json!({"exp": now - 60}), "TOKEN_EXPIRED"),
        (json!({"sub": "a b"}), "TOKEN_CLAIM_INVALID"),
        (json!({"roles": {"a": 1}}), "TOKEN_CLAIM_INVALID"),
    ] {
        scene.provider.habits().claims = claims.clone();
        let mut visitor = scene.visitor();
        let answer = visitor.sign_in("/executions").await;
        assert_refused(&visitor, &answer, reason);
        assert_eq!(answer.status, 401, "{claims}");
    }
}

#[tokio::test]
async fn an_id_token_with_a_confused_algorithm_is_refused() {
    let forges: [(Forge, &str); 4] = [
        (
            |_, claims| format!("{}.{}.", encoded(&json!({"alg": "none"})), encoded(&claims)),
            "TOKEN_ALGORITHM_NOT_ACCEPTED",
        ),
        (
            // The public key as the secret of an HMAC.
            |provider, claims| {
                let header = json!({"alg": "HS256", "kid": "k1"});
                let message = format!("{}.{}", encoded(&header), encoded(&claims));
                let key = hmac::Key::new(hmac::HMAC_SHA256, &provider.public_key());
                let tag = hmac::sign(&key, message.as_bytes());
                let tag = stateway_identity::oidc::word(tag.as_ref());
                format!("{message}.{tag}")
            },
            "TOKEN_ALGORITHM_NOT_ACCEPTED",
        ),
        (
            |provider, claims| {
                let token = provider.signed(&claims);
                let (_, rest) = token.split_once('.').unwrap();
                format!("{}.{rest}", encoded(&json!({"alg": "ES256", "kid": "k1"})))
            },
            "TOKEN_KEY_UNKNOWN",
        ),
        (
            // The claims of somebody else under the signature.
            |provider, mut claims| {
                let token = provider.signed(&claims);
                claims["sub"] = json!("root");
                let parts: Vec<_> = token.split('.').collect();
                format!("{}.{}.{}", parts[0], encoded(&claims), parts[2])
            },
            "TOKEN_SIGNATURE_INVALID",
        ),
    ];
    let scene = Scene::new().await;
    for (forge, reason) in forges {
        scene.provider.habits().forge = Some(forge);
        let mut visitor = scene.visitor();
        let answer = visitor.sign_in("/executions").await;
        assert_refused(&visitor, &answer, reason);
    }
}

#[tokio::test]
async fn new_keys_of_the_provider_are_fetched() {
    let scene = Scene::new().await;
    scene.signed_in().await;
    scene.provider.rotate("k2");
    // Keys are fetched at most every ten seconds.
    let mut visitor = scene.visitor();
    let answer = visitor.sign_in("/executions").await;
    assert_refused(&visitor, &answer, "TOKEN_KEY_UNKNOWN");
    let begin = std::time::Instant::now();
    while visitor.sign_in("/executions").await.status != 303 {
        assert!(begin.elapsed() < crate::support::PATIENCE, "no new keys");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(visitor.who().await, ADA);
}

#[tokio::test]
async fn nobody_is_sent_to_another_site() {
    let scene = Scene::with(|folder, settings| drop(with_key(folder, settings))).await;
    let key = KeyFile::default()
        .create(
            NewKey {
                subject: "ci".into(),
                roles: vec![],
                tenant: None,
                expires: None,
            },
            &[7; RANDOM_BYTES],
            Timestamp::now(),
        )
        .unwrap()
        .1;
    for back in [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "javascript:alert(1)",
        "",
        "/%0d%0aset-cookie:x",
    ] {
        let mut visitor = scene.visitor();
        let answer = visitor.sign_in(back).await;
        assert_eq!(answer.status, 303);
        let expected = if back.starts_with("/%") {
            back
        } else {
            "/executions"
        };
        assert_eq!(answer.location, expected, "{back:?}");
        let form = [("key", key.expose()), ("back", back)];
        let answer = scene.visitor().post("/sign-in/key", &form).await;
        assert_eq!(answer.location, expected, "{back:?}");
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("back", back);
        let page = visitor.open(&format!("/sign-in?{}", query.finish())).await;
        assert!(!page.text.contains("evil"), "{back:?}: {page:?}");
    }
    // The host that a request names is not part of where the provider sends people back to.
    let sent = scene
        .visitor()
        .get("/sign-in/start", &[("host", "evil.example")])
        .await;
    assert!(
        sent.status == 303 && !sent.location.contains("evil"),
        "{sent:?}"
    );
}

#[tokio::test]
async fn forms_and_calls_of_other_sites_have_no_session() {
    let scene = Scene::with(|folder, settings| {
        with_key(folder, settings);
        settings.allowed_origins = vec!["https://app.example.org".parse().unwrap()];
    })
    .await;
    let mut visitor = scene.signed_in().await;
    for site in ["cross-site", "same-site"] {
        let headers = [("sec-fetch-site", site), ("sec-fetch-mode", "navigate")];
        for path in ["/sign-out", "/sign-in/key", "/acting"] {
            let answer = visitor.post_from(path, &[], &headers).await;
            assert_eq!(answer.status, 403, "{path}: {answer:?}");
        }
        let answer = visitor
            .call_from("/stateway.v1.Providers/ListProviders", &[], site)
            .await;
        assert_eq!(answer.status, 403, "{answer:?}");
    }
    // Without the headers of a browser nothing says that the form is ours.
    for path in ["/sign-out", "/sign-in/key"] {
        let answer = visitor.post_from(path, &[], &[]).await;
        assert_eq!(answer.status, 403, "{path}: {answer:?}");
        let answer = visitor.get(path, &[]).await;
        assert_eq!(answer.status, 405, "{path}: {answer:?}");
    }
    assert_eq!(visitor.who().await, ADA);
    // A page of an allowed origin may call, with a token of its own and not with the session.
    let headers = [
        ("origin", "https://app.example.org"),
        ("sec-fetch-site", "same-site"),
    ];
    let answer = visitor.get("/whoami", &headers).await;
    assert!(answer.text.contains("CREDENTIALS_MISSING"), "{answer:?}");
    // A form of the dashboard without its token is refused, whoever is signed in.
    let answer = visitor.post("/acting", &[("actor", "root")]).await;
    assert_eq!(answer.status, 403, "{answer:?}");
}

#[tokio::test]
async fn a_cookie_that_was_changed_is_refused() {
    let scene = Scene::new().await;
    let visitor = scene.signed_in().await;
    let good = visitor.cookies[SESSION].clone();
    let mut changed: Vec<String> = (0..good.len())
        .step_by(37)
        .map(|at| {
            let mut bytes = good.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            String::from_utf8(bytes).unwrap()
        })
        .collect();
    changed.extend([
        String::new(),
        good[1..].to_owned(),
        good.repeat(2),
        "x".repeat(3000),
    ]);
    for cookie in changed {
        let mut forged = visitor.copy();
        forged.cookies.insert(SESSION.into(), cookie);
        let who = forged.who().await;
        assert!(who.contains("SESSION_INVALID"), "{who}");
        // A person is led to the sign-in.
        assert_eq!(forged.open("/executions").await.status, 303);
    }
    // The cookie of a sign-in under way is no session, and a session no sign-in.
    let mut mixed = scene.visitor();
    let callback = mixed.until_callback("/").await;
    let transaction = mixed.cookies[TRANSACTION].clone();
    mixed.cookies.insert(SESSION.into(), transaction);
    mixed.cookies.insert(TRANSACTION.into(), good);
    assert!(mixed.who().await.contains("SESSION_INVALID"));
    mixed.cookies.remove(SESSION);
    let answer = mixed.come_back(&callback).await;
    assert_refused(&mixed, &answer, "SIGN_IN_EXPIRED");
}

#[tokio::test]
async fn a_session_expires_with_its_stream() {
    let scene = Scene::with(|_, settings| {
        settings.authentication.sign_in.idle_timeout = Duration::from_millis(1500);
        settings.authentication.reload_interval = Duration::from_millis(50);
    })
    .await;
    let mut visitor = scene.signed_in().await;
    // A live stream of a page ends when the session ends: reading it to its end terminates.
    let live = [
        ("accept", "text/event-stream"),
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-mode", "cors"),
    ];
    let mut stream = visitor.copy();
    let open = tokio::time::timeout(
        Duration::from_secs(15),
        stream.get("/executions/live", &live),
    );
    let ended = open.await.expect("the stream ends with the session");
    assert_eq!(ended.status, 200, "{ended:?}");
    // Following alone does not keep the session alive.
    assert!(
        ended
            .set_cookies
            .iter()
            .all(|cookie| !cookie.starts_with(SESSION))
    );
    let who = visitor.who().await;
    assert!(who.contains("SESSION_EXPIRED"), "{who}");
    assert_eq!(
        visitor.open("/executions").await.location,
        "/sign-in?back=%2Fexecutions"
    );
    // A form of the page leads there too.
    assert_eq!(
        visitor.post("/acting", &[]).await.location,
        "/sign-in?back=%2Fexecutions"
    );
}

#[tokio::test]
async fn use_keeps_a_session_alive_until_its_end() {
    let scene = Scene::with(|_, settings| {
        settings.authentication.sign_in.idle_timeout = Duration::from_secs(3);
        settings.authentication.sign_in.lifetime = Duration::from_secs(6);
    })
    .await;
    let mut visitor = scene.signed_in().await;
    let (first, begin) = (visitor.cookies[SESSION].clone(), std::time::Instant::now());
    let mut last = first.clone();
    loop {
        let answer = visitor.get("/executions", &[]).await;
        if answer.status != 200 {
            // The browser may drop the cookie before the gateway refuses it.
            let reasons = ["SESSION_EXPIRED", "CREDENTIALS_MISSING"];
            let is_ended = reasons.iter().any(|reason| answer.text.contains(reason));
            assert!(is_ended, "{answer:?}");
            break;
        }
        last.clone_from(&visitor.cookies[SESSION]);
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "the session never ends"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let lasted = begin.elapsed();
    assert!(lasted > Duration::from_secs(4), "{lasted:?}");
    assert_ne!(last, first);
}

#[tokio::test]
async fn a_session_by_an_api_key_ends_when_the_key_is_revoked() {
    let mut made = None;
    let scene = Scene::with(|folder, settings| {
        settings.authentication.sign_in.oidc = None;
        settings.authentication.jwt = None;
        made = Some(with_key(folder, settings));
    })
    .await;
    let (id, key) = made.unwrap();
    let mut visitor = scene.visitor();
    let page = visitor.open("/sign-in").await;
    assert!(page.text.contains("API key") && !page.text.contains("Sign in with Example"));
    let wrong = visitor.post("/sign-in/key", &[("key", "stw_x_y")]).await;
    assert_refused(&visitor, &wrong, "API_KEY_UNKNOWN");
    let answer = visitor
        .post("/sign-in/key", &[("key", key.expose()), ("back", "/inbox")])
        .await;
    assert_eq!(
        (answer.status, answer.location.as_str()),
        (303, "/inbox"),
        "{answer:?}"
    );
    assert!(!format!("{answer:?}").contains(key.expose()));
    let who = visitor.who().await;
    assert!(
        who.contains(r#""method":"api-key""#) && who.contains(r#""subject":"ci""#),
        "{who}"
    );
    // The key is revoked while the session lives and a page follows.
    let mut stream = visitor.copy();
    let live = [
        ("accept", "text/event-stream"),
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-mode", "cors"),
    ];
    let following = tokio::spawn(async move { stream.get("/executions/live", &live).await });
    let text = std::fs::read(scene.folder.path("keys.json")).unwrap();
    let mut file = KeyFile::parse(&text).unwrap();
    file.revoke(&id, Timestamp::now()).unwrap();
    scene.folder.write("keys.json", &file.to_json());
    eventually(async || visitor.copy().who().await.contains("API_KEY_REVOKED")).await;
    let followed = tokio::time::timeout(Duration::from_secs(15), following);
    followed
        .await
        .expect("the stream ends with the key")
        .unwrap();
    assert_eq!(visitor.open("/executions").await.status, 303);
}

#[tokio::test]
async fn sessions_survive_a_restart_with_a_fixed_key_and_only_then() {
    let (folder, provider) = (Folder::new(), Provider::start().await);
    for (key, expected) in [(Some([7; 32]), ADA), (None, "SESSION_INVALID")] {
        let mut settings = configured(&folder, &provider);
        settings.token_key = key.map(TokenKey::new);
        let running = Running::new(settings.clone()).await;
        let mut visitor = Visitor::new(&running, &folder);
        visitor.sign_in("/executions").await;
        assert_eq!(visitor.who().await, ADA);
        running.stopped().await;
        let _again = Running::new(settings.clone()).await;
        let who = visitor.who().await;
        assert!(who.contains(expected), "{who}");
        // The session is one of this provider and this client.
        if key.is_some() {
            drop(_again);
            let mut other = configured(&folder, &provider);
            other.token_key = key.map(TokenKey::new);
            other
                .authentication
                .sign_in
                .oidc
                .as_mut()
                .unwrap()
                .client_id = "other".into();
            let running = Running::new(other).await;
            let mut moved = Visitor::new(&running, &folder);
            moved.cookies = visitor.cookies.clone();
            let who = moved.who().await;
            assert!(who.contains("SESSION_INVALID"), "{who}");
        }
    }
}

#[tokio::test]
async fn the_jwt_of_a_proxy_counts_in_its_own_header() {
    let scene = Scene::with(|_, settings| {
        let jwt = settings.authentication.jwt.as_mut().unwrap();
        jwt.header = Some("x-assertion".parse().unwrap());
    })
    .await;
    let now = Timestamp::now().as_second();
    let claims = json!({
        "iss": scene.provider.issuer(), "aud": "stateway", "sub": "bob", "exp": now + 60,
    });
    let token = scene.provider.signed(&claims);
    let mut visitor = scene.visitor();
    let answer = visitor.get("/executions", &[("x-assertion", &token)]).await;
    assert!(
        answer.status == 200 && answer.text.contains("bob"),
        "{answer:?}"
    );
    // Nobody signs out of what a proxy says.
    assert!(!answer.text.contains("/sign-out"));
    let bearer = format!("Bearer {token}");
    for (headers, reason) in [
        (
            vec![
                ("x-assertion", token.as_str()),
                ("authorization", bearer.as_str()),
            ],
            "CREDENTIALS_CONFLICT",
        ),
        (
            vec![
                ("x-assertion", token.as_str()),
                ("x-assertion", token.as_str()),
            ],
            "CREDENTIALS_CONFLICT",
        ),
        (vec![("x-assertion", "stw_1_2")], "CREDENTIALS_NOT_ACCEPTED"),
        (vec![("x-assertion", "a.b.c")], "TOKEN_MALFORMED"),
    ] {
        let answer = visitor.get("/whoami", &headers).await;
        assert!(answer.text.contains(reason), "{reason}: {answer:?}");
    }
}

#[tokio::test]
async fn sign_in_that_cannot_work_is_refused_at_the_start() {
    let (folder, provider) = (Folder::new(), Provider::start().await);
    let refused = async |change: &dyn Fn(&mut Settings)| {
        let mut settings = configured(&folder, &provider);
        change(&mut settings);
        match Running::try_new(settings).await {
            Err(StartError::Authentication(error)) => error,
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it serves"),
        }
    };
    let error = refused(&|settings| settings.authentication.jwt = None).await;
    assert_eq!(error, AuthenticationError::NoIssuer);
    let secret = |source: SecretSource| {
        move |settings: &mut Settings| {
            let oidc = settings.authentication.sign_in.oidc.as_mut().unwrap();
            oidc.client_secret = Some(source.clone());
        }
    };
    let missing = SecretSource::Variable("STATEWAY_NO_SUCH_VARIABLE".into());
    for source in [
        SecretSource::File(folder.path("nothing")),
        missing,
        SecretSource::File(folder.write("empty", "\n")),
    ] {
        let error = refused(&secret(source)).await;
        assert!(
            matches!(error, AuthenticationError::ClientSecret(_)),
            "{error}"
        );
    }
    let error = refused(&|settings| {
        settings.authentication.jwt.as_mut().unwrap().rules.issuer = "http://id.example".into();
    })
    .await;
    assert!(error.to_string().contains("https://"), "{error}");
}

#[tokio::test]
async fn the_command_line_learns_how_to_sign_in() {
    let scene = Scene::with(|_, settings| {
        settings.authentication.sign_in.cli = Some(stateway_gateway::CliClientSettings {
            client_id: "stateway-cli".into(),
            scopes: vec!["openid".into()],
            token: stateway_gateway::CliToken::Id,
            resource: None,
        });
    })
    .await;
    let answer = scene.visitor().get("/sign-in/methods", &[]).await;
    let told: Value = serde_json::from_str(&answer.text).unwrap();
    assert_eq!(
        told,
        json!({
            "authentication": true, "api_keys": false, "tokens": true,
            "oidc": {
                "issuer": scene.provider.issuer(), "client_id": "stateway-cli",
                "scopes": ["openid"], "token": "id_token", "resource": null,
            },
        })
    );
    assert!(!answer.text.contains(SECRET));
}

fn audited(folder: &Folder, settings: &mut Settings) {
    settings.audit = Some(AuditSettings::new(folder.path("audit.jsonl")));
}

#[tokio::test]
async fn a_mutation_of_a_session_is_recorded_as_oidc() {
    let scene = Scene::with(audited).await;
    let mut visitor = scene.signed_in().await;
    let cancel = v1::CancelExecutionRequest {
        name: "providers/who/executions/me".into(),
        ..v1::CancelExecutionRequest::default()
    };
    let method = "/stateway.v1.Executions/CancelExecution";
    visitor.call(method, &cancel.encode_to_vec()).await;
    let record = records(&scene.folder).pop().unwrap();
    assert_eq!(record.verb, "CancelExecution");
    assert_eq!(
        (&*record.actor, &*record.proof),
        ("ada@example.org", "oidc")
    );
}

#[tokio::test]
async fn a_refused_sign_in_is_recorded_with_its_reason() {
    let mut key = None;
    let scene = Scene::with(|folder, settings| {
        audited(folder, settings);
        key = Some(with_key(folder, settings).1);
    })
    .await;
    let key = format!("{}sentinel", key.unwrap().expose());
    scene.visitor().post("/sign-in/key", &[("key", &key)]).await;
    let mut browser = scene.visitor();
    let begun = browser.until_callback("/executions").await;
    for callback in [
        begun.replace("state=", "state=x"),
        begun.replace("code=", "error="),
    ] {
        browser.copy().come_back(&callback).await;
    }
    let mut other = scene.visitor();
    other.come_back(&begun).await;
    let begun = other.until_callback("/executions").await;
    other.come_back(&begun.replace("code=", "code=x")).await;
    let records = records(&scene.folder);
    let refused = records.iter().filter(|it| it.outcome == "UNAUTHENTICATED");
    let refused: Vec<_> = refused
        .map(|it| (&*it.verb, &*it.object, &*it.reason))
        .collect();
    let callback = "/sign-in/callback";
    assert_eq!(
        refused,
        [
            ("page", "/sign-in/key", "API_KEY_UNKNOWN"),
            ("page", callback, "SIGN_IN_STATE_MISMATCH"),
            ("page", callback, "SIGN_IN_REFUSED"),
            ("page", callback, "SIGN_IN_EXPIRED"),
            ("page", callback, "SIGN_IN_CODE_REFUSED"),
        ]
    );
    let text = std::fs::read_to_string(scene.folder.path("audit.jsonl")).unwrap();
    assert!(!text.contains("sentinel") && !text.contains("code="));
}

#[tokio::test]
async fn a_refused_sign_in_with_a_revoked_key_is_recorded_with_its_owner() {
    let mut made = None;
    let scene = Scene::with(|folder, settings| {
        audited(folder, settings);
        made = Some(with_key(folder, settings));
        let path = folder.path("keys.json");
        let mut file = KeyFile::parse(&std::fs::read(&path).unwrap()).unwrap();
        let (id, _) = made.as_ref().unwrap();
        file.revoke(id, Timestamp::now()).unwrap();
        folder.write("keys.json", &file.to_json());
    })
    .await;
    let (_, key) = made.unwrap();
    let mut visitor = scene.visitor();
    let refused = visitor.post("/sign-in/key", &[("key", key.expose())]).await;
    assert_refused(&visitor, &refused, "API_KEY_REVOKED");
    let record = records(&scene.folder).pop().unwrap();
    assert_eq!(
        (&*record.object, &*record.reason, &*record.actor),
        ("/sign-in/key", "API_KEY_REVOKED", "ci")
    );
}

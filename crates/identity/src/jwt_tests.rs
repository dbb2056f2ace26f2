//! Tokens that are accepted, and every attack that is refused.

use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair,
};
use serde_json::json;

use super::*;

const NOW: i64 = 1_800_000_000;

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

/// An issuer with one key for each algorithm that can be made here.
struct Issuer {
    p256: EcdsaKeyPair,
    p384: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
}

fn ecdsa(algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap()
}

impl Issuer {
    fn new() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self {
            p256: ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING),
            p384: ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING),
            ed25519: Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap(),
        }
    }

    fn set(&self) -> Value {
        let point = |key: &EcdsaKeyPair, curve: &str, id: &str| {
            let point = &key.public_key().as_ref()[1..];
            let (x, y) = point.split_at(point.len() / 2);
            let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
            json!({"kty": "EC", "crv": curve, "kid": id, "x": x, "y": y})
        };
        let x = URL_SAFE_NO_PAD.encode(self.ed25519.public_key());
        json!({"keys": [
            point(&self.p256, "P-256", "ES256"),
            point(&self.p384, "P-384", "ES384"),
            {"kty": "OKP", "crv": "Ed25519", "kid": "EdDSA", "x": x},
        ]})
    }

    fn jwks(&self) -> Jwks {
        Jwks::parse(self.set().to_string().as_bytes()).unwrap()
    }

    fn signature(&self, algorithm: &str, message: &str) -> Vec<u8> {
        let (random, message) = (SystemRandom::new(), message.as_bytes());
        match algorithm {
            "ES256" => self.p256.sign(&random, message).unwrap().as_ref().to_vec(),
            "ES384" => self.p384.sign(&random, message).unwrap().as_ref().to_vec(),
            _ => self.ed25519.sign(message).as_ref().to_vec(),
        }
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encoded(header), encoded(claims));
        let algorithm = header["alg"].as_str().unwrap_or_default();
        let signature = self.signature(algorithm, &message);
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn signed(&self, claims: &Value) -> String {
        self.token(
            &json!({"alg": "ES256", "kid": "ES256", "typ": "JWT"}),
            claims,
        )
    }
}

fn claims() -> Value {
    json!({
        "iss": "https://issuer.example",
        "aud": ["other", "stateway"],
        "sub": "ada@example.org",
        "exp": NOW + 60,
        "nbf": NOW - 60,
        "realm": {"roles": ["ops", "dev"]},
        "tenant": "acme",
    })
}

/// The claims with one of them replaced, or removed.
fn with(name: &str, value: Option<Value>) -> Value {
    let mut claims = claims();
    let all = claims.as_object_mut().unwrap();
    match value {
        Some(value) => all.insert(name.to_owned(), value),
        None => all.remove(name),
    };
    claims
}

fn rules() -> Rules {
    Rules {
        issuer: "https://issuer.example".into(),
        audiences: vec!["stateway".into()],
        algorithms: Algorithm::ALL.to_vec(),
        roles_claim: "realm.roles".into(),
        tenant_claim: "tenant".into(),
        leeway: Duration::from_secs(10),
    }
}

fn refused(token: &str, jwks: &Jwks) -> JwtError {
    rules().verify(token, jwks, now()).unwrap_err()
}

#[test]
fn a_good_token_names_subject_roles_and_tenant() {
    let issuer = Issuer::new();
    let jwks = issuer.jwks();
    for algorithm in ["ES256", "ES384", "EdDSA"] {
        for typ in ["JWT", "at+jwt", "application/at+jwt"] {
            let header = json!({"alg": algorithm, "kid": algorithm, "typ": typ});
            let token = issuer.token(&header, &claims());
            let accepted = rules().verify(&token, &jwks, now()).unwrap();
            let expected =
                Identity::new(Method::Jwt, "ada@example.org", ["ops", "dev"], Some("acme"));
            assert_eq!(accepted.identity, expected.unwrap());
            assert_eq!(accepted.until.as_second(), NOW + 70);
        }
    }
    // Without a key id the only key of the algorithm counts.
    let token = issuer.token(&json!({"alg": "EdDSA"}), &claims());
    assert!(rules().verify(&token, &jwks, now()).is_ok());
}

/// RSA keys cannot be made by the library that verifies them, so this signature comes from RFC 7515,
/// appendix A.2.
#[test]
fn a_signature_of_rsa_is_verified() {
    let n = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
    let message = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    let signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    let set = json!({"keys": [{"kty": "RSA", "n": n, "e": "AQAB"}]});
    let jwks = Jwks::parse(set.to_string().as_bytes()).unwrap();
    // The signature is good; the claims are from another issuer.
    let token = format!("{message}.{signature}");
    assert_eq!(refused(&token, &jwks), JwtError::Issuer);
    let other = format!("{}x.{signature}", &message[..message.len() - 1]);
    assert_eq!(refused(&other, &jwks), JwtError::Signature);
}

/// The signatures come from OpenSSL (`openssl dgst -sha384 -sign`).
#[test]
fn a_signature_of_rsa_with_a_longer_hash_is_verified_with_its_own_hash_only() {
    let n = "nbgERQ34yrnP8DLtuST7MNLCSSPZykWboIDPaAjAFWCVzW1yOlfaOiuSZWopx5vq-2y6qAWRrkI_Sss-YqsBMhiH9GSHE5KW_o8kD7w4Hg27bFllhqzByBWO0Yde1Z9WRFG3kI5VbBaThB6CpjLXrTao95lUSiLCY64MiMfXvwdmtokGIYnbHk_NIDMF33OJOM0EYYAmiDMmDPHGYR9UlgqNUU-TKA5ePFghE1n4E7U30FTdQuqkOT_yv00lqkqWnHPeYydRM6Fg2W6mEA7XTr-bB-LyGMWS8LNTXJ7BF10V7m7bNfwSvMMxL-H3EUHbW8InJdjKP0YUDvnA7cmBRw";
    let set = json!({"keys": [{"kty": "RSA", "n": n, "e": "AQAB"}]});
    let jwks = Jwks::parse(set.to_string().as_bytes()).unwrap();
    let (rs384, rs512) = (
        (
            "eyJhbGciOiJSUzM4NCJ9.eyJpc3MiOiJqb2UifQ",
            "OWXsGIbgC7V2dn72KoibvAKlFNxA2YrdK47QSGPh9H_E5ap7n1cuYJQ730TJw97O3a-Ry_o1BdGq3vlllDcwkflhseoraB8KLjg9DTaWrybAr6a0HOsTgRZY_0bTBunLWmufXXSgsNA2hrB6O-yG2B3UbeSdcu_b5OmowMwALgJ-c20iS8x-anPsVG5gSHhWKsrHrAAdACek1MNvRXZfHfSSbodZZ_pnpERj6R_eDb9PkyK1qKSkpaCplzChLhemLfc5kfG05lNv9HuTNkjkNC0nFf2Amc2ipQWqdIYGkcktlfqlzOWz05MTyatiRndYJM1yOH4PTFX0g_riXRwjcg",
        ),
        (
            "eyJhbGciOiJSUzUxMiJ9.eyJpc3MiOiJqb2UifQ",
            "XzUF_4S2e5lhUkfuJrrkAQb0rmyC7l8yi5E7x1Qykp6Pp9Pj02e9qE5QxOsrXST8VK22JCPGpT0ZrvmleiXemNBpOInpirb4qUDDBV7W44q5Gm5t6CPxCCVJjeeQX7bqOWiEoSDxOam7eKO9HBRdv4xL7qq6Ln-nbPQQRrID8KARe4SLIaxqHbrSnHIOCbARezWwtKuYsFq4TFplbxvxxmBFvv_gSCnFgC-lMsxfQhAF4Vj-7thnzoPhkn41FGhVA6owcB7Lbq0x-8B0oXuLGEJtROESwjv-lGd-eLcZ1y_uZ-gGTJEMQ26U2yNk5mebKLgNeI4TEm9Mwk2Dkr6WBQ",
        ),
    );
    for (message, signature) in [rs384, rs512] {
        // The signature is good; the claims are from another issuer.
        let token = format!("{message}.{signature}");
        assert_eq!(refused(&token, &jwks), JwtError::Issuer);
    }
    // The header names another hash than the one of the signature.
    for (message, signature) in [(rs384.0, rs512.1), (rs512.0, rs384.1)] {
        let token = format!("{message}.{signature}");
        assert_eq!(refused(&token, &jwks), JwtError::Signature);
    }
}

#[test]
fn times_issuer_and_audience_are_checked() {
    let issuer = Issuer::new();
    let jwks = issuer.jwks();
    let text = |name: &str| JwtError::Claim(name.to_owned());
    for (name, value, error) in [
        ("exp", Some(json!(NOW - 10)), JwtError::Expired),
        ("exp", None, text("exp")),
        ("exp", Some(json!("tomorrow")), text("exp")),
        ("nbf", Some(json!(NOW + 11)), JwtError::NotYetValid),
        ("nbf", Some(json!("tomorrow")), text("nbf")),
        (
            "iss",
            Some(json!("https://issuer.example/")),
            JwtError::Issuer,
        ),
        ("iss", Some(json!("https://evil.example")), JwtError::Issuer),
        ("iss", None, text("iss")),
        ("aud", Some(json!("other")), JwtError::Audience),
        (
            "aud",
            Some(json!(["other", "stateway2"])),
            JwtError::Audience,
        ),
        ("aud", Some(json!([["stateway"]])), JwtError::Audience),
        ("aud", Some(json!([])), JwtError::Audience),
        ("aud", None, JwtError::Audience),
        ("sub", None, text("sub")),
        ("sub", Some(json!(7)), text("sub")),
        ("sub", Some(json!("")), JwtError::Unfit(Unfit::Subject)),
        ("sub", Some(json!("a\nb")), JwtError::Unfit(Unfit::Subject)),
        ("realm", Some(json!({"roles": [7]})), text("realm.roles")),
        (
            "realm",
            Some(json!({"roles": ["a,b"]})),
            JwtError::Unfit(Unfit::Role),
        ),
        ("tenant", Some(json!(["acme"])), text("tenant")),
    ] {
        let token = issuer.signed(&with(name, value.clone()));
        assert_eq!(refused(&token, &jwks), error, "{name} {value:?}");
    }
    // Within the leeway, and far in the future.
    for exp in [json!(NOW - 9), json!(NOW as f64 + 0.5), json!(1e300)] {
        let token = issuer.signed(&with("exp", Some(exp.clone())));
        assert!(rules().verify(&token, &jwks, now()).is_ok(), "{exp}");
    }
}

#[test]
fn the_algorithm_of_the_token_never_decides_alone() {
    let issuer = Issuer::new();
    let (jwks, claims) = (issuer.jwks(), claims());
    // No signature at all.
    for none in ["none", "None", "NONE", "nOnE", ""] {
        let header = json!({"alg": none, "kid": "ES256"});
        let message = format!("{}.{}", encoded(&header), encoded(&claims));
        assert_eq!(
            refused(&format!("{message}.eA"), &jwks),
            JwtError::Algorithm
        );
        assert_eq!(refused(&format!("{message}."), &jwks), JwtError::Algorithm);
        assert_eq!(refused(&message, &jwks), JwtError::Malformed);
    }
    // The public key as the secret of an HMAC.
    let set = issuer.set().to_string();
    let public = issuer.p256.public_key().as_ref();
    for secret in [set.as_bytes(), public] {
        let header = json!({"alg": "HS256", "kid": "ES256"});
        let message = format!("{}.{}", encoded(&header), encoded(&claims));
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let tag = hmac::sign(&key, message.as_bytes());
        let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag));
        assert_eq!(refused(&token, &jwks), JwtError::Algorithm);
    }
    // A key of one kind with the algorithm of another.
    for (algorithm, key) in [("ES256", "EdDSA"), ("EdDSA", "ES256"), ("RS256", "ES256")] {
        let token = issuer.token(&json!({"alg": algorithm, "kid": key}), &claims);
        assert_eq!(refused(&token, &jwks), JwtError::UnknownKey);
    }
    // An algorithm that is not configured.
    let mut strict = rules();
    strict.algorithms = vec![Algorithm::EdDsa];
    let token = issuer.signed(&claims);
    assert_eq!(
        strict.verify(&token, &jwks, now()),
        Err(JwtError::Algorithm)
    );
}

#[test]
fn unknown_keys_and_wrong_signatures_are_refused() {
    let (issuer, other) = (Issuer::new(), Issuer::new());
    let jwks = issuer.jwks();
    let header = json!({"alg": "ES256", "kid": "retired"});
    let token = issuer.token(&header, &claims());
    assert_eq!(refused(&token, &jwks), JwtError::UnknownKey);
    assert_eq!(
        refused(&other.signed(&claims()), &jwks),
        JwtError::Signature
    );
    let good = issuer.signed(&claims());
    let (message, signature) = good.rsplit_once('.').unwrap();
    // The signature stripped, cut, or of another message.
    assert_eq!(refused(&format!("{message}."), &jwks), JwtError::Malformed);
    assert_eq!(refused(message, &jwks), JwtError::Malformed);
    let cut = format!("{message}.{}", &signature[..40]);
    assert_eq!(refused(&cut, &jwks), JwtError::Signature);
    let zeros = format!("{message}.{}", URL_SAFE_NO_PAD.encode([0; 64]));
    assert_eq!(refused(&zeros, &jwks), JwtError::Signature);
    let (header, _) = message.split_once('.').unwrap();
    let forged = encoded(&with("sub", Some(json!("root"))));
    let forged = format!("{header}.{forged}.{signature}");
    assert_eq!(refused(&forged, &jwks), JwtError::Signature);
    // A key that the token brings along, or names by an address, is not read.
    let own = other.set()["keys"][0].clone();
    for extra in [
        json!({"jwk": own}),
        json!({"jku": "https://evil.example/keys"}),
    ] {
        let mut header = json!({"alg": "ES256", "kid": "ES256"});
        let all = header.as_object_mut().unwrap();
        all.extend(extra.as_object().unwrap().clone());
        assert_eq!(
            refused(&other.token(&header, &claims()), &jwks),
            JwtError::Signature
        );
    }
}

#[test]
fn tokens_that_are_none_are_refused() {
    let issuer = Issuer::new();
    let jwks = issuer.jwks();
    for header in [
        json!({"alg": "ES256", "kid": "ES256", "crit": ["exp"]}),
        json!({"alg": "ES256", "kid": "ES256", "typ": "logout+jwt"}),
    ] {
        assert_eq!(
            refused(&issuer.token(&header, &claims()), &jwks),
            JwtError::Header
        );
    }
    let good = issuer.signed(&claims());
    for wrong in [
        String::new(),
        "a.b.c".into(),
        "...".into(),
        format!("{good}="),
        format!("{good}.{good}"),
        format!(" {good}"),
    ] {
        assert_eq!(refused(&wrong, &jwks), JwtError::Malformed, "{wrong}");
    }
    let long = "a".repeat(LONGEST_TOKEN + 1);
    assert_eq!(refused(&long, &jwks), JwtError::TooLong);
    // A claim that comes twice has no meaning.
    let twice = claims().to_string().replacen('{', r#"{"sub":"root","#, 1);
    let header = encoded(&json!({"alg": "ES256", "kid": "ES256"}));
    let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode(twice));
    let signature = URL_SAFE_NO_PAD.encode(issuer.signature("ES256", &message));
    assert_eq!(
        refused(&format!("{message}.{signature}"), &jwks),
        JwtError::Malformed
    );
}

/// The claims of a good ID token.
fn id_claims() -> Value {
    json!({
        "iss": "https://issuer.example", "aud": "client", "sub": "ada", "exp": NOW + 60,
        "nonce": "n", "roles": ["ops"],
    })
}

fn id_rules() -> Rules {
    Rules {
        issuer: "https://issuer.example".into(),
        audiences: vec!["stateway".into()],
        algorithms: Algorithm::ALL.to_vec(),
        roles_claim: "roles".into(),
        tenant_claim: "tenant".into(),
        leeway: Duration::ZERO,
    }
}

#[test]
fn an_id_token_is_for_one_client_and_one_sign_in() {
    let issuer = Issuer::new();
    let checked = |header: Value, more: Value| {
        let mut claims = id_claims();
        let all = claims.as_object_mut().unwrap();
        all.extend(more.as_object().unwrap().clone());
        all.retain(|_, value| !value.is_null());
        let token = issuer.token(&header, &claims);
        id_rules().verify_id_token(&token, &issuer.jwks(), now(), "client", "n")
    };
    let header = || json!({"alg": "EdDSA", "kid": "EdDSA"});
    let accepted = checked(header(), json!({})).unwrap();
    assert_eq!(accepted.identity.method, Method::Oidc);
    assert_eq!(&*accepted.identity.subject, "ada");
    let both = json!({"aud": ["client", "other"], "azp": "client"});
    assert!(checked(header(), both).is_ok());
    for (more, error) in [
        (json!({"nonce": "other"}), JwtError::Nonce),
        (json!({"nonce": null}), JwtError::Nonce),
        (json!({"nonce": 7}), JwtError::Nonce),
        // The audience of bearer tokens is not the client.
        (json!({"aud": "stateway"}), JwtError::Audience),
        (json!({"aud": ["client", "other"]}), JwtError::Audience),
        (json!({"azp": "other"}), JwtError::Audience),
        (json!({"iss": "https://evil.example"}), JwtError::Issuer),
        (json!({"exp": NOW}), JwtError::Expired),
        (json!({"sub": null}), JwtError::Claim("sub".into())),
    ] {
        assert_eq!(checked(header(), more.clone()), Err(error), "{more}");
    }
    let access = json!({"alg": "EdDSA", "kid": "EdDSA", "typ": "at+jwt"});
    assert_eq!(checked(access, json!({})), Err(JwtError::Header));
    // A good ID token is no bearer token.
    let token = issuer.token(&header(), &id_claims());
    let bearer = id_rules().verify(&token, &issuer.jwks(), now());
    assert_eq!(bearer, Err(JwtError::Audience));
}

#[test]
fn an_id_token_with_a_confused_algorithm_is_refused() {
    let issuer = Issuer::new();
    let check = |token: &str| {
        id_rules()
            .verify_id_token(token, &issuer.jwks(), now(), "client", "n")
            .unwrap_err()
    };
    let message = |header: Value| format!("{}.{}", encoded(&header), encoded(&id_claims()));
    let none = message(json!({"alg": "none"}));
    assert_eq!(check(&format!("{none}.")), JwtError::Algorithm);
    // The public key as the secret of an HMAC.
    let shared = message(json!({"alg": "HS256", "kid": "EdDSA"}));
    let key = hmac::Key::new(hmac::HMAC_SHA256, issuer.ed25519.public_key().as_ref());
    let tag = URL_SAFE_NO_PAD.encode(hmac::sign(&key, shared.as_bytes()));
    assert_eq!(check(&format!("{shared}.{tag}")), JwtError::Algorithm);
    // The key of another algorithm.
    let header = json!({"alg": "ES256", "kid": "EdDSA"});
    assert_eq!(
        check(&issuer.token(&header, &id_claims())),
        JwtError::UnknownKey
    );
}

//! A browser that keeps cookies and follows no redirect by itself.

use std::collections::BTreeMap;

use reqwest::header::{LOCATION, SET_COOKIE};
use reqwest::{Certificate, Client};

use crate::support::{Folder, Running};

pub(crate) struct Visitor {
    client: Client,
    url: String,
    pub(crate) cookies: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) location: String,
    pub(crate) set_cookies: Vec<String>,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Visitor {
    pub(crate) fn new(running: &Running, folder: &Folder) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let ca = std::fs::read(folder.path("ca.pem")).unwrap();
        let client = Client::builder()
            .tls_certs_only(Certificate::from_pem_bundle(&ca).unwrap())
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        Self {
            client,
            url: format!("https://localhost:{}", running.address.port()),
            cookies: BTreeMap::new(),
        }
    }

    /// Another browser that has the same cookies.
    pub(crate) fn copy(&self) -> Self {
        Self {
            client: self.client.clone(),
            url: self.url.clone(),
            cookies: self.cookies.clone(),
        }
    }

    /// Opens a page of the gateway, as a link does.
    pub(crate) async fn open(&mut self, path: &str) -> Answer {
        self.get(
            path,
            &[("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")],
        )
        .await
    }

    pub(crate) async fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let request = self.client.get(format!("{}{path}", self.url));
        self.send(request, headers).await
    }

    /// Sends a form from a page of the gateway.
    pub(crate) async fn post(&mut self, path: &str, form: &[(&str, &str)]) -> Answer {
        let own = [
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-mode", "navigate"),
        ];
        self.post_from(path, form, &own).await
    }

    pub(crate) async fn post_from(
        &mut self,
        path: &str,
        form: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(form);
        let request = self
            .client
            .post(format!("{}{path}", self.url))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body.finish());
        self.send(request, headers).await
    }

    /// A call over gRPC-Web, from a page of the gateway.
    pub(crate) async fn call(&mut self, method: &str, message: &[u8]) -> Answer {
        self.call_from(method, message, "same-origin").await
    }

    pub(crate) async fn call_from(&mut self, method: &str, message: &[u8], site: &str) -> Answer {
        let headers = [("sec-fetch-site", site), ("sec-fetch-mode", "cors")];
        let web = "application/grpc-web+proto";
        self.call_as(web, method, message, &headers).await
    }

    pub(crate) async fn call_as(
        &mut self,
        content_type: &str,
        method: &str,
        message: &[u8],
        headers: &[(&str, &str)],
    ) -> Answer {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let body = [&[0][..], &length, message].concat();
        let request = self
            .client
            .post(format!("{}{method}", self.url))
            .header("content-type", content_type)
            .body(body);
        self.send(request, headers).await
    }

    /// Asks the provider for what the gateway sent the browser there for, and answers the address of
    /// the gateway that the browser is sent back to.
    pub(crate) async fn at_provider(&self, address: &str) -> String {
        let answer = self.client.get(address).send().await.unwrap();
        let back = answer.headers()[LOCATION].to_str().unwrap();
        let path = back.strip_prefix(&self.url);
        path.unwrap_or_else(|| panic!("sent to {back}")).to_owned()
    }

    /// Signs in at the provider, as a person does.
    pub(crate) async fn sign_in(&mut self, back: &str) -> Answer {
        let path = self.until_callback(back).await;
        self.come_back(&path).await
    }

    /// The address that the provider sends the browser back to.
    pub(crate) async fn until_callback(&mut self, back: &str) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("back", back);
        let sent = self
            .open(&format!("/sign-in/start?{}", query.finish()))
            .await;
        assert_eq!(sent.status, 303, "{sent:?}");
        self.at_provider(&sent.location).await
    }

    pub(crate) async fn come_back(&mut self, path: &str) -> Answer {
        let headers = [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        self.get(path, &headers).await
    }

    /// Who the gateway takes this browser for.
    pub(crate) async fn who(&mut self) -> String {
        let answer = self.get("/whoami", &[]).await;
        format!("{} {}", answer.status, answer.text.trim())
    }

    async fn send(
        &mut self,
        mut request: reqwest::RequestBuilder,
        headers: &[(&str, &str)],
    ) -> Answer {
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let cookies: Vec<String> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if !cookies.is_empty() {
            request = request.header("cookie", cookies.join("; "));
        }
        let answer = request.send().await.unwrap();
        let headers = answer.headers().clone();
        let text = |value: &reqwest::header::HeaderValue| value.to_str().unwrap().to_owned();
        let set_cookies: Vec<String> = headers.get_all(SET_COOKIE).iter().map(text).collect();
        for cookie in &set_cookies {
            let pair = cookie.split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            if cookie.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        Answer {
            status: answer.status().as_u16(),
            location: headers.get(LOCATION).map(text).unwrap_or_default(),
            set_cookies,
            headers,
            text: answer.text().await.unwrap(),
        }
    }
}

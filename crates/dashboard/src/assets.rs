//! Style, script and icon, embedded. Their addresses hold their content's hash, so a browser may
//! keep them for ever.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};

use crate::Site;

/// One embedded file.
pub(crate) struct Asset {
    name: &'static str,
    kind: &'static str,
    content: &'static str,
    hash: String,
}

pub(crate) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "stateway.css",
        "text/css; charset=utf-8",
        concat!(
            include_str!("assets/stateway.css"),
            include_str!("assets/pages.css")
        ),
    )
});
pub(crate) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "stateway.js",
        "text/javascript; charset=utf-8",
        include_str!("assets/stateway.js"),
    )
});
pub(crate) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")));

impl Asset {
    fn new(name: &'static str, kind: &'static str, content: &'static str) -> Self {
        let digest = Sha256::digest(content);
        let hash = digest.iter().take(8).map(|byte| format!("{byte:02x}"));
        Self {
            name,
            kind,
            content,
            hash: hash.collect(),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("/assets/{}/{}", self.hash, self.name)
    }

    fn answer(&self, headers: &HeaderMap) -> Response {
        let tag = format!("\"{}\"", self.hash);
        let kept = [
            (CACHE_CONTROL, "public, max-age=31536000, immutable"),
            (ETAG, tag.as_str()),
        ];
        if headers
            .get(IF_NONE_MATCH)
            .is_some_and(|known| *known == *tag)
        {
            return (StatusCode::NOT_MODIFIED, kept).into_response();
        }
        (kept, [(CONTENT_TYPE, self.kind)], self.content).into_response()
    }
}

pub(crate) fn routes() -> Router<Site> {
    Router::new().route("/assets/{hash}/{name}", get(serve))
}

async fn serve(Path((hash, name)): Path<(String, String)>, headers: HeaderMap) -> Response {
    let all = [&STYLE, &SCRIPT, &ICON];
    let found = all
        .into_iter()
        .find(|asset| asset.name == name && asset.hash == hash);
    match found {
        Some(asset) => asset.answer(&headers),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

//! The page for people who are not signed in, as data: the gateway decides, the dashboard renders.

/// What the page offers and says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignInPage {
    /// The name of the OpenID provider, if people can sign in there.
    pub provider: Option<String>,
    /// Whether people can sign in with an API key.
    pub api_keys: bool,
    /// The path of this gateway that the person wants to see.
    pub back: String,
    /// What went wrong.
    pub problem: Option<SignInProblem>,
    /// What was done.
    pub notice: Option<&'static str>,
    /// Where the person signs out at the provider, after the sign-out here.
    pub provider_sign_out: Option<String>,
}

/// Why a sign-in failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInProblem {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// The reason, as in errors of the API.
    pub reason: &'static str,
}

/// The session of a person who is signed in: the header of a page has a button that ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedIn;

/// A path of this gateway to go back to. None for anything that could lead to another site.
#[must_use]
pub fn own_path(path: &str) -> Option<&str> {
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic());
    let is_own = path.starts_with('/') && !path.starts_with("//") && !path.contains('\\');
    (is_plain && is_own).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_to_another_site() {
        for own in ["/", "/executions/p/1?a=b//c", "/inbox#x"] {
            assert_eq!(own_path(own), Some(own));
        }
        for other in [
            "",
            "executions",
            "//evil.example",
            "/\\evil.example",
            "/x\\..\\evil",
            "\\/evil.example",
            "https://evil.example",
            "javascript:alert(1)",
            "/\t/evil.example",
            "/\n/evil.example",
            " /x",
            "/\u{e4}",
        ] {
            assert_eq!(own_path(other), None, "{other:?}");
        }
    }
}

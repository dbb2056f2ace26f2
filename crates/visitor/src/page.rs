//! An answer to a visitor, and what a test finds in it.

/// An answer.
#[derive(Debug, Clone)]
pub struct Page {
    /// The status of HTTP.
    pub status: u16,
    /// The headers with lower-case names, in their order.
    pub headers: Vec<(String, String)>,
    /// The body, without the lengths of its chunks.
    pub body: String,
}

impl Page {
    /// Parses a raw HTTP response.
    pub(crate) fn parse(answer: &[u8]) -> Self {
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let (head, body) = answer.split_at(end.expect("a head"));
        let (head, body) = (String::from_utf8_lossy(head), &body[4..]);
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers: Vec<_> = headers
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let is_chunked = headers
            .iter()
            .any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        Self {
            status: status.and_then(|it| it.parse().ok()).expect("a status"),
            body: if is_chunked {
                joined(body)
            } else {
                String::from_utf8_lossy(body).into_owned()
            },
            headers,
        }
    }

    /// The value of a header; nothing if it is absent.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
    }

    /// Asserts that the body has each of these.
    #[track_caller]
    pub fn has(&self, texts: &[&str]) -> &Self {
        for text in texts {
            assert!(self.body.contains(text), "no `{text}` in {}", self.body);
        }
        self
    }

    /// Asserts that the body has none of these.
    #[track_caller]
    pub fn lacks(&self, texts: &[&str]) -> &Self {
        for text in texts {
            assert!(!self.body.contains(text), "`{text}` in {}", self.body);
        }
        self
    }

    /// Asserts the status.
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.body);
        self
    }

    /// The value of the first hidden field of this name.
    #[track_caller]
    #[must_use]
    pub fn field(&self, name: &str) -> String {
        let begin = format!("name=\"{name}\" value=\"");
        let found = self.body.split_once(&begin);
        let (_, rest) = found.unwrap_or_else(|| panic!("no field {name} in {}", self.body));
        attribute(rest)
    }

    /// Where the link with this text leads.
    #[track_caller]
    #[must_use]
    pub fn link(&self, text: &str) -> String {
        let found = self.body.split_once(&format!(">{text}</a>"));
        let (before, _) = found.unwrap_or_else(|| panic!("no link {text} in {}", self.body));
        let (_, href) = before
            .rsplit_once("href=\"")
            .expect("a link leads somewhere");
        attribute(href)
    }

    /// Where its live updates come from.
    #[track_caller]
    #[must_use]
    pub fn live(&self) -> String {
        let (_, rest) = self.body.split_once("data-live=\"").expect("a live page");
        attribute(rest)
    }
}

/// The value of an attribute that begins here.
fn attribute(rest: &str) -> String {
    let value = rest.split('"').next().unwrap_or_default();
    value
        .replace("&quot;", "\"")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

/// A body without the lengths of its chunks.
fn joined(mut rest: &[u8]) -> String {
    let mut joined = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n");
        let (size, after) = rest.split_at(end.expect("a length"));
        let size = std::str::from_utf8(size).ok();
        let size = size.and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.expect("a length");
        if size == 0 {
            return String::from_utf8_lossy(&joined).into_owned();
        }
        joined.extend_from_slice(&after[2..2 + size]);
        rest = &after[2 + size + 2..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined_and_values_are_read_as_a_browser_does() {
        let page = Page::parse(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
             1d\r\n<input name=\"a\" value=\"1&amp;\r\n2\r\n2\"\r\n0\r\n\r\n",
        );
        assert_eq!(page.status, 200);
        assert_eq!(page.field("a"), "1&2");
        assert_eq!(page.header("transfer-encoding"), "chunked");
        assert_eq!(page.header("location"), "");
    }
}

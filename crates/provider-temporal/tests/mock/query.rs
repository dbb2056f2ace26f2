//! Visibility queries: the part of the language that the real server accepted.

use jiff::Timestamp;

use super::world::Run;

/// Whether a run matches. A query that the server would refuse is refused.
pub(crate) fn matches(query: &str, run: &Run) -> Result<bool, String> {
    if query.trim().is_empty() {
        return Ok(true);
    }
    let mut reader = Reader {
        tokens: tokens(query),
        at: 0,
        run,
    };
    let found = reader.any()?;
    match reader.peek() {
        None => Ok(found),
        Some(token) => Err(format!("unexpected `{token}` in: {query}")),
    }
}

fn tokens(query: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = query.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' | '"' => 2 + rest[1..].find(first).unwrap_or(rest.len() - 2),
            '(' | ')' | ',' => 1,
            '=' | '!' | '<' | '>' => {
                rest.len() - rest.trim_start_matches(['=', '!', '<', '>']).len()
            }
            _ => rest
                .find([' ', '(', ')', ',', '=', '!', '<', '>'])
                .unwrap_or(rest.len()),
        };
        tokens.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    tokens
}

struct Reader<'a> {
    tokens: Vec<String>,
    at: usize,
    run: &'a Run,
}

impl Reader<'_> {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(String::as_str)
    }

    fn next(&mut self) -> Result<String, String> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token.ok_or_else(|| "the query ends too early".to_owned())
    }

    fn takes(&mut self, word: &str) -> bool {
        let found = self
            .peek()
            .is_some_and(|token| token.eq_ignore_ascii_case(word));
        if found {
            self.at += 1;
        }
        found
    }

    fn any(&mut self) -> Result<bool, String> {
        let mut found = self.all()?;
        while self.takes("OR") {
            found |= self.all()?;
        }
        Ok(found)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut found = self.one()?;
        while self.takes("AND") {
            found &= self.one()?;
        }
        Ok(found)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.takes("NOT") {
            return Ok(!self.one()?);
        }
        if self.takes("(") {
            let found = self.any()?;
            return if self.takes(")") {
                Ok(found)
            } else {
                Err("a parenthesis is not closed".to_owned())
            };
        }
        let name = self.next()?.trim_matches('`').to_owned();
        let actual = self.run.attribute(&name)?;
        if self.takes("IS") {
            let negated = self.takes("NOT");
            self.next()?;
            return Ok(actual.is_none() != negated);
        }
        let actual = actual.unwrap_or_default();
        if self.takes("IN") {
            return Ok(self.values()?.contains(&actual));
        }
        if self.takes("NOT") {
            self.next()?;
            return Ok(!self.values()?.contains(&actual));
        }
        if self.takes("STARTS_WITH") {
            return Ok(actual.starts_with(&self.value()?));
        }
        if self.takes("BETWEEN") {
            let from = self.value()?;
            self.next()?;
            let until = self.value()?;
            return Ok(ordered(&from) <= ordered(&actual) && ordered(&actual) <= ordered(&until));
        }
        let operator = self.next()?;
        let value = self.value()?;
        let order = ordered(&actual).cmp(&ordered(&value));
        match operator.as_str() {
            "=" => Ok(order.is_eq()),
            "!=" => Ok(order.is_ne()),
            ">" => Ok(order.is_gt()),
            ">=" => Ok(order.is_ge()),
            "<" => Ok(order.is_lt()),
            "<=" => Ok(order.is_le()),
            other => Err(format!("operator `{other}` is not supported")),
        }
    }

    fn value(&mut self) -> Result<String, String> {
        Ok(self.next()?.trim_matches(['\'', '"']).to_owned())
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        self.takes("(");
        while !self.takes(")") {
            values.push(self.value()?);
            self.takes(",");
        }
        Ok(values)
    }
}

/// Times are compared as times, other values as text.
fn ordered(value: &str) -> (Option<Timestamp>, String) {
    match value.parse() {
        Ok(time) => (Some(time), String::new()),
        Err(_) => (None, value.to_owned()),
    }
}

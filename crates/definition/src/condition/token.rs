//! The pieces a condition is made of.

use serde_json::{Number, Value};

use crate::Reference;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Literal(Value),
    Reference(Reference),
    Symbol(&'static str),
}

/// Longer symbols come first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 15] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "(", ")", "[", "]", ",", "in",
];

const WORDS: [(&str, Value); 3] = [
    ("true", Value::Bool(true)),
    ("false", Value::Bool(false)),
    ("null", Value::Null),
];

/// Splits a condition.
pub(super) fn tokens(source: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = source.trim_start();
    while !rest.is_empty() {
        let (token, after) = token(rest)?;
        found.push(token);
        rest = after.trim_start();
    }
    Ok(found)
}

fn token(rest: &str) -> Result<(Token, &str), String> {
    if let Some(inside) = rest.strip_prefix("${") {
        let (path, after) = inside.split_once('}').ok_or("a `${` without its `}`")?;
        return Ok((Token::Reference(Reference::parse(path.trim())?), after));
    }
    for quote in ['\'', '"'] {
        if let Some(inside) = rest.strip_prefix(quote) {
            let (text, after) = inside
                .split_once(quote)
                .ok_or("the closing quote of a text is missing")?;
            return Ok((Token::Literal(Value::String(text.to_owned())), after));
        }
    }
    if let Some(found) = number(rest) {
        return Ok(found);
    }
    if let Some(found) = word(rest)? {
        return Ok(found);
    }
    symbol(rest).ok_or_else(|| {
        let first: String = rest.chars().take(1).collect();
        format!("`{first}` is not allowed in a condition")
    })
}

fn number(rest: &str) -> Option<(Token, &str)> {
    let signed = rest.strip_prefix('-').unwrap_or(rest);
    if !signed.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let digits = signed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(signed.len());
    let end = rest.len() - signed.len() + digits;
    let text = &rest[..end];
    let number = text
        .parse::<i64>()
        .map(Number::from)
        .ok()
        .or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64))?;
    Some((Token::Literal(Value::Number(number)), &rest[end..]))
}

fn word(rest: &str) -> Result<Option<(Token, &str)>, String> {
    let end = rest
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    if name.is_empty() || name == "in" {
        return Ok(None);
    }
    match WORDS.iter().find(|(word, _)| *word == name) {
        Some((_, value)) => Ok(Some((Token::Literal(value.clone()), after))),
        None => Err(format!(
            "`{name}` is neither text in quotes nor a reference in `${{…}}`"
        )),
    }
}

fn symbol(rest: &str) -> Option<(Token, &str)> {
    SYMBOLS.iter().find_map(|symbol| {
        rest.strip_prefix(symbol)
            .map(|after| (Token::Symbol(symbol), after))
    })
}

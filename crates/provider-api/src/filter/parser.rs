//! The grammar. `OR` binds tighter than `AND`, as AIP-160 has it.

use std::marker::PhantomData;

use super::condition::{Condition, is_known, known_fields, meant};
use super::lexer::{Token, TokenKind, error, tokens};
use super::{Filter, FilterError, MAX_DEPTH, Operand};

pub(super) fn parse<C: Condition>(text: &str) -> Result<Filter<C>, FilterError> {
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return Ok(Filter::And(Vec::new()));
    }
    let mut parser = Parser {
        text,
        tokens,
        next: 0,
        of: PhantomData,
    };
    let filter = parser.expression(0)?;
    match parser.tokens.get(parser.next) {
        None => Ok(filter),
        Some(token) => Err(error(text, token.at, "a `)` has no `(`", "")),
    }
}

struct Parser<'t, C> {
    text: &'t str,
    tokens: Vec<Token>,
    next: usize,
    of: PhantomData<C>,
}

impl<C: Condition> Parser<'_, C> {
    /// Factors joined by `AND` or by nothing.
    fn expression(&mut self, depth: usize) -> Result<Filter<C>, FilterError> {
        let mut factors = vec![self.factor(depth)?];
        loop {
            let explicit = self.take_word("AND");
            let ends = matches!(self.peek(), None | Some(TokenKind::Close));
            if ends && !explicit {
                break;
            }
            factors.push(self.factor(depth)?);
        }
        Ok(flatten(factors, Filter::And))
    }

    /// Terms joined by `OR`.
    fn factor(&mut self, depth: usize) -> Result<Filter<C>, FilterError> {
        let mut terms = vec![self.term(depth)?];
        while self.take_word("OR") {
            terms.push(self.term(depth)?);
        }
        Ok(flatten(terms, Filter::Or))
    }

    fn term(&mut self, depth: usize) -> Result<Filter<C>, FilterError> {
        if depth >= MAX_DEPTH {
            let message = format!("nested deeper than {MAX_DEPTH}");
            return Err(self.error_here(&message, "Reduce the nesting."));
        }
        if self.take_word("NOT") || self.take(&TokenKind::Minus) {
            return Ok(Filter::Not(Box::new(self.term(depth + 1)?)));
        }
        if self.take(&TokenKind::Open) {
            let inside = self.expression(depth + 1)?;
            if !self.take(&TokenKind::Close) {
                return Err(self.error_here("a `)` is missing", ""));
            }
            return Ok(inside);
        }
        self.condition()
    }

    fn condition(&mut self) -> Result<Filter<C>, FilterError> {
        let at = self.place();
        if let Some(alone) = self.alone() {
            self.next += 1;
            return Ok(Filter::Term(alone));
        }
        let name = match self.peek() {
            Some(TokenKind::Word(name)) => name.clone(),
            _ => return Err(self.error_here("a field is expected", &known_fields::<C>())),
        };
        self.next += 1;
        let operator = match self.peek() {
            Some(TokenKind::Operator(sign)) => *sign,
            _ if !is_known::<C>(&name) => return Err(self.unknown_field(at, &name)),
            _ => {
                let hint = format!("Write for example `{name} = …`.");
                return Err(self.error_here("an operator is expected", &hint));
            }
        };
        let operator_at = self.place();
        self.next += 1;
        if !is_known::<C>(&name) {
            return Err(self.unknown_field(at, &name));
        }
        let value_at = self.place();
        let (Some(TokenKind::Word(value)) | Some(TokenKind::Quoted(value))) = self.peek() else {
            let hint = match self.peek() {
                Some(TokenKind::Operator("=")) => "Equality is one `=`.",
                _ => "",
            };
            return Err(self.error_here("a value is expected", hint));
        };
        let value = Operand::new(value.clone());
        self.next += 1;
        C::new(&name, operator, &value)
            .map(Filter::Term)
            .map_err(|mismatch| {
                let place = if mismatch.of_operator {
                    operator_at
                } else {
                    value_at
                };
                error(self.text, place, &mismatch.message, &mismatch.hint)
            })
    }

    /// The condition behind a word or a quoted text without an operator. A field, and a keyword in lower
    /// case, is a mistake instead.
    fn alone(&self) -> Option<C> {
        let following = self.tokens.get(self.next + 1).map(|token| &token.kind);
        if matches!(following, Some(TokenKind::Operator(_))) {
            return None;
        }
        let word = match self.peek()? {
            TokenKind::Quoted(text) if !text.is_empty() => text,
            TokenKind::Word(word) if !is_known::<C>(word) && !is_keyword(word) => word,
            _ => return None,
        };
        C::word(&Operand::new(word.clone()))
    }

    fn unknown_field(&self, at: usize, name: &str) -> FilterError {
        let hint = if is_keyword(name) {
            format!("Write `{}` in upper case.", name.to_ascii_uppercase())
        } else {
            meant::<C>(name)
        };
        error(self.text, at, &format!("`{name}` is not a field"), &hint)
    }

    fn peek(&self) -> Option<&TokenKind> {
        self.tokens.get(self.next).map(|token| &token.kind)
    }

    fn take(&mut self, kind: &TokenKind) -> bool {
        let found = self.peek() == Some(kind);
        self.next += usize::from(found);
        found
    }

    fn take_word(&mut self, keyword: &str) -> bool {
        let found = matches!(self.peek(), Some(TokenKind::Word(word)) if word == keyword);
        self.next += usize::from(found);
        found
    }

    fn place(&self) -> usize {
        self.tokens
            .get(self.next)
            .map_or(self.text.len(), |token| token.at)
    }

    fn error_here(&self, message: &str, hint: &str) -> FilterError {
        error(self.text, self.place(), message, hint)
    }
}

/// Whether a word joins or negates conditions, in any case of its letters.
fn is_keyword(word: &str) -> bool {
    let upper = word.to_ascii_uppercase();
    ["AND", "OR", "NOT"].contains(&&*upper)
}

fn flatten<C>(mut parts: Vec<Filter<C>>, join: fn(Vec<Filter<C>>) -> Filter<C>) -> Filter<C> {
    match parts.len() {
        1 => parts.remove(0),
        _ => join(parts),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stateway_model::SubState;

    use super::super::{Comparison, Equality, NumberField, Term};
    use super::*;

    fn attempt(than: u32) -> Filter {
        Filter::Term(Term::Number(
            NumberField::Attempt,
            Comparison::Greater,
            than,
        ))
    }

    fn refused(text: &str) -> (usize, String) {
        let error = Filter::parse(text).unwrap_err();
        (error.column, error.message)
    }

    #[test]
    fn or_binds_tighter_than_and() {
        let text = "retry.attempt > 1 AND retry.attempt > 2 OR retry.attempt > 3";
        let expected = Filter::And(vec![attempt(1), Filter::Or(vec![attempt(2), attempt(3)])]);
        assert_eq!(Filter::parse(text).unwrap(), expected);
    }

    #[test]
    fn parentheses_and_not_do_what_they_say() {
        let text = "NOT (retry.attempt > 1 retry.attempt > 2) OR -retry.attempt > 3";
        let both = Filter::And(vec![attempt(1), attempt(2)]);
        let not = |filter| Filter::Not(Box::new(filter));
        assert_eq!(
            Filter::parse(text).unwrap(),
            Filter::Or(vec![not(both), not(attempt(3))])
        );
    }

    #[test]
    fn quotes_are_optional_around_plain_words() {
        let expected = Filter::Term(Term::SubState(Equality::Is, SubState::BackingOff));
        for text in [
            "sub_state = \"BACKING_OFF\"",
            "sub_state=BACKING_OFF",
            "sub_state='backing-off'",
            "sub_state:BACKING_OFF",
        ] {
            assert_eq!(Filter::parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn an_empty_filter_admits_everything() {
        assert_eq!(Filter::parse("  ").unwrap(), Filter::everything());
    }

    #[test]
    fn a_word_alone_is_the_beginning_of_an_id() {
        let id = |pattern: &str| {
            let pattern = super::super::Pattern::new(pattern);
            Filter::Term(Term::Text(
                super::super::TextField::Id,
                Equality::Is,
                pattern,
            ))
        };
        assert_eq!(Filter::parse("order-17").unwrap(), id("order-17*"));
        assert_eq!(Filter::parse("'order 17'").unwrap(), id("order 17*"));
        let both = Filter::parse("order-17 retry.attempt > 1").unwrap();
        assert_eq!(both, Filter::And(vec![id("order-17*"), attempt(1)]));
        assert_eq!(refused("sub_state").1, "an operator is expected");
        assert_eq!(refused("order-17 or b").1, "`or` is not a field");
    }

    #[test]
    fn usual_mistakes_get_a_remedy() {
        let hint = |text: &str| Filter::<Term>::parse(text).unwrap_err().hint;
        assert_eq!(hint("sub_state == RUNNING"), "Equality is one `=`.");
        let joined = |by: &str| hint(&format!("sub_state = RUNNING {by} name = a"));
        assert_eq!(joined("or"), "Write `OR` in upper case.");
        assert_eq!(joined("&&"), "Write AND.");
        assert_eq!(joined("||"), "Write OR.");
    }

    #[test]
    fn errors_name_the_position() {
        assert_eq!(
            refused("sub_stat = running"),
            (1, "`sub_stat` is not a field".into())
        );
        assert_eq!(
            refused("sub_state = running AND"),
            (24, "a field is expected".into())
        );
        assert_eq!(
            refused("sub_state running"),
            (11, "an operator is expected".into())
        );
        assert_eq!(refused("sub_state ="), (12, "a value is expected".into()));
        assert_eq!(
            refused("(sub_state = running"),
            (21, "a `)` is missing".into())
        );
        assert_eq!(
            refused("sub_state = running)"),
            (20, "a `)` has no `(`".into())
        );
        assert_eq!(
            refused("sub_state = 'running"),
            (13, "the closing quote of a text is missing".into())
        );
        assert_eq!(refused("sub_state ~ running").0, 11);
        assert_eq!(refused("sub_state < running").0, 11);
        assert_eq!(refused("retry.attempt = many").0, 17);
        assert_eq!(refused("start_time > yesterday").0, 14);
        assert_eq!(
            refused("ünknown = 1"),
            (1, "`ünknown` is not a field".into())
        );
    }

    #[test]
    fn length_and_depth_are_bounded() {
        assert!(
            Filter::parse(&"(".repeat(1_999))
                .unwrap_err()
                .message
                .contains("nested")
        );
        assert!(
            Filter::parse(&" ".repeat(2_001))
                .unwrap_err()
                .message
                .contains("longer")
        );
    }

    proptest! {
        #[test]
        fn reading_anything_never_panics(text in ".{0,120}") {
            let _ = Filter::parse(&text);
        }

        #[test]
        fn reading_anything_that_looks_like_a_filter_never_panics(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "sub_state", "=", "!=", "<", ":", "running", "AND", "OR", "NOT", "-", "(", ")",
                    "retry.attempt", "3", "labels.a", "labels", "\"x\"", "'", "2026-01-01T00:00:00Z",
                ]),
                0..24,
            )
        ) {
            let _ = Filter::parse(&words.join(" "));
        }
    }
}

//! Tokens to an expression, by recursive descent with a bound on the depth.

use super::token::{Token, tokens};
use super::{Comparison, Expression};
use crate::limits::{MAX_CONDITION_BYTES, MAX_CONDITION_DEPTH};

const COMPARISONS: [(&str, Comparison); 7] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<", Comparison::Less),
    ("<=", Comparison::LessOrEqual),
    (">", Comparison::Greater),
    (">=", Comparison::GreaterOrEqual),
    ("in", Comparison::In),
];

pub(super) fn parse(source: &str) -> Result<Expression, String> {
    if source.len() > MAX_CONDITION_BYTES {
        return Err(format!(
            "a condition is longer than {MAX_CONDITION_BYTES} bytes"
        ));
    }
    let mut parser = Parser {
        tokens: tokens(source)?.into_iter().peekable(),
        depth: 0,
    };
    let expression = parser.or()?;
    match parser.tokens.next() {
        None => Ok(expression),
        Some(_) => Err("unexpected text after the end of the condition".to_owned()),
    }
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    depth: usize,
}

impl Parser {
    fn or(&mut self) -> Result<Expression, String> {
        let mut left = self.and()?;
        while self.take("||") {
            left = Expression::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expression, String> {
        let mut left = self.not()?;
        while self.take("&&") {
            left = Expression::And(Box::new(left), Box::new(self.not()?));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expression, String> {
        if self.take("!") {
            let inner = self.deeper(Self::not)?;
            return Ok(Expression::Not(Box::new(inner)));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Expression, String> {
        let left = self.primary()?;
        let found = COMPARISONS.iter().find(|(symbol, _)| self.at(symbol));
        let Some((symbol, comparison)) = found else {
            return Ok(left);
        };
        self.take(symbol);
        Ok(Expression::Compare(
            *comparison,
            Box::new(left),
            Box::new(self.primary()?),
        ))
    }

    fn primary(&mut self) -> Result<Expression, String> {
        match self.tokens.next() {
            Some(Token::Literal(value)) => Ok(Expression::Literal(value)),
            Some(Token::Reference(reference)) => Ok(Expression::Reference(reference)),
            Some(Token::Symbol("(")) => {
                let inner = self.deeper(Self::or)?;
                self.expect(")").map(|()| inner)
            }
            Some(Token::Symbol("[")) => self.deeper(Self::list),
            Some(Token::Symbol(other)) => Err(format!("expected a value, found `{other}`")),
            None => Err("the condition ends where a value is expected".to_owned()),
        }
    }

    fn list(&mut self) -> Result<Expression, String> {
        let mut items = Vec::new();
        while !self.take("]") {
            items.push(self.or()?);
            if !self.take(",") {
                self.expect("]")?;
                break;
            }
        }
        Ok(Expression::List(items))
    }

    fn deeper(
        &mut self,
        inner: fn(&mut Self) -> Result<Expression, String>,
    ) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > MAX_CONDITION_DEPTH {
            return Err(format!(
                "a condition is nested more than {MAX_CONDITION_DEPTH} deep"
            ));
        }
        let expression = inner(self)?;
        self.depth -= 1;
        Ok(expression)
    }

    fn at(&mut self, symbol: &str) -> bool {
        matches!(self.tokens.peek(), Some(Token::Symbol(found)) if *found == symbol)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = self.at(symbol);
        if found {
            self.tokens.next();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), String> {
        if self.take(symbol) {
            Ok(())
        } else {
            Err(format!("a `{symbol}` is missing"))
        }
    }
}

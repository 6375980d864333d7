//! Parses `(name = value, …)`, the options of any object.

use super::super::{Parsed, Parser};
use crate::{
    ddl::Value,
    lexer::{Symbol, TokenKind, short},
    source::{Fault, Span},
};

/// The functions that find an option by its name (the error is a hint), and return its name.
type OptionNames<O> = (fn(&str) -> Result<O, String>, fn(O) -> &'static str);

impl Parser<'_> {
    /// Passes each option with its value to `set`, whose error is a fault at the value; records their places.
    pub(super) fn options<O: Copy + PartialEq>(
        &mut self,
        (of, text): OptionNames<O>,
        mut set: impl FnMut(O, &Value) -> Result<(), String>,
        spans: &mut Vec<(O, Span)>,
    ) -> Parsed<()> {
        self.expect_symbol(Symbol::LeftParen)?;
        loop {
            let span = self.span();
            let option = self.option_name(of)?;
            if spans.iter().any(|(other, _)| *other == option) {
                return Err(Fault::at(span, format!("option `{}` is set twice", text(option))));
            }
            if !self.accept_symbol(Symbol::Eq) {
                return Err(self.expected("`=`").hint(format!("Write `{} = …`.", text(option))));
            }
            let value_span = self.span();
            let value = self.option_value()?;
            let value_span = value_span.to(self.last_span());
            if let Err(message) = set(option, &value) {
                self.faults.push(Fault::at(value_span, message));
            }
            spans.push((option, value_span));
            if !self.accept_symbol(Symbol::Comma) {
                break;
            }
        }
        if !self.accept_symbol(Symbol::RightParen) {
            return Err(self.expected("`,` or `)`"));
        }
        Ok(())
    }

    pub(super) fn option_name<O>(&mut self, of: fn(&str) -> Result<O, String>) -> Parsed<O> {
        let span = self.span();
        let name = match self.kind() {
            TokenKind::Word(_) => self.word(span).to_owned(),
            TokenKind::Quoted(name) => name.to_string(),
            _ => return Err(self.expected("the name of an option")),
        };
        let option =
            of(&name).map_err(|hint| Fault::at(span, format!("no option `{}`", short(&name))).hint(hint))?;
        self.advance();
        Ok(option)
    }

    fn option_value(&mut self) -> Parsed<Value> {
        let span = self.span();
        let value = match self.kind() {
            TokenKind::String(text) => Value::Text(text.clone()),
            TokenKind::Word(_) => Value::Text(self.word(span).into()),
            TokenKind::Whole { value, .. } => Value::Number(u64::try_from(*value).unwrap_or(u64::MAX)),
            TokenKind::Double(_) | TokenKind::Float(_) => Value::OtherNumber,
            TokenKind::Symbol(Symbol::Minus) => {
                self.advance();
                match self.kind() {
                    TokenKind::Whole { .. } | TokenKind::Double(_) | TokenKind::Float(_) => {
                        Value::OtherNumber
                    }
                    _ => return Err(self.expected("a number")),
                }
            }
            TokenKind::Symbol(Symbol::LeftParen) => {
                self.advance();
                let names = self.list(|parser| parser.name("a column").map(|name| name.text))?;
                self.expect_symbol(Symbol::RightParen)?;
                return Ok(Value::Names(names));
            }
            _ => return Err(self.expected("a value")),
        };
        self.advance();
        Ok(value)
    }
}

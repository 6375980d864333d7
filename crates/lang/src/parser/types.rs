//! Parses types, as type hints and CAST write them.
//!
//! ```text
//! type      = primitive | LIST[element] | MAP[element] | primitive_LIST | primitive_MAP_LIST | …    (the last: native)
//! element   = primitive | MAP[primitive]
//! primitive = STRING | BOOLEAN | INTEGER | LONG | FLOAT | DOUBLE | TIMESTAMP[(S|MS|US|NS)]          (TIMESTAMP: native)
//! ```

use swiftwater_event::{Type, did_you_mean};

use super::{Parsed, Parser};
use crate::{
    Dialect,
    complete::Expected,
    keyword::Keyword,
    lexer::{Symbol, TokenKind},
    source::Fault,
};

/// The types, by their first words.
pub(crate) const TYPES: [&str; 9] =
    ["STRING", "BOOLEAN", "INTEGER", "LONG", "FLOAT", "DOUBLE", "LIST", "MAP", "TIMESTAMP"];

impl Parser<'_> {
    /// `LONG`, `LIST[MAP[STRING]]`, `TIMESTAMP(MS)`.
    pub(super) fn type_name(&mut self) -> Parsed<Type> {
        self.type_of_words(|word| word)
    }

    /// The same, where other words, in upper case, stand for what LIST and MAP hold: `own` is what they mean.
    pub(super) fn type_of_words(&mut self, own: fn(String) -> String) -> Parsed<Type> {
        self.note(Expected::Type);
        if self.dialect == Dialect::Bullet {
            return self.bullet_type();
        }
        let start = self.span();
        if !matches!(self.kind(), TokenKind::Word(_)) {
            return Err(self.expected("a type"));
        }
        let mut text = self.word(start).to_uppercase();
        self.advance();
        let mut open = 0;
        while (text.ends_with("LIST") || text.ends_with("MAP")) && self.is_symbol(Symbol::LeftBracket) {
            open += 1;
            if open > 2 {
                return Err(Fault::at(start.to(self.span()), "a type nests at most two levels deep"));
            }
            self.advance();
            if !matches!(self.kind(), TokenKind::Word(_)) {
                return Err(self.expected("a type"));
            }
            text.push('[');
            text.push_str(&own(self.word(self.span()).to_uppercase()));
            self.advance();
        }
        if text.ends_with("TIMESTAMP") && self.is_symbol(Symbol::LeftParen) {
            self.advance();
            text.push('(');
            text.push_str(&self.word(self.span()).to_uppercase());
            self.advance();
            self.expect_symbol(Symbol::RightParen)?;
            text.push(')');
        }
        for _ in 0..open {
            self.expect_symbol(Symbol::RightBracket)?;
            text.push(']');
        }
        let span = start.to(self.last_span());
        let ty = Type::parse(&text).map_err(|error| {
            let fault = Fault::at(span, error.to_string());
            match did_you_mean(&text, TYPES) {
                Some("LIST") if text == "LIST" => {
                    fault.hint("Write the type of its elements in brackets: LIST[STRING].")
                }
                Some("MAP") if text == "MAP" => fault
                    .hint("Write the type of its values in brackets: MAP[STRING]. Its keys are always text."),
                Some(near) => fault.hint(format!("Did you mean {near}?")),
                None => fault.hint(
                    "Types are STRING, BOOLEAN, INTEGER, LONG, FLOAT, DOUBLE, TIMESTAMP, LIST[…] and MAP[…].",
                ),
            }
        })?;
        if !has_bullet_shape(&ty) {
            return Err(Fault::at(span, format!("there is no type {ty}"))
                .hint("The elements of a LIST or MAP are primitives, or maps of primitives."));
        }
        Ok(ty)
    }

    /// A type as Bullet's grammar has it, where the first word that cannot be is the fault.
    fn bullet_type(&mut self) -> Parsed<Type> {
        match self.keyword_at(0) {
            Some(Keyword::ListType) => {
                let element = self.bullet_element()?;
                Ok(Type::List(Box::new(element)))
            }
            Some(Keyword::MapType) => {
                let value = self.bullet_element()?;
                Ok(Type::Map(Box::new(value)))
            }
            _ => self.primitive("a type"),
        }
    }

    /// Parses the element type of a LIST or MAP: a primitive, or a map of them.
    fn bullet_element(&mut self) -> Parsed<Type> {
        self.advance();
        self.expect_symbol(Symbol::LeftBracket)?;
        let ty = if self.is_keyword(Keyword::MapType) {
            self.advance();
            self.expect_symbol(Symbol::LeftBracket)?;
            let value = self.primitive("a type without parts")?;
            self.expect_symbol(Symbol::RightBracket)?;
            Type::Map(Box::new(value))
        } else {
            self.primitive("a type without parts, or MAP")?
        };
        self.expect_symbol(Symbol::RightBracket)?;
        Ok(ty)
    }

    /// One of Bullet's primitives.
    pub(super) fn primitive(&mut self, what: &str) -> Parsed<Type> {
        self.note(Expected::Type);
        let ty = match self.keyword_at(0) {
            Some(Keyword::StringType) => Type::STRING,
            Some(Keyword::BooleanType) => Type::BOOLEAN,
            Some(Keyword::IntegerType) => Type::INTEGER,
            Some(Keyword::LongType) => Type::LONG,
            Some(Keyword::FloatType) => Type::FLOAT,
            Some(Keyword::DoubleType) => Type::DOUBLE,
            _ => {
                let fault = self.expected(what);
                return Err(fault
                    .hint("Types are STRING, BOOLEAN, INTEGER, LONG, FLOAT, DOUBLE, LIST[…] and MAP[…]."));
            }
        };
        self.advance();
        Ok(ty)
    }
}

/// True if a type is one of those that the language has: not a list of lists, nor a map of lists.
fn has_bullet_shape(ty: &Type) -> bool {
    match ty {
        Type::Any | Type::Primitive(_) => true,
        Type::List(inner) | Type::Map(inner) => match &**inner {
            Type::List(_) => false,
            Type::Map(innermost) => innermost.depth() == 0,
            _ => true,
        },
    }
}

//! Types, as hints and CAST name them.
//!
//! ```text
//! type      = primitive | LIST[element] | MAP[element] | primitive_LIST | primitive_MAP_LIST | …    (the last: Bullet's words)
//! element   = primitive | MAP[primitive]
//! primitive = STRING | BOOLEAN | INTEGER | LONG | FLOAT | DOUBLE | TIMESTAMP[(S|MS|US|NS)]          (TIMESTAMP: native)
//! ```

use swiftwater_event::Type;

use super::{Parsed, Parser};
use crate::{
    Dialect,
    keyword::did_you_mean,
    lexer::{Symbol, TokenKind},
    source::Fault,
};

impl Parser<'_> {
    /// `LONG`, `LIST[MAP[STRING]]`, `TIMESTAMP(MS)`.
    pub(super) fn type_name(&mut self) -> Parsed<Type> {
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
            text.push_str(&self.word(self.span()).to_uppercase());
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
            const TYPES: [&str; 9] =
                ["STRING", "BOOLEAN", "INTEGER", "LONG", "FLOAT", "DOUBLE", "LIST", "MAP", "TIMESTAMP"];
            let fault = Fault::at(span, error.to_string());
            match did_you_mean(&text, TYPES) {
                Some(near) => fault.hint(format!("Did you mean {near}?")),
                None => {
                    fault.hint("Types are STRING, BOOLEAN, INTEGER, LONG, FLOAT, DOUBLE, LIST[…] and MAP[…].")
                }
            }
        })?;
        if !has_bullet_shape(&ty) {
            return Err(Fault::at(span, format!("there is no type {ty}"))
                .hint("A LIST or MAP holds primitives, or maps of primitives."));
        }
        let has_timestamp = text.contains("TIMESTAMP") || ty == Type::Any;
        if self.dialect == Dialect::Bullet && has_timestamp {
            return Err(Fault::at(span, format!("Bullet's dialect has no type {ty}")));
        }
        Ok(ty)
    }
}

/// Whether a type is one of those that the language has: not a list of lists, nor a map of lists.
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

//! Parses a column: its name, its type in Bullet's or SQL's words, and its constraints.

use swiftwater_event::{Path, Primitive, Type, did_you_mean};

use super::{
    super::{Parsed, Parser},
    check::{DeclaredCheck, DeclaredColumn, DeclaredDefault},
};
use crate::{
    ast::{Node, NodeKind},
    ddl::{Check, ColumnDef, Constant, DefaultValue, column_name_fault},
    lexer::{Symbol, TokenKind, short},
    source::{Fault, Span},
};

/// SQL's words for types that have another name here.
const SQL_TYPES: [(&str, Type); 15] = [
    ("INT", Type::INTEGER),
    ("TINYINT", Type::INTEGER),
    ("SMALLINT", Type::INTEGER),
    ("INT4", Type::INTEGER),
    ("BIGINT", Type::LONG),
    ("INT8", Type::LONG),
    ("REAL", Type::FLOAT),
    ("FLOAT4", Type::FLOAT),
    ("FLOAT8", Type::DOUBLE),
    ("VARCHAR", Type::STRING),
    ("CHAR", Type::STRING),
    ("TEXT", Type::STRING),
    ("BOOL", Type::BOOLEAN),
    ("JSON", Type::Any),
    ("JSONB", Type::Any),
];

/// Words that SQL has for types which are none here, and what to write.
const NO_TYPES: [(&str, &str); 6] = [
    ("DECIMAL", "Write DOUBLE, or LONG for whole units."),
    ("NUMERIC", "Write DOUBLE, or LONG for whole units."),
    ("DATE", "Write TIMESTAMP, or STRING for text."),
    ("TIME", "Write TIMESTAMP, or STRING for text."),
    ("ARRAY", "Write LIST[…]."),
    ("STRUCT", "Write JSON, or a column for each of its fields with PATH 'a.b'."),
];

/// The name here of SQL's word for a type; any other word is unchanged.
fn native_type_name(word: String) -> String {
    match SQL_TYPES.iter().find(|(name, _)| *name == word) {
        Some((_, ty)) => ty.to_string(),
        None => word,
    }
}

impl Parser<'_> {
    pub(super) fn column(&mut self) -> Parsed<DeclaredColumn> {
        let name = self.name("a column's name")?;
        if let Some(why) = column_name_fault(&name.text) {
            let message = format!("`{}` cannot be a column's name: {why}", short(&name.text));
            return Err(
                Fault::at(name.span, message).hint("Rename it, and set the path of its value with PATH '…'.")
            );
        }
        let ty = self.column_type()?;
        let mut column = DeclaredColumn {
            def: ColumnDef::new(name.text.clone(), ty),
            name,
            default: None,
            not_null: None,
            checks: Vec::new(),
        };
        loop {
            let span = self.span();
            if self.accept_word("PATH") {
                let (text, span) = self.text("a path in single quotes, such as 'a.b'")?;
                let path = Path::parse(&text).map_err(|error| Fault::at(span, error.to_string()))?;
                if column.def.path.replace(path).is_some() {
                    return Err(Fault::at(span, "a column has one PATH"));
                }
            } else if self.accept_words(&["NOT", "NULL"]) {
                column.def.not_null = true;
                column.not_null = Some(span.to(self.last_span()));
            } else if self.accept_word("NULL") {
                // SQL allows this, and it holds anyway.
            } else if self.accept_word("DEFAULT") {
                if column.default.replace(self.default_value()?).is_some() {
                    return Err(Fault::at(span, "a column has one DEFAULT"));
                }
            } else if self.at_check() {
                column.checks.push(self.check()?);
            } else if self.at_word(0, "PRIMARY") || self.at_word(0, "UNIQUE") || self.at_word(0, "REFERENCES")
            {
                return Err(Fault::at(span, "a stream has no keys")
                    .hint("The position of an event identifies it; views have keys."));
            } else {
                return Ok(column);
            }
        }
    }

    /// A type in Bullet's words or SQL's.
    pub(super) fn column_type(&mut self) -> Parsed<Type> {
        let span = self.span();
        let TokenKind::Word(_) = self.kind() else { return Err(self.expected("a type")) };
        let word = self.word(span).to_uppercase();
        if let Some((_, hint)) = NO_TYPES.iter().find(|(name, _)| *name == word) {
            return Err(Fault::at(span, format!("there is no type {word}")).hint(*hint));
        }
        if word == "CHARACTER" && self.at_word(1, "VARYING") {
            self.advance();
            self.advance();
            self.length()?;
            return Ok(Type::STRING);
        }
        if let Some((_, ty)) = SQL_TYPES.iter().find(|(name, _)| *name == word) {
            self.advance();
            if *ty == Type::STRING {
                self.length()?;
            }
            return Ok(ty.clone());
        }
        if word == "TIMESTAMPTZ" {
            return Err(Fault::at(span, "there is no type TIMESTAMPTZ").hint("Write TIMESTAMP: it is UTC."));
        }
        let known = SQL_TYPES.iter().map(|(name, _)| *name);
        match did_you_mean(&word, known) {
            Some(near) if Type::parse(&word).is_err() && !matches!(word.as_str(), "LIST" | "MAP") => {
                let ours =
                    ["STRING", "BOOLEAN", "INTEGER", "LONG", "FLOAT", "DOUBLE", "TIMESTAMP", "LIST", "MAP"];
                let near = did_you_mean(&word, ours).unwrap_or(near);
                Err(Fault::at(span, format!("no type `{}`", short(&word)))
                    .hint(format!("Did you mean {near}?")))
            }
            _ => {
                let ty = self.type_of_words(native_type_name)?;
                if ty == Type::DOUBLE {
                    self.accept_word("PRECISION");
                }
                if let Type::List(inner) | Type::Map(inner) = &ty
                    && contains_any(inner)
                {
                    return Err(Fault::at(span, format!("a column cannot be {ty}"))
                        .hint("Write JSON for a value of mixed kinds."));
                }
                Ok(ty)
            }
        }
    }

    /// `(n)` behind a type of text, which means nothing.
    fn length(&mut self) -> Parsed<()> {
        if self.accept_symbol(Symbol::LeftParen) {
            self.positive_number("a length")?;
            self.expect_symbol(Symbol::RightParen)?;
        }
        Ok(())
    }

    pub(super) fn at_check(&self) -> bool {
        (self.at_word(0, "CHECK") && self.symbol_at(1) == Some(Symbol::LeftParen))
            || (self.at_word(0, "CONSTRAINT") && self.at_word(2, "CHECK"))
    }

    /// `[CONSTRAINT name] CHECK (condition)`.
    pub(super) fn check(&mut self) -> Parsed<DeclaredCheck> {
        let name = if self.accept_word("CONSTRAINT") { Some(self.name("a name")?.text) } else { None };
        self.expect_word("CHECK")?;
        self.expect_symbol(Symbol::LeftParen)?;
        let from = self.span();
        let node = self.expression()?;
        let text = self.word(from.to(self.last_span())).into();
        self.expect_symbol(Symbol::RightParen)?;
        Ok(DeclaredCheck { check: Check { name, text }, node })
    }

    /// A constant expression, or NOW.
    pub(super) fn default_value(&mut self) -> Parsed<DeclaredDefault> {
        let span = self.span();
        if self.accept_word("CURRENT_TIMESTAMP") {
            return Ok(DeclaredDefault { value: DefaultValue::Now, node: None, span });
        }
        if self.at_word(0, "NOW") && self.symbol_at(1) == Some(Symbol::LeftParen) {
            self.advance();
            self.advance();
            self.expect_symbol(Symbol::RightParen)?;
            return Ok(DeclaredDefault {
                value: DefaultValue::Now,
                node: None,
                span: span.to(self.last_span()),
            });
        }
        // Loosest words such as NOT NULL behind it are the column's, so only what binds tightly stands without
        // parentheses.
        let node = self.expression_at(super::super::level::CONCAT)?;
        let span = span.to(self.last_span());
        if matches!(node.kind, NodeKind::Now) {
            return Ok(DeclaredDefault { value: DefaultValue::Now, node: None, span });
        }
        if let Some(fault) = not_constant(&node) {
            return Err(fault);
        }
        let text = self.word(span).into();
        Ok(DeclaredDefault { value: DefaultValue::Constant(Constant { text }), node: Some(node), span })
    }
}

fn contains_any(ty: &Type) -> bool {
    match ty {
        Type::Any => true,
        Type::Primitive(Primitive::Timestamp(_)) | Type::Primitive(_) => false,
        Type::List(inner) | Type::Map(inner) => contains_any(inner),
    }
}

fn not_constant(node: &Node) -> Option<Fault> {
    let fault = |span: Span, message: &str| Some(Fault::at(span, message.to_owned()));
    match &node.kind {
        NodeKind::Name(_) => fault(node.span, "a default is a constant, and cannot name a field")
            .map(|fault| fault.hint("Write text in single quotes: 'text'.")),
        NodeKind::Now => fault(node.span, "NOW must be the whole default"),
        NodeKind::Call(crate::ast::Builtin::UnixTimestamp, arguments) if arguments.is_empty() => {
            fault(node.span, "a default cannot call UNIXTIMESTAMP(): write NOW")
        }
        _ => {
            let mut found = None;
            node.children(&mut |child| {
                if found.is_none() {
                    found = not_constant(child);
                }
            });
            found
        }
    }
}

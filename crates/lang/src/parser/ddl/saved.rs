//! Parses `CREATE SAVED`, `DROP SAVED` and what shows saved objects.

use std::sync::Arc;

use super::super::{Parsed, Parser};
use crate::{
    Dialect,
    ddl::{
        CreateSaved, Ddl, SAVED_COMMENT_BYTES_MAX, SavedKind, SavedName, Show, split::space_len,
        split_statements,
    },
    lexer::TokenKind,
    source::{Fault, Span},
};

impl Parser<'_> {
    /// A statement that begins with CREATE, ALTER or DROP and is about a saved object; `None`: it is about another object.
    pub(super) fn saved(&mut self) -> Option<Parsed<Ddl>> {
        if self.at_word(1, "OR") && self.at_word(2, "REPLACE") && self.at_word(3, "SAVED") {
            let is_create = self.at_word(0, "CREATE");
            (0..4).for_each(|_| self.advance());
            return Some(match is_create {
                true => self.create_saved(true).map(Ddl::CreateSaved),
                false => Err(Fault::at(self.tokens[0].span, "OR REPLACE is allowed only after CREATE")),
            });
        }
        if !self.at_word(1, "SAVED") {
            return None;
        }
        let (is_create, is_drop) = (self.at_word(0, "CREATE"), self.at_word(0, "DROP"));
        (0..2).for_each(|_| self.advance());
        Some(match (is_create, is_drop) {
            (true, _) => self.create_saved(false).map(Ddl::CreateSaved),
            (_, true) => self.drop_saved(),
            _ => Err(Fault::at(self.last_span(), "a saved object cannot be altered")
                .hint("Write CREATE OR REPLACE SAVED … with the new text.")),
        })
    }

    /// `CREATE … SAVED`, behind the word SAVED.
    fn create_saved(&mut self, or_replace: bool) -> Parsed<CreateSaved> {
        let kind = self.saved_kind()?;
        let if_not_exists = self.if_not_exists()?;
        if or_replace && if_not_exists {
            let message = "OR REPLACE and IF NOT EXISTS exclude each other";
            return Err(Fault::at(self.last_span(), message).hint("Write one of them."));
        }
        let name = SavedName { kind, name: self.name_of(kind.noun())? };
        let has_dialect = kind == SavedKind::Query && self.accept_word("DIALECT");
        let dialect = if has_dialect { self.saved_dialect()? } else { Dialect::Native };
        let comment = match self.accept_word("COMMENT") {
            true => Some(self.comment()?),
            false => None,
        };
        if !self.accept_word("AS") {
            let expected: &[&str] = match (&comment, kind, has_dialect) {
                (Some(_), ..) => &["AS"],
                (None, SavedKind::Query, false) => &["DIALECT", "COMMENT", "AS"],
                (None, ..) => &["COMMENT", "AS"],
            };
            let hint = format!("Write AS and the text of the {} between `$$` and `$$`.", kind.noun());
            return Err(self.expected_one_of(expected).hint(hint));
        }
        let text = self.saved_text()?;
        Ok(CreateSaved { name, or_replace, if_not_exists, dialect, comment, text })
    }

    /// `DROP SAVED`, behind the word SAVED.
    fn drop_saved(&mut self) -> Parsed<Ddl> {
        let kind = self.saved_kind()?;
        let if_exists = self.if_exists()?;
        Ok(Ddl::DropSaved { name: SavedName { kind, name: self.name_of(kind.noun())? }, if_exists })
    }

    /// `SHOW SAVED QUERIES`, behind the word SAVED.
    pub(super) fn show_saved(&mut self) -> Parsed<Ddl> {
        let kind = SavedKind::ALL.into_iter().find(|kind| self.accept_word(kind.plural()));
        let words = SavedKind::ALL.map(SavedKind::plural);
        kind.map(|kind| Ddl::Show(Show::Saved(kind))).ok_or_else(|| self.expected_one_of(&words))
    }

    /// `SHOW CREATE SAVED QUERY name`, behind the word SAVED.
    pub(super) fn show_create_saved(&mut self) -> Parsed<Ddl> {
        let kind = self.saved_kind()?;
        Ok(Ddl::Show(Show::CreateSaved(SavedName { kind, name: self.name_of(kind.noun())? })))
    }

    fn saved_kind(&mut self) -> Parsed<SavedKind> {
        let kind = SavedKind::ALL.into_iter().find(|kind| self.accept_word(kind.word()));
        kind.ok_or_else(|| self.expected_one_of(&SavedKind::ALL.map(SavedKind::word)))
    }

    fn saved_dialect(&mut self) -> Parsed<Dialect> {
        match (self.accept_word("NATIVE"), self.accept_word("BULLET")) {
            (true, _) => Ok(Dialect::Native),
            (_, true) => Ok(Dialect::Bullet),
            _ => Err(self.expected_one_of(&["NATIVE", "BULLET"])),
        }
    }

    fn comment(&mut self) -> Parsed<Box<str>> {
        let (comment, span) = self.text("a comment in single quotes")?;
        match self.is_kept || comment.len() <= SAVED_COMMENT_BYTES_MAX {
            true => Ok(comment),
            false => Err(Fault::at(span, format!("a comment has at most {SAVED_COMMENT_BYTES_MAX} bytes"))),
        }
    }

    /// The text after AS: between `$$` and `$$`, or in single quotes. It is the last part of the statement.
    fn saved_text(&mut self) -> Parsed<Arc<str>> {
        let start = self.last_span().end as usize;
        let body = &self.text[start..];
        let indent = space_len(body);
        let place = |from: usize, to: usize| Span::new(start + from, start + to);
        // Not by the tokens: they are those of a query, in which `$$` is a fault and the text between has tokens of its own.
        let Some(text) = body[indent..].strip_prefix("$$") else {
            let TokenKind::String(text) = self.kind() else {
                return Err(self.expected("a text between `$$` and `$$`, or in single quotes"));
            };
            let text = Arc::from(&**text);
            self.advance();
            self.end()?;
            return Ok(text);
        };
        let Some(length) = text.find("$$") else {
            let message = "this `$$` is not closed";
            return Err(Fault::at(place(indent, indent + 2), message).hint("Close it with `$$`."));
        };
        let behind = indent + 2 + length + 2;
        if let Some(more) = split_statements(&body[behind..]).first() {
            let message = "nothing is allowed after the closing `$$`";
            return Err(Fault::at(place(behind + more.start, body.len()), message)
                .hint("Write a text that has `$$` in single quotes."));
        }
        Ok(Arc::from(&text[..length]))
    }
}

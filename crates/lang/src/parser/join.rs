//! Parses the alias of a stream in a query, and the joins of its events (native).
//!
//! ```text
//! STREAM(…) [[AS] name]      [INNER | LEFT [OUTER]] JOIN name [[AS] name] ON e
//! ```
//!
//! The words of joins are not keywords elsewhere in the language.

use super::{Parsed, Parser};
use crate::{
    Dialect,
    ast::{Join, Name},
    complete::Expected,
    keyword::Keyword,
    lexer::{Symbol, TokenKind},
    source::Fault,
};

/// The most joins of a query.
const JOINS_MAX: usize = 16;

/// Words that a join begins with.
const JOIN_WORDS: [&str; 6] = ["JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS"];

impl Parser<'_> {
    /// True if a join begins so many tokens ahead.
    fn at_join_in(&self, ahead: usize) -> bool {
        self.dialect == Dialect::Native && JOIN_WORDS.iter().any(|word| self.at_word(ahead, word))
    }

    /// True if a join begins here.
    pub(super) fn at_join(&self) -> bool {
        self.at_join_in(0)
    }

    /// The number of tokens before the first join after a stream, whose alias may precede it.
    fn first_join(&self) -> Option<usize> {
        let behind_alias = match self.kind() {
            TokenKind::Word(Some(Keyword::As)) => Some(2),
            TokenKind::Word(None) | TokenKind::Quoted(_) => Some(1),
            _ => None,
        };
        [Some(0), behind_alias].into_iter().flatten().find(|&ahead| self.at_join_in(ahead))
    }

    /// Refuses a join of two streams.
    pub(super) fn no_join(&self) -> Parsed<()> {
        let Some(ahead) = self.first_join() else { return Ok(()) };
        let name = (ahead..ahead + 4).find(|&at| self.at_word(at, "JOIN")).map(|at| at + 1);
        match name {
            Some(name) if self.is_stream_at(name) => Err(self.stream_join(ahead)),
            _ => Ok(()),
        }
    }

    fn is_stream_at(&self, ahead: usize) -> bool {
        self.keyword_at(ahead) == Some(Keyword::Stream)
            && self.symbol_at(ahead + 1) == Some(Symbol::LeftParen)
    }

    fn stream_join(&self, ahead: usize) -> Fault {
        let span = self.tokens[(self.at + ahead).min(self.tokens.len() - 1)].span;
        Fault::not_yet(span, "a join of streams").hint(
            "A query reads one stream, joined with views and tables. CREATE JOIN writes pairs of events of two \
             streams into a third. MATCH_RECOGNIZE finds sequences of events in one stream.",
        )
    }

    /// `AS name` behind a stream; without AS where a join follows.
    pub(super) fn stream_alias(&mut self) -> Parsed<Option<Name>> {
        if self.dialect == Dialect::Bullet {
            return Ok(None);
        }
        if self.accept_keyword(Keyword::As) {
            return self.name("a name for the stream").map(Some);
        }
        match self.first_join() {
            Some(1) => self.name("a name for the stream").map(Some),
            _ => Ok(None),
        }
    }

    /// A join; `behind` so many lateral views.
    pub(super) fn join(&mut self, behind: usize, joins: usize) -> Parsed<Join> {
        let start = self.span();
        for (word, hint) in [
            ("RIGHT", "Write `LEFT JOIN`: a joined row returns nothing without an event."),
            ("FULL", "Write `LEFT JOIN`: a joined row returns nothing without an event."),
            ("CROSS", "Write `JOIN … ON …`: an event is joined with one row at most."),
        ] {
            if self.at_word(0, word) {
                let message = format!("{word} JOIN is not a join of events");
                return Err(Fault::at(start, message).hint(hint));
            }
        }
        let is_outer = self.accept_word("LEFT");
        if is_outer {
            self.accept_keyword(Keyword::Outer);
        } else {
            self.accept_word("INNER");
        }
        if !self.accept_word("JOIN") {
            return Err(self.expected("JOIN"));
        }
        if self.is_stream_at(0) {
            return Err(self.stream_join(0));
        }
        if self.is_symbol(Symbol::LeftParen) {
            let fault = self.expected("the name of a view or table");
            return Err(fault.hint("A join needs rows with a key: create a view of the query."));
        }
        self.note(Expected::Joined);
        let name = self.name("the name of a view or table")?;
        let has_alias = self.accept_keyword(Keyword::As) || !self.at_word(0, "ON");
        let alias = if has_alias { Some(self.name("ON, or an alias")?) } else { None };
        if !self.accept_word("ON") {
            let hint = "Write `JOIN users AS u ON u.id = …`: with columns that equal fields of the event.";
            return Err(self.expected("ON").hint(hint));
        }
        let on = self.expression()?;
        if joins == JOINS_MAX {
            return Err(Fault::at(start, format!("a query has at most {JOINS_MAX} joins")));
        }
        Ok(Join { span: start.to(self.last_span()), is_outer, name, alias, on, behind })
    }
}

//! Parses GROUP BY with GROUPING SETS, ROLLUP and CUBE into sets of keys (native), and GROUPING(…), which distinguishes
//! the sets.
//!
//! Several elements of GROUP BY denote all combinations of their sets, as in standard SQL.

use super::{Parsed, Parser};
use crate::{
    Dialect,
    ast::{GroupBy, Node, NodeKind},
    lexer::{Symbol, TokenKind},
    source::{Fault, Span},
};

/// The most grouping sets of a query: an event is counted in each.
pub(crate) const SETS_MAX: usize = 1024;

/// Places of keys, as they are written.
type Set = Vec<usize>;

impl Parser<'_> {
    /// Parses the part after GROUP BY.
    pub(super) fn group_by(&mut self, span: Span) -> Parsed<GroupBy> {
        let mut keys = Vec::new();
        if self.dialect == Dialect::Bullet {
            keys = self.list(|parser| parser.expression())?;
            return Ok(GroupBy { span, keys, sets: None });
        }
        let mut is_plain = true;
        let elements = self.list(|parser| {
            let start = parser.span();
            let is_key = !parser.at_grouping() && !parser.at_composite();
            is_plain &= is_key;
            Ok((
                start,
                if is_key { vec![vec![parser.group_key(&mut keys)?]] } else { parser.element(&mut keys)? },
            ))
        })?;
        let mut sets: Vec<Set> = vec![Vec::new()];
        for (start, element) in elements {
            if sets.len().saturating_mul(element.len()) > SETS_MAX {
                return Err(too_many(start));
            }
            sets = sets
                .iter()
                .flat_map(|set| element.iter().map(move |more| set.iter().chain(more).copied().collect()))
                .collect();
        }
        Ok(GroupBy { span, keys, sets: (!is_plain).then_some(sets) })
    }

    /// `GROUPING(a, …)` or `GROUPING_ID(a, …)`, where this is one; the parenthesis is behind.
    pub(super) fn grouping(&mut self, word: &str, start: Span) -> Parsed<Option<Node>> {
        let is_id = word.eq_ignore_ascii_case("GROUPING_ID");
        if self.dialect == Dialect::Bullet || !(is_id || word.eq_ignore_ascii_case("GROUPING")) {
            return Ok(None);
        }
        let keys = if is_id && self.accept_symbol(Symbol::RightParen) {
            Vec::new()
        } else {
            self.operands(Symbol::RightParen)?
        };
        self.node(NodeKind::Grouping(keys), start.to(self.last_span())).map(Some)
    }

    /// True if ROLLUP, CUBE or GROUPING SETS stands here.
    fn at_grouping(&self) -> bool {
        let is = |word: &str| {
            matches!(self.kind(), TokenKind::Word(_)) && self.word(self.span()).eq_ignore_ascii_case(word)
        };
        let opens = self.symbol_at(1) == Some(Symbol::LeftParen);
        (opens && (is("ROLLUP") || is("CUBE"))) || (is("GROUPING") && self.is_sets_next())
    }

    fn is_sets_next(&self) -> bool {
        let next = self.tokens.get(self.at + 1);
        next.is_some_and(|token| self.word(token.span).eq_ignore_ascii_case("SETS"))
    }

    /// True if what stands in parentheses here is keys, rather than the beginning of an expression.
    fn at_composite(&self) -> bool {
        if self.symbol_at(0) != Some(Symbol::LeftParen) {
            return false;
        }
        let (mut open, mut has_comma, mut ahead) = (0_usize, false, 0);
        loop {
            match self.kind_at(ahead) {
                TokenKind::End => return false,
                TokenKind::Symbol(Symbol::LeftParen | Symbol::LeftBracket) => open += 1,
                TokenKind::Symbol(Symbol::RightParen | Symbol::RightBracket) => open -= 1,
                TokenKind::Symbol(Symbol::Comma) => has_comma |= open == 1,
                _ => {}
            }
            ahead += 1;
            if open == 0 {
                // One expression in parentheses is a key, with or without them.
                return has_comma || ahead == 2;
            }
        }
    }

    /// The sets of what stands here: keys together, or one of the words for several sets.
    fn element(&mut self, keys: &mut Vec<Node>) -> Parsed<Vec<Set>> {
        let start = self.span();
        if !self.at_grouping() {
            return Ok(vec![self.composite(keys)?]);
        }
        let word = self.word(start).to_ascii_uppercase();
        self.advance();
        if word == "GROUPING" {
            self.advance();
            self.expect_symbol(Symbol::LeftParen)?;
            let sets = self.list(|parser| parser.element(keys))?;
            self.expect_symbol(Symbol::RightParen)?;
            let sets: Vec<Set> = sets.into_iter().flatten().collect();
            return if sets.len() > SETS_MAX { Err(too_many(start)) } else { Ok(sets) };
        }
        self.expect_symbol(Symbol::LeftParen)?;
        let parts = self.list(|parser| parser.composite(keys))?;
        self.expect_symbol(Symbol::RightParen)?;
        if word == "ROLLUP" {
            return Ok((0..=parts.len()).rev().map(|length| parts[..length].concat()).collect());
        }
        if parts.len() >= usize::BITS as usize || 1 << parts.len() > SETS_MAX {
            return Err(too_many(start));
        }
        // All of them first, none of them last, and where the first is before where it is not.
        let of = |without: usize| {
            let places = 0..parts.len();
            let is_in = |place: &usize| without & (1 << (parts.len() - 1 - place)) == 0;
            places.filter(is_in).flat_map(|place| parts[place].clone()).collect()
        };
        Ok((0..1_usize << parts.len()).map(of).collect())
    }

    /// A key, keys in parentheses, or none: `()`.
    fn composite(&mut self, keys: &mut Vec<Node>) -> Parsed<Set> {
        if !self.at_composite() {
            return Ok(vec![self.group_key(keys)?]);
        }
        self.expect_symbol(Symbol::LeftParen)?;
        if self.accept_symbol(Symbol::RightParen) {
            return Ok(Vec::new());
        }
        let set = self.list(|parser| parser.group_key(keys))?;
        self.expect_symbol(Symbol::RightParen)?;
        Ok(set)
    }

    fn group_key(&mut self, keys: &mut Vec<Node>) -> Parsed<usize> {
        let key = self.expression()?;
        keys.push(key);
        Ok(keys.len() - 1)
    }
}

fn too_many(span: Span) -> Fault {
    Fault::at(span, format!("a query has at most {SETS_MAX} grouping sets"))
        .hint("Name the needed sets in GROUPING SETS.")
}

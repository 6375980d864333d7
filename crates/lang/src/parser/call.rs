//! Parses calls (functions, aggregates, CAST) and CASE.

use swiftwater_event::{Type, did_you_mean};

use super::{Parsed, Parser, aggregate::AGGREGATES};
use crate::{
    Dialect,
    ast::{Builtin, Node, NodeKind},
    keyword::Keyword,
    lexer::{Symbol, TokenKind, short},
    source::{Fault, Span},
};

/// The functions by name.
pub(super) const BUILTINS: [(Keyword, Builtin); 17] = [
    (Keyword::SizeIs, Builtin::SizeIs),
    (Keyword::SizeOf, Builtin::SizeOf),
    (Keyword::ContainsKey, Builtin::ContainsKey),
    (Keyword::ContainsValue, Builtin::ContainsValue),
    (Keyword::Filter, Builtin::Filter),
    (Keyword::If, Builtin::If),
    (Keyword::Coalesce, Builtin::Coalesce),
    (Keyword::Search, Builtin::Search),
    (Keyword::Abs, Builtin::Abs),
    (Keyword::Trim, Builtin::Trim),
    (Keyword::Lower, Builtin::Lower),
    (Keyword::Upper, Builtin::Upper),
    (Keyword::Substring, Builtin::Substring),
    (Keyword::Substr, Builtin::Substring),
    (Keyword::UnixTimestamp, Builtin::UnixTimestamp),
    (Keyword::Hash, Builtin::Hash),
    (Keyword::Between, Builtin::Between),
];

impl Parser<'_> {
    pub(super) fn is_call(&self) -> bool {
        if self.symbol_at(1) != Some(Symbol::LeftParen) {
            return false;
        }
        match self.kind() {
            TokenKind::Word(None) => true,
            TokenKind::Word(Some(keyword)) => {
                use Keyword::{Between, Cast, CumFreq, Explode, Freq, Now, Quantile, SizeOf, Top};
                // In Bullet it is a field or a literal, whatever stands behind it.
                if *keyword == Now && self.dialect == Dialect::Bullet {
                    return false;
                }
                matches!(keyword, Cast | CumFreq | Explode | Freq | Now | Quantile | SizeOf | Top | Between)
                    || BUILTINS.iter().any(|(name, _)| name == keyword)
                    || AGGREGATES.iter().any(|(name, _)| name == keyword)
                    || !keyword.is_reserved(self.dialect)
            }
            _ => false,
        }
    }

    pub(super) fn call(&mut self, start: Span) -> Parsed<Node> {
        let word = self.word(start).to_owned();
        let keyword = self.keyword_at(0);
        self.advance();
        let parenthesis = self.span();
        self.advance();
        // Each kind of call has a function of its own: calls are nested, and the variables of the other kinds would take
        // space on the stack as well.
        if keyword == Some(Keyword::Cast) {
            return self.cast(start);
        }
        if let Some(builtin) = self.of_pattern(keyword) {
            return self.call_of_pattern(builtin, start);
        }
        if keyword == Some(Keyword::Now) {
            self.expect_symbol(Symbol::RightParen)?;
            return self.node(NodeKind::Now, start.to(self.last_span()));
        }
        if let Some((_, function)) = AGGREGATES.iter().find(|(name, _)| Some(*name) == keyword) {
            return self.aggregate(*function, start);
        }
        if let Some(keyword @ (Keyword::CumFreq | Keyword::Freq | Keyword::Quantile)) = keyword {
            return self.distribution(keyword, start);
        }
        if keyword == Some(Keyword::Top) {
            return self.top(start);
        }
        if let Some(node) = self.approximate(&word, start)? {
            return Ok(node);
        }
        if let Some(node) = self.grouping(&word, start)? {
            return Ok(node);
        }
        self.builtin(keyword, &word, (start, parenthesis))
    }

    /// Parses the part after `CAST(`.
    fn cast(&mut self, start: Span) -> Parsed<Node> {
        let operand = self.expression()?;
        self.expect_keyword(Keyword::As)?;
        let type_start = self.span();
        let ty = match self.dialect {
            Dialect::Native => self.type_name()?,
            Dialect::Bullet => self.primitive("a type without parts")?,
        };
        if ty.depth() > 0 || ty == Type::Any {
            let span = type_start.to(self.last_span());
            return Err(Fault::at(span, format!("a value cannot be cast to {ty}"))
                .hint("CAST converts to STRING, BOOLEAN, INTEGER, LONG, FLOAT or DOUBLE."));
        }
        self.expect_symbol(Symbol::RightParen)?;
        self.node(NodeKind::Cast(Box::new(operand), ty), start.to(self.last_span()))
    }

    /// Parses the part after `FIRST(` and `LAST(` of a pattern.
    fn call_of_pattern(&mut self, builtin: Builtin, start: Span) -> Parsed<Node> {
        let argument = self.expression()?;
        self.expect_symbol(Symbol::RightParen)?;
        self.node(NodeKind::Call(builtin, vec![argument]), start.to(self.last_span()))
    }

    /// Parses the part after the name of a function and its parenthesis.
    fn builtin(
        &mut self,
        keyword: Option<Keyword>,
        word: &str,
        (start, parenthesis): (Span, Span),
    ) -> Parsed<Node> {
        let native = self.dialect == Dialect::Native;
        let found = BUILTINS.iter().find(|(name, _)| Some(*name) == keyword);
        let Some((_, builtin)) =
            found.filter(|(name, _)| native || !matches!(name, Keyword::Coalesce | Keyword::Search))
        else {
            let all = BUILTINS.iter().map(|(name, _)| name).chain(AGGREGATES.iter().map(|(name, _)| name));
            let near = did_you_mean(word, all.map(|name| name.text()));
            // Bullet takes the name for a field, and is surprised by the parenthesis.
            let at = if native { start } else { parenthesis };
            let fault = Fault::at(at, format!("no function `{}`", short(word)));
            return Err(match near {
                Some(near) => fault.hint(format!("Did you mean {near}?")),
                None => fault,
            });
        };
        let (fewest, most) = builtin.arity();
        let args = if !native && fewest == most && !matches!(builtin, Builtin::If | Builtin::Between) {
            // Bullet's grammar has so many; the others are counted by the planner.
            let mut args = vec![self.expression()?];
            while args.len() < fewest {
                self.expect_symbol(Symbol::Comma)?;
                args.push(self.expression()?);
            }
            self.expect_symbol(Symbol::RightParen)?;
            args
        } else if self.accept_symbol(Symbol::RightParen) {
            Vec::new()
        } else {
            self.operands(Symbol::RightParen)?
        };
        self.node(NodeKind::Call(*builtin, args), start.to(self.last_span()))
    }

    /// FIRST and LAST, as they are in patterns.
    fn of_pattern(&self, keyword: Option<Keyword>) -> Option<Builtin> {
        match keyword {
            Some(Keyword::First) if self.is_in_pattern => Some(Builtin::First),
            Some(Keyword::Last) if self.is_in_pattern => Some(Builtin::Last),
            _ => None,
        }
    }

    pub(super) fn case(&mut self, start: Span) -> Parsed<Node> {
        self.advance();
        let operand = if self.is_keyword(Keyword::When) { None } else { Some(Box::new(self.expression()?)) };
        let mut arms = Vec::new();
        while self.accept_keyword(Keyword::When) {
            let when = self.expression()?;
            self.expect_keyword(Keyword::Then)?;
            arms.push((when, self.expression()?));
        }
        if arms.is_empty() {
            return Err(self.expected_word(&[Keyword::When]));
        }
        let otherwise =
            if self.accept_keyword(Keyword::Else) { Some(Box::new(self.expression()?)) } else { None };
        if !self.accept_keyword(Keyword::End) {
            return Err(self.expected_word(if otherwise.is_some() {
                &[Keyword::End]
            } else {
                &[Keyword::When, Keyword::Else, Keyword::End]
            }));
        }
        self.node(NodeKind::Case { operand, arms, otherwise }, start.to(self.last_span()))
    }
}

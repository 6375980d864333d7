//! What is written as a call: functions, aggregates, CAST; and CASE.

use swiftwater_event::Type;

use super::{Parsed, Parser};
use crate::{
    Dialect,
    ast::{Builtin, Node, NodeKind},
    keyword::{Keyword, did_you_mean},
    lexer::{Symbol, TokenKind, short},
    plan::AggregateFunction,
    source::{Fault, Span},
};

/// The functions by name.
pub(super) const BUILTINS: [(Keyword, Builtin); 16] = [
    (Keyword::SizeIs, Builtin::SizeIs),
    (Keyword::SizeOf, Builtin::SizeOf),
    (Keyword::ContainsKey, Builtin::ContainsKey),
    (Keyword::ContainsValue, Builtin::ContainsValue),
    (Keyword::Filter, Builtin::Filter),
    (Keyword::If, Builtin::If),
    (Keyword::Coalesce, Builtin::Coalesce),
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

const AGGREGATES: [(Keyword, AggregateFunction); 5] = [
    (Keyword::Count, AggregateFunction::Count),
    (Keyword::Sum, AggregateFunction::Sum),
    (Keyword::Avg, AggregateFunction::Avg),
    (Keyword::Min, AggregateFunction::Min),
    (Keyword::Max, AggregateFunction::Max),
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
        if let Some(Keyword::CumFreq | Keyword::Explode | Keyword::Freq | Keyword::Quantile | Keyword::Top) =
            keyword
        {
            return Err(Fault::not_yet(start, &word.to_uppercase()));
        }
        self.advance();
        self.advance();
        if keyword == Some(Keyword::Cast) {
            let operand = self.expression()?;
            self.expect_keyword(Keyword::As)?;
            let type_start = self.span();
            let ty = self.type_name()?;
            if ty.depth() > 0 || ty == Type::Any {
                let span = type_start.to(self.last_span());
                return Err(Fault::at(span, format!("a value cannot be cast to {ty}"))
                    .hint("CAST is to STRING, BOOLEAN, INTEGER, LONG, FLOAT or DOUBLE."));
            }
            self.expect_symbol(Symbol::RightParen)?;
            return self.node(NodeKind::Cast(Box::new(operand), ty), start.to(self.last_span()));
        }
        if keyword == Some(Keyword::Now) {
            self.expect_symbol(Symbol::RightParen)?;
            return self.node(NodeKind::Now, start.to(self.last_span()));
        }
        if let Some((_, function)) = AGGREGATES.iter().find(|(name, _)| Some(*name) == keyword) {
            return self.aggregate(*function, start);
        }
        let native = self.dialect == Dialect::Native;
        let found = BUILTINS.iter().find(|(name, _)| Some(*name) == keyword);
        let Some((_, builtin)) = found.filter(|(name, _)| native || *name != Keyword::Coalesce) else {
            let all = BUILTINS.iter().map(|(name, _)| name).chain(AGGREGATES.iter().map(|(name, _)| name));
            let near = did_you_mean(&word, all.map(|name| name.text()));
            let fault = Fault::at(start, format!("no function `{}`", short(&word)));
            return Err(match near {
                Some(near) => fault.hint(format!("Did you mean {near}?")),
                None => fault,
            });
        };
        let args = if self.take_symbol(Symbol::RightParen) {
            Vec::new()
        } else {
            self.operands(Symbol::RightParen)?
        };
        let span = start.to(self.last_span());
        let (fewest, most) = builtin.arity();
        if args.len() < fewest || args.len() > most {
            let takes = match (fewest, most) {
                (1, 1) => "1 argument".to_owned(),
                (1, usize::MAX) => "at least 1 argument".to_owned(),
                (fewest, most) if fewest == most => format!("{fewest} arguments"),
                (fewest, most) => format!("{fewest} to {most} arguments"),
            };
            let message = format!("{} takes {takes}, not {}", builtin.text(), args.len());
            // Not fatal: the arguments may have faults of their own, and other clauses too.
            self.faults.push(Fault::at(span, message));
        }
        self.node(NodeKind::Call(*builtin, args), span)
    }

    fn aggregate(&mut self, function: AggregateFunction, start: Span) -> Parsed<Node> {
        if self.is_keyword(Keyword::Distinct) {
            let what = format!("{}(DISTINCT …)", self.word(start).to_uppercase());
            return Err(Fault::not_yet(start.to(self.span()), &what));
        }
        let argument = if function == AggregateFunction::Count && self.take_symbol(Symbol::Star) {
            None
        } else if function == AggregateFunction::Count && self.dialect == Dialect::Bullet {
            return Err(self.expected("`*` or DISTINCT"));
        } else if self.is_symbol(Symbol::RightParen) {
            let what =
                if function == AggregateFunction::Count { "`*` or an expression" } else { "an expression" };
            return Err(self.expected(what));
        } else {
            Some(Box::new(self.expression()?))
        };
        self.expect_symbol(Symbol::RightParen)?;
        if self.is_keyword(Keyword::Filter) && self.symbol_at(1) == Some(Symbol::LeftParen) {
            return Err(Fault::not_yet(self.span(), "FILTER (WHERE …) behind an aggregate")
                .hint("Aggregate over `CASE WHEN condition THEN value END` instead."));
        }
        self.node(NodeKind::Aggregate { function, argument }, start.to(self.last_span()))
    }

    pub(super) fn case(&mut self, start: Span) -> Parsed<Node> {
        self.advance();
        let operand = if self.is_keyword(Keyword::When) { None } else { Some(Box::new(self.expression()?)) };
        let mut arms = Vec::new();
        while self.take_keyword(Keyword::When) {
            let when = self.expression()?;
            self.expect_keyword(Keyword::Then)?;
            arms.push((when, self.expression()?));
        }
        if arms.is_empty() {
            return Err(self.expected_word(&[Keyword::When]));
        }
        let otherwise =
            if self.take_keyword(Keyword::Else) { Some(Box::new(self.expression()?)) } else { None };
        if !self.take_keyword(Keyword::End) {
            return Err(self.expected_word(if otherwise.is_some() {
                &[Keyword::End]
            } else {
                &[Keyword::When, Keyword::Else, Keyword::End]
            }));
        }
        self.node(NodeKind::Case { operand, arms, otherwise }, start.to(self.last_span()))
    }
}

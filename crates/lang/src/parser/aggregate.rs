//! Parses aggregates: those of one value, and those whose result is rows.
//!
//! ```text
//! COUNT(*) | COUNT(DISTINCT e, …) | (COUNT|SUM|AVG|MIN|MAX)(e)             with, native: FILTER (WHERE e)
//! (QUANTILE|FREQ|CUMFREQ)(e, LINEAR, n | REGION, from, to, step | MANUAL, p, …)
//! TOP(n, [threshold,] e, …)
//! APPROX_PERCENTILE_CONT(e, p) | APPROX_MEDIAN(e) | APPROX_DISTINCT(e, …)       native
//! (FIRST|LAST)(* | e) | (ARG_MIN|ARG_MAX)(e, by) | (COLLECT_LIST|COLLECT_SET)(e [, n])  native; MIN_BY, MAX_BY, ARRAY_AGG
//!                                                                               are synonyms
//! ```

use super::{Parsed, Parser};
use crate::{
    Dialect,
    ast::{Node, NodeKind},
    keyword::Keyword,
    lexer::{Symbol, TokenKind},
    plan::{AggregateFunction, DistributionPoints, Literal, TableFunction},
    source::{Fault, Span},
};

/// The aggregates of one value, by name.
pub(super) const AGGREGATES: [(Keyword, AggregateFunction); 5] = [
    (Keyword::Count, AggregateFunction::Count),
    (Keyword::Sum, AggregateFunction::Sum),
    (Keyword::Avg, AggregateFunction::Avg),
    (Keyword::Min, AggregateFunction::Min),
    (Keyword::Max, AggregateFunction::Max),
];

/// Number of values of COLLECT_LIST and COLLECT_SET if the query does not state it.
const COLLECTED_DEFAULT: u32 = 1_000;

/// The most values that they can be asked to hold.
const COLLECTED_MAX: u32 = 10_000;

/// The most points of MANUAL.
const POINTS_MAX: usize = 4096;

impl Parser<'_> {
    /// Parses the part after `COUNT(` and the like.
    pub(super) fn aggregate(&mut self, function: AggregateFunction, start: Span) -> Parsed<Node> {
        let native = self.dialect == Dialect::Native;
        let is_count = function == AggregateFunction::Count;
        if is_count && self.accept_keyword(Keyword::Distinct) {
            let arguments = self.operands(Symbol::RightParen)?;
            return self.filtered(AggregateFunction::CountDistinct, arguments, start);
        }
        if self.is_keyword(Keyword::Distinct) {
            let what = format!("{}(DISTINCT …)", self.word(start).to_uppercase());
            return Err(if native {
                Fault::not_yet(start.to(self.span()), &what)
            } else {
                self.expected("an expression")
            });
        }
        let mut arguments = Vec::new();
        if is_count
            && self.is_in_pattern
            && self.symbol_at(1) == Some(Symbol::Dot)
            && self.symbol_at(2) == Some(Symbol::Star)
        {
            // `COUNT(A.*)`: the events of a variable.
            let span = self.span();
            let name = self.name("a variable")?;
            self.expect_symbol(Symbol::Dot)?;
            self.expect_symbol(Symbol::Star)?;
            arguments.push(self.node(NodeKind::Name(name), span.to(self.last_span()))?);
        } else if is_count && self.accept_symbol(Symbol::Star) {
        } else if is_count && !native {
            return Err(self.expected("`*` or DISTINCT"));
        } else if self.is_symbol(Symbol::RightParen) {
            return Err(self.expected(if is_count { "`*` or an expression" } else { "an expression" }));
        } else {
            arguments.push(self.expression()?);
        }
        self.expect_symbol(Symbol::RightParen)?;
        self.filtered(function, arguments, start)
    }

    /// The aggregate, with `FILTER (WHERE …)` where that follows.
    fn filtered(&mut self, function: AggregateFunction, arguments: Vec<Node>, start: Span) -> Parsed<Node> {
        let has_filter = self.dialect == Dialect::Native
            && self.is_keyword(Keyword::Filter)
            && self.symbol_at(1) == Some(Symbol::LeftParen);
        let mut filter = None;
        if has_filter {
            self.advance();
            self.advance();
            self.expect_keyword(Keyword::Where)?;
            filter = Some(Box::new(self.expression()?));
            self.expect_symbol(Symbol::RightParen)?;
        }
        self.node(NodeKind::Aggregate { function, arguments, filter }, start.to(self.last_span()))
    }

    /// DataFusion's names of what is native here; `None`: the word is none of them.
    pub(super) fn approximate(&mut self, word: &str, start: Span) -> Parsed<Option<Node>> {
        const MEDIAN: u32 = 500_000;
        if self.dialect == Dialect::Bullet {
            return Ok(None);
        }
        let node = match word.to_ascii_uppercase().as_str() {
            "APPROX_DISTINCT" => {
                let arguments = self.operands(Symbol::RightParen)?;
                self.filtered(AggregateFunction::CountDistinct, arguments, start)?
            }
            "APPROX_MEDIAN" => {
                let argument = self.expression()?;
                self.expect_symbol(Symbol::RightParen)?;
                self.filtered(AggregateFunction::Percentile { millionths: MEDIAN }, vec![argument], start)?
            }
            "APPROX_PERCENTILE_CONT" => {
                let argument = self.expression()?;
                self.expect_symbol(Symbol::Comma)?;
                let span = self.span();
                let share = self.point()?;
                if !(0.0..=1.0).contains(&share) {
                    return Err(Fault::at(span.to(self.last_span()), "a percentile must be from 0 to 1")
                        .hint("Write the 95th as 0.95."));
                }
                self.expect_symbol(Symbol::RightParen)?;
                let millionths = (share * 1e6).round() as u32;
                self.filtered(AggregateFunction::Percentile { millionths }, vec![argument], start)?
            }
            _ => return self.ordered(word, start),
        };
        Ok(Some(node))
    }

    /// Aggregates that depend on the order of the events; `None`: the word is none of them.
    fn ordered(&mut self, word: &str, start: Span) -> Parsed<Option<Node>> {
        let function = match word.to_ascii_uppercase().as_str() {
            "FIRST" => AggregateFunction::First,
            "LAST" => AggregateFunction::Last,
            "ARG_MIN" | "MIN_BY" => AggregateFunction::ArgMin,
            "ARG_MAX" | "MAX_BY" => AggregateFunction::ArgMax,
            "COLLECT_LIST" | "ARRAY_AGG" => AggregateFunction::CollectList { values_max: COLLECTED_DEFAULT },
            "COLLECT_SET" => AggregateFunction::CollectSet { values_max: COLLECTED_DEFAULT },
            _ => return Ok(None),
        };
        let event = match function {
            AggregateFunction::First => Some(AggregateFunction::FirstEvent),
            AggregateFunction::Last => Some(AggregateFunction::LastEvent),
            _ => None,
        };
        if let Some(event) = event
            && self.accept_symbol(Symbol::Star)
        {
            self.expect_symbol(Symbol::RightParen)?;
            return self.filtered(event, Vec::new(), start).map(Some);
        }
        let mut arguments = vec![self.expression()?];
        let function = match function {
            AggregateFunction::ArgMin | AggregateFunction::ArgMax => {
                self.expect_symbol(Symbol::Comma)?;
                arguments.push(self.expression()?);
                function
            }
            AggregateFunction::CollectList { .. } if self.accept_symbol(Symbol::Comma) => {
                AggregateFunction::CollectList { values_max: self.collected_max()? }
            }
            AggregateFunction::CollectSet { .. } if self.accept_symbol(Symbol::Comma) => {
                AggregateFunction::CollectSet { values_max: self.collected_max()? }
            }
            _ => function,
        };
        self.expect_symbol(Symbol::RightParen)?;
        self.filtered(function, arguments, start).map(Some)
    }

    fn collected_max(&mut self) -> Parsed<u32> {
        let span = self.span();
        let most = self.positive_number("the number of values that are collected")?;
        u32::try_from(most).ok().filter(|most| *most <= COLLECTED_MAX).ok_or_else(|| {
            let message = format!("at most {COLLECTED_MAX} values can be collected");
            Fault::at(span.to(self.last_span()), message)
        })
    }

    /// Parses the part after `QUANTILE(` and the like. The points are checked by the planner.
    pub(super) fn distribution(&mut self, keyword: Keyword, start: Span) -> Parsed<Node> {
        let argument = self.expression()?;
        self.expect_symbol(Symbol::Comma)?;
        let mode = self.keyword_at(0);
        if !matches!(mode, Some(Keyword::Linear | Keyword::Region | Keyword::Manual)) {
            return Err(self.expected_word(&[Keyword::Linear, Keyword::Region, Keyword::Manual]));
        }
        self.advance();
        self.expect_symbol(Symbol::Comma)?;
        let points = match mode {
            Some(Keyword::Linear) => DistributionPoints::Linear(match self.dialect {
                Dialect::Native => self.positive_number("the number of points")?,
                Dialect::Bullet => self.bullet_number(i32::MAX as u64, "the number of points")?,
            }),
            Some(Keyword::Region) => {
                let start = self.point()?;
                self.expect_symbol(Symbol::Comma)?;
                let end = self.point()?;
                self.expect_symbol(Symbol::Comma)?;
                DistributionPoints::Region { start, end, increment: self.point()? }
            }
            _ => {
                let mut points = vec![self.point()?];
                while self.accept_symbol(Symbol::Comma) {
                    if points.len() == POINTS_MAX {
                        let message = format!("there can be at most {POINTS_MAX} points here");
                        return Err(Fault::at(self.span(), message));
                    }
                    points.push(self.point()?);
                }
                DistributionPoints::Manual(points)
            }
        };
        self.expect_symbol(Symbol::RightParen)?;
        let function = match keyword {
            Keyword::Quantile => TableFunction::Quantile(points),
            Keyword::Freq => TableFunction::Frequency(points),
            _ => TableFunction::CumulativeFrequency(points),
        };
        self.table(function, vec![argument], start)
    }

    /// A number with or without a sign.
    fn point(&mut self) -> Parsed<f64> {
        let negative = self.is_symbol(Symbol::Minus);
        if negative || self.is_symbol(Symbol::Plus) {
            self.advance();
        }
        let value = match *self.kind() {
            TokenKind::Whole { value, .. } => {
                if self.dialect == Dialect::Bullet && i64::try_from(value).is_err() {
                    self.number_too_large("a number is out of the range of LONG".to_owned());
                }
                value as f64
            }
            TokenKind::Double(value) => value,
            TokenKind::Float(value) => f64::from(value),
            TokenKind::Parameter(Literal::Integer(value)) => f64::from(value),
            TokenKind::Parameter(Literal::Long(value)) => value as f64,
            TokenKind::Parameter(Literal::Float(value)) => f64::from(value),
            TokenKind::Parameter(Literal::Double(value)) => value,
            _ => return Err(self.expected("a number")),
        };
        self.advance();
        Ok(if negative { -value } else { value })
    }

    /// Parses the part after `TOP(`.
    pub(super) fn top(&mut self, start: Span) -> Parsed<Node> {
        let count = match self.dialect {
            Dialect::Native => self.positive_number("the number of rows of TOP")?,
            Dialect::Bullet => self.bullet_number(i32::MAX as u64, "the number of rows of TOP")?,
        };
        self.expect_symbol(Symbol::Comma)?;
        // A whole number with a comma behind it; else it is the first of what is counted.
        let is_threshold = matches!(
            self.kind(),
            TokenKind::Whole { long: false, .. }
                | TokenKind::Parameter(Literal::Integer(_) | Literal::Long(_))
        ) && self.symbol_at(1) == Some(Symbol::Comma);
        let mut threshold = None;
        if is_threshold {
            threshold = Some(match self.dialect {
                Dialect::Native => self.positive_number("the threshold of TOP")?,
                Dialect::Bullet => self.bullet_number(i64::MAX as u64, "the threshold of TOP")?,
            });
            self.expect_symbol(Symbol::Comma)?;
        }
        let arguments = self.operands(Symbol::RightParen)?;
        self.table(TableFunction::Top { count, threshold }, arguments, start)
    }

    fn table(&mut self, function: TableFunction, arguments: Vec<Node>, start: Span) -> Parsed<Node> {
        if self.is_keyword(Keyword::Filter) && self.symbol_at(1) == Some(Symbol::LeftParen) {
            return Err(Fault::at(self.span(), "FILTER is for aggregates of one value").hint("Use WHERE."));
        }
        self.node(NodeKind::Table { function, arguments }, start.to(self.last_span()))
    }
}

//! Parses the clauses after FROM, and checks their order.

use super::{Parsed, Parser};
use crate::{
    Dialect,
    ast::{Having, Order, Query, Source, Windowing},
    keyword::Keyword,
    lexer::{Symbol, TokenKind},
    plan::Literal,
    source::{Fault, Span},
};

/// Clauses after FROM, in the order they must stand in.
pub(super) const CLAUSES: [Keyword; 8] = [
    Keyword::Sample,
    Keyword::Lateral,
    Keyword::Where,
    Keyword::Group,
    Keyword::Having,
    Keyword::Order,
    Keyword::Windowing,
    Keyword::Limit,
];

/// The most lateral views of a query.
const VIEWS_MAX: usize = 32;

impl Parser<'_> {
    pub(super) fn at_clause(&self) -> bool {
        let next_is_name = matches!(self.kind_at(1), TokenKind::Symbol(_) | TokenKind::End);
        match self.keyword_at(0) {
            Some(Keyword::Limit) => !next_is_name || self.symbol_at(1) == Some(Symbol::Minus),
            Some(Keyword::Windowing) => !next_is_name,
            Some(Keyword::Sample) => self.dialect == Dialect::Native && !next_is_name,
            Some(Keyword::Lateral) => self.keyword_at(1) == Some(Keyword::View),
            Some(keyword) => CLAUSES.contains(&keyword),
            None => false,
        }
    }

    pub(super) fn clauses(&mut self, query: &mut Query) {
        let mut seen: Vec<Keyword> = Vec::new();
        let over_query = matches!(query.source, Source::Query(_));
        loop {
            let start = self.span();
            if self.at_join() {
                self.join_clause(query, &seen);
                continue;
            }
            let Some(keyword) = self.keyword_at(0).filter(|keyword| CLAUSES.contains(keyword)) else {
                return;
            };
            if keyword == Keyword::Sample && self.dialect == Dialect::Bullet {
                return;
            }
            if over_query && matches!(keyword, Keyword::Sample | Keyword::Windowing) {
                let message = format!("{} belongs to the inner query", keyword.text());
                let hint = "An outer query runs over each result of the inner query.";
                self.faults.push(Fault::at(start, message).hint(hint));
            }
            if let Some(fault) = self.misplaced(keyword, &seen) {
                self.faults.push(fault);
            }
            seen.push(keyword);
            self.advance();
            let parsed = self.clause(keyword, start, query);
            self.recover(parsed);
        }
    }

    /// A join among the clauses, which may stand before and behind lateral views.
    fn join_clause(&mut self, query: &mut Query, seen: &[Keyword]) {
        let start = self.span();
        let later = seen.iter().find(|keyword| !matches!(keyword, Keyword::Sample | Keyword::Lateral));
        if let Some(later) = later {
            let message = format!("JOIN must come before {}", clause_name(*later));
            self.faults.push(Fault::at(start, message));
        }
        if matches!(query.source, Source::Query(_)) {
            let hint = "An outer query runs over each result of the inner query.";
            self.faults.push(Fault::at(start, "JOIN belongs to the inner query").hint(hint));
        }
        let join = self.join(query.views.len(), query.joins.len());
        let joined = self.recover(join);
        query.joins.extend(joined);
    }

    /// Returns a fault if a clause is repeated, or follows one that it must precede.
    fn misplaced(&self, keyword: Keyword, seen: &[Keyword]) -> Option<Fault> {
        let place = |keyword: &Keyword| CLAUSES.iter().position(|clause| clause == keyword);
        if seen.contains(&keyword) && keyword != Keyword::Lateral {
            return Some(Fault::at(self.span(), format!("{} occurs twice", clause_name(keyword))));
        }
        let windowing_after_limit = keyword == Keyword::Windowing && self.dialect == Dialect::Native;
        let after = seen.iter().find(|other| {
            place(other) > place(&keyword) && !(windowing_after_limit && **other == Keyword::Limit)
        })?;
        let message = format!("{} must come before {}", clause_name(keyword), clause_name(*after));
        Some(Fault::at(self.span(), message))
    }

    fn clause(&mut self, keyword: Keyword, start: Span, query: &mut Query) -> Parsed<()> {
        match keyword {
            Keyword::Sample => query.sample = Some(self.sample()?),
            Keyword::Lateral => {
                self.expect_keyword(Keyword::View)?;
                let view = self.explode()?;
                if query.views.len() == VIEWS_MAX {
                    return Err(Fault::at(
                        view.span,
                        format!("a query has at most {VIEWS_MAX} lateral views"),
                    ));
                }
                query.views.push(view);
            }
            Keyword::Where => query.filter = Some(self.expression()?),
            Keyword::Group => {
                self.expect_keyword(Keyword::By)?;
                query.group_by = Some(self.group_by(start)?);
            }
            Keyword::Having => query.having = Some(Having { span: start, node: self.expression()? }),
            Keyword::Order => {
                self.expect_keyword(Keyword::By)?;
                query.order_by = self.list(|parser| {
                    let node = parser.expression()?;
                    let descending = parser.accept_keyword(Keyword::Desc);
                    if !descending {
                        parser.accept_keyword(Keyword::Asc);
                    }
                    Ok(Order { node, descending })
                })?;
            }
            Keyword::Windowing => {
                let shape = self.windowing()?;
                query.window = Some(Windowing { span: start.to(self.last_span()), shape });
            }
            _ => query.limit = Some(self.limit()?),
        }
        Ok(())
    }

    fn limit(&mut self) -> Parsed<u64> {
        match self.dialect {
            Dialect::Native => self.positive_number("LIMIT"),
            Dialect::Bullet => self.bullet_number(i32::MAX as u64, "LIMIT"),
        }
    }

    fn sample(&mut self) -> Parsed<f64> {
        let span = self.span();
        let share = match *self.kind() {
            TokenKind::Double(value) => value,
            TokenKind::Whole { value, long: false } => value as f64,
            TokenKind::Parameter(Literal::Double(value)) => value,
            TokenKind::Parameter(Literal::Integer(value)) => f64::from(value),
            _ => {
                return Err(self
                    .expected("a share of the events")
                    .hint("Write `SAMPLE 0.1` or `SAMPLE 10%`."));
            }
        };
        self.advance();
        let share = if self.accept_symbol(Symbol::Percent) { share / 100.0 } else { share };
        if share > 0.0 && share <= 1.0 {
            return Ok(share);
        }
        let message = "the share of SAMPLE must be above 0 and at most 1, or 100%";
        Err(Fault::at(span.to(self.last_span()), message))
    }
}

fn clause_name(keyword: Keyword) -> &'static str {
    match keyword {
        Keyword::Group => "GROUP BY",
        Keyword::Order => "ORDER BY",
        _ => keyword.text(),
    }
}

//! Bounds the cost of planning a statement, before it is planned.
//!
//! One pass over the syntax tree, in linear time, counts four kinds of cost:
//!
//! - DataFusion plans a `WITH` query anew at each use. A chain of queries that each join the one before with itself
//!   doubles the plan at each step.
//! - Each level of subqueries in expressions, `coalesce` and `ROW` doubles the time of planning. DataFusion 55's type
//!   coercion and simplifier visit their contents twice.
//! - DataFusion computes all grouping sets of a batch at once.
//! - Each rule copies all columns that a query reads, so the cost of a chain of queries grows with the square of its
//!   length.
//!
//! The parser bounds the depth of brackets.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArguments, GroupByExpr, ObjectNamePart, Query, Select, TableFactor, Visitor,
};

use crate::{ErrorKind, SqlError, walk::walk};

/// Expressions within one another that each double the time of planning, by the weights of [`weight`].
const DOUBLING_DEPTH_MAX: usize = 8;
/// The weight of a comparison by ANY or ALL with a subquery, which DataFusion copies several times.
const SET_COMPARISON_WEIGHT: usize = 4;
/// Functions whose planning doubles: they become a CASE that has an argument twice, or a type that is worked out twice.
const DOUBLING_FUNCTIONS: [&str; 9] =
    ["coalesce", "nvl", "nvl2", "ifnull", "nullif", "row", "struct", "named_struct", "map"];
/// Tables that a statement reads, one that is read twice counted twice, once each `WITH` query stands where it is named.
const TABLES_READ_MAX: u64 = 256;
/// Queries that each read the one before, as a chain of `WITH` queries does. Planning copies all below each of them, so its time
/// and memory grow with the square of their number.
const CHAIN_MAX: u64 = 500;
/// `WITH` queries within one another.
const WITH_DEPTH_MAX: usize = 12;
/// Grouping sets of one GROUP BY, as in PostgreSQL.
const GROUPING_SETS_MAX: u64 = 4096;

/// Refuses a statement that is dearer to plan than it may be, by the limit that it passes.
pub(crate) fn check(statement: &Statement) -> Result<(), SqlError> {
    let mut pass = Pass { queries: vec![Frame::default()], doubling_depth: 0 };
    let flow = match statement {
        Statement::Statement(statement) => walk(statement, &mut pass),
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => walk(query, &mut pass),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => return check(&explain.statement),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    };
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn limit(what: String, hint: &str) -> ControlFlow<SqlError> {
    ControlFlow::Break(SqlError::new(ErrorKind::Limit, what).with_hint(hint))
}

/// The number of tables and nested queries that a query, or a table, adds to a plan that reads it.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    /// Tables that it reads.
    tables: u64,
    /// Queries below it that each read the next.
    chain: u64,
}

/// A query whose parts are visited.
#[derive(Default)]
struct Frame {
    /// Its `WITH` queries: name in lower case, where it is in the tree, and its size, once that is known.
    withs: Vec<(String, *const Query, Option<Size>)>,
    size: Size,
}

struct Pass {
    queries: Vec<Frame>,
    doubling_depth: usize,
}

impl Pass {
    /// The size of what a name stands for.
    fn size_of(&self, name: &str) -> Size {
        let withs = self.queries.iter().rev().flat_map(|frame| frame.withs.iter().rev());
        withs
            .filter(|(with, _, size)| with == name && size.is_some())
            .find_map(|(_, _, size)| *size)
            .unwrap_or(Size { tables: 1, chain: 0 })
    }

    fn add(&mut self, size: Size) -> ControlFlow<SqlError> {
        let Some(frame) = self.queries.last_mut() else { return ControlFlow::Continue(()) };
        frame.size.tables = frame.size.tables.saturating_add(size.tables);
        frame.size.chain = frame.size.chain.max(size.chain);
        if frame.size.chain > CHAIN_MAX {
            return limit(
                format!("the statement has more than {CHAIN_MAX} queries that each read the one before"),
                "Write the result of one of them into a table first: CREATE TABLE t AS SELECT ….",
            );
        }
        if frame.size.tables > TABLES_READ_MAX {
            return limit(
                format!(
                    "the statement reads more than {TABLES_READ_MAX} tables, with each WITH query read where it is named"
                ),
                "Write the rows that are read often into a table first: CREATE TABLE t AS SELECT ….",
            );
        }
        ControlFlow::Continue(())
    }
}

/// Number of times an expression doubles the planning of the expressions inside it.
fn weight(expr: &Expr) -> usize {
    match expr {
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } if matches!(**right, Expr::Subquery(_)) => {
            // The subquery itself adds one.
            SET_COMPARISON_WEIGHT - 1
        }
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => 1,
        Expr::Tuple(_) | Expr::Struct { .. } | Expr::Dictionary(_) | Expr::Map(_) => 1,
        Expr::Function(Function { args: FunctionArguments::Subquery(_), .. }) => 1,
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(ObjectNamePart::as_ident);
            let doubles =
                |name: &str| DOUBLING_FUNCTIONS.iter().any(|known| name.eq_ignore_ascii_case(known));
            usize::from(name.is_some_and(|name| doubles(&name.value)))
        }
        _ => 0,
    }
}

impl Visitor for Pass {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        let withs = query.with.iter().flat_map(|with| &with.cte_tables);
        let withs = withs.map(|with| {
            (with.alias.name.value.to_lowercase(), std::ptr::from_ref::<Query>(&with.query), None)
        });
        self.queries.push(Frame { withs: withs.collect(), size: Size::default() });
        let with_depth = self.queries.iter().filter(|frame| !frame.withs.is_empty()).count();
        if with_depth > WITH_DEPTH_MAX {
            return limit(
                format!("WITH is nested {with_depth} deep; the limit is {WITH_DEPTH_MAX}"),
                "Write the queries side by side: WITH a AS (…), b AS (SELECT … FROM a) SELECT ….",
            );
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        let Some(ended) = self.queries.pop() else { return ControlFlow::Continue(()) };
        let around = self.queries.last_mut().map(|frame| &mut frame.withs);
        let with = around.and_then(|withs| withs.iter_mut().find(|(_, at, _)| std::ptr::eq(*at, query)));
        match with {
            Some((_, _, size)) => {
                *size = Some(Size { chain: ended.size.chain + 1, ..ended.size });
                ControlFlow::Continue(())
            }
            None => self.add(Size { chain: ended.size.chain + 1, ..ended.size }),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<SqlError> {
        let GroupByExpr::Expressions(keys, _) = &select.group_by else { return ControlFlow::Continue(()) };
        let sets = keys.iter().map(grouping_sets).fold(1, u64::saturating_mul);
        if sets > GROUPING_SETS_MAX {
            let sets = if sets == u64::MAX { "too many".to_owned() } else { sets.to_string() };
            return limit(
                format!("the statement groups by {sets} sets of keys, limit is {GROUPING_SETS_MAX}"),
                "CUBE of n keys has 2^n sets: name the needed sets with GROUPING SETS.",
            );
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<SqlError> {
        match factor {
            TableFactor::Table { name, .. } => {
                let name = match name.0.as_slice() {
                    [ObjectNamePart::Identifier(name)] => name.value.to_lowercase(),
                    _ => String::new(),
                };
                self.add(self.size_of(&name))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        self.doubling_depth += weight(expr);
        if self.doubling_depth > DOUBLING_DEPTH_MAX {
            return limit(
                format!(
                    "subqueries, `coalesce` and `ROW` are nested {} deep in expressions; the limit is {DOUBLING_DEPTH_MAX}",
                    self.doubling_depth
                ),
                "Give coalesce several arguments, join the tables, or name the inner queries by WITH. ANY and ALL count for \
                 four.",
            );
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        self.doubling_depth = self.doubling_depth.saturating_sub(weight(expr));
        ControlFlow::Continue(())
    }
}

/// Number of sets that one element of a GROUP BY stands for.
fn grouping_sets(key: &Expr) -> u64 {
    match key {
        Expr::Cube(keys) => {
            u32::try_from(keys.len()).ok().and_then(|keys| 1_u64.checked_shl(keys)).unwrap_or(u64::MAX)
        }
        Expr::Rollup(keys) => keys.len() as u64 + 1,
        Expr::GroupingSets(sets) => {
            let sets = sets.iter().map(|set| match set.as_slice() {
                [one] => grouping_sets(one),
                _ => 1,
            });
            sets.fold(0, u64::saturating_add).max(1)
        }
        Expr::Nested(key) => grouping_sets(key),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialect, SqlOptions, text::split};

    fn checked(text: &str) -> Result<(), SqlError> {
        let statements = split(text, Dialect::Native, &SqlOptions::default())?;
        statements.iter().try_for_each(|text| check(&text.parse(Dialect::Native)?))
    }

    fn refused(text: &str) -> String {
        let error = checked(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        error.to_string()
    }

    #[test]
    fn with_queries_count_where_they_are_named() {
        let chain = |length: usize| {
            let steps = (1..length).map(|step| {
                let before = step - 1;
                format!(", c{step} AS (SELECT a.x FROM c{before} a JOIN c{before} b ON a.x = b.x)")
            });
            format!("WITH c0 AS (SELECT x FROM t){} SELECT * FROM C{}", steps.collect::<String>(), length - 1)
        };
        checked(&chain(9)).unwrap();
        assert!(refused(&chain(10)).contains("more than 256 tables"));
        assert!(refused(&chain(200)).contains("more than 256 tables"));
        // One that is named nowhere is not read; one of an inner query hides the outer.
        checked("WITH a AS (SELECT * FROM t, t t2), b AS (SELECT * FROM a) SELECT 1").unwrap();
        checked(
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 9) SELECT * FROM r",
        )
        .unwrap();
    }

    #[test]
    fn chains_of_queries_are_bounded() {
        let chain = |length: usize| {
            let steps =
                (1..length).map(|step| format!(", c{step} AS (SELECT x + 1 AS x FROM c{})", step - 1));
            format!("WITH c0 AS (SELECT x FROM t){} SELECT * FROM c{}", steps.collect::<String>(), length - 1)
        };
        checked(&chain(499)).unwrap();
        assert!(refused(&chain(500)).contains("more than 500 queries"));
        // Side by side they are no chain.
        let side_by_side =
            (0..200).map(|step| format!(", c{step} AS (SELECT x FROM c0)")).collect::<String>();
        checked(&format!("WITH c AS (SELECT x FROM t){side_by_side} SELECT * FROM c1, c2")).unwrap();
    }

    #[test]
    fn grouping_sets_are_multiplied() {
        let keys = |count: usize| (0..count).map(|key| format!("k{key}")).collect::<Vec<_>>().join(", ");
        checked(&format!("SELECT 1 FROM t GROUP BY CUBE ({})", keys(12))).unwrap();
        assert!(refused(&format!("SELECT 1 FROM t GROUP BY CUBE ({})", keys(13))).contains("8192 sets"));
        assert!(refused(&format!("SELECT 1 FROM t GROUP BY CUBE ({})", keys(70))).contains("too many"));
        let rollups = format!("ROLLUP ({0}), ROLLUP ({0})", keys(70));
        assert!(
            refused(&format!("SELECT 1 FROM (SELECT 1 FROM t GROUP BY {rollups}) q")).contains("5041 sets")
        );
    }

    #[test]
    fn what_doubles_counts_by_depth_and_derived_tables_do_not() {
        let nested = |before: &str, depth: usize, after: &str| {
            format!("{}SELECT 1{}", before.repeat(depth), after.repeat(depth))
        };
        for before in ["SELECT (", "SELECT 1 WHERE EXISTS (", "SELECT 1 WHERE 1 IN (", "SELECT ARRAY("] {
            checked(&nested(before, DOUBLING_DEPTH_MAX, ")")).unwrap();
            assert!(refused(&nested(before, DOUBLING_DEPTH_MAX + 1, ")")).contains("limit is 8"), "{before}");
        }
        for (before, depth) in [("SELECT k > ANY (", 2), ("SELECT k = ALL (", 2)] {
            checked(&nested(before, depth, ")")).unwrap();
            refused(&nested(before, depth + 1, ")"));
        }
        for before in ["coalesce(", "nvl(1, ", "ROW(", "(1, "] {
            let text = |depth: usize| format!("SELECT {}1{}", before.repeat(depth), ")".repeat(depth));
            checked(&text(DOUBLING_DEPTH_MAX)).unwrap();
            refused(&text(DOUBLING_DEPTH_MAX + 1));
        }
        checked(&format!("SELECT coalesce({})", vec!["k"; 300].join(", "))).unwrap();
        let withs = |depth: usize| {
            format!("{}SELECT 1{}", "WITH c AS (".repeat(depth), ") SELECT * FROM c".repeat(depth))
        };
        checked(&withs(WITH_DEPTH_MAX)).unwrap();
        assert!(refused(&withs(WITH_DEPTH_MAX + 1)).contains("nested 13 deep; the limit is 12"));
        checked(&nested("SELECT * FROM (", 20, ") q")).unwrap();
        let beside = vec!["(SELECT 1)"; 100].join(", ");
        checked(&format!("SELECT {beside}")).unwrap();
    }
}

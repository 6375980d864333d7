//! Identifies queries that compute the same aggregation, however they are written, so that one operator serves them all.
//!
//! An aggregation is defined by its events (the stream's sample, the lateral views, the filter), its keys and its
//! aggregates. Each query processes the groups in its own way afterwards: windows, HAVING, columns, ORDER BY, LIMIT, an
//! outer query. Knows nothing of which queries share an operator.

use std::hash::{DefaultHasher, Hash, Hasher};

use swiftwater_event::Type;
use swiftwater_lang::{
    Dialect,
    plan::{
        Aggregate, AggregateFunction, Body, Comparison, Expr, Function, Quantifier, Query, Window,
        WindowClock, WindowContents,
    },
};

use crate::StandingQuery;

/// The input and keys of an aggregation: equal for queries that keep the same groups of the same events. A hash of 128
/// bits, so that it weighs nothing and two are never equal by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FingerprintKey(u64, u64);

/// The meaning of an aggregation: its input and keys, and its aggregates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    key: FingerprintKey,
    /// The aggregates, with true for those whose input may cause counted errors: failed operations, or values that
    /// could not be used.
    aggregates: Box<[(FingerprintKey, bool)]>,
}

impl FingerprintKey {
    fn of(text: &str) -> FingerprintKey {
        let hash = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, text).hash(&mut hasher);
            hasher.finish()
        };
        FingerprintKey(hash(0), hash(1))
    }
}

impl Fingerprint {
    /// Its input and keys.
    pub fn key(&self) -> FingerprintKey {
        self.key
    }

    /// The places of its aggregates among those of another one. None if the other one cannot serve it: it lacks some of
    /// them, or has others that may count errors.
    pub fn places_in(&self, other: &Fingerprint) -> Option<Box<[usize]>> {
        let place =
            |(of, _): &(FingerprintKey, bool)| other.aggregates.iter().position(|(there, _)| there == of);
        let places: Box<[usize]> = self.aggregates.iter().map(place).collect::<Option<_>>()?;
        let is_silent = |place: usize| places.contains(&place) || !other.aggregates[place].1;
        let is_each_once = (1..places.len()).all(|later| !places[..later].contains(&places[later]));
        (self.key == other.key && is_each_once && (0..other.aggregates.len()).all(is_silent))
            .then_some(places)
    }
}

impl StandingQuery {
    /// The meaning, equal for queries whose aggregations can be shared. None if groups cannot be shared: for RAW
    /// queries, and for windows over ALL by the events' own time. (An event that is late for one of these windows counts
    /// in the next one, so the windows depend on the query's beginning.)
    ///
    /// For sessions and windows by record, only the values computed from each event are shared: the beginning of a
    /// session or window depends on that of the query ([`StandingQuery::is_of_single_events`]).
    ///
    /// The order in which operands of an AND are tested is not defined: if queries differ in that order only, errors are
    /// counted as they occur in one of them.
    pub fn meaning(&self) -> Option<Fingerprint> {
        let plan = &self.plan;
        let Body::Group(group) = &plan.body else { return None };
        // A match depends on the beginning of its query, so it is not shared.
        if plan.pattern.is_some() {
            return None;
        }
        let by = match &plan.window {
            Window::None | Window::Time { clock: WindowClock::Arrival, .. } => "arrival",
            Window::Time { take: WindowContents::All, .. } => return None,
            Window::Time { .. } => "event",
            Window::Records { .. } => "record",
            Window::Session { .. } => "session",
        };
        let time = (plan.window.event_time(), plan.max_ahead_ms(), plan.idle_after_ms());
        let filter = plan.filter.as_ref().map(|filter| normal(filter, plan.dialect, true));
        let Query { dialect, sample, views, .. } = plan;
        // Names of views' columns are no part of it: expressions have their places.
        let views: Vec<_> =
            views.iter().map(|view| (&view.expr, view.is_outer, view.columns.len(), &view.join)).collect();
        let (keys, sets, table) = (&group.keys, &group.sets, &group.table);
        let text =
            format!("{dialect:?} {sample:?} {views:?} {filter:?} {keys:?} {sets:?} {table:?} {by} {time:?}");
        let aggregate = |aggregate: &Aggregate| {
            (FingerprintKey::of(&format!("{aggregate:?}")), may_be_told_of(aggregate, plan.dialect))
        };
        Some(Fingerprint {
            key: FingerprintKey::of(&text),
            aggregates: group.aggregates.iter().map(aggregate).collect(),
        })
    }
}

impl StandingQuery {
    /// True if its windows are made of single events in the order of the stream.
    pub fn is_of_single_events(&self) -> bool {
        let is_ordered = matches!(self.plan.window, Window::Records { .. } | Window::Session { .. });
        is_ordered && self.plan.pattern.is_none() && matches!(self.plan.body, Body::Group(_))
    }
}

/// True if something may be counted of an aggregate's values. Bullet reports the bytes of its groups.
fn may_be_told_of(aggregate: &Aggregate, dialect: Dialect) -> bool {
    let is_quiet = matches!(aggregate.function, AggregateFunction::Count | AggregateFunction::CountDistinct);
    let is_plain = |argument: &Expr| matches!(argument, Expr::Path { ty: Type::Any, .. });
    let has_plain = aggregate.filter.is_none() && aggregate.arguments.iter().all(is_plain);
    dialect == Dialect::Bullet || !is_quiet || !has_plain
}

/// An expression in the form that all of its meaning share. `decides`: only whether it is true counts.
fn normal(expr: &Expr, dialect: Dialect, decides: bool) -> Expr {
    let Expr::Call { function, args } = expr else { return expr.clone() };
    // In Bullet an error goes up from the operand where it arises, unless another decided before: only where nothing
    // but the truth of the whole counts, and so every operand must be true, their order is none of the meaning.
    let is_free = match function {
        Function::And => decides || dialect.errors_become_null(),
        Function::Or => dialect.errors_become_null(),
        _ => false,
    };
    if is_free {
        let mut operands = Vec::new();
        flatten(function, args, &mut operands);
        let inner = decides && *function == Function::And;
        let mut operands: Vec<Expr> =
            operands.into_iter().map(|operand| normal(operand, dialect, inner)).collect();
        operands.sort_by_cached_key(|operand| format!("{operand:?}"));
        operands.dedup();
        if operands.len() == 1 && decides {
            return operands.remove(0);
        }
        return Expr::Call { function: function.clone(), args: operands };
    }
    let mut args: Vec<Expr> = args.iter().map(|arg| normal(arg, dialect, false)).collect();
    let function = match (function, &*args) {
        (Function::Compare(comparison, Quantifier::One), [Expr::Literal(_), right])
            if !matches!(right, Expr::Literal(_)) =>
        {
            args.swap(0, 1);
            Function::Compare(mirrored(*comparison), Quantifier::One)
        }
        (Function::In { .. }, [_, Expr::Call { function: Function::List, args: items }])
            if items.iter().all(|item| matches!(item, Expr::Literal(_))) =>
        {
            let mut items = items.clone();
            items.sort_by_cached_key(|item| format!("{item:?}"));
            items.dedup();
            args[1] = Expr::Call { function: Function::List, args: items };
            function.clone()
        }
        _ => function.clone(),
    };
    Expr::Call { function, args }
}

fn flatten<'e>(of: &Function, args: &'e [Expr], out: &mut Vec<&'e Expr>) {
    for arg in args {
        match arg {
            Expr::Call { function, args } if function == of => flatten(of, args, out),
            other => out.push(other),
        }
    }
}

fn mirrored(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Lt => Comparison::Gt,
        Comparison::Le => Comparison::Ge,
        Comparison::Gt => Comparison::Lt,
        Comparison::Ge => Comparison::Le,
        equal @ (Comparison::Eq | Comparison::Ne) => equal,
    }
}

#[cfg(test)]
mod tests {
    use swiftwater_lang::{ParseOptions, parse};

    use super::*;

    fn meaning(rest: &str) -> Option<Fingerprint> {
        let text = format!("SELECT {rest}");
        let plan = parse(&text, &ParseOptions::new(Dialect::Native, 0)).map(|statement| statement.query);
        plan.ok().and_then(|plan| StandingQuery::compile(plan).ok())?.meaning()
    }

    #[test]
    fn same_meaning() {
        let first =
            meaning("k, COUNT(*) AS n FROM STREAM() WHERE a > 5 AND b IN (1, 2) AND c = 'x' GROUP BY k");
        assert!(first.is_some());
        for other in [
            "k AS other, COUNT(*) FROM STREAM() WHERE c = 'x' AND (b IN (2, 1, 2) AND 5 < a) GROUP BY k",
            "k, COUNT(*) + 1 FROM STREAM() WHERE 'x' = c AND a > 5 AND b IN (1, 2) AND a > 5 GROUP BY k
             HAVING COUNT(*) > 2 ORDER BY k WINDOWING TUMBLING(5000, TIME) LIMIT 3",
        ] {
            assert_eq!(meaning(other), first, "{other}");
        }
    }

    #[test]
    fn same_aggregates_in_another_order_or_some_of_them() {
        let of = |aggregates: &str| {
            meaning(&format!("k, {aggregates} FROM STREAM() WHERE a > 5 GROUP BY k")).expect(aggregates)
        };
        let all = of("COUNT(*), SUM(a), COUNT(DISTINCT b), COUNT(c)");
        let places = |aggregates: &str| of(aggregates).places_in(&all).map(Vec::from);
        assert_eq!(places("COUNT(c), SUM(a), COUNT(*), COUNT(DISTINCT b)"), Some(vec![3, 1, 0, 2]));
        assert_eq!(places("SUM(a), COUNT(*)"), Some(vec![1, 0]));
        // Values that cannot be added are counted as errors.
        assert_eq!(places("COUNT(*)"), None);
        assert_eq!(places("SUM(a), MIN(a)"), None);
        assert_eq!(
            of("COUNT(*)").places_in(&of("COUNT(*), COUNT(DISTINCT b)")).map(Vec::from),
            Some(vec![0])
        );
        assert_eq!(of("COUNT(*)").places_in(&of("COUNT(*), COUNT(b:LONG)")), None);
        assert_eq!(of("COUNT(*)").places_in(&of("COUNT(*), COUNT(b + 1)")), None);
        let other = meaning("j, COUNT(*) FROM STREAM() WHERE a > 5 GROUP BY j").expect("a meaning");
        assert_eq!(other.places_in(&of("COUNT(*)")), None);
    }

    #[test]
    fn other_meaning() {
        let first = meaning("k, COUNT(*) AS n FROM STREAM() WHERE a > 5 OR b = 1 GROUP BY k");
        for other in [
            "k, COUNT(*) AS n FROM STREAM() WHERE a > 5 AND b = 1 GROUP BY k",
            "k, COUNT(*) AS n FROM STREAM() WHERE a >= 5 OR b = 1 GROUP BY k",
            "k, COUNT(*) AS n FROM STREAM() WHERE a > 5 OR b = 1L GROUP BY k",
            "j, COUNT(*) AS n FROM STREAM() WHERE a > 5 OR b = 1 GROUP BY j",
            "k, COUNT(a) AS n FROM STREAM() WHERE a > 5 OR b = 1 GROUP BY k",
            "k FROM STREAM() WHERE a > 5 OR b = 1",
            "k, COUNT(*) AS n FROM STREAM() WHERE a > 5 OR b = 1 GROUP BY k WINDOWING TUMBLING(2, RECORD)",
        ] {
            assert_ne!(meaning(other), first, "{other}");
        }
    }
}

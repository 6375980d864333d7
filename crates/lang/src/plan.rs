//! The logical plan of a standing query: what every form and dialect of the language is translated to.
//!
//! All names are resolved: a path is a path into the event, a [`Expr::Slot`] a place in the row of an aggregation's
//! result. Knows nothing of matching, shards or time, except as numbers.

use std::{collections::BTreeSet, sync::Arc};

use swiftwater_event::{Path, StreamName, Type};

use crate::Dialect;

/// What one text asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// Show the plan rather than run it.
    pub explain: bool,
    /// The query.
    pub query: Query,
}

/// A standing query.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The text it came from, as received.
    pub text: Arc<str>,
    /// Whose rules hold.
    pub dialect: Dialect,
    /// The stream; `None`: the server's default stream.
    pub stream: Option<StreamName>,
    /// How long it stands, in milliseconds; `None`: as long as it may.
    pub duration_ms: Option<u64>,
    /// The share of the stream's events that it looks at, in (0, 1]; `None`: all.
    pub sample: Option<f64>,
    /// Keeps an event only where this is true.
    pub filter: Option<Expr>,
    /// What becomes of the events kept.
    pub body: Body,
    /// Order of the result's rows; over the event's paths in [`Body::Raw`], over slots in [`Body::Group`].
    pub order_by: Vec<SortKey>,
    /// Rows of a result (of each window's); `None`: the dialect's default.
    pub limit: Option<u64>,
    /// When results are emitted.
    pub window: Window,
}

/// What becomes of the events that a query keeps.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// They are answered one by one.
    Raw(Raw),
    /// They are grouped and aggregated.
    Group(Group),
}

/// One output row per event.
#[derive(Debug, Clone, PartialEq)]
pub struct Raw {
    /// `*`: the event's own fields come first, as they are.
    pub star: Option<Star>,
    /// Computed columns, over the event's paths.
    pub columns: Vec<OutputColumn>,
}

/// `*` of a select list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Star {
    /// Fields of the event left out: those that a further item renames (Bullet's `*, a AS b`).
    pub without: Vec<Box<str>>,
}

/// One output row per group: GROUP BY, DISTINCT (keys without aggregates), or aggregates over all (no keys: always one
/// row).
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Slots `0..keys.len()`: over the event's paths.
    pub keys: Vec<Expr>,
    /// The slots after those: over the event's paths.
    pub aggregates: Vec<Aggregate>,
    /// Keeps a group only where this is true; over slots.
    pub having: Option<Expr>,
    /// The columns of the result; over slots.
    pub columns: Vec<OutputColumn>,
}

/// One column of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputColumn {
    /// Its name: the alias, or the expression's text in its normal form.
    pub name: Box<str>,
    /// Its value.
    pub expr: Expr,
}

/// An aggregate over the events of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    /// Which.
    pub function: AggregateFunction,
    /// Of what; `None` for COUNT(*).
    pub argument: Option<Expr>,
}

/// The aggregate functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AggregateFunction {
    /// COUNT(*), or (native) COUNT(x): the values that are not null.
    Count,
    /// SUM.
    Sum,
    /// AVG.
    Avg,
    /// MIN.
    Min,
    /// MAX.
    Max,
}

/// One key of an order.
#[derive(Debug, Clone, PartialEq)]
pub struct SortKey {
    /// What rows are ordered by.
    pub expr: Expr,
    /// Largest first. Nulls come first ascending and last descending.
    pub descending: bool,
}

/// When results are emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// As they come (RAW, native), or once at the end.
    None,
    /// Every so much: what came since the last time.
    Tumbling(Extent),
    /// Every so many milliseconds: everything since the query began.
    Additive {
        /// Milliseconds between emits.
        every_ms: u64,
    },
}

/// The size of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Milliseconds of arrival time, counted from the query's start.
    Time(u64),
    /// Matched events.
    Records(u64),
}

/// An expression over an event's paths, or over the slots of an aggregation.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A constant.
    Literal(Literal),
    /// The value at a constant path, wanted as a type (ANY where neither hint nor schema says one).
    Path {
        /// Where.
        path: Path,
        /// As what; for a path below a hinted or declared field, the type of the value at the path's end.
        ty: Type,
    },
    /// A place in the row of an aggregation: keys, then aggregates.
    Slot(usize),
    /// A function or operator.
    Call {
        /// Which.
        function: Function,
        /// Its operands, in order.
        args: Vec<Expr>,
    },
}

/// A constant.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// NULL.
    Null,
    /// TRUE, FALSE.
    Boolean(bool),
    /// `5`.
    Integer(i32),
    /// `5L`, and whole numbers that fit no INTEGER.
    Long(i64),
    /// `5.0f`.
    Float(f32),
    /// `5.0`.
    Double(f64),
    /// `'text'`.
    String(Box<str>),
}

/// How a comparison takes a list on its right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantifier {
    /// The right side is one value.
    One,
    /// True for at least one element.
    Any,
    /// True for every element.
    All,
}

/// The comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`.
    Eq,
    /// `!=`.
    Ne,
    /// `<`.
    Lt,
    /// `<=`.
    Le,
    /// `>`.
    Gt,
    /// `>=`.
    Ge,
}

/// Operators and functions; the operands that each takes are in its comment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Function {
    /// `a + b`.
    Add,
    /// `a - b`.
    Subtract,
    /// `a * b`.
    Multiply,
    /// `a / b`.
    Divide,
    /// `a % b`.
    Remainder,
    /// `a < b`, `a < ANY list`.
    Compare(Comparison, Quantifier),
    /// `s RLIKE pattern`; with `any`, `s RLIKE ANY patterns`. `negated`: NOT RLIKE.
    RLike {
        /// The right side is a list of patterns.
        any: bool,
        /// NOT.
        negated: bool,
    },
    /// `s LIKE pattern` (native).
    Like {
        /// NOT.
        negated: bool,
    },
    /// `x IN list`: two operands, the second a list or map.
    In {
        /// NOT.
        negated: bool,
    },
    /// `x BETWEEN (low, high)`: three operands.
    Between {
        /// NOT.
        negated: bool,
    },
    /// `a AND b AND …`: two or more operands.
    And,
    /// `a OR b OR …`: two or more operands.
    Or,
    /// `a XOR b`.
    Xor,
    /// `NOT a`.
    Not,
    /// `a IS NULL`.
    IsNull,
    /// `a IS NOT NULL`.
    IsNotNull,
    /// `base[index]` or `base[key]` where the step is not constant, or the base not a path.
    Element,
    /// `[a, b, …]`.
    List,
    /// `SIZEIS(x, n)`.
    SizeIs,
    /// `SIZEOF(x)`.
    SizeOf,
    /// `CONTAINSKEY(m, k)`.
    ContainsKey,
    /// `CONTAINSVALUE(c, v)`.
    ContainsValue,
    /// `FILTER(list, booleans)`.
    Filter,
    /// `IF(condition, a, b)`.
    If,
    /// `CASE WHEN c1 THEN v1 … ELSE e END` (native): c1, v1, …, e; e is NULL where not written.
    Case,
    /// `COALESCE(a, …)` (native).
    Coalesce,
    /// `a || b` (native).
    Concat,
    /// `ABS(x)`.
    Abs,
    /// `TRIM(s)`.
    Trim,
    /// `LOWER(s)`.
    Lower,
    /// `UPPER(s)`.
    Upper,
    /// `SUBSTRING(s, start[, length])`.
    Substring,
    /// `UNIXTIMESTAMP([s[, pattern]])`; without operands it is replaced by a literal when the query is parsed… except
    /// in the Bullet dialect, where it stays and means the batch's arrival time.
    UnixTimestamp,
    /// `HASH(x)`.
    Hash,
    /// `CAST(x AS type)`.
    Cast(Type),
}

impl Expr {
    /// Calls `visit` with this expression and every one within it, outermost first.
    pub fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        visit(self);
        if let Expr::Call { args, .. } = self {
            args.iter().for_each(|arg| arg.visit(visit));
        }
    }

    /// Parts of this expression: itself and all within it.
    pub fn size(&self) -> usize {
        match self {
            Expr::Call { args, .. } => 1 + args.iter().map(Expr::size).sum::<usize>(),
            _ => 1,
        }
    }

    /// Levels of this expression, 1 for a constant or a path. A planned expression has at most 512.
    pub fn depth(&self) -> usize {
        match self {
            Expr::Call { args, .. } => 1 + args.iter().map(Expr::depth).max().unwrap_or(0),
            _ => 1,
        }
    }
}

impl Query {
    /// All expressions over the event's paths, in no order.
    pub fn event_exprs(&self) -> Vec<&Expr> {
        let mut exprs: Vec<&Expr> = self.filter.iter().collect();
        match &self.body {
            Body::Raw(raw) => {
                exprs.extend(raw.columns.iter().map(|column| &column.expr));
                exprs.extend(self.order_by.iter().map(|key| &key.expr));
            }
            Body::Group(group) => {
                exprs.extend(&group.keys);
                exprs.extend(group.aggregates.iter().filter_map(|aggregate| aggregate.argument.as_ref()));
            }
        }
        exprs
    }

    /// The paths of the event that this query reads, each with the type it is wanted as; each pair once.
    pub fn paths(&self) -> Vec<(&Path, &Type)> {
        let mut paths = BTreeSet::new();
        for expr in self.event_exprs() {
            expr.visit(&mut |expr| {
                if let Expr::Path { path, ty } = expr {
                    paths.insert((path, ty));
                }
            });
        }
        paths.into_iter().collect()
    }
}

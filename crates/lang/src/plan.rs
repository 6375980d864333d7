//! The logical plan of a standing query; every form and dialect of the language is translated to it.
//!
//! All names are resolved. A path leads into the event. An [`Expr::Slot`] is a position in a row that the lateral views
//! or the aggregation computed. Knows nothing of matching, shards or time, except as numbers.

mod join;
mod pattern;

use std::{collections::BTreeSet, sync::Arc};

use swiftwater_event::{Path, StreamName, Type};

use crate::{Dialect, names::aggregate_text};
pub use join::{JoinPlan, JoinSide};
pub use pattern::{Element, Measure, MeasureFunction, Pattern, Skip, Variable};

/// The request of one text.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// Show the plan rather than the answer.
    pub explain: Option<Explain>,
    /// The query.
    pub query: Query,
}

/// The output that is wanted of a query instead of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Explain {
    /// The way it would run.
    Plan,
    /// The plan, and the cost of running it.
    Analyze,
}

/// A standing query.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The text it came from, as received.
    pub text: Arc<str>,
    /// The text as it is shown: in Bullet's dialect its normal form, with the outer query where there is one.
    pub printed: Arc<str>,
    /// The dialect of the query.
    pub dialect: Dialect,
    /// The stream; `None`: the server's default stream.
    pub stream: Option<StreamName>,
    /// The time it stands, in milliseconds; `None`: as long as it may.
    pub duration_ms: Option<u64>,
    /// The share of the stream's events that it looks at, in (0, 1]; `None`: all.
    pub sample: Option<f64>,
    /// The pattern that events make matches of: `body`, `order_by` and all after them are over the slots of a match, not
    /// over the event, and there are no lateral views.
    pub pattern: Option<Box<Pattern>>,
    /// Lateral views and joins: what each event is made into before `filter`; none: itself. Their columns, one's after
    /// another's, are the slots of all expressions over the event.
    pub views: Vec<LateralView>,
    /// The condition on an event (on a row of the views, if there are any).
    pub filter: Option<Expr>,
    /// The operation on the selected events.
    pub body: Body,
    /// Order of the result's rows; over the event in [`Body::Raw`], over the group's slots in [`Body::Group`].
    pub order_by: Vec<SortKey>,
    /// Rows of a result (of each window's); `None`: the dialect's default.
    pub limit: Option<u64>,
    /// The window, which determines when results are emitted.
    pub window: Window,
    /// A query over the records of each result of this one, run afresh for each; its own result takes that one's
    /// place. Its events are those records; it has no stream, duration, sample, window or outer query of its own.
    pub outer: Option<Box<Query>>,
}

/// `LATERAL VIEW [OUTER] EXPLODE(expr) AS x`, or `AS (k, v)`: a row per element of a list, or per entry of a map. Or a
/// join, which adds the one row of something stored that a key is of, if there is one.
#[derive(Debug, Clone, PartialEq)]
pub struct LateralView {
    /// A list or map; over the event's paths and the slots of the views before this one. For a join, it is the list of
    /// its key's values.
    pub expr: Expr,
    /// True if a value without elements, or one that is no list or map, makes one row with null in the new columns, rather
    /// than none. For a join, a key without a row does the same: LEFT JOIN.
    pub is_outer: bool,
    /// Names of the new columns: one for a list's elements, two for a map's keys and values, those of the row of a join.
    pub columns: Vec<Box<str>>,
    /// It is `[LEFT] JOIN`.
    pub join: Option<Box<Join>>,
}

/// The join partner of events.
#[derive(Debug, Clone, PartialEq)]
pub struct Join {
    /// Its name.
    pub name: Box<str>,
    /// The number that distinguishes it from earlier objects of its name.
    pub id: u64,
    /// It is a view, rather than a table.
    pub is_view: bool,
    /// Places among its columns of the key's values: of a view, in the order of its key.
    pub key: Vec<usize>,
    /// The types of its columns.
    pub types: Vec<Type>,
}

/// The operation on the events that a query selects.
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
    /// Slots `0..keys.len()`: over the event.
    pub keys: Vec<Expr>,
    /// The slots after those: over the event.
    pub aggregates: Vec<Aggregate>,
    /// An aggregate that gives each group several rows; its columns, or a list of the rows, are the slots after those. The last two slots are
    /// the window's first instant and the first after it (LONG, milliseconds; null where there is no window by time).
    pub table: Option<TableAggregate>,
    /// GROUPING SETS, ROLLUP and CUBE (native): an event is in a group of each, by the keys at these places; the other
    /// keys of its row are null. None: in one group, by all keys.
    pub sets: Vec<Box<[usize]>>,
    /// GROUPING (native): the slots before the last two. Each is a LONG with a bit for each of these keys, the first
    /// one's most significant: 1 where the key is not in the row's set.
    pub groupings: Vec<Box<[usize]>>,
    /// The condition on a group, over slots.
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
    /// The function.
    pub function: AggregateFunction,
    /// Its arguments: none for COUNT(*), FIRST(*) and LAST(*), one or more for COUNT(DISTINCT …), two for ARG_MIN and
    /// ARG_MAX, one for the others.
    pub arguments: Vec<Expr>,
    /// `FILTER (WHERE …)` (native): only events for which this is true are taken in.
    pub filter: Option<Expr>,
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
    /// COUNT(DISTINCT x, …): a LONG; exact while there are few, then a theta sketch's estimate. A null is a value like
    /// any other in Bullet; in the native dialect, rows in which an argument is null are passed over.
    CountDistinct,
    /// APPROX_PERCENTILE_CONT(x, p) (native): a DOUBLE, by a quantile sketch: of n values in order the one at place
    /// ⌊p · n⌋, counted from 0, or the last one. No value in between is made up.
    Percentile {
        /// p, in millionths.
        millionths: u32,
    },
    /// FIRST(x) (native): the first value that is not null, in the order of the stream.
    First,
    /// LAST(x) (native): the last value that is not null, in the order of the stream.
    Last,
    /// FIRST(*) (native): the first event, as a MAP.
    FirstEvent,
    /// LAST(*) (native): the last event, as a MAP.
    LastEvent,
    /// ARG_MIN(x, by) (native): x where `by` is least, in the order of ORDER BY; of equal ones the first in the order of
    /// the stream. Rows in which either is null are passed over.
    ArgMin,
    /// ARG_MAX(x, by) (native): as ARG_MIN, where `by` is greatest.
    ArgMax,
    /// COLLECT_LIST(x, n) (native): a LIST of the first values that are not null, in the order of the stream.
    CollectList {
        /// The most values.
        values_max: u32,
    },
    /// COLLECT_SET(x, n) (native): a LIST of the first different values that are not null, each where it came first.
    CollectSet {
        /// The most values.
        values_max: u32,
    },
}

impl AggregateFunction {
    /// Its name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            AggregateFunction::CountDistinct => "COUNT(DISTINCT …)",
            other => aggregate_text(other),
        }
    }

    /// True if its value is an event.
    pub fn is_event(self) -> bool {
        matches!(self, AggregateFunction::FirstEvent | AggregateFunction::LastEvent)
    }

    /// True if its value depends on the order of the events.
    pub fn is_ordered(self) -> bool {
        match self {
            AggregateFunction::First
            | AggregateFunction::Last
            | AggregateFunction::FirstEvent
            | AggregateFunction::LastEvent
            | AggregateFunction::ArgMin
            | AggregateFunction::ArgMax
            | AggregateFunction::CollectList { .. }
            | AggregateFunction::CollectSet { .. } => true,
            AggregateFunction::Count
            | AggregateFunction::Sum
            | AggregateFunction::Avg
            | AggregateFunction::Min
            | AggregateFunction::Max
            | AggregateFunction::CountDistinct
            | AggregateFunction::Percentile { .. } => false,
        }
    }
}

/// An aggregate whose result is rows.
#[derive(Debug, Clone, PartialEq)]
pub struct TableAggregate {
    /// The function.
    pub function: TableFunction,
    /// Its arguments: one for a distribution, one or more for TOP.
    pub arguments: Vec<Expr>,
    /// The keys of the map that stands for each row, if its rows are a list, which fills one slot. Empty: a slot holds
    /// each column.
    pub listed: Vec<Box<str>>,
}

impl TableAggregate {
    /// The number of slots it fills.
    pub fn slots(&self) -> usize {
        if self.listed.is_empty() { self.function.columns(self.arguments.len()) } else { 1 }
    }
}

/// The aggregates whose result is rows, and the columns of these.
#[derive(Debug, Clone, PartialEq)]
pub enum TableFunction {
    /// QUANTILE: a row per point; `Quantile` (the point, in [0, 1]) and `Value`, both DOUBLE.
    Quantile(DistributionPoints),
    /// FREQ: a row per range between points and beside them; `Range` (STRING), `Probability` and `Count` (DOUBLE).
    Frequency(DistributionPoints),
    /// CUMFREQ: as FREQ, each range from -∞ on.
    CumulativeFrequency(DistributionPoints),
    /// TOP: a row per frequent combination of the arguments, most frequent first; the arguments' values (text in
    /// Bullet), and `Count` (LONG).
    Top {
        /// The most rows; 0: the default size.
        count: u64,
        /// The least count of a combination in the result.
        threshold: Option<u64>,
    },
}

impl TableFunction {
    /// The number of columns its rows have.
    pub fn columns(&self, arguments: usize) -> usize {
        match self {
            TableFunction::Quantile(_) => 2,
            TableFunction::Frequency(_) | TableFunction::CumulativeFrequency(_) => 3,
            TableFunction::Top { .. } => arguments + 1,
        }
    }
}

/// The points of a distribution.
#[derive(Debug, Clone, PartialEq)]
pub enum DistributionPoints {
    /// So many points, evenly over [0, 1] for QUANTILE, over the data's own range otherwise.
    Linear(u64),
    /// The points of a range: from, to, and the step between them.
    Region {
        /// The first point.
        start: f64,
        /// No point is above it.
        end: f64,
        /// The distance of two points; above 0.
        increment: f64,
    },
    /// These; ascending, each once.
    Manual(Vec<f64>),
}

/// One key of an order.
#[derive(Debug, Clone, PartialEq)]
pub struct SortKey {
    /// The sort key of rows.
    pub expr: Expr,
    /// Largest first. Nulls come first ascending and last descending.
    pub descending: bool,
    /// True if a CAST makes the sort key, in Bullet's dialect: its null has a type, and cannot be compared.
    pub is_cast: bool,
}

/// The times at which results are emitted, and their content.
#[derive(Debug, Clone, PartialEq)]
pub enum Window {
    /// Records are emitted as they come (RAW, native), or once at the end.
    None,
    /// Every so many milliseconds.
    Time {
        /// Milliseconds from one window's start to the next one's: from the query's start on by arrival, from 1970 on by
        /// event time.
        every_ms: u64,
        /// The content of each, in milliseconds.
        take: WindowContents,
        /// The clock of the windows.
        clock: WindowClock,
    },
    /// Every so many matched events.
    Records {
        /// Matched events from one emit to the next.
        every: u64,
        /// The content of each emit, in matched events.
        take: WindowContents,
    },
    /// Whenever no matched event (of a group, where there are groups) came for so long.
    Session {
        /// Milliseconds without an event that end a session.
        gap_ms: u64,
        /// The clock of the sessions.
        clock: WindowClock,
    },
}

impl Window {
    fn event_time_mut(&mut self) -> Option<&mut Expr> {
        match self {
            Window::Time { clock: WindowClock::Event { time, .. }, .. }
            | Window::Session { clock: WindowClock::Event { time, .. }, .. } => Some(time),
            _ => None,
        }
    }
}

/// The events that a window contains which is emitted every n.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowContents {
    /// The first so much of each n, at most n: `First(n)` is a tumbling window.
    First(u64),
    /// The last so much before its end: hopping or sliding; never `Last(n)`, which is `First(n)`.
    Last(u64),
    /// All events since the query began.
    All,
}

/// The time that windows go by.
#[derive(Debug, Clone, PartialEq)]
pub enum WindowClock {
    /// The arrival of events.
    Arrival,
    /// The event time. The watermark is the latest such time of all events of the stream so far, less the lateness; a
    /// window closes when the watermark reaches its end.
    Event {
        /// A TIMESTAMP, or a number of milliseconds since 1970; an event without one, or with one further from 1970
        /// than 8.64e15 ms, belongs to no window and is counted as mistyped.
        time: Expr,
        /// Lateness: maximum distance of an event behind the latest one.
        lateness_ms: u64,
        /// Maximum distance of its time ahead of its arrival. An event that is further ahead does not move the watermark,
        /// belongs to no window and is counted as ahead. None: any number.
        max_ahead_ms: Option<u64>,
        /// The time without an event of the stream after which event time advances with the clock; none: never.
        idle_after_ms: Option<u64>,
    },
}

impl Window {
    /// Windows of `every_ms` by arrival, one after another.
    pub fn tumbling_ms(every_ms: u64) -> Window {
        Window::Time { every_ms, take: WindowContents::First(every_ms), clock: WindowClock::Arrival }
    }

    /// Windows of `every` matched events, one after another.
    pub fn tumbling_records(every: u64) -> Window {
        Window::Records { every, take: WindowContents::First(every) }
    }

    /// The clock of the windows; none without windows and for those by record.
    pub fn clock(&self) -> Option<&WindowClock> {
        match self {
            Window::Time { clock, .. } | Window::Session { clock, .. } => Some(clock),
            Window::None | Window::Records { .. } => None,
        }
    }

    /// Its event time, where it goes by such.
    pub fn event_time(&self) -> Option<&Expr> {
        match self {
            Window::Time { clock: WindowClock::Event { time, .. }, .. }
            | Window::Session { clock: WindowClock::Event { time, .. }, .. } => Some(time),
            _ => None,
        }
    }
}

/// An expression over an event (its paths, and the slots of its lateral views), or over the slots of an aggregation.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A constant.
    Literal(Literal),
    /// The value at a constant path, wanted as a type (ANY where neither hint nor schema says one).
    Path {
        /// The path.
        path: Path,
        /// The wanted type; for a path below a hinted or declared field, the type of the value at the path's end.
        ty: Type,
    },
    /// A slot. Over an event: a column of its lateral views. Over groups: keys, then aggregates, then the
    /// columns of an aggregate that gives rows, then the window's start and end.
    Slot(usize),
    /// A function or operator.
    Call {
        /// The function.
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

/// The way a comparison takes a list on its right.
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
    /// `a < 'text'`, the text cast to what `a` is (JSON form); never null. False where it cannot be cast, and true for
    /// `!=` then; a missing `a` is equal to the text `null`.
    MatchesText(Comparison),
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
    /// `SEARCH(query)`, `SEARCH(x, query)` (native): two operands, what is searched (the event itself, as the path without
    /// steps, or a value) and the query, a constant text that was checked. Never null.
    Search,
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
    /// Arrival of the event's batch, in milliseconds since 1970: the meaning of `DEFAULT NOW` in a column. No text says
    /// it.
    Arrival,
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
    /// Maximum distance of events' times ahead of their arrival; none: no limit, or it goes by arrival.
    pub fn max_ahead_ms(&self) -> Option<u64> {
        match self.pattern.as_ref().map(|pattern| &pattern.clock).or_else(|| self.window.clock()) {
            Some(WindowClock::Event { max_ahead_ms, .. }) => *max_ahead_ms,
            _ => None,
        }
    }

    /// The time without an event of the stream after which event time advances with the clock; none: never.
    pub fn idle_after_ms(&self) -> Option<u64> {
        match self.pattern.as_ref().map(|pattern| &pattern.clock).or_else(|| self.window.clock()) {
            Some(WindowClock::Event { idle_after_ms, .. }) => *idle_after_ms,
            _ => None,
        }
    }

    /// The time of the events that it goes by, where that is not their arrival.
    pub fn event_time(&self) -> Option<&Expr> {
        let of_pattern = self.pattern.as_ref().and_then(|pattern| pattern.event_time());
        of_pattern.or_else(|| self.window.event_time())
    }

    /// All expressions over the event, in no order. Those of an outer query are not: its events are others.
    pub fn event_exprs(&self) -> Vec<&Expr> {
        let mut exprs: Vec<&Expr> = self.filter.iter().collect();
        if let Some(pattern) = &self.pattern {
            exprs.extend(pattern.event_exprs());
            return exprs;
        }
        exprs.extend(self.views.iter().map(|view| &view.expr));
        exprs.extend(self.window.event_time());
        match &self.body {
            Body::Raw(raw) => {
                exprs.extend(raw.columns.iter().map(|column| &column.expr));
                exprs.extend(self.order_by.iter().map(|key| &key.expr));
            }
            Body::Group(group) => {
                exprs.extend(&group.keys);
                for aggregate in &group.aggregates {
                    exprs.extend(&aggregate.arguments);
                    exprs.extend(&aggregate.filter);
                }
                exprs.extend(group.table.iter().flat_map(|table| &table.arguments));
            }
        }
        exprs
    }

    /// All expressions of the body over what it is of, and those of ORDER BY, in no order.
    pub(crate) fn body_exprs_mut(&mut self) -> Vec<&mut Expr> {
        let mut exprs: Vec<&mut Expr> = self.order_by.iter_mut().map(|key| &mut key.expr).collect();
        match &mut self.body {
            Body::Raw(raw) => exprs.extend(raw.columns.iter_mut().map(|column| &mut column.expr)),
            Body::Group(group) => {
                exprs.extend(&mut group.keys);
                for aggregate in &mut group.aggregates {
                    exprs.extend(aggregate.arguments.iter_mut().chain(&mut aggregate.filter));
                }
                exprs.extend(group.table.iter_mut().flat_map(|table| &mut table.arguments));
            }
        }
        exprs
    }

    /// Visits the expressions as [`event_exprs`](Query::event_exprs) does, to change them; none within a pattern.
    pub fn event_exprs_mut(&mut self) -> Vec<&mut Expr> {
        let mut exprs: Vec<&mut Expr> = self.filter.iter_mut().collect();
        if self.pattern.is_some() {
            return exprs;
        }
        exprs.extend(self.views.iter_mut().map(|view| &mut view.expr));
        exprs.extend(self.window.event_time_mut());
        match &mut self.body {
            Body::Raw(raw) => {
                exprs.extend(raw.columns.iter_mut().map(|column| &mut column.expr));
                exprs.extend(self.order_by.iter_mut().map(|key| &mut key.expr));
            }
            Body::Group(group) => {
                exprs.extend(&mut group.keys);
                for aggregate in &mut group.aggregates {
                    exprs.extend(&mut aggregate.arguments);
                    exprs.extend(&mut aggregate.filter);
                }
                exprs.extend(group.table.iter_mut().flat_map(|table| &mut table.arguments));
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

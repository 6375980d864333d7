//! Compiles a standing query: its expressions, and its access predicate.

mod pattern;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

use swiftwater_event::Want;
use swiftwater_lang::{
    Dialect,
    plan::{
        Aggregate, AggregateFunction, Body, DistributionPoints, Expr, Function, Group, LateralView, Literal,
        Query, SortKey, Star, TableFunction, Window, WindowContents,
    },
};
use swiftwater_sketch::SketchSizes;

use crate::{
    expr::{CompileError, KeyOrder, Program, Wants},
    joined::CompiledJoin,
    matching::filter::Filter,
    operate::InputForm,
};
pub(crate) use pattern::CompiledPattern;

/// A compiled query: immutable, shared by all shards. It can be used as its [`SharedPlan`].
#[derive(Debug)]
pub struct StandingQuery {
    pub(crate) common: Arc<SharedPlan>,
    /// The conditions of its filter by which the matcher finds it, and which it checks itself.
    pub filter: Filter,
    /// The rest of the filter to test if they hold; `None`: nothing.
    pub residual: Option<Box<Residual>>,
}

/// The parts of a compiled query that do not depend on the search for its events. Queries that are equal in it
/// share it: [`PlanInterner`](crate::Commons).
#[derive(Debug)]
pub struct SharedPlan {
    /// The plan that it was compiled from; where it is shared, without its texts and what the matcher knows of it.
    pub plan: Query,
    /// Paths that the body reads.
    pub body_wants: Wants,
    /// The rows that each matched event is made into, if there are lateral views, and the part of the filter that reads
    /// their columns.
    pub views: Option<Box<CompiledViews>>,
    /// The pattern for which matched events are searched: then the body is over its matches.
    pub pattern: Option<Box<CompiledPattern>>,
    /// The operation on matched events.
    pub body: CompiledBody,
    /// The time that windows go by, where it is not that of arrival; over the event.
    pub event_time: Option<Box<EventTime>>,
    /// The query over the records of each result.
    pub outer: Option<Arc<StandingQuery>>,
    /// It is such a query itself: a null in its events is one that the inner query shows.
    pub is_outer: bool,
    columns: Option<Arc<[Box<str>]>>,
}

impl Deref for StandingQuery {
    type Target = SharedPlan;

    fn deref(&self) -> &SharedPlan {
        &self.common
    }
}

/// An event's own time: TIMESTAMP, RFC 3339 text, or a number of milliseconds since 1970.
#[derive(Debug)]
pub struct EventTime {
    /// Its identity: equal ones are read once for all queries that have them.
    pub text: String,
    /// It, compiled.
    pub program: Program,
    /// Maximum distance of the time ahead of its arrival; none: no limit.
    pub max_ahead_ms: Option<u64>,
    /// The idle time after which it advances with the clock; none: never.
    pub idle_after_ms: Option<u64>,
    /// Paths that it reads, of every event.
    pub wants: Wants,
}

/// A compiled [`LateralView`].
#[derive(Debug)]
pub struct CompiledView {
    /// Its container, or a join's key, over the event and the slots of the views before it.
    pub container: Program,
    /// True if an event without rows gets one row of nulls.
    pub is_outer: bool,
    /// The number of columns it has.
    pub columns: usize,
    /// It is a join.
    pub join: Option<CompiledJoin>,
}

/// Compiled [`LateralView`]s.
#[derive(Debug)]
pub struct CompiledViews {
    /// They.
    pub views: Vec<CompiledView>,
    /// The condition on a row, over the event and the views' slots.
    pub filter: Option<Program>,
}

/// The part of a filter that its conditions do not say.
#[derive(Debug)]
pub struct Residual {
    /// It, compiled.
    pub program: Program,
    /// Paths that it reads.
    pub wants: Wants,
}

/// A compiled [`Body`].
#[derive(Debug)]
pub enum CompiledBody {
    /// One record per event.
    Raw {
        /// The event's own fields.
        star: Option<Star>,
        /// Computed columns.
        columns: Vec<CompiledColumn>,
        /// The sort keys of records, and their order.
        order: Vec<(Program, KeyOrder)>,
    },
    /// One record per group.
    Group(Box<CompiledGroup>),
}

/// A compiled aggregation.
#[derive(Debug)]
pub struct CompiledGroup {
    /// The keys over paths.
    pub keys: Vec<Program>,
    /// The aggregates that give a value.
    pub aggregates: Vec<CompiledAggregate>,
    /// The aggregate that gives rows.
    pub table: Option<CompiledTable>,
    /// The keys of each grouping set; none: all keys are one.
    pub sets: Arc<[Box<[usize]>]>,
    /// The keys that each GROUPING asks of.
    pub groupings: Vec<Box<[usize]>>,
    /// The condition of HAVING, over slots.
    pub having: Option<Program>,
    /// The columns over slots.
    pub columns: Vec<CompiledColumn>,
    /// The sort keys over slots.
    pub order: Vec<(Program, KeyOrder)>,
    /// Sizes of its sketches.
    pub sizes: SketchSizes,
    /// The shape, shared with other aggregations that take in the same values.
    pub shape: Shape,
    /// The condition over the event: if it is true, the earlier content of its group is deleted, the event with it. For
    /// views only.
    pub deletes: Option<Program>,
}

/// The keys and arguments of an aggregation, and in which form they are taken in: those of equal text take in the same
/// of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The text's hash.
    pub hash: u64,
    /// They, as text.
    pub text: Box<str>,
}

impl Shape {
    fn of(group: &Group, dialect: Dialect) -> Shape {
        let aggregates = group.aggregates.iter();
        let arguments: Vec<_> = aggregates
            .map(|aggregate| {
                (InputForm::of(aggregate.function, dialect), &aggregate.arguments, &aggregate.filter)
            })
            .collect();
        let table =
            group.table.as_ref().map(|table| (InputForm::of_table(&table.function), &table.arguments));
        let text = format!("{:?} {arguments:?} {table:?}", group.keys);
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Shape { hash: hasher.finish(), text: text.into() }
    }
}

/// A compiled aggregate.
#[derive(Debug)]
pub struct CompiledAggregate {
    /// The function.
    pub function: AggregateFunction,
    /// The arguments over the event; none for COUNT(*). They are null where the aggregate's FILTER is not true.
    pub arguments: Vec<Program>,
    /// The text that the plan prints.
    pub text: Box<str>,
}

/// A compiled aggregate that gives rows.
#[derive(Debug)]
pub struct CompiledTable {
    /// The function.
    pub function: TableFunction,
    /// The arguments over the event.
    pub arguments: Vec<Program>,
    /// Points of a distribution at most.
    pub points_max: usize,
    /// The columns of its rows if they are a list: [`TableAggregate::listed`].
    pub listed: Vec<Box<str>>,
    /// The text that the plan prints.
    pub text: Box<str>,
}

/// A compiled output column.
#[derive(Debug)]
pub struct CompiledColumn {
    /// Its name.
    pub name: Box<str>,
    /// Its name as JSON, with the colon after it.
    pub json_name: Box<str>,
    /// Its value.
    pub program: Program,
}

/// An event may be in so many windows at once.
pub const WINDOWS_OVERLAP_MAX: u64 = 10_000;

impl CompiledGroup {
    /// True if there is a group without keys, which has a row even where nothing came.
    pub(crate) fn has_total(&self) -> bool {
        if self.sets.is_empty() { self.keys.is_empty() } else { self.sets.iter().any(|set| set.is_empty()) }
    }

    /// True if it is `COUNT(*)` of all rows, and nothing else.
    pub(crate) fn counts_rows(&self) -> bool {
        let is_count =
            |one: &CompiledAggregate| one.function == AggregateFunction::Count && one.arguments.is_empty();
        self.keys.is_empty()
            && self.sets.is_empty()
            && self.table.is_none()
            && self.deletes.is_none()
            && matches!(&self.aggregates[..], [one] if is_count(one))
    }
}

impl CompiledGroup {
    /// True if what it answers depends on the order of the events.
    pub(crate) fn is_ordered(&self) -> bool {
        self.aggregates.iter().any(|aggregate| aggregate.function.is_ordered())
    }
}

impl StandingQuery {
    /// Compiles a plan. Fails on what only shows when a constant is looked at closely, such as a bad pattern.
    pub fn compile(plan: Query) -> Result<StandingQuery, CompileError> {
        StandingQuery::compile_sized(plan, SketchSizes::default())
    }

    /// Compiles as [`compile`](StandingQuery::compile) does, with sketches of these sizes.
    pub fn compile_sized(plan: Query, sizes: SketchSizes) -> Result<StandingQuery, CompileError> {
        StandingQuery::compile_one(plan, sizes, false, None)
    }

    /// Compiles as [`compile_sized`](StandingQuery::compile_sized) does, for a view whose groups are deleted by the
    /// events for which a condition is true.
    pub fn compile_view(
        plan: Query,
        sizes: SketchSizes,
        delete_when: Option<&Expr>,
    ) -> Result<StandingQuery, CompileError> {
        StandingQuery::compile_one(plan, sizes, false, delete_when)
    }

    fn compile_one(
        plan: Query,
        sizes: SketchSizes,
        is_outer: bool,
        delete_when: Option<&Expr>,
    ) -> Result<StandingQuery, CompileError> {
        let dialect = plan.dialect;
        if let Window::Time { every_ms: every, take: WindowContents::Last(size), .. }
        | Window::Records { every, take: WindowContents::Last(size) } = plan.window
            && size.div_ceil(every.max(1)) > WINDOWS_OVERLAP_MAX
        {
            return Err(CompileError::Overlap {
                windows: size.div_ceil(every.max(1)),
                max: WINDOWS_OVERLAP_MAX,
            });
        }
        let (event_filter, row_filter) = split_filter(&plan);
        let (filter, residual) = match &event_filter {
            None => (Filter::default(), None),
            Some(event_filter) => {
                let (filter, operands) = Filter::of(event_filter, dialect);
                let left = operands.iter().filter(|operand| !operand.is_proven);
                (filter, joined(left.map(|operand| operand.expr.clone()).collect()))
            }
        };
        let residual = match residual {
            None => None,
            Some(expr) => {
                let mut wants = Wants::new();
                let program = Program::compile(&expr, dialect, &mut wants)?;
                Some(Box::new(Residual { program, wants }))
            }
        };
        let mut body_wants = Wants::new();
        let programs = |exprs: &[Expr], wants: &mut Wants| -> Result<Vec<Program>, CompileError> {
            exprs.iter().map(|expr| Program::compile(expr, dialect, wants)).collect()
        };
        let program = |expr: Option<&Expr>, wants: &mut Wants| -> Result<Option<Program>, CompileError> {
            expr.map(|expr| Program::compile(expr, dialect, wants)).transpose()
        };
        let views = match &*plan.views {
            [] => None,
            views => Some(Box::new(CompiledViews {
                views: compiled_views(views, &plan, &mut body_wants)?,
                filter: program(row_filter.as_ref(), &mut body_wants)?,
            })),
        };
        let pattern = match &plan.pattern {
            None => None,
            Some(pattern) => Some(Box::new(CompiledPattern::compile(pattern, dialect, &mut body_wants)?)),
        };
        let event_time = match plan.event_time() {
            None => None,
            Some(time) => {
                let mut wants = Wants::new();
                let program = Program::compile(time, dialect, &mut wants)?;
                let max_ahead_ms = plan.max_ahead_ms();
                let text = format!("{dialect:?} {time:?} {max_ahead_ms:?}");
                let idle_after_ms = plan.idle_after_ms();
                Some(Box::new(EventTime { text, program, max_ahead_ms, idle_after_ms, wants }))
            }
        };
        let body = match &plan.body {
            Body::Raw(raw) => CompiledBody::Raw {
                star: raw.star.clone(),
                columns: columns(&raw.columns, dialect, &mut body_wants)?,
                order: order(&plan.order_by, dialect, &mut body_wants)?,
            },
            Body::Group(group) => {
                let mut slots = Wants::new();
                CompiledBody::Group(Box::new(CompiledGroup {
                    keys: programs(&group.keys, &mut body_wants)?,
                    aggregates: group
                        .aggregates
                        .iter()
                        .map(|aggregate| {
                            Ok(CompiledAggregate {
                                function: aggregate.function,
                                arguments: programs(&filtered(aggregate), &mut body_wants)?,
                                text: aggregate.to_string().into(),
                            })
                        })
                        .collect::<Result<_, _>>()?,
                    table: match &group.table {
                        None => None,
                        Some(table) => Some(CompiledTable {
                            function: table.function.clone(),
                            arguments: programs(&table.arguments, &mut body_wants)?,
                            points_max: points_max(&plan)?,
                            listed: table.listed.clone(),
                            text: table.to_string().into(),
                        }),
                    },
                    having: program(group.having.as_ref(), &mut slots)?,
                    columns: columns(&group.columns, dialect, &mut slots)?,
                    order: order(&plan.order_by, dialect, &mut slots)?,
                    sizes,
                    shape: Shape::of(group, dialect),
                    sets: group.sets.iter().cloned().collect(),
                    groupings: group.groupings.clone(),
                    deletes: program(delete_when, &mut body_wants)?,
                }))
            }
        };
        let outer = match plan.outer.clone() {
            None => None,
            Some(outer) => Some(Arc::new(StandingQuery::compile_one(*outer, sizes, true, None)?)),
        };
        let columns = match &outer {
            Some(outer) => outer.columns.clone(),
            None => body.column_names(),
        };
        let common =
            SharedPlan { plan, body_wants, views, pattern, body, event_time, outer, is_outer, columns };
        Ok(StandingQuery { common: Arc::new(common), filter, residual })
    }

    /// The tables and views that its events are joined with.
    pub fn joins(&self) -> impl Iterator<Item = &CompiledJoin> {
        self.views.iter().flat_map(|views| &views.views).filter_map(|view| view.join.as_ref())
    }

    /// True if events delete what their groups were.
    pub(crate) fn deletes(&self) -> bool {
        matches!(&self.body, CompiledBody::Group(group) if group.deletes.is_some())
    }

    /// The dialect of the query.
    pub fn dialect(&self) -> Dialect {
        self.plan.dialect
    }

    /// All paths that finding matches reads.
    pub fn filter_wants(&self) -> impl Iterator<Item = &Want> {
        let conditions = self.filter.conditions.iter().map(|condition| &condition.want);
        conditions.chain(self.residual.iter().flat_map(|residual| residual.wants.as_slice()))
    }

    /// Names of the output columns; `None` where events give their own (`*`).
    pub fn column_names(&self) -> Option<Arc<[Box<str>]>> {
        self.columns.clone()
    }
}

impl CompiledBody {
    fn column_names(&self) -> Option<Arc<[Box<str>]>> {
        let columns = match self {
            CompiledBody::Raw { star: Some(_), .. } => return None,
            CompiledBody::Raw { columns, .. } => columns,
            CompiledBody::Group(group) => &group.columns,
        };
        Some(columns.iter().map(|column| column.name.clone()).collect())
    }
}

fn compiled_views(
    views: &[LateralView],
    plan: &Query,
    wants: &mut Wants,
) -> Result<Vec<CompiledView>, CompileError> {
    // Only those columns of a join that are read are fetched.
    let mut read: Vec<bool> = vec![false; views.iter().map(|view| view.columns.len()).sum()];
    for expr in plan.event_exprs() {
        expr.visit(&mut |expr| {
            if let Expr::Slot(slot) = expr
                && let Some(read) = read.get_mut(*slot)
            {
                *read = true;
            }
        });
    }
    let mut slot = 0;
    let compiled = views.iter().map(|view| {
        let columns = view.columns.len();
        let read_of = &read[slot..slot + columns];
        slot += columns;
        Ok(CompiledView {
            container: Program::compile(&view.expr, plan.dialect, wants)?,
            is_outer: view.is_outer,
            columns,
            join: view.join.as_ref().map(|join| CompiledJoin::new(join, read_of.into())),
        })
    });
    compiled.collect()
}

/// Splits a filter into what can be tested on events, and what reads columns of the lateral views: the parts of an AND
/// keep a row only if all of them do, whenever each is tested.
pub(crate) fn split_filter(plan: &Query) -> (Option<Expr>, Option<Expr>) {
    let Some(filter) = &plan.filter else { return (None, None) };
    if plan.views.is_empty() {
        return (Some(filter.clone()), None);
    }
    let parts = match filter {
        Expr::Call { function: Function::And, args } => args.clone(),
        other => vec![other.clone()],
    };
    let reads_views = |part: &Expr| {
        let mut found = false;
        part.visit(&mut |expr| found |= matches!(expr, Expr::Slot(_)));
        found
    };
    let (rows, events): (Vec<_>, Vec<_>) = parts.into_iter().partition(reads_views);
    (joined(events), joined(rows))
}

/// The part of a query's filter that is over its events alone: without columns of lateral views and joins.
pub fn event_filter(plan: &Query) -> Option<Expr> {
    split_filter(plan).0
}

/// Expressions joined by AND.
pub(crate) fn joined(mut parts: Vec<Expr>) -> Option<Expr> {
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(Expr::Call { function: Function::And, args: parts }),
    }
}

/// An aggregate's arguments with its FILTER in them: null where it is not true, which every aggregate passes over. So
/// the arguments are not computed of rows that it leaves out, and no error is counted of those.
fn filtered(aggregate: &Aggregate) -> Vec<Expr> {
    let Some(filter) = &aggregate.filter else { return aggregate.arguments.clone() };
    let all = [Expr::Literal(Literal::Boolean(true))];
    let arguments = if aggregate.arguments.is_empty() { &all[..] } else { &aggregate.arguments };
    let only_where = |argument: &Expr| Expr::Call {
        function: Function::If,
        args: vec![filter.clone(), argument.clone(), Expr::Literal(Literal::Null)],
    };
    arguments.iter().map(only_where).collect()
}

/// Points that a distribution may have in Bullet.
const BULLET_POINTS_MAX: u64 = 100;

/// Points that a distribution may have in the native dialect.
const POINTS_MAX: u64 = 10_000;

/// The number of points a distribution has at most: Bullet cuts off what is more, natively it is an error of the query.
fn points_max(plan: &Query) -> Result<usize, CompileError> {
    if plan.dialect == Dialect::Bullet {
        let most = plan.limit.map_or(BULLET_POINTS_MAX, |limit| limit.min(BULLET_POINTS_MAX));
        return Ok(most as usize);
    }
    let Body::Group(Group { table: Some(table), .. }) = &plan.body else { return Ok(POINTS_MAX as usize) };
    let points = match &table.function {
        TableFunction::Quantile(points)
        | TableFunction::Frequency(points)
        | TableFunction::CumulativeFrequency(points) => points,
        TableFunction::Top { .. } => return Ok(POINTS_MAX as usize),
    };
    let count = match points {
        DistributionPoints::Linear(count) => *count,
        // A cast saturates.
        DistributionPoints::Region { start, end, increment } => {
            (((end - start) / increment) as u64).saturating_add(1)
        }
        DistributionPoints::Manual(points) => points.len() as u64,
    };
    if count > POINTS_MAX {
        return Err(CompileError::Points { count, most: POINTS_MAX });
    }
    Ok(POINTS_MAX as usize)
}

fn columns(
    columns: &[swiftwater_lang::plan::OutputColumn],
    dialect: Dialect,
    wants: &mut Wants,
) -> Result<Vec<CompiledColumn>, CompileError> {
    columns
        .iter()
        .map(|column| {
            let mut json_name = Vec::new();
            swiftwater_event::write_json(&swiftwater_event::Value::String(&column.name), &mut json_name);
            json_name.push(b':');
            Ok(CompiledColumn {
                name: column.name.clone(),
                json_name: String::from_utf8_lossy(&json_name).into(),
                program: Program::compile(&column.expr, dialect, wants)?,
            })
        })
        .collect()
}

fn order(
    keys: &[SortKey],
    dialect: Dialect,
    wants: &mut Wants,
) -> Result<Vec<(Program, KeyOrder)>, CompileError> {
    let order = |key: &SortKey| KeyOrder { descending: key.descending, is_cast: key.is_cast };
    keys.iter().map(|key| Ok((Program::compile(&key.expr, dialect, wants)?, order(key)))).collect()
}

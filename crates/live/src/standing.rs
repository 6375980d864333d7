//! A standing query made ready to run: its expressions compiled, its access predicate chosen.

use swiftwater_event::Want;
use swiftwater_lang::{
    Dialect,
    plan::{AggregateFunction, Body, Extent, Query, SortKey, Star, Window},
};

use crate::{
    expr::{CompileError, Program, Wants},
    matching::access::{Access, choose},
};

/// A compiled query: immutable, shared by all shards.
#[derive(Debug)]
pub struct StandingQuery {
    /// The plan that it was compiled from.
    pub plan: Query,
    /// By what the matcher finds it; `None`: every event is a candidate.
    pub access: Option<Access>,
    /// What is to be tested on candidates; `None`: nothing.
    pub residual: Option<Residual>,
    /// Paths that the body reads.
    pub body_wants: Wants,
    /// What becomes of matched events.
    pub body: CompiledBody,
}

/// The part of a filter that the access predicate does not prove.
#[derive(Debug)]
pub struct Residual {
    /// Its identity: filters of equal identity are evaluated once for all queries that have them.
    pub text: String,
    /// It, for people.
    pub display: String,
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
        /// What records are ordered by, and whether descending.
        order: Vec<(Program, bool)>,
    },
    /// One record per group.
    Group(CompiledGroup),
}

/// A compiled aggregation.
#[derive(Debug)]
pub struct CompiledGroup {
    /// Over paths.
    pub keys: Vec<Program>,
    /// Over paths; `None` for COUNT(*).
    pub arguments: Vec<Option<Program>>,
    /// One per argument.
    pub functions: Vec<AggregateFunction>,
    /// Over slots.
    pub having: Option<Program>,
    /// Over slots.
    pub columns: Vec<CompiledColumn>,
    /// Over slots.
    pub order: Vec<(Program, bool)>,
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

impl StandingQuery {
    /// Compiles a plan. Fails on what only shows when a constant is looked at closely, such as a bad pattern.
    pub fn compile(plan: Query) -> Result<StandingQuery, CompileError> {
        let dialect = plan.dialect;
        let (access, residual) = match &plan.filter {
            None => (None, None),
            Some(filter) => choose(filter),
        };
        let residual = match residual {
            None => None,
            Some(expr) => {
                let mut wants = Wants::new();
                let program = Program::compile(&expr, dialect, &mut wants)?;
                Some(Residual {
                    text: format!("{dialect:?} {expr:?}"),
                    display: expr.to_string(),
                    program,
                    wants,
                })
            }
        };
        let mut body_wants = Wants::new();
        let body = match &plan.body {
            Body::Raw(raw) => CompiledBody::Raw {
                star: raw.star.clone(),
                columns: columns(&raw.columns, dialect, &mut body_wants)?,
                order: order(&plan.order_by, dialect, &mut body_wants)?,
            },
            Body::Group(group) => {
                let mut slots = Wants::new();
                CompiledBody::Group(CompiledGroup {
                    keys: group
                        .keys
                        .iter()
                        .map(|key| Program::compile(key, dialect, &mut body_wants))
                        .collect::<Result<_, _>>()?,
                    arguments: group
                        .aggregates
                        .iter()
                        .map(|aggregate| {
                            aggregate
                                .argument
                                .as_ref()
                                .map(|argument| Program::compile(argument, dialect, &mut body_wants))
                                .transpose()
                        })
                        .collect::<Result<_, _>>()?,
                    functions: group.aggregates.iter().map(|aggregate| aggregate.function).collect(),
                    having: group
                        .having
                        .as_ref()
                        .map(|having| Program::compile(having, dialect, &mut slots))
                        .transpose()?,
                    columns: columns(&group.columns, dialect, &mut slots)?,
                    order: order(&plan.order_by, dialect, &mut slots)?,
                })
            }
        };
        Ok(StandingQuery { plan, access, residual, body_wants, body })
    }

    /// Whose rules hold.
    pub fn dialect(&self) -> Dialect {
        self.plan.dialect
    }

    /// All paths that finding matches reads.
    pub fn filter_wants(&self) -> impl Iterator<Item = &Want> {
        let access = self.access.iter().map(|access| &access.want);
        access.chain(self.residual.iter().flat_map(|residual| residual.wants.as_slice()))
    }

    /// The time windows' length in milliseconds, where it has such windows.
    pub fn window_ms(&self) -> Option<u64> {
        match self.plan.window {
            Window::Tumbling(Extent::Time(every_ms)) | Window::Additive { every_ms } => Some(every_ms),
            Window::Tumbling(Extent::Records(_)) | Window::None => None,
        }
    }

    /// Names of the output columns; `None` where events give their own (`*`).
    pub fn column_names(&self) -> Option<Vec<Box<str>>> {
        let columns = match &self.body {
            CompiledBody::Raw { star: Some(_), .. } => return None,
            CompiledBody::Raw { columns, .. } => columns,
            CompiledBody::Group(group) => &group.columns,
        };
        Some(columns.iter().map(|column| column.name.clone()).collect())
    }
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
) -> Result<Vec<(Program, bool)>, CompileError> {
    keys.iter().map(|key| Ok((Program::compile(&key.expr, dialect, wants)?, key.descending))).collect()
}

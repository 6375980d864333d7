//! Reads the rows that an endpoint returns: the row of one key, or all rows whose keys begin with given values.

use std::ops::{Bound, ControlFlow};

use bumpalo::Bump;
use swiftwater_event::{Millis, Type, Value, write_json};
use swiftwater_lang::ddl::{Answer, Refusal};
use swiftwater_live::{
    Key,
    expr::{Program, Scratch},
};

use super::{
    Endpoint, EndpointAnswer, EndpointError, EndpointInput,
    input::{RequestValues, read},
};
use crate::objects::views::{At, View, after_prefix};

/// The columns and rows of an answer.
#[derive(Debug)]
pub(super) struct SelectPlan {
    pub(super) columns: Vec<ShownColumn>,
    /// The source; none: there is one row, without columns.
    pub(super) source: Option<RowsPlan>,
    pub(super) otherwise: NoRow,
    pub(super) answer: Answer,
    /// The answer depends on when it is asked for.
    pub(super) uses_now: bool,
}

impl SelectPlan {
    /// True if an answer has at most one row of a view.
    pub(super) fn is_point(&self) -> bool {
        self.source.as_ref().is_none_or(|source| source.is_whole)
    }
}

/// The way rows are found.
#[derive(Debug)]
pub(super) struct RowsPlan {
    pub(super) view: Box<str>,
    /// Values of the key, over parameters.
    pub(super) key: Vec<Program>,
    /// They are all that the key has.
    pub(super) is_whole: bool,
    /// The residual condition over the row and the parameters; only of a whole key.
    pub(super) rest: Option<Program>,
    pub(super) limit: u64,
    pub(super) view_columns: usize,
}

/// The answer if there is no row.
#[derive(Debug)]
pub(super) enum NoRow {
    /// 404; of several rows, none.
    Usual,
    Status(Refusal),
    Row(Vec<ShownColumn>),
}

/// A column of an answer.
#[derive(Debug)]
pub(super) struct ShownColumn {
    /// Its name as JSON, with the colon after it.
    json_name: Box<[u8]>,
    /// The type of its values, if it is known.
    pub(super) ty: Option<Type>,
    program: Program,
}

impl ShownColumn {
    pub(super) fn new(name: &str, ty: Option<Type>, program: Program) -> ShownColumn {
        let mut json_name = Vec::new();
        write_json(&Value::String(name), &mut json_name);
        json_name.push(b':');
        ShownColumn { json_name: json_name.into(), ty, program }
    }
}

/// Writes an object of columns over slots.
pub(super) fn write_row<'a>(
    columns: &[ShownColumn],
    slots: &'a [Value<'a>],
    now: Millis,
    (scratch, arena): (&mut Scratch, &'a Bump),
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    for (place, column) in columns.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&column.json_name);
        write_json(&column.program.value(slots, now, scratch, arena).0, out);
    }
    out.push(b'}');
}

/// Answers a request from the plan. `view` is the plan's, if it has one.
pub(super) fn answer(
    endpoint: &Endpoint,
    plan: &SelectPlan,
    view: Option<&View>,
    input: &EndpointInput<'_>,
    now: Millis,
    (scratch, arena): (&mut Scratch, &Bump),
) -> Result<EndpointAnswer, EndpointError> {
    let said =
        read(&endpoint.parameters, &endpoint.checks, (&input.texts, None), (now, false), (scratch, arena))?;
    let (Some(source), Some(view)) = (&plan.source, view) else {
        let body = write_single_row(plan, &said, now, (scratch, arena));
        return Ok(EndpointAnswer { body: Some(body), ..EndpointAnswer::new(endpoint.status()) });
    };
    // Before the rows are looked at, which are then not behind it.
    let reading = view.reading(view.at(), now);
    let mut answer = EndpointAnswer { reading: Some(reading), ..EndpointAnswer::new(endpoint.status()) };
    let is_list = plan.answer == Answer::Rows;
    let mut body = Vec::with_capacity(128);
    if is_list {
        body.push(b'[');
    }
    let keys: Vec<Value<'_>> =
        source.key.iter().map(|program| program.value(said.slots, now, scratch, arena).0).collect();
    let is_null = keys.iter().any(|value| matches!(value, Value::Null | Value::Error));
    // A null equals nothing.
    let found = match is_null {
        true => 0,
        false if source.is_whole => {
            let key = Key::of(&keys);
            let changed =
                source.write_row_of_key(&key, (plan, view), (&said, now), (scratch, arena), &mut body)?;
            answer.changed = changed.filter(|_| !plan.uses_now && !is_list);
            u64::from(changed.is_some())
        }
        false => {
            let prefix = Key::of(&keys).ordered;
            let (at, rows) =
                source.write_rows_of_prefix(&prefix, (plan, view), (&said, now), scratch, &mut body)?;
            answer.reading = Some(view.reading(at, now));
            rows
        }
    };
    if found == 0
        && let Err(refusal) = write_missing_row(plan, &said, now, (scratch, arena), &mut body)
    {
        return Err(refusal.with_reading(answer.reading));
    }
    if is_list {
        body.push(b']');
    }
    body.push(b'\n');
    answer.body = Some(body);
    Ok(answer)
}

/// Writes the body of an answer that reads no view: one row.
fn write_single_row(
    plan: &SelectPlan,
    said: &RequestValues<'_>,
    now: Millis,
    (scratch, arena): (&mut Scratch, &Bump),
) -> Vec<u8> {
    let mut body = Vec::with_capacity(64);
    let list = |out: &mut Vec<u8>, mark: u8| {
        if plan.answer == Answer::Rows {
            out.push(mark);
        }
    };
    list(&mut body, b'[');
    write_row(&plan.columns, said.slots, now, (scratch, arena), &mut body);
    list(&mut body, b']');
    body.push(b'\n');
    body
}

/// Writes what is answered where there is no row, or refuses the request.
fn write_missing_row(
    plan: &SelectPlan,
    said: &RequestValues<'_>,
    now: Millis,
    (scratch, arena): (&mut Scratch, &Bump),
    out: &mut Vec<u8>,
) -> Result<(), EndpointError> {
    match &plan.otherwise {
        NoRow::Usual if plan.answer == Answer::Rows => {}
        NoRow::Usual => return Err(EndpointError::refused(404, "the row does not exist".to_owned())),
        NoRow::Status(refusal) => {
            let message = refusal.message.as_deref().unwrap_or("the row does not exist");
            return Err(EndpointError::refused(refusal.status, message.to_owned()));
        }
        NoRow::Row(columns) => write_row(columns, said.slots, now, (scratch, arena), out),
    }
    Ok(())
}

impl RowsPlan {
    /// Writes the row of a key, if there is one that is asked for. Returns the position after the last event that changed it.
    fn write_row_of_key(
        &self,
        key: &Key,
        (plan, view): (&SelectPlan, &View),
        (said, now): (&RequestValues<'_>, Millis),
        (scratch, arena): (&mut Scratch, &Bump),
        out: &mut Vec<u8>,
    ) -> Result<Option<u64>, EndpointError> {
        let mut of_row = Scratch::default();
        let changed = view.with_row(key, now, (&mut of_row, arena), |values, changed| {
            self.show(plan, values, said, now, (scratch, arena), out).then_some(changed)
        })?;
        Ok(changed.flatten())
    }

    /// Writes the rows whose keys begin with a prefix, separated by commas. Returns how far the view was, and how many rows
    /// they are.
    fn write_rows_of_prefix(
        &self,
        prefix: &[u8],
        (plan, view): (&SelectPlan, &View),
        (said, now): (&RequestValues<'_>, Millis),
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<(At, u64), EndpointError> {
        let end = after_prefix(prefix).filter(|_| !prefix.is_empty());
        let from = if prefix.is_empty() { Bound::Unbounded } else { Bound::Included(prefix) };
        let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let (mut rows, mut of_row, mut inner) = (0, Bump::new(), Scratch::default());
        let (at, _) = view.walk((from, to), |ordered, state| {
            let key = Key::of_ordered(&ordered).map_err(|error| view.unavailable(error))?;
            let before = out.len();
            if rows > 0 {
                out.push(b',');
            }
            let within = (&mut inner, &of_row);
            let shown = view.query.with_row_of_state(key.as_group(), state, now, within, |values, _| {
                self.show(plan, values, said, now, (scratch, &of_row), out)
            });
            match shown.map_err(|error| view.unavailable(error))? {
                Some(true) => rows += 1,
                Some(false) | None => out.truncate(before),
            }
            of_row.reset();
            Ok(if rows < self.limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok((at, rows))
    }

    /// Writes the columns of a row of the view; returns true if the row is one of those requested.
    fn show(
        &self,
        plan: &SelectPlan,
        values: &[Value<'_>],
        said: &RequestValues<'_>,
        now: Millis,
        (scratch, arena): (&mut Scratch, &Bump),
        out: &mut Vec<u8>,
    ) -> bool {
        let mut slots = Vec::with_capacity(self.view_columns + said.slots.len());
        slots.extend_from_slice(values);
        slots.extend_from_slice(said.slots);
        let is_asked_for = self
            .rest
            .as_ref()
            .is_none_or(|rest| matches!(rest.value(&slots, now, scratch, arena).0, Value::Boolean(true)));
        if is_asked_for {
            write_row(&plan.columns, &slots, now, (scratch, arena), out);
        }
        is_asked_for
    }
}

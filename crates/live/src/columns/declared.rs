//! Checks events against the declared columns of a stream, and decodes those columns.

use arrow_array::{Array, ArrayRef, BooleanArray, StringViewArray, cast::AsArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_select::filter::{FilterBuilder, FilterPredicate};
use swiftwater_event::{
    Column, DecodePlan, Decoded, EventBatch, Millis, Path, Step, Type, Values, Want, WantId,
};
use swiftwater_lang::{
    Dialect, QueryErrors,
    ddl::{CreateStream, PartitionBy},
    plan::{Expr, Function},
};

use super::{
    ColumnsScratch, DecodedColumns, RejectedEvent, ValidatedBatch, ValidationRule,
    arrow::{into_array, nulls, without},
    default::Default,
    event_bytes_max, misfit,
};
use crate::expr::{CompileError, EvalCounts, Program, Rows, Wants};

/// The declared columns of a stream, compiled: immutable, shared by all threads.
#[derive(Debug)]
pub struct StreamColumns {
    columns: Vec<DeclaredColumn>,
    plan: DecodePlan,
    /// Other values that conditions read: parts of columns, or a column as another type.
    others: Vec<WantId>,
    conditions: Vec<Condition>,
    event_bytes_max: usize,
}

#[derive(Debug)]
struct DeclaredColumn {
    name: Box<str>,
    ty: Type,
    path: Path,
    want: WantId,
    not_null: bool,
    default: Option<Default>,
    /// The table's files are told apart by it, where an empty text is null.
    partitions: bool,
}

#[derive(Debug)]
struct Condition {
    label: Box<str>,
    column: Option<usize>,
    /// The condition's negation.
    fails: Program,
    /// The wants by place: a column, or after all columns one of `others`.
    bindings: Vec<WantId>,
}

/// A declaration that cannot be used. A pattern or a default that [`swiftwater_lang::parse_ddl`] accepts may still be
/// unusable.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ColumnsError {
    /// A condition that cannot be read.
    #[error("a CHECK is invalid: {0}")]
    Condition(#[source] QueryErrors),
    /// A condition that cannot be run.
    #[error("`CHECK ({label})` cannot be used")]
    Compile {
        /// The condition.
        label: Box<str>,
        /// The cause.
        #[source]
        source: CompileError,
    },
    /// A default that is no value of its column's type.
    #[error("the default of column `{column}` is not {ty}")]
    Default {
        /// The column.
        column: Box<str>,
        /// Its type.
        ty: Type,
    },
}

impl StreamColumns {
    /// The columns of a declaration.
    pub fn new(stream: &CreateStream) -> Result<StreamColumns, ColumnsError> {
        let mut wants: Vec<Want> = Vec::new();
        for column in &stream.columns {
            wants.push(Want { path: column.event_path(), ty: column.ty.clone() });
        }
        let conditions = stream.conditions().map_err(ColumnsError::Condition)?;
        let mut compiled = Vec::new();
        for condition in conditions {
            let fails = Expr::Call { function: Function::Not, args: vec![condition.expr] };
            let mut read = Wants::new();
            let program = Program::compile(&fails, Dialect::Native, &mut read);
            let label = condition.label;
            let fails = match program {
                Ok(program) => program,
                Err(source) => return Err(ColumnsError::Compile { label, source }),
            };
            let bindings = read.as_slice().iter().map(|want| bind(want, stream, &mut wants));
            let bindings = bindings.map(|place| WantId(place as u32)).collect();
            compiled.push(Condition { label, column: condition.column, fails, bindings });
        }
        let plan = DecodePlan::new(wants.iter().cloned());
        // The plan takes equal wants once.
        let ids: Vec<WantId> = wants.iter().filter_map(|want| plan.find(want)).collect();
        let mut columns = Vec::new();
        let partitions = |name: &str| match &stream.options.partition_by {
            Some(PartitionBy::Columns(names)) => names.iter().any(|partition| **partition == *name),
            _ => false,
        };
        for (column, want) in stream.columns.iter().zip(&ids) {
            let wrong = |()| ColumnsError::Default { column: column.name.clone(), ty: column.ty.clone() };
            let default = match &column.default {
                Some(default) => Default::new(default, &column.ty).map_err(wrong)?,
                None => None,
            };
            columns.push(DeclaredColumn {
                name: column.name.clone(),
                ty: column.ty.clone(),
                path: column.event_path(),
                want: *want,
                not_null: column.not_null,
                default,
                partitions: partitions(&column.name),
            });
        }
        let others = ids[columns.len()..].to_vec();
        let event_bytes_max = event_bytes_max(stream);
        Ok(StreamColumns { columns, plan, others, conditions: compiled, event_bytes_max })
    }

    /// The columns' names and types, in order.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Type)> {
        self.columns.iter().map(|column| (&*column.name, &column.ty))
    }

    /// Validates a batch against the columns; `now` is its arrival. Vectorised: nothing is allocated per good event, and
    /// where all are good, none is copied.
    pub fn accept(&self, batch: &EventBatch, now: Millis, scratch: &mut ColumnsScratch) -> ValidatedBatch {
        let (decoded, mut text_needed) = scratch.decoder.decode_whole(batch, &self.plan);
        let mut bad = Vec::new();
        bad.extend(RejectedEvent::of_size(batch, self.event_bytes_max).map(|rejected| (Order(0), rejected)));
        let mut kept = Vec::with_capacity(self.columns.len() + self.others.len());
        for (place, column) in self.columns.iter().enumerate() {
            kept.push(column.take(
                batch,
                decoded.column(column.want),
                now,
                Order(place as u32 + 1),
                &mut bad,
            ));
        }
        if !self.conditions.is_empty() && !batch.is_empty() {
            let others = self.others.iter().map(|want| decoded.column(*want).values.clone());
            kept.extend(others);
            kept = self.reject_failing(kept, batch.len(), now, scratch, &mut bad);
            kept.truncate(self.columns.len());
        }
        let mut columns: Vec<ArrayRef> = kept.into_iter().map(into_array).collect();
        self.nullify_empty_texts(&mut columns, &mut text_needed);
        if bad.is_empty() {
            return ValidatedBatch { good: batch.clone(), columns, text_needed, rejected: Vec::new() };
        }
        bad.sort_by_key(|(order, bad)| (bad.row, *order));
        bad.dedup_by_key(|(_, bad)| bad.row);
        let rejected: Vec<RejectedEvent> = bad.into_iter().map(|(_, bad)| bad).collect();
        let good = ValidRows::without(&rejected, batch.len());
        ValidatedBatch {
            good: batch.select(&good.rows),
            columns: columns.iter().map(|column| good.filter(column)).collect(),
            text_needed: text_needed.map(|needed| good.bits(&needed)),
            rejected,
        }
    }

    /// The columns of events that were accepted before, if by an earlier declaration: none is bad. A value that does
    /// not fit is null, and the event's text is kept.
    pub fn read(&self, batch: &EventBatch, now: Millis, scratch: &mut ColumnsScratch) -> DecodedColumns {
        let (decoded, mut text_needed) = scratch.decoder.decode_whole(batch, &self.plan);
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let decoded = decoded.column(column.want);
            if let Some(mistyped) = &decoded.mistyped {
                need(&mut text_needed, mistyped);
            }
            columns.push(into_array(column.take(batch, decoded, now, Order(0), &mut Vec::new())));
        }
        self.nullify_empty_texts(&mut columns, &mut text_needed);
        DecodedColumns { columns, text_needed }
    }

    /// Makes empty texts null in columns that the table is partitioned by, as they would be once they are in the table:
    /// a partition's value of no characters is null in Delta Lake. The events' own text has the original values.
    fn nullify_empty_texts(&self, columns: &mut [ArrayRef], text_needed: &mut Option<BooleanBuffer>) {
        for (column, array) in self.columns.iter().zip(columns) {
            let empty = array.as_string_view_opt().filter(|_| column.partitions).and_then(empty_texts);
            if let Some(empty) = empty {
                *array = without(array, &empty);
                need(text_needed, &empty);
            }
        }
    }

    /// Finds the events for which a condition is false, among those that are good so far.
    fn reject_failing(
        &self,
        values: Vec<Values>,
        count: usize,
        now: Millis,
        scratch: &mut ColumnsScratch,
        bad: &mut Vec<(Order, RejectedEvent)>,
    ) -> Vec<Values> {
        scratch.rows.clear();
        scratch.rows.extend(0..count as u32);
        if !bad.is_empty() {
            let mut is_bad = vec![false; count];
            bad.iter().for_each(|(_, bad)| is_bad[bad.row as usize] = true);
            scratch.rows.retain(|row| !is_bad[*row as usize]);
        }
        let columns = values.into_iter().map(|values| Column { values, errors: None, mistyped: None });
        let decoded = Decoded { rows: count, columns: columns.collect() };
        let mut failing = Vec::new();
        for (place, condition) in self.conditions.iter().enumerate() {
            let rows =
                Rows::Events { decoded: &decoded, bindings: &condition.bindings, rows: &scratch.rows, now };
            let mut counts = EvalCounts::default();
            condition.fails.filter_rows(
                &rows,
                &mut scratch.scratch,
                &scratch.arena,
                &mut counts,
                &mut failing,
            );
            let order = Order((self.columns.len() + 1 + place) as u32);
            for &row in &failing {
                let column = condition.column.map(|column| &self.columns[column]);
                let path = column.map_or_else(String::new, |column| column.path.to_string()).into();
                let message = match column {
                    Some(column) => {
                        format!("column `{}`: `CHECK ({})` failed", column.name, condition.label)
                    }
                    None => format!("`CHECK ({})` failed", condition.label),
                };
                bad.push((order, RejectedEvent { row, path, rule: ValidationRule::Check, message }));
            }
        }
        scratch.arena.reset();
        decoded.columns.into_iter().map(|column| column.values).collect()
    }
}

/// The rank of a fault among those of an event: the first one is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Order(u32);

impl DeclaredColumn {
    /// The column's values with its default; records the events that do not fit.
    fn take(
        &self,
        batch: &EventBatch,
        column: &Column,
        now: Millis,
        order: Order,
        bad: &mut Vec<(Order, RejectedEvent)>,
    ) -> Values {
        if let Some(mistyped) = &column.mistyped {
            let rows: Vec<u32> = mistyped.set_indices().map(|row| row as u32).collect();
            for (&row, found) in rows.iter().zip(misfit::describe_values(batch, &rows, &self.path, &self.ty))
            {
                let message = format!("column `{}`: expected {}, found {found}", self.name, self.ty);
                bad.push((order, self.rejected(row, ValidationRule::Type, message)));
            }
        }
        let values = self.with_default(column, now, order, bad);
        if self.not_null
            && self.partitions
            && let Values::String(texts) = &values
            && let Some(empty) = empty_texts(texts)
        {
            for row in empty.set_indices() {
                let message = format!(
                    "column `{}`: expected a text that is not empty: the stream is partitioned by it, and an empty one \
                     is null there",
                    self.name
                );
                bad.push((order, self.rejected(row as u32, ValidationRule::NotNull, message)));
            }
        }
        values
    }

    fn rejected(&self, row: u32, rule: ValidationRule, message: String) -> RejectedEvent {
        RejectedEvent { row, path: self.path.to_string().into(), rule, message }
    }

    fn with_default(
        &self,
        column: &Column,
        now: Millis,
        order: Order,
        bad: &mut Vec<(Order, RejectedEvent)>,
    ) -> Values {
        let values = column.values.clone();
        if !self.not_null && self.default.is_none() {
            return values;
        }
        let Some(nulls) = nulls(&values) else { return values };
        if let Some(default) = &self.default {
            return default.fill(values, &nulls, now);
        }
        self.reject_missing(&nulls, column.mistyped.as_ref(), order, bad);
        values
    }

    fn reject_missing(
        &self,
        nulls: &NullBuffer,
        mistyped: Option<&BooleanBuffer>,
        order: Order,
        bad: &mut Vec<(Order, RejectedEvent)>,
    ) {
        for row in (!nulls.inner()).set_indices() {
            if mistyped.is_some_and(|mistyped| mistyped.value(row)) {
                continue;
            }
            let message = format!("column `{}`: expected {}, found nothing", self.name, self.ty);
            bad.push((order, self.rejected(row as u32, ValidationRule::NotNull, message)));
        }
    }
}

/// True for each empty text; none if there is none.
fn empty_texts(texts: &StringViewArray) -> Option<BooleanBuffer> {
    // The lower half of a view begins with the text's length.
    let is_empty = |row: usize| texts.views()[row] as u32 == 0 && texts.is_valid(row);
    (0..texts.len()).any(is_empty).then(|| BooleanBuffer::collect_bool(texts.len(), is_empty))
}

/// Adds events whose text is to be kept.
fn need(text_needed: &mut Option<BooleanBuffer>, more: &BooleanBuffer) {
    *text_needed = Some(match text_needed.take() {
        Some(needed) => &needed | more,
        None => more.clone(),
    });
}

/// The place of what a condition reads among all wants, whose first are the columns.
fn bind(want: &Want, stream: &CreateStream, wants: &mut Vec<Want>) -> usize {
    let (first, rest) = match want.path.steps() {
        [Step::Key(first), rest @ ..] => (&**first, rest),
        steps => ("", steps),
    };
    let column = stream.columns.iter().position(|column| *column.name == *first);
    let Some(place) = column else {
        // No condition names anything but columns; a field of that name would be read.
        wants.push(want.clone());
        return wants.len() - 1;
    };
    let column = &stream.columns[place];
    if rest.is_empty() && want.ty == column.ty {
        return place;
    }
    let path = rest.iter().fold(column.event_path(), |path, step| path.then(step.clone()));
    wants.push(Want { path, ty: want.ty.clone() });
    wants.len() - 1
}

/// The events that are good, where some are not.
struct ValidRows {
    rows: Vec<u32>,
    predicate: FilterPredicate,
    mask: BooleanArray,
}

impl ValidRows {
    fn without(rejected: &[RejectedEvent], count: usize) -> ValidRows {
        let mut is_good = vec![true; count];
        rejected.iter().for_each(|bad| is_good[bad.row as usize] = false);
        let rows = (0..count as u32).filter(|row| is_good[*row as usize]).collect();
        let mask = BooleanArray::from(is_good);
        ValidRows { rows, predicate: FilterBuilder::new(&mask).optimize().build(), mask }
    }

    fn filter(&self, column: &ArrayRef) -> ArrayRef {
        // The mask has as many rows as the column, which is all that could be wrong.
        self.predicate.filter(column).unwrap_or_else(|_| column.slice(0, 0))
    }

    fn bits(&self, bits: &BooleanBuffer) -> BooleanBuffer {
        debug_assert_eq!(bits.len(), self.mask.values().len());
        BooleanBuffer::collect_bool(self.rows.len(), |place| bits.value(self.rows[place] as usize))
    }
}

//! Converts events into the columns of a table.

use std::{cell::RefCell, sync::Arc};

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use arrow_select::concat::concat;
use swiftwater_event::{EventBatch, Millis, Offset, Type};
use swiftwater_lang::ddl::{ColumnDef, CreateStream};
use swiftwater_live::columns::{
    ColumnsError, ColumnsScratch, DecodedColumns, InferredBatch, InferredColumn, InferredColumns,
    RejectedEvent, StreamColumns, ValidatedBatch, event_bytes_max, event_texts,
};
use swiftwater_runtime::lock_order::OrderedMutex;
use swiftwater_store::{EVENT_COLUMN, OFFSET_COLUMN, Rows, TIME_COLUMN};

/// The columns of a stream, compiled.
#[derive(Debug)]
pub(crate) enum Columns {
    /// The declared columns.
    Declared { names: Arc<[Box<str>]>, columns: Box<StreamColumns> },
    /// The columns found in the events so far.
    Found { columns: OrderedMutex<Arc<InferredColumns>>, event_bytes_max: usize },
}

/// Columns of accepted events.
#[derive(Debug, Clone)]
pub(crate) struct AcceptedColumns {
    pub(crate) names: Arc<[Box<str>]>,
    /// One per name.
    pub(crate) arrays: Vec<ArrayRef>,
    /// Events whose text is to be kept, as the columns do not say them whole.
    pub(crate) text_needed: Option<BooleanBuffer>,
}

impl AcceptedColumns {
    /// True if these and the next events' columns can be joined: of one declaration, which says all of them whole.
    pub(crate) fn goes_with(&self, next: &AcceptedColumns) -> bool {
        Arc::ptr_eq(&self.names, &next.names) && self.text_needed.is_none() && next.text_needed.is_none()
    }

    /// The columns of events that follow one another and go together; none of no events.
    pub(crate) fn together(mut all: Vec<AcceptedColumns>) -> Option<AcceptedColumns> {
        if all.len() < 2 {
            return all.pop();
        }
        let names = Arc::clone(&all[0].names);
        let column = |place: usize| {
            let parts: Vec<&dyn Array> = all.iter().map(|columns| &*columns.arrays[place]).collect();
            concat(&parts).expect("columns of one declaration have its types")
        };
        Some(AcceptedColumns { arrays: (0..names.len()).map(column).collect(), names, text_needed: None })
    }
}

/// Batches of fewer events are decoded again, many together, when they go on to their table: to hold on to the columns of
/// each would cost more.
const KEPT_EVENTS_MIN: usize = 256;

impl Columns {
    pub(crate) fn of(create: &CreateStream, found: &[InferredColumn]) -> Result<Columns, ColumnsError> {
        if create.is_declared() {
            let names = create.columns.iter().map(|column| column.name.clone()).collect();
            return Ok(Columns::Declared { names, columns: Box::new(StreamColumns::new(create)?) });
        }
        let columns_max =
            create.options.columns_max.map_or(InferredColumns::COLUMNS_MAX, |most| most as usize);
        let columns = OrderedMutex::new(Arc::new(InferredColumns::new(found.to_vec(), columns_max)));
        Ok(Columns::Found { columns, event_bytes_max: event_bytes_max(create) })
    }

    /// The columns that were found in the events so far, as if they were declared; none of a stream that declares its own.
    pub(crate) fn found(&self) -> Vec<ColumnDef> {
        match self {
            Columns::Declared { .. } => Vec::new(),
            Columns::Found { columns, .. } => {
                let columns = Arc::clone(&columns.lock());
                let column = |column: &InferredColumn| ColumnDef::new(column.name.clone(), column.ty.clone());
                columns.columns().iter().map(column).collect()
            }
        }
    }

    /// True if a column that was found holds JSON text.
    pub(crate) fn is_found_as_json(&self, name: &str) -> bool {
        match self {
            Columns::Declared { .. } => false,
            Columns::Found { columns, .. } => {
                columns.lock().columns().iter().any(|column| *column.name == *name && column.ty == Type::Any)
            }
        }
    }

    /// The columns whose texts are JSON.
    pub(crate) fn json(&self, create: &CreateStream) -> Vec<Box<str>> {
        match self {
            Columns::Declared { .. } => {
                let json = create.columns.iter().filter(|column| column.ty == Type::Any);
                json.map(|column| column.name.clone()).collect()
            }
            Columns::Found { columns, .. } => {
                let columns = Arc::clone(&columns.lock());
                let json = columns.columns().iter().filter(|column| column.ty == Type::Any);
                json.map(|column| column.name.clone()).collect()
            }
        }
    }

    /// Validates events against the columns: returns the good ones, their columns if they are worth keeping, and the
    /// others.
    pub(crate) fn accept(
        &self,
        batch: EventBatch,
        now: Millis,
    ) -> (EventBatch, Option<AcceptedColumns>, Vec<RejectedEvent>) {
        let (names, columns) = match self {
            Columns::Declared { names, columns } => (names, columns),
            Columns::Found { event_bytes_max, .. } => {
                let rejected: Vec<RejectedEvent> = RejectedEvent::of_size(&batch, *event_bytes_max).collect();
                if rejected.is_empty() {
                    return (batch, None, rejected);
                }
                let is_bad = |row: &u32| rejected.binary_search_by_key(row, |rejected| rejected.row).is_ok();
                let good: Vec<u32> = (0..batch.len() as u32).filter(|row| !is_bad(row)).collect();
                return (batch.select(&good), None, rejected);
            }
        };
        let ValidatedBatch { good, columns, text_needed, rejected } =
            SCRATCH.with_borrow_mut(|scratch| columns.accept(&batch, now, scratch));
        let kept = (good.len() >= KEPT_EVENTS_MIN).then(|| AcceptedColumns {
            names: Arc::clone(names),
            arrays: columns,
            text_needed,
        });
        (good, kept, rejected)
    }

    /// The columns of events that were accepted, and those columns that were found for the first time.
    pub(crate) fn read(
        &self,
        batch: &EventBatch,
        now: Millis,
    ) -> (AcceptedColumns, Option<Vec<InferredColumn>>) {
        match self {
            Columns::Declared { names, columns } => {
                let DecodedColumns { columns: arrays, text_needed } =
                    SCRATCH.with_borrow_mut(|scratch| columns.read(batch, now, scratch));
                (AcceptedColumns { names: Arc::clone(names), arrays, text_needed }, None)
            }
            Columns::Found { columns, .. } => {
                let known = Arc::clone(&columns.lock());
                let InferredBatch { grown, columns: arrays, text_needed } =
                    SCRATCH.with_borrow_mut(|scratch| known.accept(batch, scratch));
                let now_known = grown.map_or_else(|| Arc::clone(&known), Arc::new);
                let names = now_known.columns().iter().map(|column| column.name.clone()).collect();
                let has_grown = now_known.columns().len() > known.columns().len();
                let found = has_grown.then(|| now_known.columns().to_vec());
                *columns.lock() = now_known;
                (AcceptedColumns { names, arrays, text_needed }, found)
            }
        }
    }
}

thread_local! {
    static SCRATCH: RefCell<ColumnsScratch> = RefCell::default();
}

/// Rows of a table from events that follow one another: when how many of them arrived, and their columns. The parts of
/// `batch` that the columns need as text are copied.
///
/// Text is copied out of the events' buffers: what waits for its commit is not to hold them.
pub(crate) fn rows(
    first: u64,
    arrivals: &[(i64, usize)],
    batch: &EventBatch,
    accepted: AcceptedColumns,
) -> Rows {
    let count: usize = arrivals.iter().map(|(_, events)| events).sum();
    let mut fields = vec![
        Field::new(OFFSET_COLUMN, DataType::Int64, false),
        Field::new(TIME_COLUMN, DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), false),
    ];
    let offsets = Int64Array::from_iter_values((0..count as i64).map(|row| first as i64 + row));
    let times =
        arrivals.iter().flat_map(|&(at, events)| std::iter::repeat_n(at.saturating_mul(1000), events));
    let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
    let mut columns: Vec<ArrayRef> = vec![Arc::new(offsets), Arc::new(times)];
    let AcceptedColumns { names, arrays, text_needed } = accepted;
    for (name, array) in names.iter().zip(arrays) {
        fields.push(Field::new(&**name, array.data_type().clone(), true));
        columns.push(own_text(array));
    }
    if let Some(needed) = &text_needed {
        fields.push(Field::new(EVENT_COLUMN, DataType::Utf8View, true));
        columns.push(Arc::new(event_texts(batch, Some(needed))));
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
    Rows { first: Offset(first), batch: batch.expect("columns have the rows and types of their fields") }
}

fn own_text(array: ArrayRef) -> ArrayRef {
    match array.as_any().downcast_ref::<StringViewArray>() {
        Some(texts) => Arc::new(texts.gc()),
        None => array,
    }
}

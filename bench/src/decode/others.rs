//! The other parsers, each used as its manual recommends for the task.

use std::sync::Arc;

use anyhow::{Context, ensure};
use arrow_array::ArrayRef;
use arrow_json::ReaderBuilder;
use arrow_schema::{DataType, Field as ArrowField, Fields, Schema};
use serde::de::IgnoredAny;
use simd_json::{Buffers, INPUT_PADDING, Tape, prelude::*};
use sonic_rs::{JsonValueTrait as _, LazyValue, PointerTree};

use super::{
    Contestant,
    blocks::Block,
    columns::{Columns, Field, Finder, Json, Kind, Scalar},
};

pub(super) const ARROW_JSON: &str = "arrow-json";

/// All that can make these fields.
pub(super) fn all(wanted: &[Field]) -> Vec<Box<dyn Contestant>> {
    let mut all: Vec<Box<dyn Contestant>> = vec![
        Box::new(SonicTree { wanted: wanted.to_vec(), finder: Finder::new(wanted) }),
        Box::new(SimdJson::new(wanted)),
        Box::new(ArrowJson::new(wanted)),
        Box::new(SerdeJson { wanted: wanted.to_vec(), finder: Finder::new(wanted) }),
    ];
    // Made for some fields, not for all of them.
    if wanted.iter().all(|field| matches!(field.kind, Kind::Text | Kind::Long)) {
        all.push(Box::new(SonicLazy::new(wanted)));
    }
    all
}

/// `sonic-rs`: fields are skipped to.
struct SonicLazy {
    wanted: Vec<Field>,
    tree: PointerTree,
}

impl SonicLazy {
    fn new(wanted: &[Field]) -> SonicLazy {
        let mut tree = PointerTree::new();
        wanted.iter().for_each(|field| tree.add_path([field.name.as_str()]));
        SonicLazy { wanted: wanted.to_vec(), tree }
    }
}

fn push_lazy(columns: &mut Columns, place: usize, field: &Field, value: Option<&LazyValue<'_>>) {
    match field.kind {
        Kind::Long => columns.push_long(place, value.and_then(|value| value.as_i64())),
        _ => columns.push_text(place, value.and_then(|value| value.as_str())),
    }
}

impl Contestant for SonicLazy {
    fn name(&self) -> &'static str {
        "sonic-rs, lazy"
    }

    fn decode(&mut self, block: &Block) -> anyhow::Result<Vec<ArrayRef>> {
        let mut columns = Columns::new(&self.wanted, block.batch.len());
        for row in 0..block.batch.len() {
            let event = block.batch.event(row);
            if let [field] = self.wanted.as_slice() {
                // SAFETY: an `EventBatch` holds valid JSON in UTF-8 only.
                let value = unsafe { sonic_rs::get_unchecked(event, [field.name.as_str()]) };
                push_lazy(&mut columns, 0, field, value.ok().as_ref());
            } else {
                // SAFETY: as above.
                let values = unsafe { sonic_rs::get_many_unchecked(event, &self.tree) }?;
                for (place, (field, value)) in self.wanted.iter().zip(&values).enumerate() {
                    push_lazy(&mut columns, place, field, value.as_ref());
                }
            }
        }
        Ok(columns.finish())
    }
}

/// `sonic-rs`: a tree of each event.
struct SonicTree {
    wanted: Vec<Field>,
    finder: Finder,
}

impl<'v> Json<'v> for &'v sonic_rs::Value {
    fn text(self) -> Option<&'v str> {
        self.as_str()
    }

    fn long(self) -> Option<i64> {
        self.as_i64()
    }

    fn double(self) -> Option<f64> {
        self.as_f64()
    }

    fn boolean(self) -> Option<bool> {
        self.as_bool()
    }

    fn get(self, name: &str) -> Option<Self> {
        sonic_rs::JsonContainerTrait::as_object(self)?.get(&name)
    }

    fn entries(self, mut each: impl FnMut(&'v str, Self) -> bool) -> bool {
        let Some(object) = sonic_rs::JsonContainerTrait::as_object(self) else { return false };
        let _ = object.iter().all(|(name, value)| each(name, value));
        true
    }

    fn items(self, each: impl FnMut(Self)) -> bool {
        let Some(list) = sonic_rs::JsonContainerTrait::as_array(self) else { return false };
        list.iter().for_each(each);
        true
    }
}

impl Contestant for SonicTree {
    fn name(&self) -> &'static str {
        "sonic-rs, tree"
    }

    fn decode(&mut self, block: &Block) -> anyhow::Result<Vec<ArrayRef>> {
        let mut columns = Columns::new(&self.wanted, block.batch.len());
        for row in 0..block.batch.len() {
            // SAFETY: an `EventBatch` holds UTF-8 only.
            let event: sonic_rs::Value = unsafe { sonic_rs::from_slice_unchecked(block.batch.event(row)) }?;
            self.finder.push(&event, &mut columns)?;
        }
        Ok(columns.finish())
    }
}

/// `simd-json`: a tape of each event, which it writes into a copy of its text.
pub(super) struct SimdJson {
    wanted: Vec<Field>,
    finder: Finder,
    buffers: Buffers,
    text: Vec<u8>,
    tape: Tape<'static>,
}

impl SimdJson {
    pub(super) fn new(wanted: &[Field]) -> SimdJson {
        SimdJson {
            wanted: wanted.to_vec(),
            finder: Finder::new(wanted),
            buffers: Buffers::new(4096),
            text: Vec::new(),
            tape: Tape(Vec::new()),
        }
    }

    /// Gives each event's tape to `each`.
    fn each_tape(
        &mut self,
        block: &Block,
        mut each: impl FnMut(&Finder, simd_json::tape::Value<'_, '_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for row in 0..block.batch.len() {
            let event = block.batch.event(row);
            self.text.clear();
            self.text.extend_from_slice(event);
            self.text.resize(event.len() + INPUT_PADDING, 0);
            let mut tape = std::mem::replace(&mut self.tape, Tape(Vec::new())).reset();
            simd_json::fill_tape_padded(&mut self.text, event.len(), &mut self.buffers, &mut tape)?;
            each(&self.finder, tape.as_value())?;
            self.tape = tape.reset();
        }
        Ok(())
    }

    /// Makes all tapes and nothing of them; answers how many.
    pub(super) fn tapes(&mut self, block: &Block) -> anyhow::Result<usize> {
        let mut rows = 0;
        self.each_tape(block, |_, event| {
            rows += usize::from(event.is_object());
            Ok(())
        })?;
        Ok(rows)
    }
}

impl<'v> Json<'v> for simd_json::tape::Value<'v, 'v> {
    fn text(self) -> Option<&'v str> {
        ValueIntoString::into_string(self)
    }

    fn long(self) -> Option<i64> {
        ValueAsScalar::as_i64(&self)
    }

    fn double(self) -> Option<f64> {
        ValueAsScalar::cast_f64(&self)
    }

    fn boolean(self) -> Option<bool> {
        ValueAsScalar::as_bool(&self)
    }

    fn get(self, name: &str) -> Option<Self> {
        self.as_object()?.get(name)
    }

    fn entries(self, mut each: impl FnMut(&'v str, Self) -> bool) -> bool {
        let Some(object) = self.as_object() else { return false };
        let _ = object.iter().all(|(name, value)| each(name, value));
        true
    }

    fn items(self, each: impl FnMut(Self)) -> bool {
        let Some(list) = self.as_array() else { return false };
        list.iter().for_each(each);
        true
    }
}

impl Contestant for SimdJson {
    fn name(&self) -> &'static str {
        "simd-json, tape"
    }

    fn decode(&mut self, block: &Block) -> anyhow::Result<Vec<ArrayRef>> {
        let mut columns = Columns::new(&self.wanted, block.batch.len());
        self.each_tape(block, |finder, event| finder.push(event, &mut columns))?;
        Ok(columns.finish())
    }
}

/// `arrow-json`: the whole block at once.
struct ArrowJson {
    schema: Arc<Schema>,
}

impl ArrowJson {
    fn new(wanted: &[Field]) -> ArrowJson {
        let fields: Vec<_> =
            wanted.iter().map(|field| ArrowField::new(&field.name, arrow(field.kind), true)).collect();
        ArrowJson { schema: Arc::new(Schema::new(fields)) }
    }
}

fn arrow(kind: Kind) -> DataType {
    let map = |of: DataType| {
        let entries = Fields::from(vec![
            ArrowField::new("keys", DataType::Utf8View, false),
            ArrowField::new("values", of, true),
        ]);
        DataType::Map(Arc::new(ArrowField::new("entries", DataType::Struct(entries), false)), false)
    };
    match kind {
        Kind::Text => DataType::Utf8View,
        Kind::Long => DataType::Int64,
        Kind::Map(Scalar::Text) => map(DataType::Utf8View),
        Kind::Map(Scalar::Double) => map(DataType::Float64),
        Kind::Map(Scalar::Long) => map(DataType::Int64),
        Kind::Map(Scalar::Boolean) => map(DataType::Boolean),
        Kind::Maps => DataType::List(Arc::new(ArrowField::new("item", map(DataType::Utf8View), true))),
    }
}

impl Contestant for ArrowJson {
    fn name(&self) -> &'static str {
        ARROW_JSON
    }

    fn decode(&mut self, block: &Block) -> anyhow::Result<Vec<ArrayRef>> {
        let rows = block.batch.len();
        let mut decoder =
            ReaderBuilder::new(Arc::clone(&self.schema)).with_batch_size(rows).build_decoder()?;
        let mut rest: &[u8] = &block.text;
        // It may leave white space behind the last event.
        while !rest.trim_ascii().is_empty() {
            let read = decoder.decode(rest)?;
            ensure!(read > 0, "arrow-json reads nothing");
            rest = &rest[read..];
        }
        let batch = decoder.flush()?.context("arrow-json made no rows")?;
        Ok(batch.columns().to_vec())
    }
}

/// `serde_json`: a tree of each event.
struct SerdeJson {
    wanted: Vec<Field>,
    finder: Finder,
}

impl<'v> Json<'v> for &'v serde_json::Value {
    fn text(self) -> Option<&'v str> {
        self.as_str()
    }

    fn long(self) -> Option<i64> {
        self.as_i64()
    }

    fn double(self) -> Option<f64> {
        self.as_f64()
    }

    fn boolean(self) -> Option<bool> {
        self.as_bool()
    }

    fn get(self, name: &str) -> Option<Self> {
        serde_json::Value::get(self, name)
    }

    fn entries(self, mut each: impl FnMut(&'v str, Self) -> bool) -> bool {
        let Some(object) = serde_json::Value::as_object(self) else { return false };
        let _ = object.iter().all(|(name, value)| each(name, value));
        true
    }

    fn items(self, each: impl FnMut(Self)) -> bool {
        let Some(list) = serde_json::Value::as_array(self) else { return false };
        list.iter().for_each(each);
        true
    }
}

impl Contestant for SerdeJson {
    fn name(&self) -> &'static str {
        "serde_json, tree"
    }

    fn decode(&mut self, block: &Block) -> anyhow::Result<Vec<ArrayRef>> {
        let mut columns = Columns::new(&self.wanted, block.batch.len());
        for row in 0..block.batch.len() {
            let event: serde_json::Value = serde_json::from_slice(block.batch.event(row))?;
            self.finder.push(&event, &mut columns)?;
        }
        Ok(columns.finish())
    }
}

/// Reads all events with `serde_json` and makes nothing of them; answers how many.
pub(super) fn serde_json_ignoring(block: &Block) -> anyhow::Result<usize> {
    for row in 0..block.batch.len() {
        serde_json::from_slice::<IgnoredAny>(block.batch.event(row))?;
    }
    Ok(block.batch.len())
}

//! `approx_top_k`.

use std::sync::Arc;

use datafusion_common::{
    Result, ScalarValue,
    arrow::{
        array::{ArrayRef, ListArray, StructArray, UInt64Array},
        buffer::OffsetBuffer,
        datatypes::{DataType, Field, FieldRef, Fields},
    },
    plan_err,
};
use datafusion_expr::{
    Accumulator, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
    function::{AccumulatorArgs, StateFieldsArgs},
};

use super::{
    accumulate::{SketchAccumulator, SketchGroupsAccumulator, Sketching},
    constant,
    distinct::state_field,
    encode::{decoded, decoded_type, for_each_value},
};
use crate::{Frequent, SketchSizes};

const NAME: &str = "approx_top_k";

/// The most values that one answer may have.
const K_MAX: u64 = 1_000_000;

/// `approx_top_k(x, k)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TopK {
    signature: Signature,
    entries: u32,
}

impl TopK {
    /// With sketches of this size.
    pub fn new(sizes: SketchSizes) -> TopK {
        TopK { signature: Signature::any(2, Volatility::Immutable), entries: sizes.top_entries }
    }

    fn sketching(&self, args: &AccumulatorArgs<'_>) -> Result<TopSketching> {
        let k = constant(args, 1, NAME)?.cast_to(&DataType::UInt64)?;
        let ty = args.expr_fields.first().map_or(DataType::Null, |field| decoded_type(field.data_type()));
        match k {
            ScalarValue::UInt64(Some(k)) if (1..=K_MAX).contains(&k) => {
                Ok(TopSketching { entries: self.entries, k: k as usize, ty })
            }
            other => plan_err!("the second argument of `{NAME}` must be from 1 to {K_MAX}, not {other}"),
        }
    }
}

impl AggregateUDFImpl for TopK {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let ty = arg_types.first().map_or(DataType::Null, decoded_type);
        Ok(DataType::List(item_field(&ty)))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![state_field(args.name)])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(SketchAccumulator::new(self.sketching(&args)?)))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(SketchGroupsAccumulator::new(self.sketching(&args)?)))
    }
}

fn fields(ty: &DataType) -> Fields {
    Fields::from(vec![Field::new("value", ty.clone(), false), Field::new("count", DataType::UInt64, false)])
}

fn item_field(ty: &DataType) -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Struct(fields(ty)), true))
}

/// Finds the most frequent values.
#[derive(Debug, Clone)]
pub struct TopSketching {
    /// [`SketchSizes::top_entries`].
    pub entries: u32,
    /// How many values.
    pub k: usize,
    /// Their type; no dictionary.
    pub ty: DataType,
}

impl Sketching for TopSketching {
    type Sketch = Frequent;

    fn empty(&self) -> Frequent {
        Frequent::new(self.entries)
    }

    fn update(
        &self,
        sketches: &mut [Frequent],
        values: &[ArrayRef],
        group_of: impl Fn(usize) -> Option<usize>,
    ) -> Result<()> {
        let Some(values) = values.first() else { return Ok(()) };
        for_each_value(values, |row, bytes| {
            if let Some(group) = group_of(row) {
                sketches[group].update(bytes);
            }
        })
    }

    fn merge(&self, ours: &mut Frequent, theirs: &Frequent) {
        ours.merge(theirs);
    }

    fn serialize(&self, sketch: &Frequent) -> Vec<u8> {
        sketch.serialize()
    }

    fn deserialize(&self, bytes: &[u8]) -> Result<Frequent> {
        Ok(Frequent::deserialize(bytes)?)
    }

    fn bytes(&self, sketch: &Frequent) -> usize {
        sketch.bytes()
    }

    fn evaluate(&self, sketches: &[Frequent]) -> Result<ArrayRef> {
        let mut lengths = Vec::with_capacity(sketches.len());
        let (mut values, mut counts) = (Vec::new(), Vec::new());
        for sketch in sketches {
            let items = sketch.evaluate(self.k, 0);
            lengths.push(items.len());
            for item in items {
                values.push(item.value);
                counts.push(item.count);
            }
        }
        let columns: Vec<ArrayRef> = vec![decoded(&values, &self.ty)?, Arc::new(UInt64Array::from(counts))];
        let items = StructArray::try_new(fields(&self.ty), columns, None)?;
        let lists = ListArray::try_new(
            item_field(&self.ty),
            OffsetBuffer::from_lengths(lengths),
            Arc::new(items),
            None,
        )?;
        Ok(Arc::new(lists))
    }
}

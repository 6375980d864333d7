//! The aggregate function `approx_top_k`.

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
use datafusion_expr::{Signature, Volatility, function::AccumulatorArgs};

use super::{
    accumulate::Sketching,
    aggregate::{SketchFunction, constant},
    encode::{decoded, decoded_type, for_each_value},
};
use crate::{Frequent, SketchSizes};

/// The most values that one answer may have.
const K_MAX: u64 = 1_000_000;

/// `approx_top_k(x, k)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TopK {
    entries: u32,
}

impl TopK {
    /// The function with sketches of this size.
    pub fn new(sizes: SketchSizes) -> TopK {
        TopK { entries: sizes.top_entries }
    }
}

impl SketchFunction for TopK {
    type Sketching = TopSketching;

    const NAME: &'static str = "approx_top_k";
    const PASSES_OVER_REPEATS: bool = false;

    fn signature(&self) -> Signature {
        Signature::any(2, Volatility::Immutable)
    }

    fn return_type(&self, argument_types: &[DataType]) -> DataType {
        DataType::List(item_field(&argument_types.first().map_or(DataType::Null, decoded_type)))
    }

    fn sketching(&self, args: &AccumulatorArgs<'_>) -> Result<TopSketching> {
        let k = constant(args, 1, Self::NAME)?;
        // A fraction would be cut off, and text read as a number.
        let whole = match k.data_type().is_integer() {
            true => k.cast_to(&DataType::UInt64).ok(),
            false => None,
        };
        let ty = args.expr_fields.first().map_or(DataType::Null, |field| decoded_type(field.data_type()));
        match whole {
            Some(ScalarValue::UInt64(Some(k))) if (1..=K_MAX).contains(&k) => {
                Ok(TopSketching { entries: self.entries, k: k as usize, ty })
            }
            _ => plan_err!("the k of `{}` must be a whole number from 1 to {K_MAX}, not {k}", Self::NAME),
        }
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
    /// Number of values.
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

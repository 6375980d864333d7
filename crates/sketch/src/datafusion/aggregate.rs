//! The DataFusion aggregate function for all sketches.

use std::{fmt::Debug, hash::Hash, sync::Arc};

use datafusion_common::{
    Result, ScalarValue,
    arrow::{
        array::RecordBatch,
        datatypes::{DataType, Field, FieldRef},
    },
    plan_err,
};
use datafusion_expr::{
    Accumulator, AggregateUDFImpl, ColumnarValue, GroupsAccumulator, Signature,
    function::{AccumulatorArgs, StateFieldsArgs},
    utils::{AggregateOrderSensitivity, format_state_name},
};

use super::accumulate::{SketchAccumulator, SketchGroupsAccumulator, Sketching};

/// The properties of one function.
pub trait SketchFunction: Debug + Clone + Eq + Hash + Send + Sync + 'static {
    /// The way it works once its constant arguments are known.
    type Sketching: Sketching;

    /// Its name in SQL.
    const NAME: &'static str;

    /// True if it answers the same of each value once as of each as often as it came. A function that does not refuses
    /// `DISTINCT`.
    const PASSES_OVER_REPEATS: bool;

    /// The signature of its calls.
    fn signature(&self) -> Signature;

    /// The type of its answers.
    fn return_type(&self, argument_types: &[DataType]) -> DataType;

    /// Its answer over no rows, where that is not null.
    fn default_value(&self) -> Option<ScalarValue> {
        None
    }

    /// The sketching for a call.
    fn sketching(&self, args: &AccumulatorArgs<'_>) -> Result<Self::Sketching>;
}

/// An aggregate function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SketchAggregate<F> {
    function: F,
    signature: Signature,
}

impl<F: SketchFunction> SketchAggregate<F> {
    /// The aggregate of a function.
    pub fn new(function: F) -> SketchAggregate<F> {
        let signature = function.signature();
        SketchAggregate { function, signature }
    }

    fn sketching(&self, args: &AccumulatorArgs<'_>) -> Result<F::Sketching> {
        if args.is_distinct && !F::PASSES_OVER_REPEATS {
            return plan_err!(
                "`{}` does not support DISTINCT: it counts every occurrence of a value",
                F::NAME
            );
        }
        self.function.sketching(args)
    }
}

impl<F: SketchFunction> AggregateUDFImpl for SketchAggregate<F> {
    fn name(&self) -> &str {
        F::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, argument_types: &[DataType]) -> Result<DataType> {
        Ok(self.function.return_type(argument_types))
    }

    fn is_nullable(&self) -> bool {
        self.function.default_value().is_none()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.function.default_value().map_or_else(|| ScalarValue::try_from(data_type), Ok)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = Field::new(format_state_name(args.name, "sketch"), DataType::Binary, true);
        Ok(vec![Arc::new(field)])
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

/// The value of an argument that must be a constant.
pub(super) fn constant(args: &AccumulatorArgs<'_>, place: usize, function: &str) -> Result<ScalarValue> {
    let Some(expr) = args.exprs.get(place) else {
        return plan_err!("`{function}` takes {} arguments", place + 1);
    };
    // A constant is the same over no rows; whatever reads a column gives an array.
    match expr.evaluate(&RecordBatch::new_empty(args.schema.clone().into()))? {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(_) => plan_err!("argument {} of `{function}` must be a constant", place + 1),
    }
}

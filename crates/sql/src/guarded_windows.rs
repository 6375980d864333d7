//! Wraps window aggregates, so that they check their statement at each row.
//!
//! ```text
//! before: array_agg(x) OVER (ORDER BY x)     after: guarded(array_agg)(x) OVER (ORDER BY x)
//! ```
//!
//! A window function computes the rows of a batch, or of a whole partition, in one call, and no limit interrupts that
//! call. `array_agg(x) OVER (ORDER BY x)` builds a list as long as the partition for each of its rows. In an optimized
//! plan, this module wraps each aggregate that has an OVER clause. Before the wrapper returns the value of a row, it
//! checks whether the statement goes on ([`watched`](crate::watched)).
//!
//! Operators know window aggregates by their traits alone. Some rules know the aggregates of a GROUP BY by their type, so
//! these are not wrapped. Window functions that are not aggregates (`lag`, `rank`) are not wrapped either: they return
//! one value a row.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunctionParams, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ReversedUDAF, SetMonotonicity, Signature,
};

use crate::watched;

/// The aggregate, with a check at each row of a window.
pub(crate) fn guarded_aggregate(inner: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    if inner.inner().is::<Guarded>() {
        return inner;
    }
    Arc::new(AggregateUDF::from(Guarded { inner }))
}

/// The aggregate that a wrapper calls; none if it is not one.
#[cfg(feature = "distributed")]
pub(crate) fn guarded_inner_aggregate(aggregate: &AggregateUDF) -> Option<&Arc<AggregateUDF>> {
    aggregate.inner().downcast_ref::<Guarded>().map(|guarded| &guarded.inner)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Guarded {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Guarded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.schema_name(params)
    }

    fn human_display(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.human_display(params)
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_schema_name(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.display_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_display_name(params)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(arguments)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Checked::new(self.inner.accumulator(arguments)?)))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Checked::new(self.inner.create_sliding_accumulator(arguments)?)))
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial_ordering: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let ordered = AggregateUDF::clone(&self.inner).with_beneficial_ordering(beneficial_ordering)?;
        Ok(ordered.map(|inner| Arc::new(Guarded { inner: Arc::new(inner) }) as Arc<dyn AggregateUDFImpl>))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Reversed(reversed) => ReversedUDAF::Reversed(guarded_aggregate(reversed)),
            other => other,
        }
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(ty)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.supports_within_group_clause()
    }

    fn set_monotonicity(&self, ty: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(ty)
    }
}

/// An accumulator that returns no value for a statement that has ended, or for which the rows of that value have no room.
#[derive(Debug)]
struct Checked {
    inner: Box<dyn Accumulator>,
    /// Rows since the last value. A window over a whole partition has one value, which is copied for each of its rows.
    rows: usize,
}

impl Checked {
    fn new(inner: Box<dyn Accumulator>) -> Checked {
        Checked { inner, rows: 0 }
    }
}

impl Accumulator for Checked {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows = self.rows.saturating_add(values.first().map_or(0, |values| values.len()));
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        watched::check()?;
        let value = self.inner.evaluate()?;
        let rows = std::mem::take(&mut self.rows);
        let beside = value.size().saturating_sub(size_of::<ScalarValue>());
        watched::check_room(beside.saturating_mul(rows))?;
        Ok(value)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

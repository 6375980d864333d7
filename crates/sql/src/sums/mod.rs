//! Exact `sum` and `avg`.
//!
//! Sums of doubles are the same as in views, whatever the order of the rows and however they are split. Sums of whole
//! numbers and decimals fail if the result is out of range.
//!
//! DataFusion 55 adds doubles as they come, so 0.1, 0.2, 0.3, 1e16 and -1e16 make 0.0 or 0.6. Its whole numbers wrap
//! around (apache/datafusion#3520). Partial results are images ([`cells`]), so nothing is rounded before the end. A part
//! may be out of range while the whole is not. DataFusion's own functions compute other types (durations, wide decimals).

mod accumulators;
mod cells;
mod single_distinct;

use std::sync::Arc;

use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Float64Type, Int64Type, UInt64Type};
use datafusion::common::types::{
    NativeType, logical_float64, logical_int8, logical_int16, logical_int32, logical_int64, logical_uint8,
    logical_uint16, logical_uint32, logical_uint64,
};
use datafusion::common::{Result, ScalarValue, not_impl_err};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
    Signature, TypeSignature, TypeSignatureClass, Volatility,
};

use accumulators::{DistinctSum, Groups, Plan, SingleSum, SlidingDistinct, SumOutput};
use cells::{DoubleSum, IntegerSum};

pub(crate) use single_distinct::exactly;

/// Makes a session know both.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for function in functions() {
        state.register_udaf(Arc::new(function))?;
    }
    Ok(())
}

/// The functions for sums and averages.
pub(crate) fn functions() -> [AggregateUDF; 2] {
    [Function::Sum, Function::Average].map(|function| AggregateUDF::from(SumAggregate::new(function)))
}

/// For one of these aggregates: the aggregate that returns its image over the rows of a part, and the one that merges such
/// images. None where DataFusion's own would be asked.
pub(crate) fn in_parts(function: &AggregateUDF, values: &DataType) -> Option<(AggregateUDF, AggregateUDF)> {
    let sums = function.inner().downcast_ref::<SumAggregate>()?;
    let values = match values {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => DataType::Int64,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => DataType::UInt64,
        DataType::Float16 | DataType::Float32 | DataType::Float64 => DataType::Float64,
        DataType::Decimal128(_, _) if sums.function == Function::Sum => values.clone(),
        _ => return None,
    };
    let gives = match sums.function {
        Function::Sum => SumOutput::Sum(sums.inner.return_type(std::slice::from_ref(&values)).ok()?),
        Function::Average => SumOutput::Average,
        Function::Images | Function::OfImages { .. } => return None,
    };
    let of_images = Function::OfImages { values, gives };
    Some((
        AggregateUDF::from(SumAggregate::new(Function::Images)),
        AggregateUDF::from(SumAggregate::new(of_images)),
    ))
}

/// An aggregate that merges images of sums, or that returns them: it cannot be called by name.
#[cfg(feature = "distributed")]
#[derive(Debug)]
pub(crate) enum ImageAggregate {
    Images,
    /// The merge of images over values of the type; the type of the sum, or none for an average.
    OfImages(DataType, Option<DataType>),
}

#[cfg(feature = "distributed")]
impl ImageAggregate {
    pub(crate) fn of(aggregate: &AggregateUDF) -> Option<ImageAggregate> {
        match &aggregate.inner().downcast_ref::<SumAggregate>()?.function {
            Function::Sum | Function::Average => None,
            Function::Images => Some(ImageAggregate::Images),
            Function::OfImages { values, gives } => Some(ImageAggregate::OfImages(
                values.clone(),
                match gives {
                    SumOutput::Sum(ty) => Some(ty.clone()),
                    SumOutput::Average | SumOutput::Image => None,
                },
            )),
        }
    }

    pub(crate) fn aggregate(self) -> AggregateUDF {
        AggregateUDF::from(SumAggregate::new(match self {
            ImageAggregate::Images => Function::Images,
            ImageAggregate::OfImages(values, sum) => {
                Function::OfImages { values, gives: sum.map_or(SumOutput::Average, SumOutput::Sum) }
            }
        }))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Function {
    Sum,
    Average,
    /// The images of sums.
    Images,
    /// The merge of images of sums over values of that type.
    OfImages {
        values: DataType,
        gives: SumOutput,
    },
}

/// An aggregate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SumAggregate {
    function: Function,
    /// DataFusion's.
    inner: Arc<AggregateUDF>,
    signature: Signature,
    aliases: Vec<String>,
}

impl SumAggregate {
    fn new(function: Function) -> SumAggregate {
        let inner = match function {
            Function::Average => avg_udaf(),
            _ => sum_udaf(),
        };
        let signature = match function {
            Function::Average => of_numbers(),
            Function::OfImages { .. } => Signature::exact(vec![DataType::Binary], Volatility::Immutable),
            _ => inner.signature().clone(),
        };
        let aliases = match function {
            Function::Average => inner.aliases().to_vec(),
            _ => Vec::new(),
        };
        SumAggregate { function, inner, signature, aliases }
    }

    /// The type of what is added up, and what is done with it; none where DataFusion's own is asked.
    fn plan(&self, argument: &DataType, return_type: &DataType) -> Option<(DataType, Plan)> {
        let is_ours = |ty: &DataType| match ty {
            DataType::Int64 | DataType::UInt64 | DataType::Float64 => true,
            DataType::Decimal128(_, _) => self.function != Function::Average,
            _ => false,
        };
        let (values, gives, takes_images) = match &self.function {
            Function::Sum => (argument, SumOutput::Sum(return_type.clone()), false),
            Function::Average => (argument, SumOutput::Average, false),
            Function::Images => (argument, SumOutput::Image, false),
            Function::OfImages { values, gives } => (values, gives.clone(), true),
        };
        is_ours(values).then(|| (values.clone(), Plan { gives, takes_images }))
    }

    fn plan_of(&self, args: &AccumulatorArgs<'_>) -> Option<(DataType, Plan)> {
        self.plan(args.expr_fields.first()?.data_type(), args.return_type())
    }
}

/// Runs `$made` with the cell's type.
macro_rules! with_cell {
    ($values:expr, $made:ident ( $($argument:expr),* )) => {
        match $values {
            DataType::Int64 => Ok(Box::new($made::<IntegerSum<Int64Type>>::new($($argument),*)) as _),
            DataType::UInt64 => Ok(Box::new($made::<IntegerSum<UInt64Type>>::new($($argument),*)) as _),
            DataType::Decimal128(_, _) => Ok(Box::new($made::<IntegerSum<Decimal128Type>>::new($($argument),*)) as _),
            DataType::Float64 => Ok(Box::new($made::<DoubleSum>::new($($argument),*)) as _),
            other => not_impl_err!("sums of {other}"),
        }
    };
}

#[allow(unused_imports, reason = "the macro names its cell's type")]
use Float64Type as _;

impl AggregateUDFImpl for SumAggregate {
    fn name(&self) -> &str {
        match self.function {
            Function::Images => "sum_image",
            Function::OfImages { .. } => "sum_of_images",
            _ => self.inner.name(),
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match &self.function {
            Function::Sum | Function::Average => self.inner.return_type(arguments),
            Function::Images => Ok(DataType::Binary),
            Function::OfImages { gives, .. } => Ok(match gives {
                SumOutput::Sum(ty) => ty.clone(),
                SumOutput::Average => DataType::Float64,
                SumOutput::Image => DataType::Binary,
            }),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let Some((values, plan)) = self.plan_of(&args) else { return self.inner.accumulator(args) };
        if !args.is_distinct {
            return with_cell!(values, SingleSum(plan));
        }
        if matches!(values, DataType::Decimal128(_, _)) {
            return self.inner.accumulator(args);
        }
        let return_field = Arc::new(Field::new(args.name, values.clone(), true));
        let gathered = sum_udaf().accumulator(AccumulatorArgs { return_field, ..args })?;
        with_cell!(values, DistinctSum(plan, gathered))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let argument = args.input_fields.first().map(|field| field.data_type().clone());
        let planned = argument.and_then(|argument| self.plan(&argument, args.return_type()));
        Ok(match planned {
            None => self.inner.state_fields(args)?,
            Some((DataType::Decimal128(_, _), _)) if args.is_distinct => self.inner.state_fields(args)?,
            Some((values, _)) if args.is_distinct => {
                let item = Field::new_list_field(values, true);
                vec![Arc::new(Field::new_list(format_state_name(args.name, "distinct"), item, false))]
            }
            Some(_) => {
                vec![Arc::new(Field::new(format_state_name(args.name, "sum"), DataType::Binary, true))]
            }
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        match self.plan_of(&args) {
            Some(_) => !args.is_distinct,
            None => self.inner.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match self.plan_of(&args) {
            Some((values, plan)) => with_cell!(values, Groups(plan)),
            None => self.inner.create_groups_accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match self.plan_of(&args) {
            Some((values, plan)) if !args.is_distinct => with_cell!(values, SingleSum(plan)),
            Some((DataType::Int64, plan)) => Ok(Box::new(SlidingDistinct::new(plan))),
            _ => self.inner.create_sliding_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        match self.function {
            Function::Sum => self.inner.inner().set_monotonicity(data_type),
            _ => SetMonotonicity::NotMonotonic,
        }
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        ScalarValue::try_from(data_type)
    }
}

/// Numbers as `avg` takes them: whole ones as they are, which it adds up exactly.
fn of_numbers() -> Signature {
    let whole = |to, from: Vec<_>, native| {
        let from = from.into_iter().map(TypeSignatureClass::Native).collect();
        TypeSignature::Coercible(vec![Coercion::new_implicit(TypeSignatureClass::Native(to), from, native)])
    };
    Signature::one_of(
        vec![
            TypeSignature::Coercible(vec![Coercion::new_exact(TypeSignatureClass::Decimal)]),
            TypeSignature::Coercible(vec![Coercion::new_exact(TypeSignatureClass::Duration)]),
            whole(
                logical_uint64(),
                vec![logical_uint8(), logical_uint16(), logical_uint32()],
                NativeType::UInt64,
            ),
            whole(logical_int64(), vec![logical_int8(), logical_int16(), logical_int32()], NativeType::Int64),
            TypeSignature::Coercible(vec![Coercion::new_implicit(
                TypeSignatureClass::Native(logical_float64()),
                vec![TypeSignatureClass::Float],
                NativeType::Float64,
            )]),
        ],
        Volatility::Immutable,
    )
}

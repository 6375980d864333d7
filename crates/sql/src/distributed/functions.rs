//! Functions as messages to other machines.
//!
//! A function that a session knows by its name travels as its name, and any other as the parts that it is made of. A function of
//! this room without either fails to be encoded; a test holds the list of all of them ([`super::tests`]).

use std::any::Any;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, exec_err, not_impl_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion_proto::protobuf::ArrowType;

use crate::guarded::{concatenation, guarded_function, guarded_inner};
use crate::guarded_windows::{guarded_aggregate, guarded_inner_aggregate};
use crate::search::SearchMessage;
use crate::spread::{is_spread, spread_function};
use crate::sums::ImageAggregate;
use crate::whole::{whole_column, whole_function};
use crate::{forms, meaning};

/// A function.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FunctionMessage {
    #[prost(oneof = "FunctionForm", tags = "1, 2, 3, 4, 5, 6, 7")]
    form: Option<FunctionForm>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum FunctionForm {
    /// The name by which a session knows it.
    #[prost(string, tag = "1")]
    Named(String),
    /// The name among [`Functions::unnamed`], and the number of those before it with this name.
    #[prost(message, tag = "2")]
    Unnamed(UnnamedMessage),
    /// The function that is called for some rows at a time.
    #[prost(message, tag = "3")]
    Guarded(Box<FunctionMessage>),
    /// The check of a constant's room.
    #[prost(message, tag = "4")]
    Spread(()),
    /// The column that takes whole numbers.
    #[prost(message, tag = "5")]
    Whole(WholeMessage),
    /// The type that a number is cast to.
    #[prost(message, tag = "6")]
    InRange(ArrowType),
    #[prost(message, tag = "7")]
    Search(SearchMessage),
}

#[derive(Clone, PartialEq, prost::Message)]
struct UnnamedMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint32, tag = "2")]
    number: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WholeMessage {
    #[prost(string, tag = "1")]
    column: String,
    #[prost(message, optional, tag = "2")]
    ty: Option<ArrowType>,
}

/// An aggregate.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AggregateMessage {
    #[prost(oneof = "AggregateForm", tags = "1, 2, 3, 4, 5")]
    form: Option<AggregateForm>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum AggregateForm {
    /// The name by which a session knows it.
    #[prost(string, tag = "1")]
    Named(String),
    /// The aggregate that checks its statement at each row of a window.
    #[prost(message, tag = "2")]
    Guarded(Box<AggregateMessage>),
    /// The images of sums.
    #[prost(message, tag = "3")]
    Images(()),
    #[prost(message, tag = "4")]
    OfImages(OfImagesMessage),
    #[prost(message, tag = "5")]
    Statistics(SearchMessage),
}

/// The merge of images.
#[derive(Clone, PartialEq, prost::Message)]
struct OfImagesMessage {
    #[prost(message, optional, tag = "1")]
    values: Option<ArrowType>,
    /// None of an average.
    #[prost(message, optional, tag = "2")]
    sum: Option<ArrowType>,
}

/// The functions of this machine.
pub(super) struct Functions {
    session: SessionState,
    /// The functions without a state that no statement can call by name.
    unnamed: Vec<Arc<ScalarUDF>>,
    memory_bytes_max: usize,
}

fn required<T>(value: Option<T>) -> Result<T> {
    value.ok_or_else(|| DataFusionError::Execution("a part of a function is missing".to_owned()))
}

fn data_type(ty: &ArrowType) -> Result<arrow::datatypes::DataType> {
    ty.try_into().map_err(|error| DataFusionError::External(Box::new(error)))
}

impl Functions {
    /// Functions of sessions that are made from this one.
    pub(super) fn new(session: SessionState, memory_bytes_max: usize) -> Functions {
        let mut unnamed = meaning::unnamed_functions();
        unnamed.extend([forms::json_text(), concatenation()]);
        Functions { session, unnamed: unnamed.into_iter().map(Arc::new).collect(), memory_bytes_max }
    }

    /// Those that a worker's session must know by name, too: the properties of a plan name them.
    pub(super) fn unnamed(&self) -> &[Arc<ScalarUDF>] {
        &self.unnamed
    }

    pub(super) fn message(&self, function: &ScalarUDF) -> Result<FunctionMessage> {
        let form = if let Some(inner) = guarded_inner(function) {
            FunctionForm::Guarded(Box::new(self.message(inner)?))
        } else if is_spread(function) {
            FunctionForm::Spread(())
        } else if let Some((column, ty)) = whole_column(function) {
            let ty = Some(ArrowType::try_from(ty)?);
            FunctionForm::Whole(WholeMessage { column: column.to_owned(), ty })
        } else if let Some(ty) = meaning::range_type(function) {
            FunctionForm::InRange(ArrowType::try_from(ty)?)
        } else if let Some(search) = SearchMessage::of(function) {
            FunctionForm::Search(search?)
        } else if let Some(place) = self.unnamed.iter().position(|unnamed| **unnamed == *function) {
            let name = function.name();
            let before = self.unnamed[..place].iter().filter(|unnamed| unnamed.name() == name).count();
            FunctionForm::Unnamed(UnnamedMessage { name: name.to_owned(), number: before as u32 })
        } else if self.is_named(function) {
            FunctionForm::Named(function.name().to_owned())
        } else {
            return not_impl_err!("function `{}` runs on one machine only", function.name());
        };
        Ok(FunctionMessage { form: Some(form) })
    }

    /// Whether a session of another machine has this function under its name.
    fn is_named(&self, function: &ScalarUDF) -> bool {
        let known = self.session.scalar_functions().get(function.name());
        known.is_some_and(|known| {
            **known == *function || is_of_one_type(&**known.inner(), &**function.inner())
        })
    }

    pub(super) fn function(&self, message: FunctionMessage) -> Result<Arc<ScalarUDF>> {
        Ok(Arc::new(match required(message.form)? {
            FunctionForm::Named(name) => {
                let known = self.session.scalar_functions().get(&name);
                return known.cloned().ok_or_else(|| unknown(&name));
            }
            FunctionForm::Unnamed(UnnamedMessage { name, number }) => {
                let mut found = self.unnamed.iter().filter(|function| function.name() == name);
                return found.nth(number as usize).cloned().ok_or_else(|| unknown(&name));
            }
            FunctionForm::Guarded(inner) => {
                let inner = self.function(*inner)?;
                guarded_function(ScalarUDF::clone(&inner), self.memory_bytes_max)
            }
            FunctionForm::Spread(()) => spread_function(self.memory_bytes_max),
            FunctionForm::Whole(WholeMessage { column, ty }) => {
                whole_function(&column, &data_type(&required(ty)?)?)
            }
            FunctionForm::InRange(ty) => meaning::range_function(data_type(&ty)?),
            FunctionForm::Search(search) => search.function()?,
        }))
    }

    pub(super) fn aggregate_message(&self, aggregate: &AggregateUDF) -> Result<AggregateMessage> {
        let form = if let Some(inner) = guarded_inner_aggregate(aggregate) {
            AggregateForm::Guarded(Box::new(self.aggregate_message(inner)?))
        } else if let Some(images) = ImageAggregate::of(aggregate) {
            match images {
                ImageAggregate::Images => AggregateForm::Images(()),
                ImageAggregate::OfImages(values, sum) => AggregateForm::OfImages(OfImagesMessage {
                    values: Some(ArrowType::try_from(&values)?),
                    sum: sum.map(|ty| ArrowType::try_from(&ty)).transpose()?,
                }),
            }
        } else if let Some(search) = SearchMessage::of_aggregate(aggregate) {
            AggregateForm::Statistics(search?)
        } else {
            let known = self.session.aggregate_functions().get(aggregate.name());
            match known.is_some_and(|known| is_of_one_type(&**known.inner(), &**aggregate.inner())) {
                true => AggregateForm::Named(aggregate.name().to_owned()),
                false => return not_impl_err!("aggregate `{}` runs on one machine only", aggregate.name()),
            }
        };
        Ok(AggregateMessage { form: Some(form) })
    }

    pub(super) fn aggregate(&self, message: AggregateMessage) -> Result<Arc<AggregateUDF>> {
        Ok(Arc::new(match required(message.form)? {
            AggregateForm::Named(name) => {
                let known = self.session.aggregate_functions().get(&name);
                return known.cloned().ok_or_else(|| unknown(&name));
            }
            AggregateForm::Guarded(inner) => return Ok(guarded_aggregate(self.aggregate(*inner)?)),
            AggregateForm::Images(()) => ImageAggregate::Images.aggregate(),
            AggregateForm::OfImages(OfImagesMessage { values, sum }) => {
                let values = data_type(&required(values)?)?;
                ImageAggregate::OfImages(values, sum.as_ref().map(data_type).transpose()?).aggregate()
            }
            AggregateForm::Statistics(search) => search.aggregate()?,
        }))
    }
}

fn unknown(name: &str) -> DataFusionError {
    let unknown: Result<()> = exec_err!("this machine does not know function `{name}`");
    unknown.err().unwrap_or_else(|| DataFusionError::Internal(String::new()))
}

/// Whether two functions are of one type of Rust. Those of DataFusion that have a state derive it from their place in a plan.
fn is_of_one_type(a: &dyn Any, b: &dyn Any) -> bool {
    a.type_id() == b.type_id()
}

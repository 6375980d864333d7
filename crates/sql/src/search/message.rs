//! The search of a bound function as a message to another machine.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion_proto::protobuf::ArrowType;
use swiftwater_text::query::Operator as WordsOperator;
use swiftwater_text::{SearchField, TableSearch};

use super::statistics::BoundStatistics;
use super::{BoundSearch, Output, Query, fault};

/// A query and the columns that it searches. The statistics of a score are an argument of its function.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SearchMessage {
    #[prost(string, tag = "1")]
    text: String,
    #[prost(bool, tag = "2")]
    any_word: bool,
    #[prost(bool, tag = "3")]
    is_of_value: bool,
    /// 0: the truth, 1: the score, 2: a snippet.
    #[prost(uint32, tag = "4")]
    output: u32,
    #[prost(uint64, tag = "5")]
    snippet_chars: u64,
    #[prost(int64, optional, tag = "6")]
    now_micros: Option<i64>,
    #[prost(message, repeated, tag = "7")]
    fields: Vec<FieldMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct FieldMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    ty: Option<ArrowType>,
    #[prost(bool, tag = "3")]
    is_json: bool,
    #[prost(string, optional, tag = "4")]
    index: Option<String>,
}

impl SearchMessage {
    /// The search of a function; none of another function.
    pub(crate) fn of(function: &ScalarUDF) -> Option<Result<SearchMessage>> {
        let bound = function.inner().downcast_ref::<BoundSearch>()?;
        Some(SearchMessage::new(&bound.query, &bound.fields))
    }

    /// The search of an aggregate; none of another aggregate.
    pub(crate) fn of_aggregate(aggregate: &AggregateUDF) -> Option<Result<SearchMessage>> {
        let bound = aggregate.inner().downcast_ref::<BoundStatistics>()?;
        let (query, fields) = bound.parts();
        Some(SearchMessage::new(query, fields))
    }

    fn new(query: &Query, fields: &[SearchField]) -> Result<SearchMessage> {
        let (output, snippet_chars) = match query.output {
            Output::Truth => (0, 0),
            Output::Score => (1, 0),
            Output::Snippet { chars } => (2, chars as u64),
        };
        let field = |field: &SearchField| {
            Ok(FieldMessage {
                name: field.name.to_string(),
                ty: Some(ArrowType::try_from(&field.ty)?),
                is_json: field.is_json,
                index: field.index.as_deref().map(str::to_owned),
            })
        };
        Ok(SearchMessage {
            text: query.text.to_string(),
            any_word: query.operator == WordsOperator::Or,
            is_of_value: query.is_of_value,
            output,
            snippet_chars,
            now_micros: query.now_micros,
            fields: fields.iter().map(field).collect::<Result<_>>()?,
        })
    }

    fn parts(self) -> Result<(Query, Vec<SearchField>)> {
        let field = |field: FieldMessage| {
            let Some(ty) = &field.ty else { return exec_err!("a searched column has no type") };
            Ok(SearchField {
                name: field.name.into(),
                ty: ty.try_into().map_err(|error| DataFusionError::External(Box::new(error)))?,
                is_json: field.is_json,
                index: field.index.map(Into::into),
            })
        };
        let query = Query {
            text: self.text.into(),
            operator: if self.any_word { WordsOperator::Or } else { WordsOperator::And },
            is_of_value: self.is_of_value,
            output: match self.output {
                0 => Output::Truth,
                1 => Output::Score,
                _ => Output::Snippet { chars: usize::try_from(self.snippet_chars).unwrap_or(usize::MAX) },
            },
            now_micros: self.now_micros,
        };
        Ok((query, self.fields.into_iter().map(field).collect::<Result<_>>()?))
    }

    /// The function.
    pub(crate) fn function(self) -> Result<ScalarUDF> {
        let (query, fields) = self.parts()?;
        if query.is_of_value && fields.is_empty() {
            return exec_err!("a search of one value has no column");
        }
        Ok(ScalarUDF::from(BoundSearch::new(query, fields)?))
    }

    /// The aggregate.
    pub(crate) fn aggregate(self) -> Result<AggregateUDF> {
        let (query, fields) = self.parts()?;
        let now = Some(query.now_micros.unwrap_or(0));
        let search = match (query.is_of_value, fields.first()) {
            (true, None) => return exec_err!("a search of one value has no column"),
            (true, Some(field)) => TableSearch::of_value(&query.text, query.operator, field.clone(), now),
            (false, _) => TableSearch::of_rows(&query.text, query.operator, fields.clone(), now),
        };
        let search = Arc::new(search.map_err(|faults| fault(&faults))?);
        Ok(AggregateUDF::from(BoundStatistics::new(query, fields, search)))
    }
}

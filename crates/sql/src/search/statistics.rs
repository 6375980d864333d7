//! The aggregates `search_statistics('words')`, `search_statistics(column, 'words')` and `search_statistics_at(micros, 'words',
//! 'or')`: the frequencies of the words of a query in rows, as bytes that `search_score` needs.
//!
//! As with `search`, the query moves into the function, whose arguments are the columns that the query reads.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::cast::as_binary_array;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, TypeSignature, Volatility};
use swiftwater_text::{MatcherScratch, ScoreStatistics, SearchField, TableSearch};

use super::Query;

pub(super) const NAME: &str = "search_statistics";
pub(super) const NAME_AT: &str = "search_statistics_at";

/// The aggregate as a statement has it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct UnboundStatistics {
    pub(super) name: &'static str,
    pub(super) signature: Signature,
}

/// The aggregate with its query, over the columns that the query reads.
#[derive(Debug)]
pub(super) struct BoundStatistics {
    query: Query,
    fields: Vec<SearchField>,
    search: Arc<TableSearch>,
    signature: Signature,
}

impl BoundStatistics {
    pub(super) fn new(query: Query, fields: Vec<SearchField>, search: Arc<TableSearch>) -> BoundStatistics {
        let signature = Signature::one_of(
            vec![TypeSignature::Nullary, TypeSignature::VariadicAny],
            Volatility::Immutable,
        );
        BoundStatistics { query, fields, search, signature }
    }

    #[cfg(feature = "distributed")]
    pub(super) fn parts(&self) -> (&Query, &[SearchField]) {
        (&self.query, &self.fields)
    }
}

impl PartialEq for BoundStatistics {
    fn eq(&self, other: &BoundStatistics) -> bool {
        self.query == other.query && self.fields == other.fields
    }
}

impl Eq for BoundStatistics {}

impl Hash for BoundStatistics {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.query.hash(state);
        self.fields.hash(state);
    }
}

fn state_field(args: &StateFieldsArgs<'_>) -> FieldRef {
    Arc::new(Field::new(format_state_name(args.name, "statistics"), DataType::Binary, true))
}

impl AggregateUDFImpl for UnboundStatistics {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        exec_err!("{} has no columns here", self.name)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![state_field(&args)])
    }
}

impl AggregateUDFImpl for BoundStatistics {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let (search, statistics) = (Arc::clone(&self.search), self.search.no_statistics());
        Ok(Box::new(Frequencies { search, statistics, scratch: MatcherScratch::default() }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![state_field(&args)])
    }
}

/// The frequencies of words in the rows so far.
#[derive(Debug)]
struct Frequencies {
    search: Arc<TableSearch>,
    statistics: ScoreStatistics,
    scratch: MatcherScratch,
}

impl Accumulator for Frequencies {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |array| array.len());
        let columns = &values[..self.search.needed().len().min(values.len())];
        self.search.add_statistics(columns, rows, &mut self.scratch, &mut self.statistics);
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for bytes in as_binary_array(&states[0])?.iter().flatten() {
            self.statistics.merge(&read(&self.search, bytes)?);
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Binary(Some(self.statistics.to_bytes())))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.statistics.memory_bytes()
    }
}

/// The statistics that bytes are.
pub(super) fn read(search: &TableSearch, bytes: &[u8]) -> Result<ScoreStatistics> {
    let mut statistics = search.no_statistics();
    match statistics.read_bytes(bytes) {
        true => Ok(statistics),
        false => exec_err!("the statistics of a search are those of another one"),
    }
}

//! The order of hits by score: the frequencies of the query's words in all events of a stream are counted first.

use arrow_array::{RecordBatch, cast::AsArray};
use swiftwater_sql::{ErrorKind as SqlErrorKind, Parameter, SqlError};
use swiftwater_store::OFFSET_COLUMN;
use swiftwater_text::query::Operator;

use super::{
    Search, Target,
    condition::{identifier, literal},
    costs::Costs,
    cursor::Cursor,
};

/// The name by which hits are sorted by score.
pub(super) const SCORE: &str = "_score";

impl Search<'_> {
    /// True if hits are sorted by score.
    pub(super) fn is_by_score(&self) -> bool {
        self.request.sort.column == SCORE
    }

    /// Counts the frequencies of words in each stream, or takes those of the page before.
    pub(super) async fn count_words(
        &self,
        targets: &mut [Target],
        cursor: Option<&Cursor>,
        costs: &mut Costs,
    ) -> Result<(), SqlError> {
        if !self.is_by_score() {
            return Ok(());
        }
        for (place, target) in targets.iter_mut().enumerate() {
            let known = cursor.and_then(|cursor| cursor.statistics.get(place));
            target.statistics = match known {
                Some(statistics) => statistics.clone(),
                None => self.statistics(place, target, costs).await?,
            };
        }
        Ok(())
    }

    /// The frequencies of words in the events of a stream, of all times.
    async fn statistics(
        &self,
        place: usize,
        target: &Target,
        costs: &mut Costs,
    ) -> Result<Vec<u8>, SqlError> {
        let (mut sum, counted) = match target.stored.table() {
            Some(table) => table
                .score_statistics(&target.search, target.position)
                .await
                .map_err(|error| SqlError::new(SqlErrorKind::Unavailable, error.to_string()))?,
            None => (target.search.no_statistics(), Vec::new()),
        };
        let mut text = format!(
            "SELECT search_statistics_at({}) FROM {} WHERE {OFFSET_COLUMN} < {}",
            self.search_arguments(target),
            identifier(target.stored.name.as_str()),
            target.position
        );
        for range in counted {
            text += &format!(" AND ({OFFSET_COLUMN} < {} OR {OFFSET_COLUMN} >= {})", range.start, range.end);
        }
        let mut statistics = Vec::new();
        let mut take = |rows: &RecordBatch| {
            if let Some(bytes) = rows.column(0).as_binary_opt::<i32>().filter(|_| rows.num_rows() > 0) {
                statistics = bytes.value(0).to_vec();
            }
            Ok(())
        };
        self.read(("statistics", Some(place)), (text, Vec::new()), costs, &mut take).await?;
        let mut of_rows = target.search.no_statistics();
        if !of_rows.read_bytes(&statistics) {
            return Err(SqlError::new(SqlErrorKind::Internal, "statistics of another search"));
        }
        sum.merge(&of_rows);
        Ok(sum.to_bytes())
    }

    /// The score of a row as SQL, whose statistics become a parameter.
    pub(super) fn score(&self, target: &Target, parameters: &mut Vec<Parameter>) -> String {
        parameters.push(Parameter::Binary(target.statistics.clone()));
        format!("search_score_at({}, ${})", self.search_arguments(target), parameters.len())
    }

    /// The first arguments of the functions of a search: the time of `now`, the query, and how words are joined.
    pub(super) fn search_arguments(&self, target: &Target) -> String {
        let operator = match self.request.operator {
            Operator::And => "and",
            Operator::Or => "or",
        };
        let query = self.request.query_of(&target.stored.name);
        format!("{}, {}, '{operator}'", self.moments.now_micros, literal(query))
    }
}

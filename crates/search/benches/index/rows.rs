//! The rows: generated JSON as Arrow columns, with the definition of their index.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, cast::AsArray};
use arrow_schema::{DataType, Field, Schema};
use serde_json::Value;
use swiftwater_testkit::{Workload, log_searches};
use swiftwater_text::{
    Analyzer, AnalyzerScratch, ColumnIndex, IdIndex, SEARCH_METADATA, SearchField, TextIndex,
};

/// Rows of a batch.
pub(crate) const BATCH_ROWS: usize = 1000;
/// The rows that have a rare word.
const RARE_ROWS: usize = 20;

/// The kind of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Id,
    Number,
}

/// Rows with an index.
pub(crate) struct Rows {
    pub(crate) columns: Vec<(&'static str, Kind)>,
    pub(crate) fields: Vec<SearchField>,
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) count: usize,
    /// The bytes of the JSON.
    pub(crate) bytes: usize,
    /// The JSON, a line for each row.
    pub(crate) json: Vec<u8>,
}

/// So many log lines.
pub(crate) fn log_lines(count: usize) -> Rows {
    let columns = [
        ("level", Kind::Id),
        ("service", Kind::Id),
        ("host", Kind::Id),
        ("trace_id", Kind::Id),
        ("span_id", Kind::Id),
        ("status", Kind::Number),
        ("message", Kind::Text),
        ("stack", Kind::Text),
    ];
    let mut lines = log_searches::log_lines();
    rows(&columns, count, |out| lines.push(out))
}

/// So many articles.
pub(crate) fn articles(count: usize) -> Rows {
    let columns = [
        ("sha1", Kind::Id),
        ("title", Kind::Text),
        ("contributor_username", Kind::Text),
        ("contributor_id", Kind::Number),
        ("comment", Kind::Text),
        ("model", Kind::Id),
        ("format", Kind::Id),
        ("text", Kind::Text),
    ];
    let mut articles = Workload::Articles.begin(1).unwrap();
    rows(&columns, count, |out| articles.push(out))
}

fn field((name, kind): (&str, Kind)) -> Field {
    let mut index = ColumnIndex::default();
    match kind {
        Kind::Text => index.text = Some(TextIndex::default()),
        Kind::Id | Kind::Number => index.id = Some(IdIndex::default()),
    }
    let ty = if kind == Kind::Number { DataType::Int64 } else { DataType::Utf8View };
    Field::new(name, ty, true).with_metadata([(SEARCH_METADATA.to_owned(), index.to_metadata())].into())
}

fn rows(columns: &[(&'static str, Kind)], count: usize, mut push: impl FnMut(&mut Vec<u8>)) -> Rows {
    let fields: Vec<Field> = columns.iter().map(|column| field(*column)).collect();
    let schema = Arc::new(Schema::new(fields.clone()));
    let (mut batches, mut json) = (Vec::new(), Vec::new());
    for _ in 0..count.div_ceil(BATCH_ROWS) {
        let start = json.len();
        (0..BATCH_ROWS).for_each(|_| push(&mut json));
        let events: Vec<Value> = json[start..]
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect();
        let array = |(name, kind): &(&str, Kind)| -> ArrayRef {
            match kind {
                Kind::Number => {
                    Arc::new(events.iter().map(|event| event[name].as_i64()).collect::<Int64Array>())
                }
                _ => Arc::new(events.iter().map(|event| event[name].as_str()).collect::<StringViewArray>()),
            }
        };
        batches.push(RecordBatch::try_new(Arc::clone(&schema), columns.iter().map(array).collect()).unwrap());
    }
    let (count, bytes) = (batches.len() * BATCH_ROWS, json.len());
    let fields = fields.iter().map(SearchField::of).collect();
    Rows { columns: columns.to_vec(), fields, batches, count, bytes, json }
}

impl Rows {
    /// Visits the texts of a column.
    fn for_each_text(&self, column: &str, mut visit: impl FnMut(&str)) {
        for batch in &self.batches {
            let texts = batch.column_by_name(column).unwrap().as_string_view();
            texts.iter().flatten().for_each(&mut visit);
        }
    }

    /// A word that few rows have, the first by name.
    pub(crate) fn rare_word(&self, column: &str) -> String {
        let mut rows_by_word: HashMap<String, usize> = HashMap::new();
        self.for_each_text(column, |text| {
            let mut words: Vec<&str> =
                text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.len() > 5).collect();
            words.sort_unstable();
            words.dedup();
            for word in words.into_iter().filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())) {
                *rows_by_word.entry(word.to_owned()).or_default() += 1;
            }
        });
        let rare = rows_by_word.into_iter().filter(|(_, rows)| *rows == RARE_ROWS).map(|(word, _)| word);
        rare.min().expect("some word is rare")
    }

    /// The rows that have these words one after the other, by reading all of them.
    pub(crate) fn count_of(&self, column: &str, words: &[&str]) -> u64 {
        let (analyzer, mut scratch, mut count) = (Analyzer::default(), AnalyzerScratch::default(), 0);
        self.for_each_text(column, |text| {
            let mut tokens: Vec<String> = Vec::new();
            analyzer.for_each_token(text, &mut scratch, |token| tokens.push(token.text.to_owned()));
            count += u64::from(tokens.windows(words.len()).any(|part| part == words));
        });
        count
    }
}

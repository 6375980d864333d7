//! The time to index log lines, and to find rows by the index: `cargo bench -p swiftwater-search`.
//!
//! `bare_tantivy` indexes the same fields and tokens with tantivy's own writer, on one thread, of documents that were divided into
//! tokens beforehand; `companion` divides the texts, too.

#![allow(clippy::unwrap_used, reason = "what fails here fails the benchmark")]

use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, StringArray};
use arrow_schema::DataType;
use divan::{Bencher, counter::ItemsCount};
use swiftwater_generate::{LogsSettings, Workload};
use swiftwater_search::{Companion, IndexBuilder, Segment, merge};
use swiftwater_text::{
    Analyzer, AnalyzerScratch, ColumnIndex, IdIndex, SearchField, TableSearch, TextIndex, query::Operator,
};
use tantivy::{
    IndexSettings, SingleSegmentIndexWriter, TantivyDocument,
    directory::RamDirectory,
    schema::{IndexRecordOption, Schema, TextFieldIndexing, TextOptions},
    tokenizer::{PreTokenizedString, Token},
};

const ROWS: usize = 200_000;
const COLUMNS: [&str; 5] = ["message", "level", "service", "host", "trace_id"];

fn main() {
    divan::main();
}

/// The log lines, by column.
static LINES: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
    let mut events = Workload::Logs(LogsSettings::default()).begin(1).unwrap();
    let mut columns = vec![Vec::with_capacity(ROWS); COLUMNS.len()];
    let mut line = Vec::new();
    for _ in 0..ROWS {
        line.clear();
        events.push(&mut line);
        let event: serde_json::Value = serde_json::from_slice(&line).unwrap();
        for (column, name) in columns.iter_mut().zip(COLUMNS) {
            column.push(event[name].as_str().unwrap_or_default().to_owned());
        }
    }
    columns
});

fn fields() -> Vec<SearchField> {
    let field = |name: &&str| {
        let index = match *name {
            "message" => {
                ColumnIndex { text: Some(TextIndex::default()), is_default: true, ..ColumnIndex::default() }
            }
            _ => ColumnIndex { id: Some(IdIndex::default()), ..ColumnIndex::default() },
        };
        SearchField {
            name: (*name).into(),
            ty: DataType::Utf8,
            is_json: false,
            index: Some(index.to_metadata().into()),
        }
    };
    COLUMNS.iter().map(field).collect()
}

fn arrays() -> Vec<ArrayRef> {
    LINES.iter().map(|column| Arc::new(StringArray::from_iter_values(column)) as ArrayRef).collect()
}

fn build(arrays: &[ArrayRef]) -> Segment {
    let mut builder = IndexBuilder::new(&fields());
    builder.add(arrays, arrays[0].len());
    builder.finish().unwrap()
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn companion(bencher: Bencher) {
    let arrays = arrays();
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| build(&arrays));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn merged(bencher: Bencher) {
    let arrays = arrays();
    let pieces: Vec<Companion> = (0..10)
        .map(|piece| {
            let length = ROWS / 10;
            let arrays: Vec<ArrayRef> =
                arrays.iter().map(|array| array.slice(piece * length, length)).collect();
            build(&arrays).open().unwrap()
        })
        .collect();
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| merge(&pieces.iter().collect::<Vec<_>>()).unwrap());
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn bare_tantivy(bencher: Bencher) {
    let mut schema = Schema::builder();
    let options = |tokenizer: &str, option| {
        let indexing = TextFieldIndexing::default().set_tokenizer(tokenizer).set_index_option(option);
        TextOptions::default().set_indexing_options(indexing)
    };
    let ids: Vec<_> = COLUMNS[1..]
        .iter()
        .map(|name| schema.add_text_field(name, options("raw", IndexRecordOption::Basic)))
        .collect();
    let message =
        schema.add_text_field("message", options("default", IndexRecordOption::WithFreqsAndPositions));
    let schema = schema.build();
    let (analyzer, mut scratch) = (Analyzer::default(), AnalyzerScratch::default());
    let documents: Vec<TantivyDocument> = (0..ROWS)
        .map(|row| {
            let mut document = TantivyDocument::default();
            for (id, column) in ids.iter().zip(&LINES[1..]) {
                document.add_text(*id, &column[row]);
            }
            let mut tokens = Vec::new();
            analyzer.for_each_token(&LINES[0][row], &mut scratch, |token| {
                tokens.push(Token {
                    offset_from: token.start,
                    offset_to: token.end,
                    position: token.position as usize,
                    text: token.text.to_owned(),
                    position_length: 1,
                });
            });
            document.add_pre_tokenized_text(message, PreTokenizedString { text: String::new(), tokens });
            document
        })
        .collect();
    bencher.counter(ItemsCount::new(ROWS)).with_inputs(|| documents.clone()).bench_local_values(
        |documents| {
            let index =
                tantivy::Index::create(RamDirectory::create(), schema.clone(), IndexSettings::default())
                    .unwrap();
            let mut writer = SingleSegmentIndexWriter::new(index, 512 << 20).unwrap();
            for document in documents {
                writer.add_document(document).unwrap();
            }
            writer.finalize().unwrap()
        },
    );
}

#[divan::bench(args = ["connection", "\"connection refused\"", "zzz", "host:web-1", "con*", "*tion"])]
fn select(bencher: Bencher, query: &str) {
    static INDEX: LazyLock<Companion> = LazyLock::new(|| build(&arrays()).open().unwrap());
    let search = TableSearch::of_rows(query, Operator::And, fields(), None).unwrap();
    let asked = search.index_query();
    bencher.bench_local(|| INDEX.select(&asked).unwrap());
}

/// The search of the same rows without the index.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn scan(bencher: Bencher) {
    let arrays = arrays();
    let search = TableSearch::of_rows("connection", Operator::And, fields(), None).unwrap();
    let needed: Vec<ArrayRef> = search.needed().iter().map(|place| Arc::clone(&arrays[*place])).collect();
    bencher
        .counter(ItemsCount::new(ROWS))
        .bench_local(|| search.matches(&needed, ROWS, &mut swiftwater_text::MatcherScratch::default()));
}

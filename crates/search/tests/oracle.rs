//! The rows that a companion selects, compared with those that a scan finds: for random columns, definitions, rows and queries;
//! built whole, in pieces that are merged, and read from a file.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{io, ops::Range, sync::Arc};

use arrow_array::{
    Array, ArrayRef, RecordBatch, StringArray, StringViewArray,
    builder::{Float64Builder, ListBuilder, StringBuilder},
};
use arrow_schema::{DataType, Field, Schema};
use swiftwater_search::{
    Companion, CompanionError, DataFile, IndexBuilder, ReadBytes, Segment, merge, write_companion,
};
use swiftwater_testkit::{
    Rng,
    search::{SearchOracle, SearchValue, SearchedRow, random_row},
};
use swiftwater_text::{
    AnalyzerOptions, ColumnIndex, EVENT_COLUMN, FacetIndex, IdIndex, Language, MatcherScratch,
    SEARCH_METADATA, ScoreStatistics, SearchField, TableSearch, TextIndex, json_field, query::Operator,
};

/// The bytes of a file.
#[derive(Debug)]
struct Bytes(Vec<u8>);

impl ReadBytes for Bytes {
    fn length(&self) -> usize {
        self.0.len()
    }

    fn read(&self, range: Range<usize>) -> io::Result<Vec<u8>> {
        let found = self.0.get(range.clone());
        found.map(<[u8]>::to_vec).ok_or_else(|| io::Error::other(format!("no bytes {range:?}")))
    }
}

/// A table with its rows.
struct Table {
    fields: Vec<SearchField>,
    rows: RecordBatch,
}

fn json(values: &[SearchValue]) -> String {
    let json = values.iter().map(|value| match value {
        SearchValue::Text(text) => serde_json::to_string(text).unwrap(),
        SearchValue::Number(number) => number.to_string(),
    });
    format!("[{}]", json.collect::<Vec<_>>().join(","))
}

fn text_of(values: &[SearchValue]) -> Option<String> {
    values.iter().find_map(|value| match value {
        SearchValue::Text(text) => Some(text.clone()),
        SearchValue::Number(_) => None,
    })
}

/// A column of texts, in one of the shapes that tables have.
fn text_column(rng: &mut Rng, name: &str, rows: &[SearchedRow]) -> (Field, ArrayRef) {
    match rng.below(4) {
        0 => {
            let texts: StringArray = rows.iter().map(|row| text_of(&row[name])).collect();
            (Field::new(name, DataType::Utf8, true), Arc::new(texts))
        }
        1 => {
            let texts: StringViewArray = rows.iter().map(|row| text_of(&row[name])).collect();
            (Field::new(name, DataType::Utf8View, true), Arc::new(texts))
        }
        2 => {
            let texts: StringArray = rows.iter().map(|row| Some(json(&row[name]))).collect();
            (json_field(&Field::new(name, DataType::Utf8, true)), Arc::new(texts))
        }
        _ => {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for row in rows {
                for value in &row[name] {
                    if let SearchValue::Text(text) = value {
                        lists.values().append_value(text);
                    }
                }
                lists.append(true);
            }
            let array = lists.finish();
            (Field::new(name, array.data_type().clone(), true), Arc::new(array))
        }
    }
}

fn number_column(rng: &mut Rng, rows: &[SearchedRow]) -> (Field, ArrayRef) {
    if rng.chance(0.5) {
        let texts: StringArray = rows.iter().map(|row| Some(json(&row["n"]))).collect();
        return (json_field(&Field::new("n", DataType::Utf8, true)), Arc::new(texts));
    }
    let mut lists = ListBuilder::new(Float64Builder::new());
    for row in rows {
        for value in &row["n"] {
            if let SearchValue::Number(number) = value {
                lists.values().append_value(*number);
            }
        }
        lists.append(true);
    }
    let array = lists.finish();
    (Field::new("n", array.data_type().clone(), true), Arc::new(array))
}

/// The events of some rows, as another sender may have sent them.
fn event_column(rng: &mut Rng, rows: &[SearchedRow]) -> (Field, ArrayRef) {
    let chance = [0.0, 0.2, 1.0][rng.below(3)];
    let events = rows.iter().map(|row| {
        let event = |row: &SearchedRow| {
            let fields = row.iter().map(|(name, values)| format!("\"{name}\":{}", json(values)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        };
        let other = random_row(rng);
        rng.chance(chance).then(|| event(if rng.chance(0.5) { row } else { &other }))
    });
    let texts: StringArray = events.collect::<Vec<_>>().into();
    (Field::new(EVENT_COLUMN, DataType::Utf8, true), Arc::new(texts))
}

fn random_index(rng: &mut Rng) -> Option<ColumnIndex> {
    if rng.chance(0.15) {
        return None;
    }
    let text = rng.chance(0.7).then(|| TextIndex {
        analyzer: AnalyzerOptions {
            stem: rng.chance(0.2).then_some(Language::English),
            fold_accents: rng.chance(0.2),
            split_code: rng.chance(0.2),
        },
        has_positions: rng.chance(0.8),
        ..TextIndex::default()
    });
    let separator = rng.chance(0.7).then(|| "-".into());
    Some(ColumnIndex {
        text,
        id: rng.chance(0.3).then(IdIndex::default),
        facet: rng.chance(0.3).then_some(FacetIndex { separator }),
        is_default: rng.chance(0.5),
    })
}

fn random_table(rng: &mut Rng, count: usize) -> Table {
    let rows: Vec<SearchedRow> = (0..count).map(|_| random_row(rng)).collect();
    let mut columns =
        vec![text_column(rng, "a", &rows), text_column(rng, "b", &rows), number_column(rng, &rows)];
    if rng.chance(0.7) {
        columns.push(event_column(rng, &rows));
    }
    let covers_all = rng.chance(0.5);
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (field, array) in columns {
        let index = if covers_all && rng.chance(0.8) {
            Some(ColumnIndex { text: Some(TextIndex::default()), is_default: true, ..ColumnIndex::default() })
        } else {
            random_index(rng)
        };
        let mut metadata = field.metadata().clone();
        metadata.extend(index.map(|index| (SEARCH_METADATA.to_owned(), index.to_metadata())));
        fields.push(field.with_metadata(metadata));
        arrays.push(array);
    }
    let search_fields = fields.iter().map(SearchField::of).collect();
    Table {
        fields: search_fields,
        rows: RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap(),
    }
}

impl Table {
    fn build(&self, rows: Range<usize>) -> Segment {
        let mut builder = IndexBuilder::new(&self.fields);
        let places = builder.places();
        let mut at = rows.start;
        while at < rows.end {
            let length = (rows.end - at).min(7);
            let batch = self.rows.slice(at, length);
            let arrays: Vec<ArrayRef> = places.iter().map(|place| Arc::clone(batch.column(*place))).collect();
            builder.add(&arrays, length);
            at += length;
        }
        builder.finish().unwrap()
    }

    /// The frequencies of words that a scan counts.
    fn statistics(&self, search: &TableSearch) -> ScoreStatistics {
        let arrays: Vec<ArrayRef> =
            search.needed().iter().map(|place| Arc::clone(self.rows.column(*place))).collect();
        let mut statistics = search.no_statistics();
        let rows = self.rows.num_rows();
        search.add_statistics(&arrays, rows, &mut MatcherScratch::default(), &mut statistics);
        statistics
    }

    /// The rows that a scan finds.
    fn scan(&self, search: &TableSearch) -> Vec<u32> {
        let arrays: Vec<ArrayRef> =
            search.needed().iter().map(|place| Arc::clone(self.rows.column(*place))).collect();
        let found = search.matches(&arrays, self.rows.num_rows(), &mut MatcherScratch::default());
        (0..self.rows.num_rows() as u32).filter(|row| found.value(*row as usize)).collect()
    }
}

fn cases() -> u64 {
    std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300)
}

/// A seed whose table has no default column, and columns with analyzers of their own.
const WITHOUT_DEFAULTS: u64 = 789;

fn data_file(rows: usize) -> DataFile {
    DataFile { path: "part-0.parquet".to_owned(), bytes: 1000, rows: rows as u32 }
}

#[test]
fn the_rows_that_are_selected_are_those_of_a_scan() {
    let oracle = SearchOracle::default();
    let (mut exact, mut decided, mut counted, mut asked) = (0_u64, 0_u64, 0_u64, 0_u64);
    for seed in (0..cases()).chain([WITHOUT_DEFAULTS]) {
        let mut rng = Rng::new(seed);
        let count = 1 + rng.below(60);
        let table = random_table(&mut rng, count);
        let segment = table.build(0..count);
        let mut file = Vec::new();
        write_companion(&segment, "d1", &data_file(count), &mut file).unwrap();
        let of_file = Companion::open(Arc::new(Bytes(file)), "d1", &data_file(count)).unwrap();
        let of_memory = segment.open().unwrap();
        for _ in 0..20 {
            let query = oracle.random_query(&mut rng, 3).text();
            let operator = if rng.chance(0.5) { Operator::And } else { Operator::Or };
            let Ok(search) = TableSearch::of_rows(&query, operator, table.fields.clone(), None) else {
                continue;
            };
            let asked_of_index = search.index_query();
            let selection = of_memory.select(&asked_of_index).unwrap();
            assert_eq!(of_file.select(&asked_of_index).unwrap(), selection, "seed {seed}: {query}");
            let found = table.scan(&search);
            let context = || format!("seed {seed}: {query} {asked_of_index:?} over {:?}", table.fields);
            for row in &found {
                assert!(selection.possible.contains(*row), "row {row} is excluded, {}", context());
            }
            for row in &selection.certain {
                assert!(found.contains(&row), "row {row} is included, {}", context());
            }
            if let Some(statistics) = of_file.statistics(&search).unwrap() {
                assert_eq!(statistics, table.statistics(&search), "{}", context());
                counted += u64::from(statistics != search.no_statistics());
            }
            asked += 1;
            exact += u64::from(selection.is_exact());
            decided += u64::from(selection.possible.len() < count as u64);
        }
    }
    assert!(asked > cases() * 8, "{asked} of {} queries were asked", cases() * 20);
    assert!(counted > asked / 10, "words were counted for {counted} of {asked}");
    assert!(exact > asked / 5 && decided > asked / 4, "{exact} exact, {decided} narrowed of {asked}");
}

#[test]
fn merged_segments_are_the_segment_of_all_rows() {
    for seed in 0..cases() {
        let mut rng = Rng::new(seed);
        // More rows than one block of postings has.
        let count = rng.below(600);
        let table = random_table(&mut rng, count);
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < count {
            let end = (at + 1 + rng.below(count)).min(count);
            pieces.push(table.build(at..end).open().unwrap());
            at = end;
        }
        let merged = merge(&pieces.iter().collect::<Vec<_>>()).unwrap();
        if !pieces.is_empty() {
            assert_eq!(merged, table.build(0..count), "seed {seed}");
        }
    }
}

#[test]
fn damage_is_noticed_or_makes_no_difference() {
    let oracle = SearchOracle::default();
    let mut noticed = 0;
    for seed in 0..cases() {
        let mut rng = Rng::new(seed);
        let count = 1 + rng.below(40);
        let table = random_table(&mut rng, count);
        let mut file = Vec::new();
        write_companion(&table.build(0..count), "d1", &data_file(count), &mut file).unwrap();
        match rng.below(3) {
            0 => file.truncate(rng.below(file.len())),
            1 => {
                let at = rng.below(file.len());
                file[at] ^= 1 << rng.below(8);
            }
            _ => file.push(0),
        }
        let intact = table.build(0..count).open().unwrap();
        let query = oracle.random_query(&mut rng, 2).text();
        let Ok(search) = TableSearch::of_rows(&query, Operator::And, table.fields.clone(), None) else {
            continue;
        };
        let asked = search.index_query();
        let answer = Companion::open(Arc::new(Bytes(file)), "d1", &data_file(count))
            .and_then(|companion| companion.select(&asked));
        match answer {
            Ok(selection) => {
                assert_eq!(selection, intact.select(&asked).unwrap(), "seed {seed}")
            }
            Err(CompanionError::Damaged(_) | CompanionError::Foreign(_)) => noticed += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    assert!(noticed > cases() / 2, "{noticed} of {}", cases());
}

#[test]
fn files_of_others_are_refused() {
    let table = random_table(&mut Rng::new(1), 5);
    let mut file = Vec::new();
    write_companion(&table.build(0..5), "d1", &data_file(5), &mut file).unwrap();
    let open = |definition: &str, data_file: &DataFile| {
        Companion::open(Arc::new(Bytes(file.clone())), definition, data_file)
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert_eq!(open("d1", &data_file(5)), Ok(()));
    assert_eq!(open("d2", &data_file(5)), Err("a search index file is of another definition".to_owned()));
    let expected = "a search index file is of the data file part-0.parquet of 1000 bytes and 5 rows";
    assert_eq!(open("d1", &data_file(6)), Err(expected.to_owned()));
}

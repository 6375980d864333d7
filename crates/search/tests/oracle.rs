//! The rows that a companion selects, compared with those that a scan finds: for random columns, definitions, rows and queries;
//! built whole, in pieces that are merged, and read from a file.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{
    collections::BTreeSet,
    fs::File,
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow_array::{
    Array, ArrayRef, RecordBatch, StringArray, StringViewArray,
    builder::{Float64Builder, ListBuilder, StringBuilder},
    new_null_array,
};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat;
use swiftwater_search::{
    BuildLimits, Companion, CompanionError, DataFile, FieldKind, IndexBuilder, IndexField, MergedFields,
    ReadAhead, ReadBytes, ScratchFiles, Segment, merge, write_companion,
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

/// Scratch files, counted.
#[derive(Debug, Default)]
struct Scratch(AtomicUsize);

impl ScratchFiles for Scratch {
    fn create(&self) -> io::Result<File> {
        self.0.fetch_add(1, Ordering::Relaxed);
        tempfile::tempfile()
    }
}

/// Limits that every row exceeds, and the files that are created for it.
fn least_limits() -> (BuildLimits, Arc<Scratch>) {
    let scratch = Arc::new(Scratch::default());
    let files = Arc::clone(&scratch) as Arc<dyn ScratchFiles>;
    (BuildLimits { memory_bytes_max: 0, scratch: files }, scratch)
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
        self.build_within(rows, None)
    }

    fn build_within(&self, rows: Range<usize>, limits: Option<BuildLimits>) -> Segment {
        let mut builder = IndexBuilder::new(&self.fields, limits);
        let places = builder.places();
        let mut at = rows.start;
        while at < rows.end {
            let length = (rows.end - at).min(7);
            let batch = self.rows.slice(at, length);
            let arrays: Vec<ArrayRef> = places.iter().map(|place| Arc::clone(batch.column(*place))).collect();
            builder.add(&arrays, length).unwrap();
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
        let pieces: Vec<&Companion> = pieces.iter().collect();
        let whole = table.build(0..count);
        assert_eq!(merge(&pieces, MergedFields::new(&table.fields), None).unwrap(), whole, "seed {seed}");
        let (limits, _) = least_limits();
        let merged = merge(&pieces, MergedFields::new(&table.fields), Some(&limits)).unwrap();
        assert_eq!(merged, whole, "seed {seed}, within limits");
    }
}

#[test]
fn a_segment_of_runs_is_the_segment_that_is_built_in_memory() {
    let mut files = 0;
    for seed in 0..cases() {
        let mut rng = Rng::new(seed);
        // A run for each row; some rounds have runs of three levels.
        let count = if seed % 50 == 0 { 300 } else { rng.below(50) };
        let table = random_table(&mut rng, count);
        let (limits, scratch) = least_limits();
        assert_eq!(table.build_within(0..count, Some(limits)), table.build(0..count), "seed {seed}");
        files += scratch.0.load(Ordering::Relaxed);
    }
    assert!(files as u64 > 30 * cases(), "{files} scratch files");
}

/// A table as it was before its last column was added.
fn without_last_column(table: &Table) -> Table {
    let columns = table.fields.len() - 1;
    let places: Vec<usize> = (0..columns).collect();
    Table { fields: table.fields[..columns].to_vec(), rows: table.rows.project(&places).unwrap() }
}

#[test]
fn rows_from_before_a_column_was_added_have_no_values_in_it() {
    for seed in 0..cases() / 3 {
        let mut rng = Rng::new(seed);
        let count = 2 + rng.below(60);
        let table = random_table(&mut rng, count);
        let old = without_last_column(&table);
        let half = count / 2;
        // The rows of the first half as they are read once the column is there.
        let last = table.rows.num_columns() - 1;
        let mut arrays = table.rows.columns().to_vec();
        let ty = arrays[last].data_type().clone();
        let parts = [new_null_array(&ty, half), arrays[last].slice(half, count - half)];
        arrays[last] = concat(&parts.iter().map(|part| &**part).collect::<Vec<_>>()).unwrap();
        let rows = RecordBatch::try_new(table.rows.schema(), arrays).unwrap();
        let whole = Table { fields: table.fields.clone(), rows };
        let fields = MergedFields::new(&table.fields);
        let pieces = [old.build(0..half).open().unwrap(), table.build(half..count).open().unwrap()];
        assert!(pieces.iter().all(|piece| fields.include(piece)), "seed {seed}");
        let merged = merge(&pieces.iter().collect::<Vec<_>>(), fields, None).unwrap();
        assert_eq!(merged, whole.build(0..count), "seed {seed}");
        assert!(!MergedFields::new(&old.fields).include(&pieces[1]), "seed {seed}: the column is unknown");
    }
}

#[test]
fn all_terms_are_visited_in_the_order_of_their_keys() {
    let index = ColumnIndex { text: Some(TextIndex::default()), ..ColumnIndex::default() };
    let metadata = [(SEARCH_METADATA.to_owned(), index.to_metadata())].into();
    let fields = vec![SearchField::of(&Field::new("a", DataType::Utf8, true).with_metadata(metadata))];
    let mut rng = Rng::new(1);
    let texts: Vec<String> = (0..3_000).map(|row| format!("w{row} v{} common", rng.below(1_000))).collect();
    let words: BTreeSet<&str> = texts.iter().flat_map(|text| text.split(' ')).collect();
    let array: ArrayRef = Arc::new(texts.iter().map(Some).collect::<StringArray>());
    let schema = Schema::new(vec![Field::new("a", DataType::Utf8, true)]);
    let table = Table { fields, rows: RecordBatch::try_new(Arc::new(schema), vec![array]).unwrap() };
    let segment = table.build(0..texts.len());
    let all_bytes = segment.bytes() as u64;
    let (mut visited, mut bytes_of_words) = (Vec::new(), 0);
    let visit = &mut |field: &IndexField, key: &[u8], bytes: u64| {
        assert!(bytes > key.len() as u64, "rows have bytes");
        if field.kind == FieldKind::Words {
            visited.push(String::from_utf8(key.to_vec()).unwrap());
            bytes_of_words += bytes;
        }
    };
    segment.open().unwrap().visit_terms(visit).unwrap();
    assert!(visited.iter().map(String::as_str).eq(words), "{} terms", visited.len());
    assert!(bytes_of_words < all_bytes * 2, "{bytes_of_words} bytes of terms in {all_bytes}");
}

#[test]
fn files_that_are_read_ahead_merge_alike_and_damage_is_noticed() {
    let mut noticed = 0;
    for seed in 0..cases() / 3 {
        let mut rng = Rng::new(seed);
        // Some tables have more postings than are read at once.
        let count = 2 + rng.below(if seed % 25 == 0 { 20_000 } else { 200 });
        let table = random_table(&mut rng, count);
        let half = count / 2;
        let damaged = rng.chance(0.3);
        let file = |rows: Range<usize>, damage: Option<usize>| {
            let (mut file, of) = (Vec::new(), data_file(rows.len()));
            write_companion(&table.build(rows), "d1", &of, &mut file).unwrap();
            if let Some(at) = damage {
                let at = at % file.len();
                file[at] ^= 1;
            }
            let ahead = ReadAhead::new(Arc::new(Bytes(file)), 0);
            Companion::open(Arc::new(ahead), "d1", &of)
        };
        let at = damaged.then(|| rng.below(1 << 20));
        let merged = file(0..half, None).and_then(|first| {
            let second = file(half..count, at)?;
            merge(&[&first, &second], MergedFields::new(&table.fields), None)
        });
        match merged {
            Ok(merged) => assert_eq!(merged, table.build(0..count), "seed {seed}"),
            Err(error) => {
                assert!(damaged, "seed {seed}: {error}");
                noticed += 1;
            }
        }
    }
    assert!(noticed > cases() / 20, "{noticed}");
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

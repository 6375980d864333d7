//! Searches rows of record batches, whose columns are those of a table.
//!
//! A stored event is a row of declared columns. If they do not describe it completely, the column `_event` has its JSON text.
//! The event's own value at a path then precedes the column's, which may be rounded or lack a part. If a column of times or of
//! floating-point numbers has a value, the event's own text there means this value, and is no text. So a search finds the same
//! events here as [`crate::EventSearch`] finds before they are stored.
//!
//! | a query asks | is searched |
//! | --- | --- |
//! | `word` | all texts of all columns, in lists, maps and JSON at any depth, and those of `_event` |
//! | `column:word`, `column.path:word` | this column, or the part of it |
//! | `_event.path:word` | fields that are no columns, where the row has the event's text |
//!
//! A field's metadata may describe the comparison of its values by a search index ([`ColumnIndex`]): then a word is
//! searched in the default columns of the index, and conditions follow the kinds and analysis of their columns.
//!
//! Each row is analyzed. [`TableSearch::index_query`] returns the rows that an index excludes.

use std::{
    cell::{OnceCell, RefCell},
    ops::Range,
    sync::Arc,
};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array,
    cast::AsArray,
    types::{
        Date32Type, Date64Type, Decimal128Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_schema::{DataType, Field, TimeUnit};
use bumpalo::Bump;
use swiftwater_event::{Value as EventValue, did_you_mean, parse_value};

use crate::{
    analyzer::{Analyzer, AnalyzerOptions},
    columns::{SearchColumn, SearchColumns, SearchRow, TextKind, UnknownColumn, Value},
    definition::{ColumnIndex, SEARCH_METADATA},
    event_search::{after_key, for_each_at, for_each_value},
    faults::QueryFaults,
    matcher::{Matcher, MatcherScratch, merge_places},
    query::{Number, Operator},
    scores::{ScoreStatistics, ScoredTerms, Words, WordsOfColumns},
};

/// The column with the JSON text of events that the other columns do not describe whole.
pub const EVENT_COLUMN: &str = "_event";

/// The metadata key and value of a field whose texts are JSON: Arrow's canonical extension type.
pub const JSON_EXTENSION: (&str, &str) = ("ARROW:extension:name", "arrow.json");

/// The number of the column of all texts; those of paths follow.
const ALL_TEXTS: u32 = 0;

/// A column of a table that is searched.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SearchField {
    /// Its name.
    pub name: Box<str>,
    /// Its type.
    pub ty: DataType,
    /// True if its texts are JSON.
    pub is_json: bool,
    /// The comparison of its values by a search index, as [`ColumnIndex::to_metadata`]; none without an index that
    /// covers it.
    pub index: Option<Box<str>>,
}

/// A query that rows of a table can be asked.
#[derive(Debug)]
pub struct TableSearch {
    pub(crate) matcher: Matcher,
    /// The values of each number behind [`ALL_TEXTS`].
    sources: Vec<Source>,
    /// The texts that words without a column are looked for in.
    defaults: Defaults,
    /// The columns that are read, by their places in the table.
    needed: Vec<usize>,
    pub(crate) fields: Vec<SearchField>,
    scored: ScoredTerms,
}

/// The texts that a word without a column is looked for in.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Defaults {
    /// All texts of these columns, by place, and of the event's own text.
    Texts(Vec<usize>),
    /// All values of the only column.
    Values,
}

/// The values that a path names.
#[derive(Debug)]
pub(crate) struct Source {
    /// Columns by place, each with the path within.
    pub(crate) columns: Vec<(usize, Box<[Box<str>]>)>,
    /// The path in the event's own text.
    pub(crate) in_event: Option<Box<[Box<str>]>>,
}

/// A path, and the values that it names.
type NamedSource = (Box<[Box<str>]>, Source);

struct Paths<'f> {
    fields: &'f [SearchField],
    /// The comparison of columns' values, by place.
    indexes: Vec<Option<ColumnIndex>>,
    defaults: Defaults,
    found: RefCell<Vec<NamedSource>>,
    analyzer: Arc<Analyzer>,
}

/// A text of a row that has places which satisfy a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Highlight {
    /// The column, or the field of the event that is no column.
    pub column: Box<str>,
    /// The text.
    pub text: Box<str>,
    /// The places: sorted, disjoint, in bytes.
    pub places: Vec<Range<usize>>,
}

/// Columns of a batch, with the arrays of those that are read.
struct Batch<'b> {
    search: &'b TableSearch,
    /// The arrays by place in the table; none for a column that is not read.
    arrays: Vec<Option<&'b dyn Array>>,
    event: Option<&'b dyn Array>,
}

struct Row<'r> {
    batch: &'r Batch<'r>,
    row: usize,
    arena: &'r Bump,
    event: OnceCell<Option<EventValue<'r>>>,
}

impl SearchField {
    /// The column of a field, whose metadata has a flag for JSON texts.
    pub fn of(field: &Field) -> SearchField {
        let is_json = field.metadata().get(JSON_EXTENSION.0).is_some_and(|name| name == JSON_EXTENSION.1);
        let index = field.metadata().get(SEARCH_METADATA).map(|index| index.as_str().into());
        SearchField { name: field.name().as_str().into(), ty: field.data_type().clone(), is_json, index }
    }

    /// The comparison of its values by a search index; none without an index that covers it.
    pub fn column_index(&self) -> Option<ColumnIndex> {
        self.index.as_deref().and_then(ColumnIndex::from_metadata)
    }
}

/// The field with metadata that says that its texts are JSON.
pub fn json_field(field: &Field) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(JSON_EXTENSION.0.to_owned(), JSON_EXTENSION.1.to_owned());
    field.clone().with_metadata(metadata)
}

impl TableSearch {
    /// A search of the rows of a table. `now_micros` is what `now` means, in microseconds since 1970; without it `now` is
    /// refused.
    pub fn of_rows(
        query: &str,
        operator: Operator,
        fields: Vec<SearchField>,
        now_micros: Option<i64>,
    ) -> Result<TableSearch, QueryFaults> {
        let is_default = |field: &SearchField| field.column_index().is_some_and(|index| index.is_default);
        let has_defaults = fields.iter().any(is_default);
        let texts = (0..fields.len()).filter(|&place| {
            let field = &fields[place];
            let is_searched = !has_defaults
                || field.column_index().is_some_and(|index| index.is_default && is_plain(&index));
            *field.name != *EVENT_COLUMN && has_texts(&field.ty) && is_searched
        });
        let defaults = Defaults::Texts(texts.collect());
        TableSearch::new(query, operator, fields, defaults, now_micros)
    }

    /// A search of the values of one column, whose conditions name no columns.
    pub fn of_value(
        query: &str,
        operator: Operator,
        field: SearchField,
        now_micros: Option<i64>,
    ) -> Result<TableSearch, QueryFaults> {
        TableSearch::new(query, operator, vec![field], Defaults::Values, now_micros)
    }

    fn new(
        query: &str,
        operator: Operator,
        fields: Vec<SearchField>,
        defaults: Defaults,
        now_micros: Option<i64>,
    ) -> Result<TableSearch, QueryFaults> {
        let indexes = fields.iter().map(SearchField::column_index).collect();
        let found = RefCell::default();
        let paths = Paths { fields: &fields, indexes, defaults, found, analyzer: Arc::default() };
        let matcher = Matcher::new(query, operator, &paths, now_micros)?;
        let Paths { found, defaults, .. } = paths;
        let sources: Vec<Source> = found.into_inner().into_iter().map(|(_, source)| source).collect();
        let scored = ScoredTerms::of(&matcher);
        let mut search = TableSearch { matcher, sources, defaults, needed: Vec::new(), fields, scored };
        search.needed = search.find_needed();
        Ok(search)
    }

    fn find_needed(&self) -> Vec<usize> {
        let mut needed = Vec::new();
        let mut needs_event = false;
        for column in self.matcher.columns() {
            match (self.source(column), &self.defaults) {
                (Some(source), _) => {
                    needed.extend(source.columns.iter().map(|(place, _)| *place));
                    needs_event |= source.in_event.is_some();
                }
                (None, Defaults::Values) => needed.push(0),
                (None, Defaults::Texts(texts)) => {
                    needed.extend(texts);
                    needs_event = true;
                    // They determine which fields of the event's own text are no texts.
                    let is_typed = |place: &usize| is_written_as_text(&self.fields[*place].ty);
                    needed.extend((0..self.fields.len()).filter(is_typed));
                }
            }
        }
        if needs_event {
            needed.extend(self.fields.iter().position(|field| *field.name == *EVENT_COLUMN));
        }
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    /// The places of the columns whose texts a word without a column is looked for in; none if one value is searched.
    pub(crate) fn all_texts(&self) -> Option<&[usize]> {
        match &self.defaults {
            Defaults::Texts(texts) => Some(texts),
            Defaults::Values => None,
        }
    }

    pub(crate) fn source(&self, column: u32) -> Option<&Source> {
        self.sources.get((column as usize).checked_sub(1)?)
    }

    /// The columns that it reads, by their places in the table, ascending.
    pub fn needed(&self) -> &[usize] {
        &self.needed
    }

    /// Returns true if every row satisfies it.
    pub fn is_everything(&self) -> bool {
        self.matcher.is_everything()
    }

    /// Returns true for each row that satisfies the query. `arrays` are the columns of [`TableSearch::needed`], in their
    /// order, of `rows` rows each. The answer has no nulls.
    pub fn matches(&self, arrays: &[ArrayRef], rows: usize, scratch: &mut MatcherScratch) -> BooleanArray {
        let batch = self.batch(arrays);
        let mut arena = Bump::new();
        (0..rows)
            .map(|row| {
                arena.reset();
                let row = Row { batch: &batch, row, arena: &arena, event: OnceCell::new() };
                Some(self.matcher.matches(&row, scratch))
            })
            .collect()
    }

    /// The frequencies of the words of the query in no rows, to be added to.
    pub fn no_statistics(&self) -> ScoreStatistics {
        self.scored.no_statistics()
    }

    /// The words whose frequencies decide scores, each with the columns that it is counted in; none if an index cannot count
    /// them, as they are looked for in a part of a column.
    pub fn scored_words(&self) -> Option<Vec<WordsOfColumns>> {
        let event = self.fields.iter().find(|field| *field.name == *EVENT_COLUMN);
        let of_field = |(column, words): (u32, Words)| {
            let (places, has_event) = match (self.source(column), &self.defaults) {
                (Some(source), _) => {
                    let whole = source.columns.iter().map(|(place, path)| path.is_empty().then_some(*place));
                    (whole.collect::<Option<Vec<usize>>>()?, source.in_event.is_some())
                }
                // An index has the words of a column as the column's own analyzer makes them.
                (None, Defaults::Texts(texts))
                    if !texts.iter().all(|place| self.has_default_words(*place)) =>
                {
                    return None;
                }
                (None, Defaults::Texts(texts)) => (texts.clone(), true),
                (None, Defaults::Values) => (vec![0], false),
            };
            let columns: Vec<SearchField> = places.iter().map(|place| self.fields[*place].clone()).collect();
            // A condition on the event's own text alone is of no column.
            if columns.is_empty() && has_event {
                return None;
            }
            Some(WordsOfColumns { columns, event: event.filter(|_| has_event).cloned(), words })
        };
        self.scored.words(&self.matcher).into_iter().map(of_field).collect()
    }

    /// True if the words of a column are made by the default analyzer.
    fn has_default_words(&self, place: usize) -> bool {
        let index = self.fields[place].column_index();
        index.is_none_or(|index| index.analyzer_options() == AnalyzerOptions::default())
    }

    /// Adds rows to statistics of the query. `arrays` are as for [`TableSearch::matches`].
    pub fn add_statistics(
        &self,
        arrays: &[ArrayRef],
        rows: usize,
        scratch: &mut MatcherScratch,
        statistics: &mut ScoreStatistics,
    ) {
        let batch = self.batch(arrays);
        let mut arena = Bump::new();
        for row in 0..rows {
            arena.reset();
            let row = Row { batch: &batch, row, arena: &arena, event: OnceCell::new() };
            self.scored.count(&self.matcher, &row, scratch, statistics);
        }
    }

    /// The scores of rows, given the statistics of all; null of a row that does not satisfy the query. `arrays` are as for
    /// [`TableSearch::matches`].
    pub fn scores(
        &self,
        arrays: &[ArrayRef],
        rows: usize,
        scratch: &mut MatcherScratch,
        statistics: &ScoreStatistics,
    ) -> Float64Array {
        let batch = self.batch(arrays);
        let mut arena = Bump::new();
        (0..rows)
            .map(|row| {
                arena.reset();
                let row = Row { batch: &batch, row, arena: &arena, event: OnceCell::new() };
                self.scored.score(&self.matcher, &row, scratch, statistics)
            })
            .collect()
    }

    /// The texts of a row with places that satisfy a condition of the query which is not negated, by column. `arrays` are as
    /// for [`TableSearch::matches`].
    pub fn highlights(
        &self,
        arrays: &[ArrayRef],
        row: usize,
        scratch: &mut MatcherScratch,
    ) -> Vec<Highlight> {
        let batch = self.batch(arrays);
        let arena = Bump::new();
        let row = Row { batch: &batch, row, arena: &arena, event: OnceCell::new() };
        let mut found: Vec<Highlight> = Vec::new();
        for column in self.matcher.columns() {
            row.for_each_named_text(column, &mut |name, text| {
                let places = self.matcher.highlights(column, text, scratch);
                if places.is_empty() {
                    return;
                }
                match found.iter_mut().find(|known| *known.column == *name && *known.text == *text) {
                    Some(known) => {
                        let places = known.places.drain(..).chain(places);
                        known.places = merge_places(places.collect());
                    }
                    None => found.push(Highlight { column: name.into(), text: text.into(), places }),
                }
            });
        }
        found
    }

    fn batch<'b>(&'b self, arrays: &'b [ArrayRef]) -> Batch<'b> {
        let mut batch = Batch { search: self, arrays: vec![None; self.fields.len()], event: None };
        for (&place, array) in self.needed.iter().zip(arrays) {
            batch.arrays[place] = Some(&**array);
            if *self.fields[place].name == *EVENT_COLUMN && self.defaults != Defaults::Values {
                batch.event = Some(&**array);
            }
        }
        batch
    }
}

impl Paths<'_> {
    /// The column of a number, whose values are compared as an index says.
    fn numbered(&self, id: u32, index: Option<&ColumnIndex>) -> SearchColumn {
        let options = index.map(ColumnIndex::analyzer_options).unwrap_or_default();
        let analyzer = match options == *self.analyzer.options() {
            true => Arc::clone(&self.analyzer),
            false => Arc::new(Analyzer::new(options)),
        };
        let kind = index.map_or(TextKind::Words, ColumnIndex::text_kind);
        SearchColumn { id, kind, analyzer, boost: index.map_or(1.0, ColumnIndex::boost) }
    }

    /// The index of the first column that a source has.
    fn index_of(&self, source: &Source) -> Option<&ColumnIndex> {
        source.columns.iter().find_map(|(place, _)| self.indexes[*place].as_ref())
    }

    fn source(&self, path: &[Box<str>]) -> Result<Source, UnknownColumn> {
        let written = path.join(".");
        if self.defaults == Defaults::Values {
            return Err(UnknownColumn {
                message: format!("`{written}:` is a condition on a column, and one value is searched"),
                hint: Some("Search the row, search('column:value'), or write the text in quotes.".to_owned()),
            });
        }
        let mut columns: Vec<(usize, Box<[Box<str>]>)> = Vec::new();
        for (place, field) in self.fields.iter().enumerate() {
            if let Some(rest) = after_key(&field.name, path) {
                columns.push((place, rest.into()));
            }
        }
        let has_event = self.fields.iter().any(|field| *field.name == *EVENT_COLUMN);
        if has_event && *path[0] == *EVENT_COLUMN {
            return Ok(Source { columns: Vec::new(), in_event: Some(path[1..].into()) });
        }
        if columns.is_empty() {
            return Err(self.unknown(&written, &path[0], has_event));
        }
        let is_scalar = |place: usize| {
            let field = &self.fields[place];
            !field.is_json && !is_nested(&field.ty)
        };
        if let Some((place, rest)) = columns.first()
            && columns.iter().all(|(place, rest)| is_scalar(*place) && !rest.is_empty())
        {
            let field = &self.fields[*place];
            return Err(UnknownColumn {
                message: format!("column `{}` has no field `{}`", field.name, rest.join(".")),
                hint: has_event.then(|| {
                    format!("`{EVENT_COLUMN}.{written}:` searches what events have there beside the column.")
                }),
            });
        }
        columns.retain(|(place, rest)| !is_scalar(*place) || rest.is_empty());
        Ok(Source { columns, in_event: has_event.then(|| path.into()) })
    }

    fn unknown(&self, written: &str, name: &str, has_event: bool) -> UnknownColumn {
        let names = self.fields.iter().map(|field| &*field.name);
        let hint = match did_you_mean(name, names) {
            Some(near) => format!("Did you mean `{near}:`?"),
            None if has_event => {
                format!("A field that is no column is searched by `{EVENT_COLUMN}.{written}:`.")
            }
            None => "A `:` in a text is written in quotation marks, or as `\\:`.".to_owned(),
        };
        UnknownColumn { message: format!("there is no column `{name}`"), hint: Some(hint) }
    }
}

impl SearchColumns for Paths<'_> {
    fn defaults(&self) -> Vec<SearchColumn> {
        let is_default = |place: &usize| self.indexes[*place].as_ref().is_some_and(|index| index.is_default);
        let named: Vec<usize> = match self.defaults {
            Defaults::Texts(_) => (0..self.fields.len()).filter(is_default).collect(),
            Defaults::Values => Vec::new(),
        };
        let has_all =
            named.is_empty() || named.iter().any(|place| *self.fields[*place].name == *EVENT_COLUMN);
        let mut columns = Vec::new();
        if has_all {
            let index = match self.defaults {
                Defaults::Texts(_) => None,
                Defaults::Values => self.indexes[0].as_ref(),
            };
            columns.push(self.numbered(ALL_TEXTS, index));
        }
        for place in named {
            let is_among_all = has_all && self.indexes[place].as_ref().is_some_and(is_plain);
            if !is_among_all {
                // A column of its own name is there.
                columns.extend(self.column(&[self.fields[place].name.clone()]));
            }
        }
        columns
    }

    fn column(&self, path: &[Box<str>]) -> Result<SearchColumn, UnknownColumn> {
        let known = self.found.borrow().iter().position(|(known, _)| **known == *path);
        let place = match known {
            Some(place) => place,
            None => {
                let source = self.source(path)?;
                let mut found = self.found.borrow_mut();
                found.push((path.into(), source));
                found.len() - 1
            }
        };
        let found = self.found.borrow();
        Ok(self.numbered(place as u32 + 1, self.index_of(&found[place].1)))
    }
}

impl Row<'_> {
    /// The event's own text, parsed once a row.
    fn event(&self) -> Option<&EventValue<'_>> {
        let event = self.event.get_or_init(|| {
            let text = text_at(self.batch.event?, self.row)?;
            parse_value(self.arena.alloc_str(text), self.arena)
        });
        event.as_ref()
    }

    fn for_each_of_column(&self, place: usize, path: &[Box<str>], visit: &mut dyn FnMut(Value<'_>)) {
        let Some(array) = self.batch.arrays[place] else { return };
        if self.batch.search.fields[place].is_json {
            let value = text_at(array, self.row).and_then(|text| parse_value(text, self.arena));
            if let Some(value) = value {
                for_each_at(&value, path, visit);
            }
            return;
        }
        for_each_of(array, self.row, path, visit);
    }

    fn for_each_of_source(&self, source: &Source, visit: &mut dyn FnMut(Value<'_>)) {
        let mut is_found = false;
        if let (Some(path), Some(event)) = (&source.in_event, self.event()) {
            let typed = source.columns.iter().find(|(place, _)| self.has_typed(*place));
            let is_time = typed.is_some_and(|(place, _)| is_time(&self.batch.search.fields[*place].ty));
            for_each_at(event, path, &mut |value| {
                let is_typed_otherwise = typed.is_some() && !matches!(value, Value::Number(_));
                if !is_time && !is_typed_otherwise {
                    is_found = true;
                    visit(value);
                }
            });
        }
        if !is_found {
            for (place, path) in &source.columns {
                self.for_each_of_column(*place, path, visit);
            }
        }
    }

    fn for_each_text(&self, texts: &[usize], visit: &mut dyn FnMut(Value<'_>)) {
        let event = self.event();
        // Texts of columns that the event's own text has again.
        let mut twice: Vec<Box<str>> = Vec::new();
        for &place in texts {
            self.for_each_of_column(place, &[], &mut |value| {
                if let Value::Text(text) = value {
                    if event.is_some() {
                        twice.push(text.into());
                    }
                    visit(value);
                }
            });
        }
        let mut visit_other = |value: Value<'_>| {
            if let Value::Text(text) = value {
                match twice.iter().position(|known| **known == *text) {
                    Some(known) => drop(twice.swap_remove(known)),
                    None => visit(value),
                }
            }
        };
        match event {
            None => {}
            Some(EventValue::Map(fields)) => {
                for (key, value) in fields.iter() {
                    if !self.has_in_typed_column(key) {
                        for_each_value(value, &mut visit_other);
                    }
                }
            }
            Some(value) => for_each_value(value, &mut visit_other),
        }
    }

    /// Visits the texts of a column of the query, each with the name of the column or field that has it.
    fn for_each_named_text(&self, column: u32, visit: &mut dyn FnMut(&str, &str)) {
        let mut on_text = |name: &str, value: Value<'_>| {
            if let Value::Text(text) = value {
                visit(name, text);
            }
        };
        let search = self.batch.search;
        match (search.source(column), &search.defaults) {
            (Some(source), _) => {
                let path = source.in_event.as_ref().map(|path| path.join("."));
                let name = source.columns.first().map(|(place, _)| search.fields[*place].name.to_string());
                let name = path.or(name).unwrap_or_default();
                self.for_each_of_source(source, &mut |value| on_text(&name, value));
            }
            (None, Defaults::Values) => {
                self.for_each_of_column(0, &[], &mut |value| on_text(&search.fields[0].name, value));
            }
            (None, Defaults::Texts(texts)) => {
                for &place in texts {
                    let name = &search.fields[place].name;
                    self.for_each_of_column(place, &[], &mut |value| on_text(name, value));
                }
                if let Some(EventValue::Map(fields)) = self.event() {
                    for (key, value) in fields.iter().filter(|(key, _)| !self.has_in_typed_column(key)) {
                        for_each_value(value, &mut |value| on_text(key, value));
                    }
                }
            }
        }
    }

    /// Returns true if a column whose values are also written as texts has a value of this field.
    fn has_in_typed_column(&self, key: &str) -> bool {
        let fields = &self.batch.search.fields;
        (0..fields.len()).any(|place| *fields[place].name == *key && self.has_typed(place))
    }

    fn has_typed(&self, place: usize) -> bool {
        is_written_as_text(&self.batch.search.fields[place].ty)
            && self.batch.arrays[place].is_some_and(|array| array.is_valid(self.row))
    }
}

impl SearchRow for Row<'_> {
    fn for_each_value(&self, column: u32, visit: &mut dyn FnMut(Value<'_>)) {
        match (self.batch.search.source(column), &self.batch.search.defaults) {
            (Some(source), _) => self.for_each_of_source(source, visit),
            (None, Defaults::Values) => self.for_each_of_column(0, &[], visit),
            (None, Defaults::Texts(texts)) => self.for_each_text(texts, visit),
        }
    }
}

/// True if texts of the column are compared and weighed as those of columns without an index.
pub(crate) fn is_plain(index: &ColumnIndex) -> bool {
    index.text_kind() == TextKind::Words
        && index.analyzer_options() == AnalyzerOptions::default()
        && index.boost() == 1.0
}

/// Returns true if values of a type are texts.
pub(crate) fn is_text(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Returns true if values of a type, or parts of them, are texts.
pub(crate) fn has_texts(ty: &DataType) -> bool {
    match ty {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_texts(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_texts(field.data_type())),
        DataType::Dictionary(_, ty) => has_texts(ty),
        _ => false,
    }
}

pub(crate) fn is_nested(ty: &DataType) -> bool {
    match ty {
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(..)
        | DataType::Map(..)
        | DataType::Struct(_) => true,
        DataType::Dictionary(_, ty) => is_nested(ty),
        _ => false,
    }
}

/// Returns true if events may have texts for values of this type.
fn is_written_as_text(ty: &DataType) -> bool {
    is_time(ty) || matches!(ty, DataType::Float32 | DataType::Float64)
}

fn is_time(ty: &DataType) -> bool {
    matches!(ty, DataType::Timestamp(..))
}

fn text_at(array: &dyn Array, row: usize) -> Option<&str> {
    if array.is_null(row) {
        return None;
    }
    match array.data_type() {
        DataType::Utf8View => Some(array.as_string_view().value(row)),
        DataType::Utf8 => Some(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Some(array.as_string::<i64>().value(row)),
        _ => None,
    }
}

/// Reads the values of columns, row by row.
#[derive(Debug, Default)]
pub struct ColumnReader {
    arena: Bump,
}

impl ColumnReader {
    /// Visits the values of a row that are not null: the one there is, or all of a list, a map or JSON at any depth. A search
    /// of the column is satisfied by one of them.
    pub fn for_each_value(
        &mut self,
        field: &SearchField,
        array: &dyn Array,
        row: usize,
        mut visit: impl FnMut(Value<'_>),
    ) {
        if field.is_json || *field.name == *EVENT_COLUMN {
            self.arena.reset();
            let value = text_at(array, row).and_then(|text| parse_value(text, &self.arena));
            if let Some(value) = value {
                for_each_value(&value, &mut visit);
            }
            return;
        }
        for_each_of(array, row, &[], &mut visit);
    }
}

/// Visits all values of a row at a path: into structs and maps by key, and into every value of a list.
fn for_each_of(array: &dyn Array, row: usize, path: &[Box<str>], visit: &mut dyn FnMut(Value<'_>)) {
    if array.is_null(row) {
        return;
    }
    match array.data_type() {
        DataType::List(_) => for_each_in(&*array.as_list::<i32>().value(row), path, visit),
        DataType::LargeList(_) => for_each_in(&*array.as_list::<i64>().value(row), path, visit),
        DataType::FixedSizeList(..) => for_each_in(&*array.as_fixed_size_list().value(row), path, visit),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let key = dictionary.normalized_keys()[row];
            for_each_of(&**dictionary.values(), key, path, visit);
        }
        DataType::Struct(fields) => {
            for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                if let Some(rest) = part(field.name(), path) {
                    for_each_of(&**column, row, rest, visit);
                }
            }
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            for entry in 0..entries.len() {
                if let Some(rest) = text_at(&**keys, entry).and_then(|key| part(key, path)) {
                    for_each_of(&**values, entry, rest, visit);
                }
            }
        }
        _ if !path.is_empty() => {}
        ty => {
            if let Some(value) = scalar(array, ty, row) {
                visit(value);
            }
        }
    }
}

fn for_each_in(values: &dyn Array, path: &[Box<str>], visit: &mut dyn FnMut(Value<'_>)) {
    for row in 0..values.len() {
        for_each_of(values, row, path, visit);
    }
}

/// The rest of a path within the value of a key; an empty path leads to every value.
fn part<'p>(key: &str, path: &'p [Box<str>]) -> Option<&'p [Box<str>]> {
    if path.is_empty() { Some(path) } else { after_key(key, path) }
}

/// A value that is not null and has no parts; none of a type that a search does not know.
fn scalar<'a>(array: &'a dyn Array, ty: &DataType, row: usize) -> Option<Value<'a>> {
    let integer = |integer: i64| Some(Value::Number(Number::Integer(integer.into())));
    let float = |float: f64| Some(Value::Number(Number::Float(float)));
    match ty {
        DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8 => text_at(array, row).map(Value::Text),
        DataType::Boolean => Some(Value::Boolean(array.as_boolean().value(row))),
        DataType::Int8 => integer(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => integer(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => integer(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => integer(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => integer(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => integer(array.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => integer(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => {
            let value = array.as_primitive::<UInt64Type>().value(row);
            Some(Value::Number(Number::Integer(value.into())))
        }
        DataType::Float16 => float(array.as_primitive::<Float16Type>().value(row).to_f64()),
        // The number with the fewest digits, which is the one that was written.
        DataType::Float32 => float(shortest(array.as_primitive::<Float32Type>().value(row))),
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(..) => {
            Number::parse(&array.as_primitive::<Decimal128Type>().value_as_string(row)).map(Value::Number)
        }
        DataType::Timestamp(unit, _) => Some(Value::Time(match unit {
            TimeUnit::Second => {
                array.as_primitive::<TimestampSecondType>().value(row).saturating_mul(1_000_000)
            }
            TimeUnit::Millisecond => {
                array.as_primitive::<TimestampMillisecondType>().value(row).saturating_mul(1000)
            }
            TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().value(row),
            TimeUnit::Nanosecond => {
                array.as_primitive::<TimestampNanosecondType>().value(row).div_euclid(1000)
            }
        })),
        DataType::Date32 => {
            let days = i64::from(array.as_primitive::<Date32Type>().value(row));
            Some(Value::Time(days.saturating_mul(86_400_000_000)))
        }
        DataType::Date64 => {
            Some(Value::Time(array.as_primitive::<Date64Type>().value(row).saturating_mul(1000)))
        }
        _ => None,
    }
}

fn shortest(float: f32) -> f64 {
    if float.is_finite() {
        float.to_string().parse().unwrap_or_else(|_| f64::from(float))
    } else {
        f64::from(float)
    }
}

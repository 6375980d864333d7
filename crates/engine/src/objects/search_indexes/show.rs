//! Describes search indexes: `SHOW SEARCH INDEXES`, `SHOW CREATE SEARCH INDEX`, `DESCRIBE SEARCH INDEX`.

use std::{collections::HashSet, sync::Arc};

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, TimestampMillisecondArray};
use swiftwater_catalog::kind::search_index::SearchIndexEntry;
use swiftwater_lang::ddl::kind_text;
use swiftwater_sql::SqlError;
use swiftwater_store::CompanionStatus;

use super::figures::ColumnFigures;
use crate::{
    answer::{table, texts},
    durable::history::History,
    error::sql::from_engine,
};

impl History {
    pub(crate) fn show_search_indexes(&self) -> RecordBatch {
        let entries: Vec<SearchIndexEntry> =
            self.with_catalog(|catalog| catalog.search_indexes().all().cloned().collect());
        let definitions = || entries.iter().map(SearchIndexEntry::definition);
        let created = TimestampMillisecondArray::from_iter_values(entries.iter().map(|entry| entry.created));
        let columns = definitions().map(|definition| definition.columns.len() as i64);
        // Null for a table that is not open.
        let status: Vec<Option<CompanionStatus>> =
            entries.iter().map(|entry| self.index_status(&entry.create.table)).collect();
        let counts = |of: &dyn Fn(&CompanionStatus) -> i64| -> ArrayRef {
            Arc::new(status.iter().map(|status| status.as_ref().map(of)).collect::<Int64Array>())
        };
        let seconds = |of: &dyn Fn(&CompanionStatus) -> Option<f64>| -> ArrayRef {
            Arc::new(status.iter().map(|status| status.as_ref().and_then(of)).collect::<Float64Array>())
        };
        let now_micros = self.clock.now_micros();
        let covers_all = definitions().map(|definition| Some(definition.covers_all));
        table([
            ("table", texts(entries.iter().map(|entry| &*entry.create.table))),
            ("created", Arc::new(created.with_timezone("UTC"))),
            ("columns", Arc::new(Int64Array::from_iter_values(columns))),
            ("covers_all", Arc::new(covers_all.collect::<BooleanArray>())),
            ("indexed_files", counts(&|status| status.indexed_files as i64)),
            ("waiting_files", counts(&|status| status.waiting_files as i64)),
            ("waiting_rows", counts(&|status| status.waiting_rows as i64)),
            ("unusable_files", counts(&|status| status.unusable as i64)),
            (
                "lag_seconds",
                seconds(&|status| {
                    let since = status.waiting_since_micros?;
                    Some((now_micros.saturating_sub(since).max(0)) as f64 / 1e6)
                }),
            ),
            ("rows_per_second", seconds(&rows_per_second)),
            ("seconds_left", seconds(&|status| Some(status.waiting_rows as f64 / rows_per_second(status)?))),
        ])
    }

    pub(crate) fn show_create_search_index(&self, name: &str) -> Result<RecordBatch, SqlError> {
        let entry = self.search_index(name)?;
        Ok(table([("table", texts([name])), ("statement", texts([&*entry.create.to_string()]))]))
    }

    /// A row for each kind of a declared column, in their order, and one for `*`.
    ///
    /// `rows` have terms of the column, `terms` are its different ones, exact up to some thousands, and `bytes` those of terms and
    /// postings: all three of the files that are indexed. Reads the terms of all index files.
    pub(crate) async fn describe_search_index(&self, name: &str) -> Result<RecordBatch, SqlError> {
        let entry = self.search_index(name)?;
        let definition = entry.definition();
        let mut rows: Vec<(&str, &str, String, bool)> = Vec::new();
        for (column, index) in &definition.columns {
            let is_default = definition.column(column).is_some_and(|index| index.is_default);
            rows.extend(index.kinds().map(|kind| {
                let text = kind_text(index, kind);
                let options = text.strip_prefix(kind.text()).unwrap_or_default().trim_start().to_owned();
                (&**column, kind.text(), options, is_default && kind == swiftwater_text::IndexKind::Text)
            }));
        }
        if definition.covers_all {
            rows.push((
                "*",
                swiftwater_text::IndexKind::Text.text(),
                String::new(),
                definition.defaults.is_empty(),
            ));
        }
        let figures = self.index_figures(name).await?;
        let of_column = |row: &(&str, &str, String, bool)| figures.get(&(row.0.to_owned(), row.1)).copied();
        // Columns that no row lists are those of `*`.
        let listed: HashSet<(&str, &str)> = rows.iter().map(|row| (row.0, row.1)).collect();
        let others = figures.iter().filter(|((column, kind), _)| !listed.contains(&(&**column, *kind)));
        let others = others.map(|(_, figures)| *figures).reduce(ColumnFigures::merged);
        let figures: Vec<ColumnFigures> = rows
            .iter()
            .map(|row| if row.0 == "*" { others } else { of_column(row) }.unwrap_or_default())
            .collect();
        let count = |of: &dyn Fn(&ColumnFigures) -> u64| -> ArrayRef {
            Arc::new(figures.iter().map(|figures| of(figures) as i64).collect::<Int64Array>())
        };
        Ok(table([
            ("column", texts(rows.iter().map(|row| row.0))),
            ("kind", texts(rows.iter().map(|row| row.1))),
            ("options", texts(rows.iter().map(|row| &*row.2))),
            ("default", Arc::new(rows.iter().map(|row| Some(row.3)).collect::<BooleanArray>())),
            ("rows", count(&|figures| figures.rows)),
            ("terms", count(&|figures| figures.terms)),
            ("bytes", count(&|figures| figures.bytes)),
        ]))
    }

    pub(crate) fn search_index(&self, name: &str) -> Result<SearchIndexEntry, SqlError> {
        self.with_catalog(|catalog| catalog.search_indexes().get(name).cloned()).map_err(from_engine)
    }
}

/// The rate at which index files were built since the table was opened.
fn rows_per_second(status: &CompanionStatus) -> Option<f64> {
    (status.build_micros > 0).then(|| status.rows_built as f64 * 1e6 / status.build_micros as f64)
}

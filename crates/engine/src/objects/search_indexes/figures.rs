//! Figures of the columns of a search index, as its files tell: rows, different terms, bytes.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use swiftwater_sketch::Distinct;
use swiftwater_sql::{ErrorKind as SqlErrorKind, SqlError};
use swiftwater_store::CompanionTerm;
use swiftwater_text::IndexKind;

use crate::durable::history::History;

/// Different terms of a column that are counted exactly, at least; beyond them their number is estimated, with a standard error
/// of less than one percent.
const TERMS_EXACT: u32 = 1 << 14;

/// The figures of one kind of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ColumnFigures {
    pub(super) rows: u64,
    pub(super) terms: u64,
    pub(super) bytes: u64,
}

impl ColumnFigures {
    pub(super) fn merged(self, other: ColumnFigures) -> ColumnFigures {
        ColumnFigures {
            rows: self.rows + other.rows,
            terms: self.terms + other.terms,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// A kind of a column.
type Key = (String, &'static str);

#[derive(Debug)]
struct Counts {
    rows: u64,
    terms: Distinct,
    bytes: u64,
}

/// The counts of all columns.
#[derive(Debug, Default)]
struct Columns(HashMap<Key, Counts>);

impl Columns {
    fn counts(&mut self, column: &str, kind: IndexKind) -> &mut Counts {
        let key = (column.to_owned(), kind.text());
        self.0.entry(key).or_insert_with(|| Counts { rows: 0, terms: Distinct::new(TERMS_EXACT), bytes: 0 })
    }

    /// Adds the terms of a file, which come column by column.
    fn add(&mut self, term: CompanionTerm<'_>, last: &mut Option<(Key, Counts)>) {
        let is_same = |(column, kind): &Key| column == term.column && *kind == term.kind.text();
        if !last.as_ref().is_some_and(|(key, _)| is_same(key)) {
            self.put_back(last);
            self.counts(term.column, term.kind);
            *last = self.0.remove_entry(&(term.column.to_owned(), term.kind.text()));
        }
        if let Some((_, counts)) = last {
            counts.terms.update(term.key);
            counts.bytes += term.bytes;
        }
    }

    fn put_back(&mut self, last: &mut Option<(Key, Counts)>) {
        self.0.extend(last.take());
    }
}

impl History {
    /// The figures of each kind of the columns of a search index. Costs a reading of the terms of all its files.
    pub(super) async fn index_figures(&self, name: &str) -> Result<HashMap<Key, ColumnFigures>, SqlError> {
        let Some(table) = self.indexed_table(name).await else { return Ok(HashMap::new()) };
        let columns = Arc::new(Mutex::new(Columns::default()));
        let counted = Arc::clone(&columns);
        let visited = table.visit_companions(move |open| {
            let mut columns = counted.lock().unwrap_or_else(PoisonError::into_inner);
            open.visit_columns(&mut |column, kind, rows| columns.counts(column, kind).rows += rows);
            let mut last = None;
            let visited = open.visit_terms(&mut |term| columns.add(term, &mut last));
            columns.put_back(&mut last);
            visited
        });
        let failed = |error: swiftwater_store::StoreError| {
            SqlError::new(SqlErrorKind::Unavailable, error.to_string()).with_source(error)
        };
        visited.await.map_err(failed)?;
        let columns = std::mem::take(&mut *columns.lock().unwrap_or_else(PoisonError::into_inner));
        let figures = columns.0.into_iter().map(|(key, Counts { rows, terms, bytes })| {
            (key, ColumnFigures { rows, terms: terms.evaluate().round() as u64, bytes })
        });
        Ok(figures.collect())
    }
}

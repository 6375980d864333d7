//! Views over the rows of other views.
//!
//! When a view commits, each changed key has an old row on disk and a new row. Each view over it removes the old rows from
//! their groups and adds the new ones. The same commit writes the resulting changes, with the same position, and then those
//! of the next views above. A view of a view therefore always equals its query over the persisted rows of the view below. It
//! has no state that is not persisted: a commit that fails has changed nothing.
//!
//! A new view of a view adds the existing rows in key order, some with each commit. Until it has all of them, it counts
//! changes only of the rows that it has. The same commit records this progress, too.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Weak, atomic::Ordering},
};

use swiftwater_event::{Millis, Step, StreamName, Type};
use swiftwater_lang::{
    Dialect, Joined, ParseOptions, QueryError, QueryErrors,
    ddl::{ColumnDef, CreateStream, CreateView, Ddl},
    parse,
    plan::Query,
};

use super::{query_error, view::View};
use crate::{EngineError, RuntimeError};
use swiftwater_runtime::lock_order::OrderedMutex;

/// The relation of a view to the view whose rows it reads.
#[derive(Debug)]
pub(super) struct DerivedFrom {
    lower: Weak<View>,
    /// The name of the view below.
    pub(super) name: Box<str>,
    /// The recorded part that is counted.
    counted: OrderedMutex<CountedRows>,
}

/// The rows of the view below that a view counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CountedRows {
    /// The rows of keys up to this one are counted; none: no row.
    UpTo(Option<Vec<u8>>),
    All,
}

impl CountedRows {
    /// True if the row of a key is counted.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        match self {
            CountedRows::UpTo(last) => last.as_ref().is_some_and(|last| key <= &last[..]),
            CountedRows::All => true,
        }
    }

    /// The bytes beside a position, after the hash of the view's definition.
    ///
    /// ```text
    /// note := u64 meaning, byte 0 no row | byte 1 all rows | byte 2 key        big endian
    /// ```
    pub(super) fn encode(&self, meaning: u64) -> Vec<u8> {
        let (form, key) = match self {
            CountedRows::UpTo(None) => (0, &[][..]),
            CountedRows::All => (1, &[][..]),
            CountedRows::UpTo(Some(key)) => (2, &key[..]),
        };
        [&meaning.to_be_bytes(), &[form][..], key].concat()
    }

    fn of_note(note: &[u8]) -> Option<(u64, CountedRows)> {
        let (meaning, note) = note.split_first_chunk()?;
        let counted = match note.split_first()? {
            (0, []) => CountedRows::UpTo(None),
            (1, []) => CountedRows::All,
            (2, key) => CountedRows::UpTo(Some(key.to_vec())),
            _ => return None,
        };
        Some((u64::from_be_bytes(*meaning), counted))
    }
}

/// The version of all that the rows of a view depend on besides its events: where this is another than it was, a view over it is made anew.
/// Another version of the engine may make other rows of what is kept, too.
pub(super) fn meaning_of(below: impl Hash, columns: &[(Box<str>, Type)], create: &CreateView) -> u64 {
    let mut hasher = DefaultHasher::new();
    (below, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    (format!("{columns:?}"), Ddl::CreateView(create.clone()).to_string()).hash(&mut hasher);
    hasher.finish()
}

/// The rows of a view as the events of a stream: what a view of it is compiled over.
pub(super) fn rows_as_stream(name: &StreamName, columns: &[(Box<str>, Type)]) -> CreateStream {
    let columns = columns.iter().map(|(name, ty)| ColumnDef::new(name.clone(), ty.clone()));
    CreateStream {
        name: name.clone(),
        if_not_exists: false,
        columns: columns.collect(),
        checks: Vec::new(),
        watermark: None,
        source: None,
        options: Default::default(),
    }
}

fn fault(message: String, hint: Option<String>) -> EngineError {
    EngineError::Runtime(RuntimeError::Query(QueryErrors(vec![QueryError { hint, ..query_error(message) }])))
}

/// Fails if a view cannot be declared so over another.
pub(super) fn check_over(create: &CreateView, lower: &str) -> Result<(), EngineError> {
    let options = &create.options;
    let faults = [
        (
            create.delete_when.is_some(),
            "DELETE WHEN",
            "its rows are inserted and deleted with the rows below",
        ),
        (options.ttl_ms.is_some(), "`ttl`", "its rows are inserted and deleted with the rows below"),
        (options.backfill.is_some(), "`backfill`", "it begins with all existing rows"),
        (options.retention_ms.is_some(), "`retention`", "it has no windows of its own"),
    ];
    match faults.into_iter().find(|(is, ..)| *is) {
        None => Ok(()),
        Some((_, what, why)) => {
            let message = format!("a view of a view has no {what}: {why}");
            Err(fault(message, Some(format!("Leave it out, or set it on view `{lower}`."))))
        }
    }
}

/// Fails if the rows of a view depend on when they are read. `joined`: what it can be joined with.
pub(super) fn check_timeless(
    create: &CreateView,
    stream: &CreateStream,
    joined: &[Joined],
) -> Result<(), EngineError> {
    let schema = stream.is_declared().then(|| stream.schema());
    let parsed = |now: Millis| {
        let options = ParseOptions {
            schema: schema.as_ref(),
            joined: Some(joined),
            lists_rows: true,
            ..ParseOptions::new(Dialect::Native, now)
        };
        parse(&create.query, &options).map(|statement| statement.query).map_err(RuntimeError::Query)
    };
    match parsed(0)? == parsed(Millis::from(u32::MAX))? {
        true => Ok(()),
        false => {
            let message = format!("the query of view `{}` reads the current time", create.name);
            let hint = "A view of a view needs results that do not depend on the current time: leave it out.";
            Err(fault(message, Some(hint.to_owned())))
        }
    }
}

/// Fails if a query reads other columns than these.
pub(super) fn check_columns(query: &Query, lower: &str, columns: &CreateStream) -> Result<(), EngineError> {
    if query.paths().iter().any(|(path, _)| path.is_event()) {
        let hint = "Name a column: SEARCH(column, 'words').".to_owned();
        return Err(fault(
            "SEARCH without a column is for events, and a view has rows".to_owned(),
            Some(hint),
        ));
    }
    let is_there = |name: &str| columns.columns.iter().any(|column| *column.name == *name);
    let unknown = query.paths().into_iter().find_map(|(path, _)| match path.steps().first() {
        Some(Step::Key(name)) if !is_there(name) => Some(name.clone()),
        _ => None,
    });
    match unknown {
        None => Ok(()),
        Some(name) => {
            let names: Vec<&str> = columns.columns.iter().map(|column| &*column.name).collect();
            let hint = format!("Columns are: {}.", names.join(", "));
            Err(fault(format!("view `{lower}` has no column `{name}`"), Some(hint)))
        }
    }
}

impl DerivedFrom {
    /// The state that was recorded at its last commit, if it still fits the view below, which is at `lower_at`; and true if
    /// it does.
    pub(super) fn of(
        lower: &Arc<View>,
        noted: Option<&(u64, Vec<u8>)>,
        meaning: u64,
        lower_at: u64,
    ) -> (DerivedFrom, bool) {
        let goes_with = |(position, note): &(u64, Vec<u8>)| {
            let (noted, counted) = CountedRows::of_note(note)?;
            let is_of_all = lower.is_whole() || counted == CountedRows::UpTo(None);
            (noted == meaning && *position == lower_at && is_of_all).then_some(counted)
        };
        let kept = noted.and_then(goes_with);
        let does = kept.is_some();
        let over = DerivedFrom {
            lower: Arc::downgrade(lower),
            name: lower.name().into(),
            counted: OrderedMutex::new(kept.unwrap_or(CountedRows::UpTo(None))),
        };
        (over, does)
    }

    pub(super) fn is_whole(&self) -> bool {
        *self.counted.lock() == CountedRows::All
    }

    pub(super) fn counted(&self) -> CountedRows {
        self.counted.lock().clone()
    }

    /// These are counted, and that is kept.
    pub(super) fn counts(&self, counted: CountedRows) {
        *self.counted.lock() = counted;
    }
}

impl View {
    /// True if it counts all rows of the view below; of a view of a stream, always.
    pub(super) fn is_whole(&self) -> bool {
        self.over.as_ref().is_none_or(DerivedFrom::is_whole)
    }

    /// The view that it is of, by name, if it is of one.
    pub(crate) fn below(&self) -> Option<&str> {
        self.over.as_ref().map(|over| &*over.name)
    }

    /// The views over it.
    pub(super) fn uppers(&self) -> Vec<Arc<View>> {
        self.uppers.read().clone()
    }

    /// Adds a view over it, from its next commit on.
    pub(super) fn add_upper(&self, upper: Arc<View>) {
        self.uppers.write().push(upper);
        self.commits.nudge.notify_one();
    }

    /// A view is over another no longer.
    pub(super) fn leave_lower(&self) {
        if let Some(lower) = self.over.as_ref().and_then(|over| over.lower.upgrade()) {
            let mut uppers = lower.uppers.write();
            uppers.retain(|upper| upper.id() != self.id());
        }
    }

    /// True if some view over it, or over such a one, has not all rows yet.
    pub(super) fn has_unfilled(&self) -> bool {
        let is_unfilled = |upper: &Arc<View>| !upper.is_whole() || upper.has_unfilled();
        self.uppers().iter().any(|upper| upper.is_at_work() && is_unfilled(upper))
    }

    /// Requests that the events before this are counted: a commit for that is made as soon as possible.
    pub(super) fn hasten(&self, position: u64) {
        if self.over.is_some() {
            // Nobody can wait here for events that do not exist yet.
            let position = position.min(self.stored.next());
            self.commits.awaited.fetch_max(position, Ordering::Relaxed);
            self.commits.nudge.notify_one();
        }
    }

    /// True if a commit that somebody waits for can be made.
    pub(super) fn is_awaited(&self) -> bool {
        let awaited = self.commits.awaited.load(Ordering::Relaxed);
        self.committed() < awaited && self.at().position >= awaited
    }

    /// Waits until it counts all rows of the view below, or does not go on.
    pub(super) async fn filled(&self) {
        let mut progress = self.progress();
        // It tells until it is dropped.
        let _ = progress.wait_for(|_| self.is_whole() || self.broken().is_some()).await;
    }

    /// True if it is in the commits of the view below.
    pub(super) fn is_at_work(&self) -> bool {
        self.broken().is_none() && !self.dropped.is_sent()
    }

    /// Records the reason of a failure on all views over it, too.
    pub(super) fn record_on_uppers(&self, why: &str, is_for_good: bool) {
        for upper in self.uppers() {
            upper.break_off(&format!("view `{}`, which it reads: {why}", self.name()), is_for_good);
        }
    }

    /// Records the reason why it, and all views over it, are not maintained or do not continue.
    pub(super) fn break_off(&self, why: &str, is_for_good: bool) {
        if self.record_failure(why.to_owned(), is_for_good) && is_for_good {
            tracing::error!(view = self.name(), why, "a view of a view is stopped");
        }
        self.record_on_uppers(why, is_for_good);
        self.wake_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_back() {
        for counted in [CountedRows::All, CountedRows::UpTo(None), CountedRows::UpTo(Some(vec![7, 0, 255]))] {
            assert_eq!(CountedRows::of_note(&counted.encode(1 << 40)), Some((1 << 40, counted)));
        }
        assert_eq!(CountedRows::of_note(b"\0\0\0\0\0\0\0\0\x09"), None);
        assert_eq!(CountedRows::of_note(b""), None);
    }

    #[test]
    fn what_is_counted_ends_with_a_key() {
        assert!(CountedRows::All.has(b"z") && !CountedRows::UpTo(None).has(b""));
        let some = CountedRows::UpTo(Some(b"k".to_vec()));
        assert!(some.has(b"") && some.has(b"k") && !some.has(b"k\0"));
    }
}

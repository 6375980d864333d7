//! Inserts rows into plain tables: all waiting insertions go into one commit, and their rows into one file.
//!
//! Group commit (DeWitt et al., SIGMOD 1984): while one commit is made, arriving insertions wait in the owner's queue,
//! and the next commit takes all of them. Each is answered after its commit. Rows are converted to the table's layout
//! before they wait, so an insertion that does not fit fails alone. If a group cannot be written for another reason than
//! the store, each of its members is tried alone, so one failure does not fail the others.
//!
//! Rows may be inserted in the name of an application and a version (`txn`), and are then inserted once. One insertion
//! may stand for a range of versions; it is refused if the table has a part of the range.
//!
//! Limits: an insertion of more than [`GROUPED_BYTES_MAX`] bytes writes files of its own before it waits.

use std::sync::Arc;

use arrow_array::RecordBatch;
use futures_util::{Stream, StreamExt, stream};
use swiftwater_event::Millis;
use tokio::sync::mpsc;

use crate::{
    actions::{Add, Commit, Txn},
    committer::{Committer, Outcome, Reply, Request, is_fatal},
    encode::write_rows,
    error::{ErrorKind, Result, StoreError},
    layout::{Layout, bytes_of},
    load::TableLocation,
    options::StoreOptions,
    table::Application,
};

/// Bytes of rows that wait in memory for a commit with others; times [`crate::owner::REQUESTS_MAX`] they are the most of a table.
pub(crate) const GROUPED_BYTES_MAX: usize = 64 << 10;

/// The rows of an insertion.
#[derive(Debug)]
pub(crate) enum InsertedRows {
    /// A few, in the table's layout.
    Rows(Vec<RecordBatch>),
    /// Further files, which are part of no version yet.
    Files(Vec<Add>),
}

/// Rows that wait for their commit.
#[derive(Debug)]
pub(crate) struct Insertion {
    pub(crate) rows: InsertedRows,
    /// They replace all that the table holds.
    pub(crate) overwrite: bool,
    pub(crate) once: Option<Application>,
    pub(crate) reply: Reply,
}

impl InsertedRows {
    /// Reads the rows of an insertion, and writes them where they are many; returns how many there are.
    pub(crate) async fn read<E: std::fmt::Display>(
        place: &TableLocation,
        layout: &Layout,
        options: &StoreOptions,
        now: Millis,
        rows: impl Stream<Item = std::result::Result<RecordBatch, E>> + Send,
    ) -> Result<(InsertedRows, u64)> {
        let mut rows = std::pin::pin!(rows);
        let (mut first, mut count, mut bytes) = (Vec::new(), 0, 0);
        while bytes <= GROUPED_BYTES_MAX {
            let Some(batch) = rows.next().await else { return Ok((InsertedRows::Rows(first), count)) };
            let batch = batch.map_err(|error| StoreError::Input(error.to_string().into()))?;
            let batch = layout.conform(&batch)?;
            (count, bytes) = (count + batch.num_rows() as u64, bytes + bytes_of(&batch));
            first.push(batch);
        }
        let all = stream::iter(first.into_iter().map(Ok)).chain(rows);
        let (adds, count) = write_rows(place, layout, options, now, all).await?;
        Ok((InsertedRows::Files(adds), count))
    }
}

/// The insertions that wait and can be committed with the first, and the request that waits behind them, if it was taken, too.
pub(crate) fn together(
    first: Insertion,
    requests: &mut mpsc::Receiver<Request>,
) -> (Vec<Insertion>, Option<Request>) {
    let mut group = vec![first];
    while !group[0].overwrite {
        match requests.try_recv() {
            Ok(Request::Insert(next)) if may_join(&group, &next) => group.push(next),
            Ok(other) => return (group, Some(other)),
            Err(_) => break,
        }
    }
    (group, None)
}

/// An application's insertions are committed one after another: each depends on the one before it.
fn may_join(group: &[Insertion], next: &Insertion) -> bool {
    let is_of_another = |id| group.iter().all(|other| other.application() != Some(id));
    !next.overwrite && next.application().is_none_or(is_of_another)
}

impl Insertion {
    /// The application in whose name it is made.
    fn application(&self) -> Option<&str> {
        self.once.as_ref().map(|once| &*once.id)
    }
}

impl Committer {
    /// Commits insertions, and answers each. Fails only if the table cannot go on.
    pub(crate) async fn insert(&self, group: Vec<Insertion>) -> Result<()> {
        let result = self.commit_insertions(&group).await;
        let each_alone = match &result {
            Err(error) => group.len() > 1 && error.kind() != ErrorKind::Unavailable && !is_fatal(error),
            Ok(()) => false,
        };
        let mut fatal = None;
        for insertion in group {
            let result = match &fatal {
                Some(error) => Err(StoreError::clone(error)),
                None if each_alone => self.commit_insertions(std::slice::from_ref(&insertion)).await,
                None => result.clone(),
            };
            fatal = fatal.or_else(|| result.as_ref().err().filter(|error| is_fatal(error)).cloned());
            // The caller may be gone; the work is done nevertheless.
            let _ = insertion.reply.send(result);
        }
        fatal.map_or(Ok(()), Err)
    }

    /// Writes the rows that wait in memory, and commits all insertions that were not committed before.
    async fn commit_insertions(&self, group: &[Insertion]) -> Result<()> {
        let (table, ledger, layout) = {
            let state = self.shared.state();
            (&self.shared.place.table, Arc::clone(&state.ledger), state.layout.clone())
        };
        let mut new = Vec::with_capacity(group.len());
        for insertion in group {
            // An insertion that is done already came from somebody who went away meanwhile; its files are no part of any version.
            let is_done = insertion
                .once
                .as_ref()
                .map_or(Ok(false), |once| once.is_done(table, ledger.applications.get(&once.id).copied()))?;
            if !is_done {
                new.push(insertion);
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let (mut batches, mut files) = (Vec::new(), Vec::new());
        for insertion in &new {
            match &insertion.rows {
                InsertedRows::Rows(rows) => batches.extend(rows.iter().cloned()),
                InsertedRows::Files(adds) => files.extend(adds.iter().cloned()),
            }
        }
        let mut adds = if batches.is_empty() { Vec::new() } else { self.write(batches, &layout).await? };
        adds.append(&mut files);
        loop {
            let ledger = Arc::clone(&self.shared.state().ledger);
            let now = self.now();
            let commit = Commit {
                operation: "WRITE",
                removes: match new.iter().any(|insertion| insertion.overwrite) {
                    true => ledger.files.iter().map(|file| file.remove(now, true)).collect(),
                    false => Vec::new(),
                },
                adds: adds.clone(),
                txns: new
                    .iter()
                    .filter_map(|insertion| insertion.once.as_ref())
                    .map(|once| Txn::of(once, now))
                    .collect(),
                ..Commit::default()
            };
            match self.commit(&ledger, &commit, 0).await? {
                Outcome::Committed => return Ok(()),
                Outcome::Moved => {}
                Outcome::Lost(error) => return Err(error),
            }
        }
    }
}

//! The companions of a table, as its owner sees them: their definition, how far they are, and what they count.

use std::{ops::Range, sync::Arc};

use arrow_array::RecordBatch;
use swiftwater_event::Offset;
use swiftwater_text::{ScoreStatistics, TableSearch};

use crate::{
    companions::{CompanionFault, CompanionFormat, CompanionStatus, OpenCompanion},
    error::{Result, StoreError},
    table::Table,
    table_version::FileEntry,
};

/// The most ranges of offsets whose words companions have counted; more would make a long condition of the rest.
const COUNTED_RANGES_MAX: usize = 32;

impl Table {
    /// Sets the format of companions of the table's files; none: the table has none, and existing ones are deleted. Before this
    /// call, they are neither used nor deleted.
    pub fn set_companions(&self, format: Option<Arc<dyn CompanionFormat>>) {
        self.shared.companions.set_format(format);
    }

    /// Builds the companions again of files with rows of a range of time, in microseconds since 1970, its end excluded; returns
    /// the number that had one. Files whose times are not known are among them.
    pub fn rebuild_companions(&self, from: Option<i64>, to: Option<i64>) -> usize {
        let ledger = Arc::clone(&self.shared.state().ledger);
        let time = ledger.layout.schema.index_of(&ledger.layout.time_column).ok();
        let is_within = |file: &&Arc<FileEntry>| {
            let Some((earliest, latest)) = time.and_then(|time| file.times_micros(time)) else { return true };
            from.is_none_or(|from| latest >= from) && to.is_none_or(|to| earliest < to)
        };
        let files: Vec<Arc<FileEntry>> = ledger.files.iter().filter(is_within).cloned().collect();
        self.shared.companions.rebuild(&files)
    }

    /// Waits until the rows before an offset are committed, and every file of the newest version has a companion.
    pub async fn until_indexed(&self, appended: Offset) -> Result<()> {
        let mut changes = self.shared.companions.changes();
        let mut progress = self.progress();
        let mut closing = self.shared.closing.subscribe();
        loop {
            changes.borrow_and_update();
            let committed = progress.borrow_and_update().committed;
            if committed >= appended && self.companion_status().waiting_files == 0 {
                return Ok(());
            }
            if *closing.borrow_and_update() {
                return Err(StoreError::Closed(self.name().into()));
            }
            tokio::select! {
                _ = changes.changed() => {}
                _ = progress.changed() => {}
                _ = closing.changed() => {}
            }
        }
    }

    /// The frequencies of a search's words, as companions have counted them in rows before an offset, with the ranges of offsets
    /// that they are of. Of all other rows they are to be counted.
    pub async fn score_statistics(
        &self,
        search: &Arc<TableSearch>,
        position: u64,
    ) -> Result<(ScoreStatistics, Vec<Range<u64>>)> {
        let shared = &self.shared;
        let (ledger, tail) = {
            let state = shared.state();
            let tail: Vec<RecordBatch> = state.tail.batches().cloned().collect();
            (Arc::clone(&state.ledger), tail)
        };
        let files = &ledger.files;
        let counted = shared.companions.statistics(&shared.place, files, search).await?;
        let mut statistics = search.no_statistics();
        let ranges: Vec<Option<Range<u64>>> = files.iter().map(|file| file.offsets(&ledger.layout)).collect();
        let mut covered: Vec<(Range<u64>, ScoreStatistics)> = Vec::new();
        // Rows that no companion has counted; their offsets may lie between those of other files.
        let mut others: Vec<Range<u64>> = tail
            .iter()
            .filter_map(|rows| ledger.layout.offsets(rows))
            .map(|(first, last)| first..last + 1)
            .collect();
        for (range, counted) in ranges.into_iter().zip(counted) {
            match (range, counted) {
                (Some(range), Some(counted)) if range.end <= position => covered.push((range, counted)),
                (Some(range), _) => others.push(range),
                (None, _) => return Ok((statistics, Vec::new())),
            }
        }
        // Files between whose offsets are others' are counted again, with those.
        covered.sort_by_key(|(range, _)| range.start);
        let overlaps = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
        let mut joined: Vec<(Range<u64>, ScoreStatistics)> = Vec::new();
        for (range, counted) in covered {
            match joined.last_mut().filter(|(last, _)| range.start <= last.end) {
                Some((last, sum)) => {
                    last.end = last.end.max(range.end);
                    sum.merge(&counted);
                }
                None => joined.push((range, counted)),
            }
        }
        joined.retain(|(range, _)| !others.iter().any(|other| overlaps(range, other)));
        joined.sort_by_key(|(range, _)| std::cmp::Reverse(range.end - range.start));
        joined.truncate(COUNTED_RANGES_MAX);
        joined.iter().for_each(|(_, counted)| statistics.merge(counted));
        Ok((statistics, joined.into_iter().map(|(range, _)| range).collect()))
    }

    /// Asks the companions of the newest version's files, one after the other. Files without one are passed over.
    pub async fn visit_companions(
        &self,
        visit: impl FnMut(&dyn OpenCompanion) -> std::result::Result<(), CompanionFault> + Send + 'static,
    ) -> Result<()> {
        let ledger = Arc::clone(&self.shared.state().ledger);
        self.shared.companions.visit(&self.shared.place, &ledger.files, visit).await
    }

    /// Progress of the companions of its files.
    pub fn companion_status(&self) -> CompanionStatus {
        let ledger = Arc::clone(&self.shared.state().ledger);
        let time = ledger.layout.schema.index_of(&ledger.layout.time_column).ok();
        self.shared.companions.status(&ledger.files, time)
    }
}

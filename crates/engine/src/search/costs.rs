//! Adds up the costs of a search: by part, and by stream the files and rows in memory that were read.

use std::collections::BTreeSet;

use swiftwater_sql::Progress;
use tokio::time::Instant;

use super::request::{SearchedFiles, Stage};

/// The part that reads the rows of a page. Their files were searched before, and are not counted again.
pub(super) const HITS: &str = "hits";

/// The costs so far.
#[derive(Debug, Default)]
pub(super) struct Costs {
    pub(super) stages: Vec<Stage>,
    /// By stream.
    streams: Vec<StreamCosts>,
}

/// The sources of one stream that were read.
#[derive(Debug, Clone, Default)]
pub(super) struct StreamCosts {
    files: BTreeSet<String>,
    indexed_files: BTreeSet<String>,
    pub(super) tail_rows: u64,
}

impl StreamCosts {
    /// The files of a table with so many of them.
    pub(super) fn files(&self, total: usize) -> SearchedFiles {
        let indexed = self.indexed_files.len() as u64;
        let scanned = self.files.difference(&self.indexed_files).count() as u64;
        SearchedFiles { left_out: (total as u64).saturating_sub(indexed + scanned), indexed, scanned }
    }
}

impl Costs {
    pub(super) fn of_stream(&self, place: usize) -> StreamCosts {
        self.streams.get(place).cloned().unwrap_or_default()
    }

    /// Adds time to a part.
    pub(super) fn time(&mut self, name: &'static str, begun: Instant) -> &mut Stage {
        let place = match self.stages.iter().position(|stage| stage.name == name) {
            Some(place) => place,
            None => {
                self.stages.push(Stage { name, ..Stage::default() });
                self.stages.len() - 1
            }
        };
        let stage = &mut self.stages[place];
        stage.micros += u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        stage
    }

    /// Adds a statement of a part, over one stream or, without one, over all. Answers how many rows it read from files.
    pub(super) fn statement(
        &mut self,
        (name, place): (&'static str, Option<usize>),
        begun: Instant,
        progress: &Progress,
    ) -> u64 {
        let reading = progress.read();
        let stage = self.time(name, begun);
        stage.statements += 1;
        let sources = progress.sources();
        // SQL counts rows in memory nowhere else.
        stage.rows_scanned += reading.rows_scanned + sources.memory_rows;
        stage.bytes_read += reading.bytes_scanned;
        if let Some(place) = place.filter(|_| name != HITS) {
            if self.streams.len() <= place {
                self.streams.resize(place + 1, StreamCosts::default());
            }
            let stream = &mut self.streams[place];
            stream.files.extend(sources.files);
            stream.indexed_files.extend(sources.indexed_files);
            stream.tail_rows = stream.tail_rows.max(sources.memory_rows);
        }
        reading.rows_scanned
    }
}

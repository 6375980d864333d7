//! The positions at which a stored stream resumes the partitions that it reads, as numbers of its producers.

use crate::durable::{dedup::Receipt, stored_stream::StoredStream};

impl StoredStream {
    /// The next offset of a partition that the stream reads; none if it was not read yet.
    pub(crate) fn source_position(&self, producer: &str) -> Option<u64> {
        self.state.lock().producers.last_sequence(producer)
    }

    /// Records the next offset of a partition where no record of the log has it, as its last messages gave no event. The next
    /// snapshot of the catalog has it.
    pub(crate) fn record_source_position(&self, producer: &str, next: u64) {
        let mut state = self.state.lock();
        if state.producers.last_sequence(producer).is_none_or(|last| last < next) {
            let (offset, log_position) = (state.next, state.last.0);
            let receipt = Receipt { sequence: next, parts: 1, accepted: 0, offset, log_position };
            state.producers.record(producer, receipt, 0);
        }
    }

    /// The names of the partitions that the stream reads.
    pub(crate) fn sources(&self) -> Vec<String> {
        self.state.lock().producers.sources().map(str::to_owned).collect()
    }
}

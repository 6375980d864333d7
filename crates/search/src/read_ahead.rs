//! Reads bytes ahead: a merge reads postings and positions of all terms in their order, a few bytes at a time.

use std::{
    collections::VecDeque,
    io,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    companion::{BLOCK_BYTES, ReadBytes},
    merge,
};

/// Windows of one file: one for its postings, one for its positions, one for all else.
const WINDOWS: usize = 3;
/// Bytes that a merge reads at once and has beside them.
const MERGE_BYTES: usize = merge::WINDOWS * merge::WINDOW_BYTES;

/// Bytes that are read in windows.
#[derive(Debug)]
pub struct ReadAhead {
    bytes: Arc<dyn ReadBytes>,
    window_bytes: usize,
    /// The last one that was used is the first.
    windows: Mutex<VecDeque<(usize, Vec<u8>)>>,
}

impl ReadAhead {
    /// Reads ahead with the memory that it and a merge of its bytes may have; it has at least a block of a file for each window.
    pub fn new(bytes: Arc<dyn ReadBytes>, memory_bytes_max: usize) -> ReadAhead {
        let own = memory_bytes_max.saturating_sub(MERGE_BYTES);
        let blocks = (own / WINDOWS / BLOCK_BYTES).max(1);
        ReadAhead { bytes, window_bytes: blocks * BLOCK_BYTES, windows: Mutex::default() }
    }

    /// The least memory that one has, with a merge of its bytes.
    pub const BYTES_MIN: usize = WINDOWS * BLOCK_BYTES + MERGE_BYTES;
}

impl ReadBytes for ReadAhead {
    fn length(&self) -> usize {
        self.bytes.length()
    }

    fn read(&self, range: Range<usize>) -> io::Result<Vec<u8>> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let has =
            |(start, bytes): &(usize, Vec<u8>)| *start <= range.start && range.end <= start + bytes.len();
        let place = windows.iter().position(has);
        if let Some(window) = place.and_then(|place| windows.remove(place)) {
            let found = window.1[range.start - window.0..range.end - window.0].to_vec();
            windows.push_front(window);
            return Ok(found);
        }
        let start = range.start - range.start % BLOCK_BYTES;
        if range.end - start > self.window_bytes {
            return self.bytes.read(range);
        }
        windows.truncate(WINDOWS - 1);
        let end = (start + self.window_bytes).min(self.length());
        let bytes = self.bytes.read(start..end.max(range.end))?;
        let found = bytes[range.start - start..range.end - start].to_vec();
        windows.push_front((start, bytes));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Debug, Default)]
    struct Counted(Vec<u8>, AtomicUsize);

    impl ReadBytes for Counted {
        fn length(&self) -> usize {
            self.0.len()
        }

        fn read(&self, range: Range<usize>) -> io::Result<Vec<u8>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Ok(self.0[range].to_vec())
        }
    }

    #[test]
    fn two_places_that_are_read_in_order_are_read_a_window_at_a_time() {
        let all: Vec<u8> = (0..10 * BLOCK_BYTES + 7).map(|at| (at % 251) as u8).collect();
        let bytes = Arc::new(Counted(all.clone(), AtomicUsize::new(0)));
        let ahead = ReadAhead::new(Arc::clone(&bytes) as Arc<dyn ReadBytes>, 0);
        for at in (0..4 * BLOCK_BYTES).step_by(100) {
            for start in [at, at + 6 * BLOCK_BYTES] {
                let range = start..(start + 100).min(all.len());
                assert_eq!(ahead.read(range.clone()).unwrap(), all[range]);
            }
        }
        let reads = bytes.1.load(Ordering::Relaxed);
        // Reads over the border of two windows are made as they are.
        assert!(reads < 30, "{reads} reads");
        assert_eq!(ahead.read(0..all.len()).unwrap(), all);
        assert_eq!(ahead.read(all.len() - 3..all.len()).unwrap(), all[all.len() - 3..]);
    }
}

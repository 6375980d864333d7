//! Cuts the input into blocks of whole lines, and waits where a rate is set.

use std::{
    io::{self, Read},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use swiftwater_event::Clock;

/// Blocks a second at which a low rate is kept, so that events come evenly.
const RATE_BLOCKS_PER_SECOND: f64 = 20.0;

/// The rules for cutting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    /// Bytes that are read at once.
    pub(super) block_bytes: usize,
    /// Lines a second.
    pub(super) rate: Option<f64>,
}

/// A reader's blocks.
pub(super) struct Blocks<R> {
    reader: R,
    cut: Cut,
    clock: Arc<dyn Clock>,
    /// The bytes read and not yet passed on.
    buffer: Vec<u8>,
    ended: bool,
    first: bool,
    started_nanos: u64,
    lines_given: u64,
}

impl<R: Read> Blocks<R> {
    /// Begins to read; a rate counts from now.
    pub(super) fn new(reader: R, cut: Cut, clock: Arc<dyn Clock>) -> Self {
        let started_nanos = clock.monotonic_nanos();
        let buffer = Vec::with_capacity(cut.block_bytes);
        Blocks { reader, cut, clock, buffer, ended: false, first: true, started_nanos, lines_given: 0 }
    }

    /// The next block: whole lines, unless one is longer than a block; none at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Bytes>> {
        let lines_max = self.cut.rate.map(|rate| (rate / RATE_BLOCKS_PER_SECOND).max(1.0) as usize);
        loop {
            let end = self.complete(lines_max);
            if end > 0 {
                return Ok(Some(self.split_block(end)));
            }
            if self.ended {
                return Ok(None);
            }
            self.fill()?;
        }
    }

    /// The end of the part of the buffer that can be passed on now.
    fn complete(&self, lines_max: Option<usize>) -> usize {
        let limit = lines_max.and_then(|lines| memchr::memchr_iter(b'\n', &self.buffer).nth(lines - 1));
        match limit.or_else(|| memchr::memrchr(b'\n', &self.buffer)) {
            Some(newline) => newline + 1,
            None if self.ended || self.buffer.len() >= self.cut.block_bytes => self.buffer.len(),
            None => 0,
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let len = self.buffer.len();
        self.buffer.resize(len + self.cut.block_bytes, 0);
        let read = loop {
            match self.reader.read(&mut self.buffer[len..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(len + *read.as_ref().unwrap_or(&0));
        self.ended = read? == 0;
        self.check_start()
    }

    /// Checks the start of the input, as only lines can be counted.
    fn check_start(&mut self) -> io::Result<()> {
        let Some(start) = self.buffer.iter().find(|byte| !byte.is_ascii_whitespace()) else { return Ok(()) };
        if std::mem::take(&mut self.first) && self.cut.rate.is_some() && *start == b'[' {
            let why = "--rate needs one event per line, and this is an array";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(())
    }

    fn split_block(&mut self, end: usize) -> Bytes {
        let rest = self.buffer.split_off(end);
        let block = std::mem::replace(&mut self.buffer, rest);
        if let Some(rate) = self.cut.rate {
            let due = self.started_nanos.saturating_add((self.lines_given as f64 / rate * 1e9) as u64);
            wait_until(&*self.clock, due);
            self.lines_given += memchr::memchr_iter(b'\n', &block)
                .filter(|at| *at > 0 && block[at - 1] != b'\n')
                .count() as u64;
        }
        block.into()
    }
}

/// Waits on this thread.
fn wait_until(clock: &dyn Clock, due_nanos: u64) {
    loop {
        let left = due_nanos.saturating_sub(clock.monotonic_nanos());
        if left == 0 {
            return;
        }
        std::thread::park_timeout(Duration::from_nanos(left));
    }
}

#[cfg(test)]
mod tests {
    use swiftwater_event::SystemClock;

    use super::*;

    const WHOLE: Cut = Cut { block_bytes: 16, rate: None };

    /// Returns one piece at a time, as a pipe does.
    struct Pieces(Vec<&'static [u8]>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0);
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    fn blocks(pieces: &[&'static [u8]], cut: Cut) -> io::Result<Vec<String>> {
        let mut blocks = Blocks::new(Pieces(pieces.to_vec()), cut, Arc::new(SystemClock::new()));
        let mut out = Vec::new();
        while let Some(block) = blocks.next()? {
            out.push(String::from_utf8(block.to_vec()).unwrap());
        }
        Ok(out)
    }

    #[test]
    fn blocks_are_whole_lines_as_soon_as_they_are_there() {
        assert_eq!(blocks(&[b"{}\n{", b"}\n", b"{}"], WHOLE).unwrap(), ["{}\n", "{}\n", "{}"]);
        assert_eq!(blocks(&[], WHOLE).unwrap(), [""; 0]);
    }

    #[test]
    fn a_line_longer_than_a_block_is_given_in_parts() {
        assert_eq!(
            blocks(&[b"0123456789", b"0123456789", b"x\ny\n"], WHOLE).unwrap(),
            ["01234567890123456789", "x\ny\n"]
        );
    }

    #[test]
    fn a_rate_makes_blocks_small() {
        let cut = Cut { rate: Some(1e6), ..WHOLE };
        assert_eq!(blocks(&[b"1\n2\n3\n"], cut).unwrap(), ["1\n2\n3\n"]);
        let cut = Cut { rate: Some(20.0), ..WHOLE };
        assert_eq!(blocks(&[b"1\n2\n"], cut).unwrap(), ["1\n", "2\n"]);
    }

    #[test]
    fn an_array_has_no_lines_to_count() {
        let cut = Cut { rate: Some(1.0), ..WHOLE };
        assert!(blocks(&[b" \n", b"[{}]"], cut).is_err());
    }
}

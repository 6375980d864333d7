//! Bodies of events, generated before any measurement and sent repeatedly.

use anyhow::{Context, ensure};
use bytes::Bytes;
use swiftwater_generate::Workload;

/// About the size of one body.
const BODY_BYTES: usize = 1 << 20;
const SEED: u64 = 20_260_101;

/// One body of NDJSON.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    pub(crate) bytes: Bytes,
    pub(crate) events: u64,
}

/// Bodies of about one size, by turns.
#[derive(Debug)]
pub(crate) struct Bodies(Vec<Body>);

impl Bodies {
    /// Events of `swiftwater generate`.
    pub(crate) fn generate(workload: Workload, events: u64) -> anyhow::Result<Bodies> {
        eprintln!("making {events} events: {workload:?}");
        let mut made = workload.begin(SEED)?;
        let mut lines = Vec::new();
        (0..events).for_each(|_| made.push(&mut lines));
        Bodies::of(lines.into())
    }

    /// Cuts lines into bodies.
    pub(crate) fn of(lines: Bytes) -> anyhow::Result<Bodies> {
        let mut bodies = Vec::new();
        let mut start = 0;
        while start < lines.len() {
            let near = (start + BODY_BYTES).min(lines.len()) - 1;
            let end = near + 1 + memchr::memchr(b'\n', &lines[near..]).context("a line has no end")?;
            let bytes = lines.slice(start..end);
            let events = memchr::memchr_iter(b'\n', &bytes).count() as u64;
            bodies.push(Body { bytes, events });
            start = end;
        }
        ensure!(!bodies.is_empty(), "there are no events");
        Ok(Bodies(bodies))
    }

    /// Number of bodies.
    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// The body that is sent as this one, counted from 0.
    pub(crate) fn body(&self, number: u64) -> &Body {
        &self.0[(number % self.len()) as usize]
    }

    /// The number of times that the body at each place is sent for `count` bodies.
    pub(crate) fn times(&self, count: u64) -> impl Iterator<Item = (&Body, u64)> {
        let (whole, rest) = (count / self.len(), count % self.len());
        self.0.iter().zip(0..).map(move |(body, place)| (body, whole + u64::from(place < rest)))
    }

    /// Events of so many bodies.
    pub(crate) fn events(&self, count: u64) -> u64 {
        self.times(count).map(|(body, times)| body.events * times).sum()
    }

    /// Bytes of so many bodies.
    pub(crate) fn bytes(&self, count: u64) -> u64 {
        self.times(count).map(|(body, times)| body.bytes.len() as u64 * times).sum()
    }

    /// The fewest bodies that hold so many events.
    pub(crate) fn holding(&self, events: u64) -> u64 {
        let each = self.events(self.len());
        let mut count = events / each * self.len();
        let mut held = self.events(count);
        while held < events {
            held += self.body(count).events;
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_all_lines_and_counted() {
        let line = "x".repeat(99_999) + "\n";
        let lines = Bytes::from(line.repeat(25));
        let bodies = Bodies::of(lines.clone()).unwrap();
        assert_eq!(bodies.0.iter().map(|body| body.events).collect::<Vec<_>>(), [11, 11, 3]);
        assert_eq!(bodies.0.iter().flat_map(|body| body.bytes.to_vec()).collect::<Vec<_>>(), lines);
        assert_eq!((bodies.events(5), bodies.bytes(5)), (47, 4_700_000));
        for (events, count) in [(0, 0), (1, 1), (11, 1), (12, 2), (25, 3), (26, 4), (50, 6)] {
            assert_eq!(bodies.holding(events), count, "{events}");
        }
    }
}

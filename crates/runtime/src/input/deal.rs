//! Deals the records of an input one by one to workers, as Bullet deals them to its filter workers.
//!
//! Each worker collects the first matching rows among its own records, as many as the result may have. Without a window, the
//! first worker that has them all makes the result; otherwise the end concatenates the workers' rows. Unlike any other
//! answer, the rows of a RAW result therefore depend on the number of workers. Windows by record do not: there, every match
//! is emitted as it comes.

use swiftwater_lang::{
    Dialect,
    plan::{Body, Query, Window},
};
use swiftwater_live::RowChunk;

use super::options::InputOptions;

/// The workers' rows.
#[derive(Debug)]
pub(super) struct Deal {
    hands: Vec<Hand>,
    limit: usize,
    /// The first hand that is full makes the result.
    first_full_wins: bool,
}

#[derive(Debug, Default)]
struct Hand {
    chunks: Vec<RowChunk>,
    rows: usize,
}

impl Deal {
    /// `limit`: the most rows of the result.
    pub(super) fn new(workers: usize, limit: Option<u64>, first_full_wins: bool) -> Deal {
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        Deal { hands: (0..workers.max(1)).map(|_| Hand::default()).collect(), limit, first_full_wins }
    }

    /// Takes the rows of a batch whose first event has the number `first`. Returns the rows of the hand that was full
    /// first, which are the result, as soon as there is one.
    pub(super) fn deal(&mut self, chunk: &RowChunk, first: u64) -> Option<Vec<RowChunk>> {
        let workers = self.hands.len() as u64;
        let mut places: Vec<Vec<usize>> = vec![Vec::new(); self.hands.len()];
        let mut full = None;
        for place in 0..chunk.len() {
            let worker = ((first + u64::from(chunk.rows[place])) % workers) as usize;
            let hand = &mut self.hands[worker];
            if hand.rows == self.limit {
                continue;
            }
            hand.rows += 1;
            places[worker].push(place);
            if hand.rows == self.limit && self.first_full_wins {
                full = Some(worker);
                break;
            }
        }
        for (hand, places) in self.hands.iter_mut().zip(&places) {
            if !places.is_empty() {
                hand.chunks.push(chunk.pick(places));
            }
        }
        full.map(|worker| std::mem::take(&mut self.hands[worker].chunks))
    }

    /// All rows, one worker's after another's.
    pub(super) fn end(self) -> impl Iterator<Item = RowChunk> {
        self.hands.into_iter().flat_map(|hand| hand.chunks)
    }
}

/// True if a query's rows depend on the workers that records are dealt to.
pub(super) fn is_dealt(query: &Query, options: &InputOptions) -> bool {
    options.workers > 1
        && options.time_field.is_none()
        && query.dialect == Dialect::Bullet
        && matches!(query.body, Body::Raw(_))
        && !matches!(query.window, Window::Records { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(rows: std::ops::Range<u32>, first: u64) -> RowChunk {
        let mut chunk = RowChunk::default();
        let mut text = Vec::new();
        for row in rows {
            text.extend_from_slice(format!("{}\n", first + u64::from(row)).as_bytes());
            chunk.ends.push(text.len());
            chunk.rows.push(row);
            chunk.arrivals.push(0);
        }
        chunk.text = text.into();
        chunk
    }

    fn text(chunks: impl IntoIterator<Item = RowChunk>) -> String {
        let lines = chunks.into_iter().map(|chunk| String::from_utf8(chunk.text.into()).unwrap());
        lines.collect::<String>().replace('\n', " ")
    }

    #[test]
    fn rows_come_worker_by_worker() {
        let mut deal = Deal::new(3, Some(5), true);
        assert!(deal.deal(&chunk(0..4, 0), 0).is_none());
        assert!(deal.deal(&chunk(0..4, 4), 4).is_none());
        assert_eq!(text(deal.end()), "0 3 6 1 4 7 2 5 ");
    }

    #[test]
    fn first_full_hand_is_the_result() {
        let mut deal = Deal::new(2, Some(2), true);
        assert!(deal.deal(&chunk(1..2, 0), 0).is_none());
        assert_eq!(text(deal.deal(&chunk(0..3, 2), 2).unwrap()), "1 3 ");
    }

    #[test]
    fn windows_wait_for_all_hands() {
        let mut deal = Deal::new(2, Some(2), false);
        assert!(deal.deal(&chunk(0..9, 0), 0).is_none());
        assert_eq!(text(deal.end()), "0 2 1 3 ");
    }
}

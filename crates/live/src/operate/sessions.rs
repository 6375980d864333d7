//! Session windows: each contains the events of one key that are less than a gap apart.
//!
//! A session spans from its first event to a gap after its last. An event is at first a session of its own, and
//! overlapping sessions are merged. Therefore the same events make the same sessions in whatever order they arrive.
//!
//! Sessions of one key never overlap, closed ones included: an event that overlaps a closed session is late. An event is
//! also late if it is two gaps behind the closed time, whatever session it would join. Closed sessions thus need not be
//! stored for ever.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use super::{Groups, rows::RowStore};

/// The state of a session.
#[derive(Debug)]
pub(crate) enum SessionState {
    Rows(RowStore),
    Groups(Groups),
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) held: SessionState,
}

/// The sessions of one key. The closed ones lie before all open ones.
#[derive(Debug, Default)]
struct KeySessions {
    /// The end of the latest closed session. Every event before it is late.
    closed_end: Option<i64>,
    open: Vec<Session>,
}

/// The open sessions of a query, and the ends of those that an event may still overlap.
#[derive(Debug)]
pub(crate) struct Sessions {
    gap: u64,
    /// True if an event's time may be before the end of a closed session, which is so for event time only.
    keeps_closed_ends: bool,
    by_key: HashMap<Arc<[u8]>, KeySessions>,
    ends: BTreeSet<(i64, Arc<[u8]>)>,
    /// The ends of closed sessions, until no event that is not late for other reasons can be before them.
    closed_ends: BTreeSet<(i64, Arc<[u8]>)>,
    bytes: usize,
}

/// Bytes of one open session besides its content.
const SESSION_BYTES: usize = 128;

/// Bytes that the end of one closed session takes up besides its key.
const CLOSED_BYTES: usize = 96;

impl Sessions {
    /// A state without sessions. `keeps_closed_ends` where the times of events may go back.
    pub(crate) fn new(gap: u64, keeps_closed_ends: bool) -> Sessions {
        Sessions {
            gap: gap.max(1),
            keeps_closed_ends,
            by_key: HashMap::new(),
            ends: BTreeSet::new(),
            closed_ends: BTreeSet::new(),
            bytes: 0,
        }
    }

    fn end(&self, session: &Session) -> i64 {
        session.last.saturating_add_unsigned(self.gap)
    }

    /// Adds an event of a key, unless it is late: unless it overlaps a closed session, is two gaps or more before `closed`, or
    /// overlaps no open session and would itself be one that ends at `closed` or before. Returns whether it was added.
    pub(crate) fn add(&mut self, key: &[u8], at: i64, closed: i64, held: SessionState) -> bool {
        let gap = self.gap;
        let meets = |other: &Session| {
            let (first, last) = (i128::from(other.first), i128::from(other.last));
            let (at, gap) = (i128::from(at), i128::from(gap));
            first < at + gap && at < last + gap
        };
        let mut whole = Session { first: at, last: at, held };
        let known = self.by_key.get(key);
        let overlaps_closed = known.and_then(|of| of.closed_end).is_some_and(|end| at < end);
        let joins = known.is_some_and(|of| of.open.iter().any(meets));
        let is_far_behind = i128::from(at) + 2 * i128::from(gap) <= i128::from(closed);
        if overlaps_closed || is_far_behind || (!joins && self.end(&whole) <= closed) {
            return false;
        }
        let known = self.by_key.get_key_value(key).map(|(key, _)| Arc::clone(key));
        let key = known.unwrap_or_else(|| key.into());
        let open = self.by_key.get_mut(&key).map(|of| std::mem::take(&mut of.open)).unwrap_or_default();
        let (met, mut open): (Vec<Session>, Vec<Session>) = open.into_iter().partition(meets);
        for other in met {
            self.ends.remove(&(self.end(&other), Arc::clone(&key)));
            self.bytes -= bytes(&key, &other);
            whole = joined(other, whole);
        }
        self.ends.insert((self.end(&whole), Arc::clone(&key)));
        self.bytes += bytes(&key, &whole);
        open.push(whole);
        self.by_key.entry(key).or_default().open = open;
        true
    }

    /// Time at which the first of them closes.
    pub(crate) fn due(&self) -> Option<i64> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// Takes out the sessions that end first, if that is at `at` or before: their end, and they.
    pub(crate) fn close(&mut self, at: i64) -> Option<(i64, Vec<Session>)> {
        let end = self.due().filter(|end| *end <= at)?;
        let mut closed = Vec::new();
        while let Some((next, _)) = self.ends.first() {
            if *next != end {
                break;
            }
            let Some((_, key)) = self.ends.pop_first() else { break };
            let Some(of) = self.by_key.get_mut(&key) else { continue };
            let gap = self.gap;
            if let Some(place) = of.open.iter().position(|one| one.last.saturating_add_unsigned(gap) == end) {
                let session = of.open.swap_remove(place);
                self.bytes -= bytes(&key, &session);
                closed.push(session);
            }
            if self.keeps_closed_ends {
                self.bytes += if of.closed_end.is_none() { CLOSED_BYTES + key.len() } else { 0 };
                let before = of.closed_end.replace(end);
                before.map(|before| self.closed_ends.remove(&(before, Arc::clone(&key))));
                self.closed_ends.insert((end, key));
            } else if of.open.is_empty() {
                self.by_key.remove(&key);
            }
        }
        Some((end, closed))
    }

    /// Forgets the ends of closed sessions that matter no more once all is closed up to `closed`: an event before such an
    /// end is two gaps behind. The closed end of a key with an open session is removed with the session.
    pub(crate) fn forget(&mut self, closed: i64) {
        while let Some((end, _)) = self.closed_ends.first()
            && i128::from(*end) + 2 * i128::from(self.gap) <= i128::from(closed)
        {
            let Some((_, key)) = self.closed_ends.pop_first() else { break };
            if self.by_key.get(&key).is_some_and(|of| of.open.is_empty()) {
                self.by_key.remove(&key);
                self.bytes -= CLOSED_BYTES + key.len();
            }
        }
    }

    /// Takes out all.
    pub(crate) fn take(&mut self) -> Vec<Session> {
        self.ends.clear();
        self.closed_ends.clear();
        self.bytes = 0;
        self.by_key.drain().flat_map(|(_, of)| of.open).collect()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn bytes(key: &[u8], session: &Session) -> usize {
    let held = match &session.held {
        SessionState::Rows(rows) => rows.bytes(),
        SessionState::Groups(groups) => groups.bytes(),
    };
    SESSION_BYTES + key.len() + held
}

fn joined(mut ours: Session, theirs: Session) -> Session {
    ours.first = ours.first.min(theirs.first);
    ours.last = ours.last.max(theirs.last);
    match (&mut ours.held, theirs.held) {
        (SessionState::Groups(ours), SessionState::Groups(theirs)) => ours.merge(&theirs),
        (SessionState::Rows(ours), SessionState::Rows(theirs)) => ours.merge(theirs),
        // All sessions of a query hold the same kind of thing.
        (SessionState::Groups(_), SessionState::Rows(_))
        | (SessionState::Rows(_), SessionState::Groups(_)) => {}
    }
    ours
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> SessionState {
        SessionState::Rows(RowStore::default())
    }

    fn spans(sessions: &mut Sessions, at: i64) -> Vec<(i64, i64)> {
        std::iter::from_fn(|| sessions.close(at))
            .flat_map(|(_, closed)| closed)
            .map(|session| (session.first, session.last))
            .collect()
    }

    #[test]
    fn an_event_between_two_sessions_makes_them_one() {
        let mut sessions = Sessions::new(10, true);
        for at in [0, 5, 18] {
            assert!(sessions.add(b"a", at, i64::MIN, rows()));
        }
        assert_eq!(sessions.due(), Some(15));
        assert!(sessions.add(b"a", 12, i64::MIN, rows()));
        assert_eq!(sessions.due(), Some(28));
        assert_eq!(spans(&mut sessions, 28), [(0, 18)]);
        sessions.forget(47);
        assert_eq!(sessions.bytes(), CLOSED_BYTES + 1);
        sessions.forget(48);
        assert_eq!(sessions.bytes(), 0);
        assert!(sessions.by_key.is_empty());
    }

    #[test]
    fn sessions_a_gap_apart_are_two() {
        let mut sessions = Sessions::new(10, true);
        for at in [0, 10] {
            assert!(sessions.add(b"", at, i64::MIN, rows()));
        }
        assert_eq!(spans(&mut sessions, i64::MAX), [(0, 0), (10, 10)]);
    }

    #[test]
    fn an_event_is_late_unless_its_session_is_open() {
        let mut sessions = Sessions::new(10, true);
        assert!(sessions.add(b"a", 5, i64::MIN, rows()));
        assert!(sessions.add(b"a", 0, 12, rows()));
        assert!(!sessions.add(b"b", 0, 12, rows()));
        assert_eq!(spans(&mut sessions, 14), []);
        assert_eq!(spans(&mut sessions, 15), [(0, 5)]);
    }

    #[test]
    fn an_event_that_overlaps_a_closed_session_of_its_key_is_late() {
        let mut sessions = Sessions::new(5, true);
        assert!(sessions.add(b"a", 0, i64::MIN, rows()));
        assert_eq!(spans(&mut sessions, 6), [(0, 0)]);
        sessions.forget(6);
        assert!(!sessions.add(b"a", 3, 6, rows()));
        assert!(sessions.add(b"b", 3, 6, rows()));
        assert!(sessions.add(b"a", 5, 6, rows()));
        assert_eq!(spans(&mut sessions, 20), [(3, 3), (5, 5)]);
    }

    #[test]
    fn a_closed_session_is_known_while_an_open_one_may_be_joined_to_it() {
        let mut sessions = Sessions::new(5, true);
        assert!(sessions.add(b"a", 0, i64::MIN, rows()));
        for at in [8, 12] {
            assert!(sessions.add(b"a", at, i64::MIN, rows()));
        }
        assert_eq!(spans(&mut sessions, 12), [(0, 0)]);
        sessions.forget(12);
        // It is less than a gap before the open session, and less than a gap after the closed one.
        assert!(!sessions.add(b"a", 4, 12, rows()));
        assert!(sessions.add(b"a", 5, 12, rows()));
        assert_eq!(spans(&mut sessions, 17), [(5, 12)]);
        sessions.forget(27);
        assert_eq!((sessions.bytes(), sessions.by_key.len()), (0, 0));
    }

    #[test]
    fn a_session_that_begins_later_is_not_joined_over_a_closed_one() {
        let mut sessions = Sessions::new(7, true);
        assert!(sessions.add(b"a", 996, i64::MIN, rows()));
        assert_eq!(spans(&mut sessions, 1010), [(996, 996)]);
        sessions.forget(1010);
        assert!(sessions.add(b"a", 1005, 1010, rows()));
        assert!(!sessions.add(b"a", 1002, 1010, rows()));
        assert_eq!(spans(&mut sessions, 1017), [(1005, 1005)]);
    }

    #[test]
    fn an_event_two_gaps_behind_is_late_though_an_open_session_is_near() {
        let mut sessions = Sessions::new(7, true);
        assert!(sessions.add(b"a", 1011, 1017, rows()));
        assert!(sessions.add(b"a", 1005, 1017, rows()));
        assert!(sessions.add(b"a", 1004, 1017, rows()));
        assert!(!sessions.add(b"a", 1003, 1017, rows()));
    }

    #[test]
    fn times_may_be_anything() {
        let mut sessions = Sessions::new(u64::MAX, true);
        for at in [i64::MIN, 0, i64::MAX] {
            assert!(sessions.add(b"a", at, i64::MIN, rows()));
        }
        assert_eq!(spans(&mut sessions, i64::MAX), [(i64::MIN, i64::MAX)]);
    }
}

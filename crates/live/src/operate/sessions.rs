//! Session windows: each holds the events of one key that are less than a gap apart.
//!
//! A session spans from its first event to a gap after its last; an event is at first a session of its own, and sessions
//! that overlap are one. So the same events make the same sessions in whatever order they come.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use super::{Groups, rows::RowStore};

/// What a session holds.
#[derive(Debug)]
pub(crate) enum SessionHeld {
    Rows(RowStore),
    Groups(Groups),
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) held: SessionHeld,
}

/// The open sessions of a query.
#[derive(Debug)]
pub(crate) struct Sessions {
    gap: u64,
    /// The sessions of each key; they do not overlap.
    by_key: HashMap<Arc<[u8]>, Vec<Session>>,
    ends: BTreeSet<(i64, Arc<[u8]>)>,
    bytes: usize,
}

/// What one open session takes up besides what it holds.
const SESSION_BYTES: usize = 128;

impl Sessions {
    pub(crate) fn new(gap: u64) -> Sessions {
        Sessions { gap: gap.max(1), by_key: HashMap::new(), ends: BTreeSet::new(), bytes: 0 }
    }

    fn end(&self, session: &Session) -> i64 {
        session.last.saturating_add_unsigned(self.gap)
    }

    /// Takes in an event of a key, unless the session that it would be in was closed before `closed`. Answers whether
    /// it was taken.
    pub(crate) fn add(&mut self, key: &[u8], at: i64, closed: i64, held: SessionHeld) -> bool {
        let known = self.by_key.get_key_value(key).map(|(key, _)| Arc::clone(key));
        let key = known.unwrap_or_else(|| key.into());
        let mut whole = Session { first: at, last: at, held };
        let open = self.by_key.get_mut(&key).map(std::mem::take).unwrap_or_default();
        let (met, mut apart): (Vec<Session>, Vec<Session>) = open.into_iter().partition(|other| {
            let (first, last) = (i128::from(other.first), i128::from(other.last));
            let (at, gap) = (i128::from(at), i128::from(self.gap));
            first < at + gap && at < last + gap
        });
        let is_late = met.is_empty() && self.end(&whole) <= closed;
        for other in met {
            self.ends.remove(&(self.end(&other), Arc::clone(&key)));
            self.bytes -= bytes(&key, &other);
            whole = joined(other, whole);
        }
        if !is_late {
            self.ends.insert((self.end(&whole), Arc::clone(&key)));
            self.bytes += bytes(&key, &whole);
            apart.push(whole);
        }
        if apart.is_empty() {
            self.by_key.remove(&key);
        } else {
            self.by_key.insert(key, apart);
        }
        !is_late
    }

    /// When the first of them closes.
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
            let Some(open) = self.by_key.get_mut(&key) else { continue };
            let gap = self.gap;
            if let Some(place) = open.iter().position(|one| one.last.saturating_add_unsigned(gap) == end) {
                let session = open.swap_remove(place);
                self.bytes -= bytes(&key, &session);
                closed.push(session);
            }
            if open.is_empty() {
                self.by_key.remove(&key);
            }
        }
        Some((end, closed))
    }

    /// Takes out all.
    pub(crate) fn take(&mut self) -> Vec<Session> {
        self.ends.clear();
        self.bytes = 0;
        self.by_key.drain().flat_map(|(_, sessions)| sessions).collect()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn bytes(key: &[u8], session: &Session) -> usize {
    let held = match &session.held {
        SessionHeld::Rows(rows) => rows.bytes(),
        SessionHeld::Groups(groups) => groups.bytes(),
    };
    SESSION_BYTES + key.len() + held
}

fn joined(mut ours: Session, theirs: Session) -> Session {
    ours.first = ours.first.min(theirs.first);
    ours.last = ours.last.max(theirs.last);
    match (&mut ours.held, theirs.held) {
        (SessionHeld::Groups(ours), SessionHeld::Groups(theirs)) => ours.merge(&theirs),
        (SessionHeld::Rows(ours), SessionHeld::Rows(theirs)) => ours.merge(theirs),
        // All sessions of a query hold the same kind of thing.
        (SessionHeld::Groups(_), SessionHeld::Rows(_)) | (SessionHeld::Rows(_), SessionHeld::Groups(_)) => {}
    }
    ours
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> SessionHeld {
        SessionHeld::Rows(RowStore::default())
    }

    fn spans(sessions: &mut Sessions, at: i64) -> Vec<(i64, i64)> {
        std::iter::from_fn(|| sessions.close(at))
            .flat_map(|(_, closed)| closed)
            .map(|session| (session.first, session.last))
            .collect()
    }

    #[test]
    fn an_event_between_two_sessions_makes_them_one() {
        let mut sessions = Sessions::new(10);
        for at in [0, 5, 18] {
            assert!(sessions.add(b"a", at, i64::MIN, rows()));
        }
        assert_eq!(sessions.due(), Some(15));
        assert!(sessions.add(b"a", 12, i64::MIN, rows()));
        assert_eq!(sessions.due(), Some(28));
        assert_eq!(spans(&mut sessions, 28), [(0, 18)]);
        assert_eq!(sessions.bytes(), 0);
    }

    #[test]
    fn sessions_a_gap_apart_are_two() {
        let mut sessions = Sessions::new(10);
        for at in [0, 10] {
            assert!(sessions.add(b"", at, i64::MIN, rows()));
        }
        assert_eq!(spans(&mut sessions, i64::MAX), [(0, 0), (10, 10)]);
    }

    #[test]
    fn an_event_is_late_unless_its_session_is_open() {
        let mut sessions = Sessions::new(10);
        assert!(sessions.add(b"a", 5, i64::MIN, rows()));
        assert!(sessions.add(b"a", 0, 12, rows()));
        assert!(!sessions.add(b"b", 0, 12, rows()));
        assert_eq!(spans(&mut sessions, 14), []);
        assert_eq!(spans(&mut sessions, 15), [(0, 5)]);
    }

    #[test]
    fn times_may_be_anything() {
        let mut sessions = Sessions::new(u64::MAX);
        for at in [i64::MIN, 0, i64::MAX] {
            assert!(sessions.add(b"a", at, i64::MIN, rows()));
        }
        assert_eq!(spans(&mut sessions, i64::MAX), [(i64::MIN, i64::MAX)]);
    }
}

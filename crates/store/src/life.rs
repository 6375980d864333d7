//! Distinguishes the files written since the store was opened from older ones, which no process writes any more. The
//! next vacuum deletes an older file that no log names.
//!
//! ```text
//! name = "part-" id ".zstd.parquet"       id is a UUID; its first group is one and the same for all files of a life
//! ```
//!
//! Clocks have no say in it, as an object store has a clock of its own. Files of other programs have other names, and
//! belong to no life.

use uuid::Uuid;

const PREFIX: &str = "part-";
const SUFFIX: &str = ".zstd.parquet";
/// Characters of a UUID with hyphens.
const ID_CHARS: usize = 36;

/// One opening of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreSession(u32);

impl StoreSession {
    pub(crate) fn begin() -> StoreSession {
        StoreSession(Uuid::new_v4().as_fields().0)
    }

    /// A name that no other file has.
    pub(crate) fn file_name(self) -> String {
        let random = Uuid::new_v4();
        let (_, second, third, rest) = random.as_fields();
        let id = Uuid::from_fields(self.0, second, third, rest);
        format!("{PREFIX}{id}{SUFFIX}")
    }

    /// Returns true if an earlier session wrote the file at a path.
    pub(crate) fn is_after(self, path: &str) -> bool {
        StoreSession::of(path).is_some_and(|life| life != self)
    }

    /// Returns true if this session wrote the file at a path.
    pub(crate) fn has_written(self, path: &str) -> bool {
        StoreSession::of(path) == Some(self)
    }

    fn of(path: &str) -> Option<StoreSession> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let id = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
        let id = id.filter(|id| id.len() == ID_CHARS).and_then(|id| Uuid::parse_str(id).ok());
        id.map(|id| StoreSession(id.as_fields().0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_known_by_its_name() {
        let (life, later) = (StoreSession(7), StoreSession(8));
        let name = life.file_name();
        assert_ne!(name, life.file_name());
        assert!(!life.is_after(&name) && later.is_after(&name), "{name}");
        assert!(life.has_written(&name) && !later.has_written(&name), "{name}");
        assert!(later.is_after(&format!("_day=2026-01-01/{name}")));
        let spark = "part-00000-3b1f0f33-6a50-4b53-9d4c-2a4f9d0c8e11-c000.zstd.parquet";
        for other in [spark, "part-x.zstd.parquet", "_delta_log/00000000000000000001.json", ""] {
            assert!(!later.is_after(other) && !later.has_written(other), "{other}");
        }
    }
}

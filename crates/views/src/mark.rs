//! The mark records, outside the store's files, what the store must contain: the position of each view at its last commit.
//!
//! The files alone cannot show that a part of them is missing. A keyspace without its `current` file looks empty, and a
//! journal that ends early looks shorter. After each commit this file is replaced. It is not synced, so after a crash of the
//! machine it may be older than the store, never newer. A store that lags behind its mark is damaged.
//!
//! ```text
//! mark := "swiftwater views 1\n" line* "end " crc32c of all before it, 8 hex digits "\n"
//! line := "view " id " at " position [" lost"] "\n" | "damaged\n"
//! ```
//!
//! `lost`: the view's state was damaged, and is being rebuilt. `damaged`: a read met damage; the next opening makes a new
//! store of the readable parts.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt::Write as _,
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

const HEAD: &str = "swiftwater views 1\n";

/// The entry of one view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ViewEntry {
    /// Its position at its last commit.
    pub(crate) position: u64,
    /// True if its data was damaged, and is not complete again.
    pub(crate) is_lost: bool,
}

/// The content that the store must have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct StoreManifest {
    pub(crate) views: BTreeMap<u32, ViewEntry>,
    /// A read met damage.
    pub(crate) is_damaged: bool,
}

/// A path beside another one.
pub(crate) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

impl StoreManifest {
    /// Reads the mark of a store; none where there is none. One that cannot be understood is an error of the kind
    /// `InvalidData`.
    pub(crate) fn read(store: &Path) -> io::Result<Option<StoreManifest>> {
        match fs::read_to_string(beside(store, ".mark")) {
            Ok(text) => StoreManifest::of(&text).map(Some).ok_or_else(|| ErrorKind::InvalidData.into()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the mark of a store.
    pub(crate) fn write(&self, store: &Path) -> io::Result<()> {
        let unfinished = beside(store, ".mark.new");
        fs::write(&unfinished, self.text())?;
        fs::rename(unfinished, beside(store, ".mark"))
    }

    fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        for (id, ViewEntry { position, is_lost }) in &self.views {
            // Writing to a String does not fail.
            let _ = writeln!(text, "view {id} at {position}{}", if *is_lost { " lost" } else { "" });
        }
        if self.is_damaged {
            text.push_str("damaged\n");
        }
        let _ = writeln!(text, "end {:08x}", crc32c::crc32c(text.as_bytes()));
        text
    }

    fn of(text: &str) -> Option<StoreManifest> {
        let (lines, end) = text.strip_suffix('\n')?.rsplit_once("\nend ")?;
        let lines = &text[..=lines.len()];
        if u32::from_str_radix(end, 16).ok()? != crc32c::crc32c(lines.as_bytes()) {
            return None;
        }
        let mut mark = StoreManifest::default();
        for line in lines.strip_prefix(HEAD)?.lines() {
            if line == "damaged" {
                mark.is_damaged = true;
                continue;
            }
            let (id, place) = line.strip_prefix("view ")?.split_once(" at ")?;
            let (position, is_lost) = match place.strip_suffix(" lost") {
                Some(position) => (position, true),
                None => (place, false),
            };
            let marked = ViewEntry { position: position.parse().ok()?, is_lost };
            mark.views.insert(id.parse().ok()?, marked);
        }
        Some(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_is_read_as_it_was_written_and_no_changed_byte_passes() {
        let mut mark = StoreManifest::default();
        for is_damaged in [false, true] {
            mark.is_damaged = is_damaged;
            assert_eq!(StoreManifest::of(&mark.text()).unwrap(), mark);
            mark.views.insert(7, ViewEntry { position: u64::MAX, is_lost: false });
            mark.views.insert(8, ViewEntry { position: 0, is_lost: true });
            let text = mark.text();
            assert_eq!(StoreManifest::of(&text).unwrap(), mark);
            for place in 0..text.len() {
                let mut changed = text.clone().into_bytes();
                changed[place] ^= 1;
                let changed = String::from_utf8(changed).unwrap();
                assert_eq!(StoreManifest::of(&changed).filter(|read| *read != mark), None, "{changed}");
                assert_eq!(StoreManifest::of(&text[..place]), None);
            }
        }
    }
}

//! The manifest of a backup: its contents, as stored in `manifest.json` and sent over the wire.
//!
//! ```text
//! manifest = {"format": 2, "id": text, "written_by": version, "taken": ms, "log_position": where the log ends,
//!             "files": [{"name", "bytes", "crc32c"}], "crc32c": of the manifest itself with this field empty}
//! name     = "catalog/" file | "log/" file | "tables/" table "/" … file | "views/" file
//! ```
//!
//! Names are those that the files have in a data directory. The state of views, alerts and joins is one file at most, from
//! which a restore rebuilds `views/`. Format 1 had no such file.
//!
//! In a backup directory, a file's name ends in its checksum (`log/0000000000000007.segment.1a2b3c4d`). Two backups
//! therefore share their identical files. A new backup changes no file that an older one needs until the new one is
//! complete. A format newer than [`FORMAT`] is refused. Every added field raises the format, because the checksum covers it.

use std::{collections::HashSet, fmt};

use serde::{Deserialize, Serialize};
use swiftwater_event::Millis;

/// The form that this version writes, and the newest that it reads.
pub(crate) const FORMAT: u32 = 2;

/// The name of the manifest in a backup's directory; a directory without it is no backup.
pub const MANIFEST_NAME: &str = "manifest.json";

/// A CRC-32C, as eight digits where it is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Checksum(u32);

impl Checksum {
    /// The checksum of the bytes so far and these after them.
    #[must_use]
    pub fn and(self, bytes: &[u8]) -> Checksum {
        Checksum(crc32c::crc32c_append(self.0, bytes))
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Checksum> for String {
    fn from(checksum: Checksum) -> String {
        checksum.to_string()
    }
}

impl TryFrom<String> for Checksum {
    type Error = String;

    fn try_from(text: String) -> Result<Checksum, String> {
        let is_hex = text.len() == 8 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let read = is_hex.then(|| u32::from_str_radix(&text, 16).ok()).flatten();
        read.map(Checksum).ok_or_else(|| format!("`{text}` is not a checksum of 8 digits"))
    }
}

/// The contents of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupManifest {
    /// The form of what follows.
    pub format: u32,
    /// The cut that it is of: no two have the same.
    pub id: String,
    /// The version of the server.
    pub written_by: String,
    /// Time of the snapshot, in milliseconds since 1970.
    pub taken: Millis,
    /// The end of the log: events that were synced before it are in the backup.
    pub log_position: u64,
    /// All files.
    pub files: Vec<BackupFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crc32c: Option<Checksum>,
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupFile {
    /// Its name in a data directory, `/` between the parts.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// The checksum of its bytes.
    pub crc32c: Checksum,
}

impl BackupFile {
    /// Its path below a backup's directory.
    pub fn place(&self) -> String {
        format!("{}.{}", self.name, self.crc32c)
    }
}

/// The reason why a text is no manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It cannot be read.
    #[error("the manifest cannot be read")]
    Json(#[from] serde_json::Error),
    /// It was written by a newer version.
    #[error("the manifest has format {found}, written by {written_by}; this version reads up to {FORMAT}")]
    Newer {
        /// Its format.
        found: u32,
        /// The version that wrote it.
        written_by: String,
    },
    /// It is not as it was written.
    #[error("the manifest is damaged: its checksum is wrong")]
    Damaged,
    /// A name that no file of a backup has.
    #[error("the manifest names `{0}`, which cannot be a file of a backup")]
    Name(String),
}

impl BackupManifest {
    pub(super) fn new(id: String, taken: Millis, log_position: u64, files: Vec<BackupFile>) -> Self {
        let written_by = env!("CARGO_PKG_VERSION").to_owned();
        let mut manifest =
            BackupManifest { format: FORMAT, id, written_by, taken, log_position, files, crc32c: None };
        manifest.crc32c = Some(manifest.checksum());
        manifest
    }

    /// The checksum of all but itself: tells manifests apart.
    pub fn checksum(&self) -> Checksum {
        let bare = BackupManifest { crc32c: None, ..self.clone() };
        Checksum::default().and(&serde_json::to_vec(&bare).expect("texts and numbers are JSON"))
    }

    /// The JSON of its file.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("texts and numbers are JSON")
    }

    /// Reads what [`to_json`](Self::to_json) wrote; all names in it are safe to be used below a directory.
    pub fn from_json(bytes: &[u8]) -> Result<BackupManifest, ManifestError> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
            #[serde(default)]
            written_by: String,
        }
        let Head { format, written_by } = serde_json::from_slice(bytes)?;
        if format > FORMAT {
            return Err(ManifestError::Newer { found: format, written_by });
        }
        let manifest: BackupManifest = serde_json::from_slice(bytes)?;
        if manifest.crc32c != Some(manifest.checksum()) {
            return Err(ManifestError::Damaged);
        }
        let mut seen = HashSet::new();
        for file in &manifest.files {
            if !is_name(&file.name) || !seen.insert(&file.name) {
                return Err(ManifestError::Name(file.name.clone()));
            }
        }
        Ok(manifest)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// True if a file of a backup can have this name: it leads nowhere but below the part of a data directory that it names.
fn is_name(name: &str) -> bool {
    let mut parts = name.split('/');
    let is_part =
        |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']) && part.len() < 240;
    match (parts.next(), parts.clone().count()) {
        (Some("catalog" | "log" | "views"), 1) => parts.all(is_part),
        (Some("tables"), 2..) => parts.all(is_part),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(names: &[&str]) -> BackupManifest {
        let file = |name: &&str| BackupFile {
            name: (*name).to_owned(),
            bytes: 3,
            crc32c: Checksum::default().and(b"abc"),
        };
        BackupManifest::new("id".to_owned(), 5, 77, names.iter().map(file).collect())
    }

    #[test]
    fn manifest_reads_back_as_the_same_and_any_other_digit_is_noticed() {
        let whole = manifest(&["log/0000000000000001.segment", "tables/t/_delta_log/0.json"]);
        let json = whole.to_json();
        assert_eq!(BackupManifest::from_json(&json).unwrap(), whole);
        assert_eq!(whole.files[0].place(), "log/0000000000000001.segment.364b3fb7");
        for at in 0..json.len() {
            let mut damaged = json.clone();
            damaged[at] ^= 1;
            let is_same = BackupManifest::from_json(&damaged).is_ok_and(|read| read == whole);
            // White space is not part of it.
            assert!(!is_same || json[at].is_ascii_whitespace(), "byte {at}");
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in [
            "",
            "/",
            "log",
            "log/",
            "log/a/b",
            "views/../x",
            "views/a/b",
            "catalog/../x",
            "tables/t",
            "tables/../../x",
            "tables//t/x",
            "/etc/passwd",
            "lock",
            "spill/x",
            "log/..",
            "tables/t/./x",
            "log/a\\b",
        ] {
            let read = BackupManifest::from_json(&manifest(&[name]).to_json());
            assert!(matches!(read, Err(ManifestError::Name(_))), "{name}");
        }
        let twice = manifest(&["log/a", "log/a"]);
        assert!(matches!(BackupManifest::from_json(&twice.to_json()), Err(ManifestError::Name(_))));
    }

    #[test]
    fn newer_format_is_refused_before_anything_else_is_read() {
        let newer = br#"{"format": 3, "written_by": "9.0.0", "shape": []}"#;
        let error = BackupManifest::from_json(newer).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the manifest has format 3, written by 9.0.0; this version reads up to 2"
        );
    }
}

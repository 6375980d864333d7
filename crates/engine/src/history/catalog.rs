//! What is named and durable: streams. (Plain tables are known to the store by themselves.)
//!
//! A change is one record of the log, so that it is ordered against events; the catalog is what all changes come to.
//! A snapshot (`catalog.json`) stands for the changes before its position, so that the log can be trimmed. Statements are
//! kept in their normal form, which reads back as the same.
//!
//! ```text
//! snapshot = {"format": 1, "written_by": version, "position": where in the log, "next_stream": id, "streams": […], …}
//! change   = {"format": 1, "at": ms, "change": {"ddl": statement} | {"found": columns}}
//! ```
//!
//! Fields may be added, and are then not there in what is older; whatever else changes raises the format. A format that is
//! newer than [`FORMAT`] is refused. Pure: reads no clock, and does no I/O.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use swiftwater_event::{Millis, StreamName, Type};
use swiftwater_lang::{
    Dialect, ParseOptions,
    ddl::{AlterStream, CreateStream, Ddl},
    parse_ddl,
};

use swiftwater_live::columns::InferredColumn;

use super::HistoryError;
use crate::EngineError;

/// The form of snapshots and changes that this version writes, and the newest that it reads.
pub(crate) const FORMAT: u32 = 1;

/// All that is named.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Catalog {
    next_stream: u32,
    streams: BTreeMap<StreamName, StreamEntry>,
}

/// A stream that was created.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StreamEntry {
    /// Its number in the log; never given to another.
    pub(crate) id: u32,
    /// When it was created.
    pub(crate) created: Millis,
    /// Its declaration as it is now.
    pub(crate) create: CreateStream,
    /// Columns that were found in its events.
    pub(crate) found: Vec<InferredColumn>,
}

/// A change, as it stands in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChangeRecord {
    format: u32,
    /// When it was made.
    pub(crate) at: Millis,
    /// What.
    pub(crate) change: Change,
}

/// What changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    /// A statement was carried out: CREATE, ALTER or DROP of a stream or a job.
    Ddl(String),
    /// All columns that were found so far in a stream's events: names and types.
    Found { stream: u32, columns: Vec<(Box<str>, String)> },
}

/// A snapshot, as it stands in its file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) format: u32,
    pub(crate) written_by: String,
    /// Changes before this place in the log are in it.
    pub(crate) position: u64,
    pub(crate) next_stream: u32,
    pub(crate) streams: Vec<StreamSnapshot>,
}

/// A stream within a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StreamSnapshot {
    pub(crate) id: u32,
    pub(crate) created: Millis,
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    found: Vec<(Box<str>, String)>,
    #[serde(flatten)]
    pub(crate) numbers: StreamNumbers,
}

/// How far a stream is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StreamNumbers {
    /// Events before this place in the log are counted in what follows.
    pub(crate) position: u64,
    /// The offset of the stream's next event.
    pub(crate) next_offset: u64,
    /// Its producers, whoever wrote longest ago first, with what is known of their requests.
    #[serde(default)]
    pub(crate) producers: Vec<(Box<str>, Vec<ReceiptSnapshot>)>,
}

/// A request of a producer: number, parts, events, offset after them, place in the log after them.
pub(crate) type ReceiptSnapshot = (u64, u32, u64, u64, u64);

impl ChangeRecord {
    pub(crate) fn new(at: Millis, change: Change) -> ChangeRecord {
        ChangeRecord { format: FORMAT, at, change }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are JSON")
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<ChangeRecord, HistoryError> {
        check_format(bytes, "a change of the catalog")?;
        serde_json::from_slice(bytes).map_err(|source| HistoryError::Catalog { what: "a change", source })
    }
}

/// Tells a form that is newer than this version before anything else of it is read.
fn check_format(bytes: &[u8], what: &'static str) -> Result<(), HistoryError> {
    #[derive(Deserialize)]
    struct Head {
        format: u32,
        #[serde(default)]
        written_by: Option<String>,
    }
    let head: Head =
        serde_json::from_slice(bytes).map_err(|source| HistoryError::Catalog { what, source })?;
    if head.format > FORMAT {
        return Err(HistoryError::Newer {
            what,
            found: head.format,
            known: FORMAT,
            written_by: head.written_by.unwrap_or_else(|| "a newer version".to_owned()),
        });
    }
    Ok(())
}

impl Snapshot {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("texts and numbers are JSON")
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Snapshot, HistoryError> {
        check_format(bytes, "the catalog")?;
        serde_json::from_slice(bytes).map_err(|source| HistoryError::Catalog { what: "the catalog", source })
    }
}

impl Catalog {
    /// All streams, by name.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (&StreamName, &StreamEntry)> {
        self.streams.iter()
    }

    pub(crate) fn stream(&self, name: &StreamName) -> Option<&StreamEntry> {
        self.streams.get(name)
    }

    /// What a statement would change, without changing it; `None` where it would change nothing, and says that this is
    /// no error.
    pub(crate) fn check(&self, ddl: &Ddl) -> Result<Option<Change>, EngineError> {
        let mut changed = self.clone();
        Ok(changed.apply_ddl(ddl, 0)?.then(|| Change::Ddl(ddl.to_string())))
    }

    /// Applies a change that was logged.
    pub(crate) fn apply(&mut self, record: &ChangeRecord) -> Result<(), HistoryError> {
        match &record.change {
            Change::Ddl(text) => {
                let ddl = read(text)?;
                let applied = self.apply_ddl(&ddl, record.at);
                applied.map_err(|error| HistoryError::Statement {
                    text: text.clone(),
                    why: error.to_string(),
                })?;
            }
            Change::Found { stream, columns } => {
                let entry = self.streams.values_mut().find(|entry| entry.id == *stream);
                if let Some(entry) = entry {
                    entry.found = found(columns)?;
                }
            }
        }
        Ok(())
    }

    /// Whether anything changed.
    fn apply_ddl(&mut self, ddl: &Ddl, at: Millis) -> Result<bool, EngineError> {
        match ddl {
            Ddl::CreateStream(create) => self.create_stream(create, at),
            Ddl::AlterStream(alter) => self.alter_stream(alter),
            Ddl::DropStream { name, if_exists } => match self.streams.remove(name) {
                None if !if_exists => Err(EngineError::NoStream(name.to_string())),
                removed => Ok(removed.is_some()),
            },
            Ddl::CreateJob(_) | Ddl::AlterJob { .. } | Ddl::DropJob { .. } | Ddl::RunJob { .. } => {
                Err(EngineError::NoJobs)
            }
            Ddl::Show(_) | Ddl::Describe { .. } => Ok(false),
        }
    }

    fn create_stream(&mut self, create: &CreateStream, at: Millis) -> Result<bool, EngineError> {
        if self.streams.contains_key(&create.name) {
            return exists("stream", create.name.as_str(), create.if_not_exists);
        }
        let create = CreateStream { if_not_exists: false, ..create.clone() };
        let entry = StreamEntry { id: self.next_stream, created: at, create, found: Vec::new() };
        self.next_stream += 1;
        self.streams.insert(entry.create.name.clone(), entry);
        Ok(true)
    }

    fn alter_stream(&mut self, alter: &AlterStream) -> Result<bool, EngineError> {
        let Some(entry) = self.streams.get_mut(&alter.name) else {
            return if alter.if_exists {
                Ok(false)
            } else {
                Err(EngineError::NoStream(alter.name.to_string()))
            };
        };
        let altered = entry.create.altered(alter).map_err(EngineError::Alter)?;
        let has_changed = altered != entry.create;
        entry.create = altered;
        Ok(has_changed)
    }

    /// What is to be written down; `numbers` says how far a stream is, if it is stored.
    pub(crate) fn snapshot(
        &self,
        position: u64,
        numbers: impl Fn(&StreamEntry) -> Option<StreamNumbers>,
    ) -> Snapshot {
        let streams = self.streams.values().map(|entry| StreamSnapshot {
            id: entry.id,
            created: entry.created,
            text: Ddl::CreateStream(entry.create.clone()).to_string(),
            found: entry.found.iter().map(|column| (column.name.clone(), column.ty.to_string())).collect(),
            numbers: numbers(entry).unwrap_or_default(),
        });
        Snapshot {
            format: FORMAT,
            written_by: env!("CARGO_PKG_VERSION").to_owned(),
            position,
            next_stream: self.next_stream,
            streams: streams.collect(),
        }
    }

    pub(crate) fn from_snapshot(snapshot: &Snapshot) -> Result<Catalog, HistoryError> {
        let mut catalog = Catalog { next_stream: snapshot.next_stream, ..Catalog::default() };
        for StreamSnapshot { id, created, text, found: columns, .. } in &snapshot.streams {
            let Ddl::CreateStream(create) = read(text)? else { return Err(unexpected(text)) };
            let entry = StreamEntry { id: *id, created: *created, create, found: found(columns)? };
            catalog.streams.insert(entry.create.name.clone(), entry);
        }
        Ok(catalog)
    }
}

fn exists(kind: &'static str, name: &str, is_fine: bool) -> Result<bool, EngineError> {
    if is_fine { Ok(false) } else { Err(EngineError::Exists { kind, name: name.to_owned() }) }
}

fn found(columns: &[(Box<str>, String)]) -> Result<Vec<InferredColumn>, HistoryError> {
    let column = |(name, ty): &(Box<str>, String)| match Type::parse(ty) {
        Ok(ty) => Ok(InferredColumn { name: name.clone(), ty }),
        Err(error) => Err(HistoryError::Statement { text: format!("{name} {ty}"), why: error.to_string() }),
    };
    columns.iter().map(column).collect()
}

fn read(text: &str) -> Result<Ddl, HistoryError> {
    let fault = |why: String| HistoryError::Statement { text: text.to_owned(), why };
    let ddl = parse_ddl(text, &ParseOptions::new(Dialect::Native, 0))
        .map_err(|errors| fault(errors.to_string()))?;
    ddl.ok_or_else(|| fault("it is no statement of the catalog".to_owned()))
}

fn unexpected(text: &str) -> HistoryError {
    HistoryError::Statement { text: text.to_owned(), why: "it is another statement than expected".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ddl(text: &str) -> Ddl {
        read(text).unwrap()
    }

    fn carry_out(catalog: &mut Catalog, text: &str) -> Result<bool, EngineError> {
        let Some(change) = catalog.check(&ddl(text))? else { return Ok(false) };
        let record = ChangeRecord::new(7, change);
        catalog.apply(&ChangeRecord::from_bytes(&record.to_bytes()).unwrap()).unwrap();
        Ok(true)
    }

    fn names(catalog: &Catalog) -> Vec<(&str, u32)> {
        catalog.streams().map(|(name, entry)| (name.as_str(), entry.id)).collect()
    }

    #[test]
    fn number_of_a_dropped_stream_is_not_given_again() {
        let mut catalog = Catalog::default();
        carry_out(&mut catalog, "CREATE STREAM a (x LONG)").unwrap();
        carry_out(&mut catalog, "CREATE STREAM b (x LONG)").unwrap();
        carry_out(&mut catalog, "DROP STREAM b").unwrap();
        carry_out(&mut catalog, "CREATE STREAM b (y STRING)").unwrap();
        assert_eq!(names(&catalog), [("a", 0), ("b", 2)]);
    }

    #[test]
    fn what_exists_is_a_conflict_unless_that_is_fine() {
        let mut catalog = Catalog::default();
        carry_out(&mut catalog, "CREATE STREAM a (x LONG)").unwrap();
        let error = carry_out(&mut catalog, "CREATE STREAM a (x LONG)").unwrap_err();
        assert_eq!(error.to_string(), "there is a stream `a` already");
        assert!(!carry_out(&mut catalog, "CREATE STREAM IF NOT EXISTS a (x LONG)").unwrap());
        assert!(carry_out(&mut catalog, "DROP STREAM nix").is_err());
        assert!(!carry_out(&mut catalog, "DROP STREAM IF EXISTS nix").unwrap());
    }

    #[test]
    fn refused_statement_changes_nothing() {
        let mut catalog = Catalog::default();
        carry_out(&mut catalog, "CREATE STREAM a (x LONG)").unwrap();
        let before = catalog.clone();
        assert!(carry_out(&mut catalog, "ALTER STREAM a ADD COLUMN y LONG, ADD COLUMN x LONG").is_err());
        assert_eq!(catalog, before);
    }

    #[test]
    fn snapshot_reads_back_as_the_same_catalog() {
        let mut catalog = Catalog::default();
        for text in [
            "CREATE STREAM a (x LONG NOT NULL CHECK (x > 0), ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') \
             WITH (retention = '30 days')",
            "ALTER STREAM a ADD COLUMN \"größe\" DOUBLE DEFAULT 1.5",
        ] {
            carry_out(&mut catalog, text).unwrap();
        }
        let numbers = StreamNumbers {
            position: 10,
            next_offset: 20,
            producers: vec![("p".into(), vec![(1, 1, 2, 3, 4)])],
        };
        let snapshot = catalog.snapshot(99, |_| Some(numbers.clone()));
        let again = Snapshot::from_bytes(&snapshot.to_bytes()).unwrap();
        assert_eq!((again.position, &again.streams[0].numbers), (99, &numbers));
        assert_eq!(Catalog::from_snapshot(&again).unwrap(), catalog);
    }

    #[test]
    fn newer_format_is_refused_and_says_what_to_do() {
        let newer = br#"{"format": 2, "written_by": "9.0.0", "shape": "unknown"}"#;
        let error = Snapshot::from_bytes(newer).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the catalog has format 2, written by 9.0.0; this version reads up to 1"
        );
        assert!(ChangeRecord::from_bytes(newer).is_err());
        assert!(matches!(Snapshot::from_bytes(b"{}"), Err(HistoryError::Catalog { .. })));
    }
}

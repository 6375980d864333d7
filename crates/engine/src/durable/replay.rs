//! Replays the log from the last snapshot at a start: the catalog, and how far each stream is.

use crate::durable::recovered::Recovered;
use crate::{HistoryConfig, HistoryError};
use std::collections::BTreeMap;
use swiftwater_catalog::{Catalog, ChangeRecord, Snapshot};
use swiftwater_event::Millis;
use swiftwater_log::{Head, Log, LogPosition};

/// The catalog and the streams that the snapshot and the log make together.
pub(super) struct Replay {
    pub(super) catalog: Catalog,
    pub(super) recovered: BTreeMap<u32, Recovered>,
    /// Arrival of the last event in the log, or the last time recorded there.
    pub(super) last_arrival: Option<Millis>,
}

impl Replay {
    pub(super) fn of(
        config: &HistoryConfig,
        log: &Log,
        snapshot: Option<Snapshot>,
    ) -> Result<Replay, HistoryError> {
        let mut recovered: BTreeMap<u32, Recovered> = BTreeMap::new();
        let mut catalog = Catalog::default();
        let mut known = LogPosition(0);
        let mut last_arrival = None;
        if let Some(snapshot) = snapshot {
            catalog = Catalog::from_snapshot(&snapshot)?;
            known = LogPosition(snapshot.position);
            for stream in &snapshot.streams {
                let mut state = config.recovered();
                state.restore(&stream.numbers);
                recovered.insert(stream.id, state);
            }
        }
        let mut reader = log.read(log.usage().oldest);
        while let Some(record) = reader.next()? {
            match &record.head {
                Head::Events(head) => {
                    last_arrival = last_arrival.max(Some(head.arrival));
                    recovered.entry(head.stream.0).or_insert_with(|| config.recovered()).read(
                        head,
                        record.position,
                        record.end,
                    );
                }
                Head::Catalog if record.position >= known => {
                    catalog.apply(&ChangeRecord::from_bytes(record.payload)?)?;
                }
                Head::Tick { now } => last_arrival = last_arrival.max(Some(*now)),
                Head::Catalog => {}
            }
        }
        Ok(Replay { catalog, recovered, last_arrival })
    }
}

//! An emit in a subscriber queue: its records and the numbers of its meta, without what all emits of the query share.

use std::sync::Arc;

use swiftwater_event::StreamName;
use swiftwater_live::SketchMeta;

use crate::{ClusterMeta, Counts, Emit, EmitMeta, Finished, QueryMeta, Records, StreamMeta, WindowMeta};

/// An emit on its way: what all emits of a query have in common is added when it is read, and what few have is apart, for
/// most are one small record.
#[derive(Debug, Clone)]
pub(crate) struct QueuedEmit {
    pub(crate) records: Records,
    pub(crate) number: u64,
    /// The stream as it stood, as in [`StreamMeta`].
    pub(crate) position: u64,
    pub(crate) lag_ms: u64,
    pub(crate) sample: Option<f64>,
    pub(crate) counts: Counts,
    pub(crate) rest: Option<Box<OptionalMeta>>,
}

/// The metadata that most emits lack.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct OptionalMeta {
    pub(crate) finished: Option<Finished>,
    pub(crate) window: Option<WindowMeta>,
    pub(crate) cluster: Option<ClusterMeta>,
    /// As in [`StreamMeta`].
    pub(crate) lost: u64,
    pub(crate) sketches: Vec<SketchMeta>,
    pub(crate) inner_sketches: Option<Vec<SketchMeta>>,
    pub(crate) failure: Option<Box<str>>,
    pub(crate) warnings: Vec<String>,
}

/// The bytes of an emit in the queue, without the text of its records.
const EMIT_BYTES: usize = 256;

impl QueuedEmit {
    pub(super) fn finished(&self) -> Option<&Finished> {
        self.rest.as_ref()?.finished.as_ref()
    }

    /// It whole, for its reader.
    pub(crate) fn into_emit(self, query: &Arc<QueryMeta>, stream: &StreamName) -> Emit {
        let OptionalMeta { finished, window, cluster, lost, sketches, inner_sketches, failure, warnings } =
            self.rest.map_or_else(OptionalMeta::default, |rest| *rest);
        Emit {
            records: self.records,
            meta: EmitMeta {
                query: Arc::clone(query),
                number: self.number,
                finished,
                window,
                stream: StreamMeta {
                    name: stream.clone(),
                    position: self.position,
                    lag_ms: self.lag_ms,
                    sample: self.sample,
                    lost,
                },
                counts: self.counts,
                cluster,
                sketches,
                inner_sketches,
                failure,
                warnings,
            },
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.records.text.len() + EMIT_BYTES
    }

    /// Removes the records up to this number, from an emit that has the number of its last record.
    pub(super) fn cut_up_to(&mut self, number: u64) {
        let before = self.number - self.records.count.min(self.number);
        if number > before {
            let all = self.records.count;
            let left = self.records.first(number - before);
            self.records.text = self.records.text.slice(left.text.len()..);
            self.records.count = all - left.count;
        }
    }
}

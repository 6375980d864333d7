//! Reads the arrival times that events of an input carry in a field.

use swiftwater_event::{
    DecodePlan, Decoder, EventBatch, Millis, Path, Primitive, TimeUnit, Type, Values, Want,
};

use super::options::TIME_BEGINS;

/// Reads events' own times.
pub(super) struct EventTimes {
    plan: DecodePlan,
    decoder: Decoder,
}

impl EventTimes {
    pub(super) fn new(path: Path) -> EventTimes {
        let ty = Type::Primitive(Primitive::Timestamp(TimeUnit::Millisecond));
        EventTimes { plan: DecodePlan::new([Want { path, ty }]), decoder: Decoder::new() }
    }

    /// The running maximum of the events' times, from nothing: the merger knows what came before.
    pub(super) fn of(&mut self, batch: &EventBatch) -> Vec<Millis> {
        let decoded = self.decoder.decode(batch, &self.plan);
        let Some(Values::Timestamp(micros)) = decoded.columns.first().map(|column| &column.values) else {
            return Vec::new();
        };
        let mut latest = TIME_BEGINS;
        micros
            .iter()
            .map(|micros| {
                latest = latest.max(micros.map_or(TIME_BEGINS, |micros| micros.div_euclid(1000)));
                latest
            })
            .collect()
    }
}

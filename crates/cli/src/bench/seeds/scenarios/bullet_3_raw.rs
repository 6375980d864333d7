//! Runs N concurrent queries for the same 10 records, at 85,000 events/s: see [`super::simultaneous`].

use std::time::Duration;

use super::simultaneous::{self, Load};
use crate::bench::seeds::scenario::{Context, Measured, Needs, Scenario};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "bullet-3-raw",
    about: "N queries at once for the same 10 records, at 85,000 events/s",
    needs: |size| Needs::seconds(size.of(2, 22, 160)),
    run,
};

fn run(context: &Context) -> anyhow::Result<Measured> {
    let size = context.size;
    let load = Load {
        key: "B3",
        event_bytes: 0,
        rate: size.of(2_000.0, 85_000.0, 85_000.0),
        published: size.of(&[20][..], &[100, 200, 300, 400], &[100, 200, 300, 400]),
        queries_max: size.of(0, 1_600, 12_800),
        wait: Duration::from_millis(size.of(100, 1000, 10_000)),
    };
    simultaneous::run(context, &load)
}

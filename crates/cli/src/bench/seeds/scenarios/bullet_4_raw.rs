//! Runs up to 800 concurrent queries and beyond for the same 10 records, at 84,000 events/s: see [`super::simultaneous`].

use std::time::Duration;

use super::simultaneous::{self, Load};
use crate::bench::seeds::scenario::{Context, Measured, Needs, Scenario};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "bullet-4-raw",
    about: "the same with 800 queries and more, at 84,000 events/s",
    needs: |size| Needs::seconds(size.of(2, 30, 200)),
    run,
};

fn run(context: &Context) -> anyhow::Result<Measured> {
    let size = context.size;
    let load = Load {
        key: "B4",
        event_bytes: 0,
        rate: size.of(2_000.0, 84_000.0, 84_000.0),
        published: size.of(&[20][..], &[300, 500, 600, 700, 735, 800], &[300, 500, 600, 700, 735, 800]),
        queries_max: size.of(0, 3_200, 25_600),
        wait: Duration::from_millis(size.of(100, 1000, 10_000)),
    };
    simultaneous::run(context, &load)
}

//! Runs concurrent queries for the same 10 records, with events of 5 KiB: see [`super::simultaneous`].
//!
//! The published rate needed 1,179.8 cores; the short form uses the rate that a few cores can take.

use std::time::Duration;

use super::simultaneous::{self, Load};
use crate::bench::seeds::scenario::{Context, Measured, Needs, Scenario};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "bullet-5-bigdata",
    about: "the same with events of 5 KiB",
    needs: |size| Needs::seconds(size.of(2, 25, 200)),
    run,
};

fn run(context: &Context) -> anyhow::Result<Measured> {
    let size = context.size;
    let load = Load {
        key: "B5",
        event_bytes: 5120,
        rate: size.of(500.0, 20_000.0, 756_000.0),
        published: size.of(&[20][..], &[100, 300, 500, 600, 680, 700], &[100, 300, 500, 600, 680, 700]),
        queries_max: size.of(0, 1_400, 11_200),
        wait: Duration::from_millis(size.of(100, 1000, 10_000)),
    };
    simultaneous::run(context, &load)
}

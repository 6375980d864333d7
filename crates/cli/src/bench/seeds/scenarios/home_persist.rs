//! Measures how fast readings of devices in houses are stored.

use super::kept::HOME;
use crate::bench::seeds::scenario::{Context, Measured, Needs, Scenario};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "home-persist",
    about: "readings of houses stored, acknowledged from disk, by tenths of the run",
    needs: |size| Needs { disk_bytes: size.of(64 << 20, 2 << 30, 40 << 30), seconds: size.of(3, 15, 1500) },
    run,
};

fn run(context: &Context) -> anyhow::Result<Measured> {
    HOME.persist(context, context.size.of(20_000, 10_000_000, 1_000_000_000), &["D1", "D5"])
}

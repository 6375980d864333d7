//! Measures how fast articles of an encyclopaedia are stored.

use super::kept::ARTICLES;
use crate::bench::seeds::scenario::{Context, Measured, Needs, Scenario};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "article-persist",
    about: "articles of several KB stored, acknowledged from disk, by tenths of the run",
    needs: |size| Needs { disk_bytes: size.of(512 << 20, 4 << 30, 110 << 30), seconds: size.of(4, 15, 600) },
    run,
};

fn run(context: &Context) -> anyhow::Result<Measured> {
    ARTICLES.persist(context, context.size.of(3_600, 300_000, 16_753_779), &["D2", "D3", "D6"])
}

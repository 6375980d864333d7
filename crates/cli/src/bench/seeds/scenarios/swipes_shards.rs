//! Measures posts by the number of shards, and with one sender alone. The published sweep is over the number of partitions.

use super::swipes::{counted, fill, posted, server};
use crate::bench::seeds::scenario::{Context, Measured, Needs, Row, Scenario};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "swipes-shards",
    about: "swipes posted one per request, by the number of shards, and by a single sender",
    needs: |size| Needs { disk_bytes: size.of(64 << 20, 512 << 20, 4 << 30), seconds: size.of(8, 25, 240) },
    run,
};

/// Shards, each beside as many partitions.
const SWEEP: [(usize, &str); 4] = [(1, "T2/10"), (2, "T2/50"), (4, "T2/100"), (8, "T2/200")];

fn run(context: &Context) -> anyhow::Result<Measured> {
    let count = context.size.of(200, 60_000, 500_000);
    let connections = context.size.of(20, 200, 200);
    let (mut measured, mut points) = (Measured::default(), Vec::new());
    for (shards, key) in SWEEP {
        let server = server(context, &[&format!("engine.shards={shards}")])?;
        let (row, rate) = posted(context, &server, &format!("POST, {shards} shards"), (count, connections))?;
        measured.rows.push(row.beside(key));
        points.push((shards as f64, rate));
    }
    measured.plot("Posts by shards", "shards", "requests/s", vec![("ours", points)]);
    let server = server(context, &["engine.shards=1"])?;
    let alone = context.size.of(50, 3_000, 30_000);
    let what = "POST, one shard and one connection, acknowledged from disk";
    let (row, _) = posted(context, &server, what, (alone, 1))?;
    measured.rows.push(row.beside("T3/write"));
    let (before, _) = counted(&server)?;
    anyhow::ensure!(before == alone, "{before} swipes are stored, not {alone}");
    measured.rows.push(applied(context)?);
    Ok(measured)
}

/// Swipes that come many a request, until the views have applied them all.
fn applied(context: &Context) -> anyhow::Result<Row> {
    let server = server(context, &["engine.shards=1"])?;
    let swipes = context.size.of(1_000, 200_000, 500_000);
    let (seconds, applied) = context.timed(|| fill(context, &server, swipes))?;
    let row = Row::new(
        "swipes applied to four views, many a request, one shard",
        applied as f64 / seconds,
        "requests/s",
    );
    Ok(row
        .under(format!(
            "{applied} swipes in {seconds:.2} s, from the first byte sent until SQL has counted all"
        ))
        .beside("T3/consume"))
}

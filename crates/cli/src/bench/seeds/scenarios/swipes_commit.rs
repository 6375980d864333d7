//! Measures posts by the log's group size and linger: how much the log gathers, or how long it waits, before it writes. The
//! published counterpart is a sweep of the producers' batches.

use super::swipes::{posted, server};
use crate::bench::seeds::scenario::{Context, Measured, Needs, Scenario};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "swipes-commit",
    about: "swipes posted one per request, by the log's commit bytes and linger",
    needs: |size| Needs { disk_bytes: size.of(64 << 20, 512 << 20, 4 << 30), seconds: size.of(8, 30, 240) },
    run,
};

/// Bytes and milliseconds, as published.
const SWEEP: [(u64, u64); 6] = [(1638, 0), (3000, 1), (4500, 1), (7000, 3), (16_384, 5), (163_840, 50)];

fn run(context: &Context) -> anyhow::Result<Measured> {
    let count = context.size.of(200, 60_000, 500_000);
    let connections = context.size.of(20, 200, 200);
    let (mut measured, mut points) = (Measured::default(), Vec::new());
    for (bytes, linger_ms) in SWEEP {
        let micros = format!("data.log-linger-micros={}", linger_ms * 1000);
        let group = format!("data.log-commit-bytes={bytes}");
        let server = server(context, &[&micros, &group])?;
        let what = format!("POST, the log gathers {} bytes or waits {linger_ms} ms", bytes);
        let (row, rate) = posted(context, &server, &what, (count, connections))?;
        measured.rows.push(row.beside(format!("T1/{bytes}-{linger_ms}")));
        points.push((linger_ms.max(1) as f64, rate));
    }
    measured.plot("Posts by the log's linger", "ms", "requests/s", vec![("ours", points)]);
    Ok(measured)
}

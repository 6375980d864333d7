//! Posts half a million swipes over 200 connections: acknowledged from disk, and from memory.

use super::swipes::{posted, server};
use crate::bench::seeds::scenario::{Context, Measured, Needs, Scenario};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "swipes-post",
    about: "swipes posted one per request over 200 connections: acknowledged from disk, and from memory",
    needs: |size| Needs { disk_bytes: size.of(64 << 20, 1 << 30, 4 << 30), seconds: size.of(4, 12, 60) },
    run,
};

fn run(context: &Context) -> anyhow::Result<Measured> {
    let count = context.size.of(400, 150_000, 500_000);
    let connections = context.size.of(20, 200, 200);
    let mut measured = Measured::default();
    // The published figures of clients that waited until their swipe was taken, and of those that did not.
    let durable = ["T4/apart", "T4/together", "T4/all", "T5/post", "T6", "T7"];
    for (ack, keys) in [("disk", &durable[..]), ("memory", &["T8"])] {
        let server = server(context, &[])?;
        server.sql(&format!("ALTER STREAM swipes SET (ack = {ack})"))?;
        let what = format!("POST of {count} swipes, {connections} connections, acknowledged from {ack}");
        let (row, _) = posted(context, &server, &what, (count, connections))?;
        measured.rows.extend(keys.iter().map(|key| row.clone().beside(*key)));
    }
    Ok(measured)
}

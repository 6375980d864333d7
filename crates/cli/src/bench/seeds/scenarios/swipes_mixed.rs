//! Measures posts beside four times as many reads of matches and of counts.

use super::swipes::{Pace, USERS, counted, fault, fill, get, load, post, row, server};
use crate::bench::seeds::scenario::{Context, Measured, Needs, Scenario};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "swipes-mixed",
    about: "16,000 POST beside 64,000 GET of matches and 64,000 of counts",
    needs: |size| Needs { disk_bytes: size.of(64 << 20, 1 << 30, 1 << 30), seconds: size.of(4, 15, 20) },
    run,
};

/// Number of GET requests in nine published requests.
const GETS: u32 = 4;

fn run(context: &Context) -> anyhow::Result<Measured> {
    let requests = context.size.of(900, 144_000, 144_000);
    let connections = context.size.of(20, 200, 200);
    let server = server(context, &[])?;
    fill(context, &server, context.size.of(2_000, 500_000, 500_000))?;
    let (before, _) = counted(&server)?;
    let kinds = vec![post(1, USERS)?, get(GETS, "matches")?, get(GETS, "stats")?];
    let report = load(context, &server, kinds, &Pace::Requests(requests, connections))?;
    let posts = report.kinds[0].latency.count();
    let fault = fault(&server, before, &report, posts)?;
    let mut measured = Measured::default();
    let published = [("POST", "post"), ("GET matches", "matches"), ("GET stats", "stats")];
    for (counts, (what, key)) in report.kinds.iter().zip(published) {
        let row = row(format!("{what}, mixed, {connections} connections"), counts, report.seconds)
            .unless(fault.clone());
        // Theirs was served by one machine, and by three: ours is one.
        for machines in ["one", "apart"] {
            measured.rows.push(row.clone().beside(format!("T5/{machines}-{key}")));
        }
    }
    Ok(measured)
}

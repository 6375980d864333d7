//! Measures reads of matches and of counts alone: with all state of the views in memory, and with nearly none.

use anyhow::Context as _;

use super::swipes::{Pace, STREAM, USERS, counted, fill, get, load, row, server};
use crate::bench::seeds::scenario::{Context, Measured, Needs, Scenario};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "swipes-get",
    about: "GET of matches and counts, with the views in memory and on disk",
    needs: |size| Needs { disk_bytes: size.of(64 << 20, 1 << 30, 2 << 30), seconds: size.of(6, 25, 60) },
    run,
};

/// The least that the settings allow.
const LEAST: [&str; 2] = ["views.memory-bytes-max=1MiB", "views.cache-bytes=1MiB"];

fn run(context: &Context) -> anyhow::Result<Measured> {
    let requests = context.size.of(400, 150_000, 512_000);
    let connections = context.size.of(20, 200, 200);
    let mut measured = Measured::default();
    for (place, settings, keys) in
        [("in memory", &[][..], ["T5/matches", "T5/stats"]), ("on disk, all but 1 MiB", &LEAST[..], ["", ""])]
    {
        let server = server(context, settings)?;
        let filled = fill(context, &server, context.size.of(2_000, 500_000, 1_000_000))?;
        let keys_of = |view: &str| -> anyhow::Result<f64> {
            let rows = server.sql(&format!("SELECT count(*) AS n FROM {view}"))?;
            rows.first().and_then(|row| row["n"].as_f64()).context("no number of keys")
        };
        let mut all_keys = 0.0;
        for view in ["stats", "matches", "last_swipes", "mutual"] {
            all_keys += keys_of(view)?;
        }
        for (what, key) in ["matches", "stats"].into_iter().zip(keys) {
            let before = server.numbers()?;
            let report = load(context, &server, vec![get(1, what)?], &Pace::Requests(requests, connections))?;
            let total = report.total();
            let found = total
                .outcomes
                .iter()
                .filter(|(outcome, _)| outcome.status() == 200)
                .map(|(_, count)| count)
                .sum::<u64>();
            let after = server.numbers()?;
            let held = after.sum("swiftwater_views_held_keys");
            let reads = |from: &str| {
                let name = format!("swiftwater_views_reads_{from}_total");
                after.sum(&name) - before.sum(&name)
            };
            let hits = reads("held") / (reads("held") + reads("stored")).max(1.0);
            // As many as the view has of them all, but for chance.
            let share = keys_of(what)? / f64::from(USERS);
            let (expected, spread) =
                (share * requests as f64, (share * (1.0 - share) * requests as f64).sqrt());
            let is_right = total.failures == 0 && (found as f64 - expected).abs() <= 6.0 * spread + 1.0;
            let wrong = (!is_right).then(|| {
                format!(
                    "{found} of {requests} users were found, not about {expected:.0}; {} failed",
                    total.failures
                )
            });
            let name = format!("GET {what} of random users, views {place}");
            let row = row(name, &total, report.seconds).unless(wrong);
            let conditions = format!(
                "{}; {USERS} users after {filled} swipes in `{STREAM}`; {:.1} % of the reads were of memory; of random users {:.0} % were found; \
                 {held:.0} of {all_keys:.0} or more keys of four views in memory",
                row.conditions,
                100.0 * hits,
                100.0 * found as f64 / requests as f64,
            );
            let row = row.under(conditions);
            measured.rows.push(if key.is_empty() { row } else { row.beside(key) });
        }
        let (stored, counted) = counted(&server)?;
        anyhow::ensure!(stored == counted, "{stored} swipes are stored and {counted} counted");
    }
    Ok(measured)
}

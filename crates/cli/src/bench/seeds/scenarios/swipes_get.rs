//! Reads of matches and of counts alone: with all that views hold in memory, and with nearly none of it.

use super::swipes::{Pace, STREAM, USERS, counted, fill, get, load, row, server};
use crate::bench::seeds::scenario::{Context, Measured, Needs, Scenario};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "swipes-get",
    about: "GET of matches and of counts, with what views hold in memory and without",
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
        [("memory", &[][..], ["T5/matches", "T5/stats"]), ("disk, all but 1 MiB of it", &LEAST[..], ["", ""])]
    {
        let server = server(context, settings)?;
        let filled = fill(context, &server, context.size.of(2_000, 500_000, 1_000_000))?;
        let all_keys = server.sql(
            "SELECT (SELECT count(*) FROM stats) + (SELECT count(*) FROM matches) \
             + (SELECT count(*) FROM last_swipes) + (SELECT count(*) FROM mutual) AS n",
        )?;
        let all_keys = all_keys.first().and_then(|row| row["n"].as_f64()).unwrap_or(0.0);
        for (what, key) in ["matches", "stats"].into_iter().zip(keys) {
            let report = load(context, &server, vec![get(1, what)?], &Pace::Requests(requests, connections))?;
            let total = report.total();
            let found = total
                .outcomes
                .iter()
                .filter(|(outcome, _)| outcome.status() == 200)
                .map(|(_, count)| count)
                .sum::<u64>();
            let held = server.numbers()?.sum("swiftwater_views_held_keys");
            let wrong = (total.failures > 0 || found * 10 < requests).then(|| {
                format!("{found} of {requests} users were found, {} requests failed", total.failures)
            });
            let name = format!("GET {what} of random users, views in {place}");
            let row = row(name, &total, report.seconds).unless(wrong);
            let conditions = format!(
                "{}; {USERS} users after {filled} swipes in `{STREAM}`; of random users {:.0} % were found; {held:.0} of {all_keys:.0} or more keys \
                 of four views in memory",
                row.conditions,
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

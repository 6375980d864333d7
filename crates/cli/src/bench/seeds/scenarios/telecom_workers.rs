//! Measures the whole flow by its number of shards, also beyond the number of cores, where the published rate fell.

use super::telecom::{by_each_dimension, records, round, server};
use crate::bench::seeds::scenario::{Context, Measured, Needs, Row, Scenario};
use swiftwater_generate::DIMENSIONS;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "telecom-workers",
    about: "the whole flow by its number of shards",
    needs: |size| Needs::seconds(size.of(4, 25, 120)),
    run,
};

fn run(context: &Context) -> anyhow::Result<Measured> {
    let bodies = records(context.size.of(2, 150, 300))?;
    let shards: &[usize] = context.size.of(&[1, 2], &[1, 2, 4, 8], &[1, 2, 4, 8, 16]);
    let count = context.size.of(2, 1_000, 10_000);
    let mut measured = Measured::default();
    let mut points = Vec::new();
    for &shards in shards {
        let server = server(context, shards)?;
        let times = DIMENSIONS.len() as u64;
        let round = round(context, &server, &by_each_dimension(), &bodies, count, times)?;
        let conditions =
            format!("{:.1} µs of processor time a record; busy: {}", round.cpu_micros, round.busy);
        let row = Row::new(format!("the whole flow on {shards} shards"), round.rate, "records/s");
        measured.rows.push(row.under(conditions).unless(round.fault));
        points.push((shards as f64, round.rate));
    }
    measured.plot("The whole flow by shards", "shards", "records/s", vec![("ours", points)]);
    Ok(measured)
}

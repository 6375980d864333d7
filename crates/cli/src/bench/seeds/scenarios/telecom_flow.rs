//! Measures the whole flow: nested records in, twenty sums by 62 dimensions out, in both readings of the grouping and for
//! chosen sets.
//!
//! The published text lists the dimensions, each in its own brackets. Read as one rollup per dimension, a record is added to
//! 62 groups, 1,240 sums. Read as one key of all of them, nearly every record is a group by itself.

use swiftwater_generate::DIMENSIONS;

use super::telecom::{STREAM, by_each_dimension, records, round, server, sums};
use crate::bench::seeds::scenario::{Context, Measured, Needs, Row, Scenario};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "telecom-flow",
    about: "62 dimensions by 20 sums from nested records, both readings, and the share of each stage",
    needs: |size| Needs::seconds(size.of(5, 30, 120)),
    run,
};

/// Sets of dimensions that somebody would want together.
const CHOSEN: &str = "(radio.cell, svc.app), (radio.region, svc.app), (sub.plan, dev.model), (out.cause, radio.enb), \
                      (core.apn, svc.cat), ()";
const CHOSEN_SETS: u64 = 6;

fn run(context: &Context) -> anyhow::Result<Measured> {
    let bodies = records(context.size.of(2, 300, 300))?;
    let mut measured = Measured::default();
    let (sums, keys) = (sums(), DIMENSIONS.join(", "));
    let from = format!("SELECT COUNT(*) AS n, {sums} FROM STREAM({STREAM}, MAX, TIME) GROUP BY");
    let readings = [
        (
            "each dimension alone",
            by_each_dimension(),
            DIMENSIONS.len() as u64,
            context.size.of(2, 3_000, 30_000),
        ),
        ("all dimensions as one key", format!("{from} {keys}"), 1, context.size.of(2, 200, 300)),
        (
            "five chosen sets and all",
            format!("{from} GROUPING SETS ({CHOSEN})"),
            CHOSEN_SETS,
            context.size.of(2, 1_500, 10_000),
        ),
    ];
    for (name, query, times, count) in readings {
        // Each on a server of its own: what one holds does not slow the next.
        let server = server(context, 0)?;
        let round = round(context, &server, &query, &bodies, count, times)?;
        let conditions = format!(
            "{name}; {} records of {:.0} bytes in {:.1} s, {} rows, {:.1} µs of processor time a record, {} MiB of memory; \
             busy: {}",
            round.fed.events,
            bodies.event_bytes,
            round.fed.seconds,
            round.groups,
            round.cpu_micros,
            server.peak_bytes()? >> 20,
            round.busy,
        );
        let row = Row::new(format!("the whole flow, {name}"), round.rate, "records/s");
        let row = row.under(conditions).unless(round.fault);
        if times == DIMENSIONS.len() as u64 {
            for key in ["E1", "E2", "E5"] {
                measured.rows.push(row.clone().beside(key));
            }
        } else {
            measured.rows.push(row);
        }
    }
    Ok(measured)
}

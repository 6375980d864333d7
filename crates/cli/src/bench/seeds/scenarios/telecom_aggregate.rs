//! Measures aggregation by its number of groups, its width and its number of shards.

use super::telecom::{Round, STREAM, round, server};
use crate::bench::seeds::{
    feed::Bodies,
    scenario::{Context, Measured, Needs, Row, Scenario},
};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "telecom-aggregate",
    about: "sums by a key: by the number of groups, dimensions, measures and shards",
    needs: |size| Needs::seconds(size.of(4, 40, 200)),
    run,
};

/// Groups where nothing else is said.
const GROUPS: u64 = 10_000;
const UNIT: &str = "records/s";

/// The number of groups, of the dimensions that distinguish them, and of sums.
#[derive(Clone, Copy)]
struct Shape {
    groups: u64,
    dimensions: usize,
    measures: usize,
}

impl Shape {
    fn query(self) -> String {
        let names =
            |letter: char, count: usize| (0..count).map(|number| format!("{letter}{number}")).collect();
        let (keys, values): (Vec<String>, Vec<String>) =
            (names('d', self.dimensions), names('m', self.measures));
        let sums: Vec<String> = values.iter().map(|name| format!("SUM({name}) AS {name}")).collect();
        let (sums, keys) = (sums.join(", "), keys.join(", "));
        format!("SELECT COUNT(*) AS n, {sums} FROM STREAM({STREAM}, MAX, TIME) GROUP BY {keys}")
    }

    /// Bodies of at least so many events, with one of every group.
    fn bodies(self, events: u64) -> Bodies {
        let mut number = 0_u64;
        let push = |number: u64, out: &mut Vec<u8>| {
            let group = number % self.groups;
            for dimension in 0..self.dimensions {
                // The first tells the group, the others fewer and fewer of them.
                let value = group >> dimension.min(20);
                let start = if dimension == 0 { "{" } else { "," };
                out.extend_from_slice(format!("{start}\"d{dimension}\":\"k{value}\"").as_bytes());
            }
            for measure in 0..self.measures {
                let value = (number + measure as u64) % 1000;
                out.extend_from_slice(format!(",\"m{measure}\":{value}").as_bytes());
            }
            out.extend_from_slice(b"}\n");
        };
        let mut one = Vec::new();
        push(0, &mut one);
        let in_body = (256 << 10) / one.len() as u64;
        let bodies = events.max(self.groups * 5 / 4).div_ceil(in_body) + 1;
        Bodies::many(bodies as usize, move |out| {
            push(number, out);
            number += 1;
        })
    }
}

fn measure(context: &Context, shape: Shape, shards: usize) -> anyhow::Result<Round> {
    let server = server(context, shards)?;
    let bodies = shape.bodies(context.size.of(2_000, 100_000, 400_000));
    let least = shape.groups * 5 / 4 / bodies.events + 1;
    let wanted = context.size.of(5_000, 1_000_000, 8_000_000) / bodies.events + 1;
    let mut round = round(context, &server, &shape.query(), &bodies, least.max(wanted), 1)?;
    if round.fault.is_none() && round.groups as u64 != shape.groups {
        round.fault = Some(format!("{} groups came of {}", round.groups, shape.groups));
    }
    Ok(round)
}

fn row(what: String, round: &Round) -> Row {
    let conditions = format!("{:.2} µs of processor time a record; {}", round.cpu_micros, round.busy);
    Row::new(what, round.rate, UNIT).under(conditions).unless(round.fault.clone())
}

fn run(context: &Context) -> anyhow::Result<Measured> {
    let mut measured = Measured::default();
    let title = "Aggregation: ";
    let groups: &[u64] = context.size.of(
        &[10, 1_000],
        &[10, 1_000, 10_000, 100_000, 1_000_000],
        &[10, 100, 1_000, 10_000, 100_000, 1_000_000],
    );
    let mut points = Vec::new();
    for &groups in groups {
        let round = measure(context, Shape { groups, dimensions: 2, measures: 2 }, 0)?;
        let bytes = round.state_bytes as f64 / groups as f64;
        let what = format!("2 dimensions, 2 measures, {groups} groups");
        let mut next = row(what, &round);
        next.conditions = format!("{bytes:.0} bytes a group; {}", next.conditions);
        measured.rows.push(next);
        points.push((groups as f64, round.rate));
    }
    measured.plot(&format!("{title}groups"), "groups", UNIT, vec![("ours", points)]);

    let widths: &[(usize, usize)] = context.size.of(
        &[(2, 2), (6, 4)],
        &[(2, 2), (6, 4), (12, 8), (24, 12), (40, 16), (62, 20)],
        &[(2, 2), (6, 4), (12, 8), (24, 12), (40, 16), (62, 20)],
    );
    let groups = context.size.of(1_000, GROUPS, GROUPS);
    let (mut points, mut cells) = (Vec::new(), Vec::new());
    for &(dimensions, measures) in widths {
        let round = measure(context, Shape { groups, dimensions, measures }, 0)?;
        let what = format!("{dimensions} dimensions, {measures} measures, {groups} groups");
        let width = (dimensions + measures) as f64;
        let mut next = row(what, &round);
        next.conditions = format!("{:.1} M cells/s; {}", round.rate * width / 1e6, next.conditions);
        if (dimensions, measures) == (6, 4) {
            measured.rows.push(next.clone().beside("E3"));
        } else {
            measured.rows.push(next);
        }
        points.push((width, round.rate));
        cells.push((width, round.rate * width));
    }
    let title_wide = format!("{title}width");
    measured.plot(
        &title_wide,
        "dimensions and measures",
        "a second",
        vec![("records", points), ("cells", cells)],
    );

    let shards: &[usize] = context.size.of(&[1, 2], &[1, 2, 4], &[1, 2, 4, 8]);
    let mut points = Vec::new();
    for &shards in shards {
        if context.given.is_some() {
            break;
        }
        let round = measure(context, Shape { groups, dimensions: 6, measures: 4 }, shards)?;
        measured
            .rows
            .push(row(format!("6 dimensions, 4 measures, {groups} groups, {shards} shards"), &round));
        points.push((shards as f64, round.rate));
    }
    measured.plot(&format!("{title}shards"), "shards", UNIT, vec![("ours", points)]);
    Ok(measured)
}

//! The rows of the decoder's comparison: ours as shipped, the others at the better of two builds.

use anyhow::Context;

use super::{Contest, Order, others::ARROW_JSON};
use crate::{
    samples::Samples,
    table::{Row, Table, Verdict, mib},
};

/// The goal for ours, in GB/s.
fn goal(order: Order, paths: usize) -> Option<f64> {
    match (order, paths) {
        (Order::Kept, 1) => Some(6.0),
        (Order::Kept, 4) => Some(5.0),
        (Order::Kept, 20) => Some(2.5),
        (Order::Kept, 92) => Some(1.2),
        (Order::Shuffled, 1) => Some(2.0),
        (Order::Shuffled, 4) => Some(1.8),
        (Order::Shuffled, 20) => Some(1.2),
        _ => None,
    }
}

/// The factor by which ours should be faster, and than which other; no name: than the best of them.
fn lead(order: Order, paths: usize) -> Option<(f64, Option<&'static str>)> {
    match (order, paths) {
        (Order::Kept, 4) => Some((4.0, None)),
        (Order::Kept, 92) => Some((3.0, Some(ARROW_JSON))),
        _ => None,
    }
}

pub(super) fn add(own: &[Contest], native: &[Contest], table: &mut Table) -> anyhow::Result<()> {
    for contest in own {
        let other = native.iter().find(|other| (other.order, other.paths) == (contest.order, contest.paths));
        rows_of(contest, other, table)?;
    }
    Ok(())
}

fn median(speeds: &[f64]) -> anyhow::Result<f64> {
    Ok(Samples::new(speeds.to_vec())?.median())
}

pub(super) fn speeds_text(speeds: &[super::Speeds]) -> anyhow::Result<String> {
    let each = speeds.iter().map(|(name, speeds)| Ok(format!("{name} {:.2}", median(speeds)?)));
    Ok(each.collect::<anyhow::Result<Vec<_>>>()?.join(", "))
}

fn rows_of(contest: &Contest, native: Option<&Contest>, table: &mut Table) -> anyhow::Result<()> {
    let Contest { order, paths, extent, .. } = contest;
    let (_, own) = contest.speeds.first().context("nothing was measured")?;
    let own = Samples::new(own.clone())?;
    let fault = contest.fault.as_ref().or_else(|| native.and_then(|native| native.fault.as_ref()));
    let mut conditions = format!(
        "{}one core, time of its thread, {} of different blocks in memory, {} rounds, {:.2} to {:.2}; in the same run, \
         GB/s: {}",
        fault.map_or_else(String::new, |fault| format!("{fault}; ")),
        mib(extent.bytes as u64),
        extent.rounds,
        own.least(),
        own.most(),
        speeds_text(&contest.speeds[1..])?,
    );
    if let Some(native) = native {
        conditions += &format!("; all compiled for this machine: {}", speeds_text(&native.speeds)?);
    }
    let goal = goal(*order, *paths);
    let plural = if *paths == 1 { "path" } else { "paths" };
    let what = match paths {
        0 => "split and check: UTF-8 and the whole grammar".to_owned(),
        _ => format!("decode {paths} {plural} of each event to Arrow, {}", order.name()),
    };
    table.push(Row {
        what: what.clone(),
        figure: format!("{:.2} GB/s", own.median()),
        conditions,
        needed: goal.map_or_else(String::new, |goal| format!("≥ {goal} GB/s")),
        verdict: match (fault, goal) {
            (Some(_), _) => Verdict::Wrong,
            (None, Some(goal)) => Verdict::of(own.median() >= goal),
            (None, None) => Verdict::Told,
        },
    });
    let Some((least, rival)) = lead(*order, *paths) else { return Ok(()) };
    let others = contest.speeds.iter().chain(native.into_iter().flat_map(|native| &native.speeds));
    let mut best: Option<(&str, f64)> = None;
    for (name, speeds) in others.filter(|(name, _)| !name.starts_with("ours")) {
        let speed = median(speeds)?;
        if rival.is_none_or(|rival| rival == name) && best.is_none_or(|(_, most)| speed > most) {
            best = Some((name, speed));
        }
    }
    let (name, speed) = best.context("there is no other")?;
    table.push(Row {
        what: format!("{what}: speed to that of {}", rival.map_or("the best other", |rival| rival)),
        figure: format!("{:.2}", own.median() / speed),
        conditions: format!("{name}, {speed:.2} GB/s, the better of its builds; medians"),
        needed: format!("≥ {least}"),
        verdict: Verdict::of(own.median() >= speed * least),
    });
    Ok(())
}

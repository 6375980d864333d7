//! Measures the structural pass by itself, with each instruction set of the machine. It finds brackets, commas and the
//! event's own colons, as places and as the bits that the decoder reads; and the same with the whole grammar checked.

use std::hint::black_box;

use swiftwater_event::measure::StructuralPass;

use super::{Block, Extent, Speeds, Turn, race, rows::speeds_text};
use crate::{
    samples::Samples,
    table::{Row, Table, Verdict, mib},
};

/// The goal with these instructions, in GB/s.
fn goal(instructions: &str) -> Option<f64> {
    match instructions {
        "avx512" => Some(8.0),
        "avx2" => Some(4.0),
        _ => None,
    }
}

/// The measurements with one set of instructions.
pub(super) struct Passes {
    instructions: &'static str,
    /// Places, bits, and bits with the check.
    speeds: Vec<Speeds>,
}

/// Times all of them over all blocks.
pub(super) fn measure(blocks: &[Block], extent: Extent) -> anyhow::Result<Vec<Passes>> {
    let each = StructuralPass::all().map(|pass| {
        let mut places = Vec::new();
        let mut write_places = |block: &Block| {
            pass.places(&block.batch, &mut places);
            black_box(&places);
            Ok(block.batch.len())
        };
        let mut write_bits = |block: &Block| {
            black_box(pass.bits(&block.batch));
            Ok(block.batch.len())
        };
        let mut check = |block: &Block| Ok(pass.check(&block.batch));
        let turns: &mut [Turn<'_>] = &mut [
            ("places out", &mut write_places),
            ("bits out", &mut write_bits),
            ("bits out, the whole grammar checked", &mut check),
        ];
        let speeds = race(blocks, extent.rounds, turns)?;
        Ok(Passes { instructions: pass.name(), speeds })
    });
    each.collect()
}

/// Adds a row for each set of instructions.
pub(super) fn add(all: &[Passes], extent: Extent, table: &mut Table) -> anyhow::Result<()> {
    for Passes { instructions, speeds } in all {
        let Some(((_, places), others)) = speeds.split_first() else { continue };
        let places = Samples::new(places.clone())?;
        let goal = goal(instructions);
        table.push(Row {
            what: format!("structural pass alone, {instructions}"),
            figure: format!("{:.2} GB/s", places.median()),
            conditions: format!(
                "places of brackets, commas and events' own colons out; one core, time of its thread, {} of different blocks \
                 in memory, {} rounds, {:.2} to {:.2}; in the same run, GB/s: {}",
                mib(extent.bytes as u64),
                extent.rounds,
                places.least(),
                places.most(),
                speeds_text(others)?,
            ),
            needed: goal.map_or_else(String::new, |goal| format!("≥ {goal} GB/s")),
            verdict: goal.map_or(Verdict::Told, |goal| Verdict::of(places.median() >= goal)),
        });
    }
    Ok(())
}

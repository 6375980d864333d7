//! `swiftwater bench`: load and figures.
//!
//! How requests are sent and timed is `swiftwater-load`'s; here they are read from flags, and what came of them is told.

mod load;
mod report;
mod requests;
mod seeds;
mod size;

use std::sync::Arc;

use swiftwater_event::Clock;

use crate::{
    args::{BenchArgs, BenchCommand},
    exit::Outcome,
};

/// Runs the command.
pub(crate) fn run(args: &BenchArgs, clock: Arc<dyn Clock>) -> Outcome {
    match &args.command {
        BenchCommand::Load(args) => load::run(args, &*clock),
        BenchCommand::Seeds(args) => seeds::run(args, clock),
        BenchCommand::Size(args) => size::run(args, clock),
        BenchCommand::Validate(args) => seeds::validate::run(args, clock),
    }
}

//! `swiftwater bench`: generates load and measures it.
//!
//! The crate `swiftwater-load` sends and times the requests. This module reads them from flags, and reports the results.

mod load;
mod report;
mod requests;
#[cfg(feature = "history")]
mod seeds;
#[cfg(feature = "history")]
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
        #[cfg(feature = "history")]
        BenchCommand::Seeds(args) => seeds::run(args, clock),
        #[cfg(feature = "history")]
        BenchCommand::Size(args) => size::run(args, clock),
        #[cfg(feature = "history")]
        BenchCommand::Validate(args) => seeds::validate::run(args, clock),
        #[cfg(not(feature = "history"))]
        _ => Err(crate::exit::without_history()),
    }
}

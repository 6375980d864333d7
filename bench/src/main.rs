//! End-to-end benchmarks: the whole engine from outside, with one table as the result.
//!
//! The parts are:
//!
//! - the decoder beside other parsers ([`decode`]);
//! - equality queries, one to a hundred thousand ([`equality`]), queries of many forms ([`mixed`]), and standing searches
//!   ([`searches`]);
//! - throughput with standing queries, beside a plain JSON parser in the same run ([`throughput`]);
//! - concurrent aggregations ([`shared`]), latency over loopback HTTP ([`latency`]), and deliveries ([`delivery`]);
//! - queries that come and go ([`changes`]), memory ([`memory`]), and curves of cost ([`curves`]);
//! - rollups ([`rollups`]), answers by key ([`views`]), and data that is stored and queried ([`history`]).
//!
//! Every answer is checked against the generator of the events. A wrong answer makes the run fail; a missed speed is only
//! marked. Each point of throughput is a separate process ([`child`]), so that it has its own memory peak and nothing is
//! warm but the page cache.
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark reads the machine's clock, and paces itself by sleeping"
)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its table is its output")]

mod args;
mod machine;
mod table;
mod task;

mod data;
mod measured;
mod workload;

mod changes;
mod counted;
mod curves;
mod decode;
mod delivery;
mod equality;
mod mixed;
mod rollups;
mod searches;
mod shared;
mod throughput;

mod child;
mod run_baseline;
mod run_changes;
mod run_engine;
mod run_input;
mod run_matching;
mod run_paced;
mod run_shared;

mod bodies;
mod history;
mod latency;
mod memory;
mod sending;
mod stored;
mod views;

mod http;
mod http_load;
mod plot;
mod results;
mod samples;
mod server;

use std::process::ExitCode;

use args::{Args, PARTS, Part};
use table::Table;

/// The one that the binary has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let done = match words.next().as_deref() {
        Some(task::WORD) => child::run(&words.collect::<Vec<_>>()).map(|()| true),
        Some(server::WORD) => server::run().map(|()| true),
        Some(delivery::WORD) => delivery::run_writer().map(|()| true),
        Some(decode::WORD) => decode::run_for_another(&words.collect::<Vec<_>>()).map(|()| true),
        Some(views::WORD) => views::run_bare().map(|()| true),
        Some(counted::WORD) => counted::run(&words.collect::<Vec<_>>()).map(|()| true),
        _ => bench(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("swiftwater-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs what is asked for and prints the table; whether all answers were right.
fn bench() -> anyhow::Result<bool> {
    let Some(args) = Args::parse(std::env::args().skip(1))? else {
        print!("{}", args::HELP);
        return Ok(true);
    };
    let about = machine::about();
    let mut table = Table::default();
    for (_, part) in PARTS {
        if args.wants(part) {
            match part {
                Part::Decode => decode::run(&args, &mut table),
                Part::Equality => equality::run(&args, &mut table),
                Part::Mixed => mixed::run(&args, &mut table),
                Part::Searches => searches::run(&args, &mut table),
                Part::Latency => latency::run(&args, &mut table),
                Part::Memory => memory::run(&args, &mut table),
                Part::Throughput => throughput::run(&args, &mut table),
                Part::Delivery => delivery::run(&args, &mut table),
                Part::Changes => changes::run(&args, &mut table),
                Part::Curves => curves::run(&args, &mut table),
                Part::Shared => shared::run(&args, &mut table),
                Part::Rollups => rollups::run(&args, &mut table),
                Part::Views => views::run(&args, &mut table),
                Part::History => history::run(&args, &mut table),
            }?;
        }
    }
    println!("{about}\n\n{table}");
    if args.write {
        results::write(&args.results(), &about, &table)?;
    }
    Ok(table.all_correct())
}

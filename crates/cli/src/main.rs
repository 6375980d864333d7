//! `swiftwater`: live queries over event streams, from the command line.
//!
//! Contains flags, settings, exit codes and terminal output; the only room that uses `anyhow`. `engine` answers queries, and
//! `server` transports them. The machine's clock is created here and passed down.

// Commands that need history leave what only they use.
#![cfg_attr(not(feature = "history"), allow(dead_code, unused_imports))]

mod activity;
mod args;
#[cfg(feature = "history")]
mod backup;
mod bench;
mod client;
#[cfg(feature = "history")]
mod cluster;
mod demo;
mod demo_command;
mod exit;
mod generate;
mod ingest;
mod input_file;
mod logging;
mod memory;
mod open_files;
mod output;
mod progress;
mod query;
mod search;
mod serve;
mod settings;
mod signals;
#[cfg(feature = "history")]
mod sql;
mod stdio;
mod text_table;
mod top;

use std::{ffi::OsString, process::ExitCode, sync::Arc};

use clap::{CommandFactory, Parser};
use swiftwater_event::SystemClock;

use args::{Cli, Command, hints};

fn main() -> ExitCode {
    let clock = Arc::new(SystemClock::new());
    let typed: Vec<OsString> = std::env::args_os().collect();
    let parsed = Cli::try_parse_from(&typed);
    let cli = parsed.unwrap_or_else(|error| hints::hinted(error, &Cli::command(), &typed).exit());
    let done = match cli.command {
        Command::Serve(args) => serve::run(&args, clock),
        Command::Demo(args) => demo_command::run(&args, clock),
        Command::Ingest(args) => ingest::run(&args, clock),
        Command::Query(args) => query::run(&args, clock),
        Command::Search(args) => search::run(&args, clock),
        Command::Activity(args) => activity::run(&args),
        Command::Attach(args) => query::attach(&args),
        Command::Kill(args) => query::kill(&args),
        #[cfg(feature = "history")]
        Command::Cluster(args) => cluster::run(&args),
        #[cfg(feature = "history")]
        Command::Sql(args) => sql::run(&args),
        #[cfg(feature = "history")]
        Command::Backup(args) => backup::run(&args),
        #[cfg(feature = "history")]
        Command::Restore(args) => backup::restore(&args, clock),
        #[cfg(not(feature = "history"))]
        Command::Cluster(_) | Command::Sql(_) | Command::Backup(_) | Command::Restore(_) => {
            Err(exit::without_history())
        }
        Command::Top(args) => top::run(&args, clock),
        Command::Generate(args) => generate::run(&args, clock),
        Command::Bench(args) => bench::run(&args, clock),
        Command::Completions { shell } => stdio::write_out(|out| {
            clap_complete::generate(shell, &mut Cli::command(), "swiftwater", out);
            Ok(())
        }),
    };
    exit::code(done, stdio::complain)
}

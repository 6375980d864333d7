//! Measures stored data: how fast it is stored and queried. The release binary runs over a data directory, measured from
//! outside.
//!
//! | measured | by |
//! | --- | --- |
//! | the log alone, beside a bare loop of the same work and beside a Kafka broker, and the latency of acknowledgements | [`log`], [`bare`], [`kafka`], [`acks`] |
//! | events all the way into Delta tables, and their size there | [`sustained`] |
//! | the published queries over them, beside DuckDB on the same files | [`asked`], [`duckdb`] |
//! | a COUNT while events arrive | [`fresh`] |
//! | a store that stopped; a server that was killed | [`catching_up`], [`recovery`] |
//!
//! Sender and server share the machine. Events are those of `swiftwater generate` and of the published load tests, generated
//! before any measurement and sent repeatedly. The expected answers are computed here, by other code than the server's. The
//! stored results are read from the tables' own Delta logs ([`delta`]), without the server's knowledge.

mod delta;

mod articles;
mod smart_home;

mod acks;
mod bare;
mod kafka;
mod log;

mod sustained;

mod asked;
mod duckdb;
mod fresh;
mod python;

mod catching_up;
mod recovery;

use crate::{
    args::{Args, Part},
    stored::directory,
    table::{Row, Table},
};
use duckdb::DuckDb;

/// Maximum bytes of an event of this kind while it is stored: in the log, in files and in those that were merged.
const SMART_HOME_BYTES: u64 = 100;
/// And an article.
const ARTICLE_BYTES: u64 = 2000;
/// Maximum bytes of all other measurements.
const OTHER_BYTES: u64 = 10 << 30;

/// Measures all of it and adds the rows.
pub(crate) fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let other = if args.quick { OTHER_BYTES / 8 } else { OTHER_BYTES };
    let needed = args.history_events() * SMART_HOME_BYTES + args.articles() * ARTICLE_BYTES + other;
    let directory = match directory(args, needed) {
        Ok(directory) => directory,
        // A failure does not discard the results of other parts.
        Err(why) => {
            table.push(Row::not_measured("what is stored", &why));
            return Ok(());
        }
    };
    let wants = |piece| args.wants_piece(Part::History, piece);
    if wants("log") {
        log::run(args, &directory, table)?;
    }
    if wants("acks") {
        acks::run(args, &directory, table)?;
    }
    if wants("smart-home") || wants("articles") {
        let mut duckdb = DuckDb::start();
        if let Err(why) = &duckdb {
            eprintln!("without DuckDB: {why:#}");
        }
        if wants("smart-home") {
            smart_home::run(args, &directory, duckdb.as_mut().ok(), table)?;
        }
        if wants("articles") {
            articles::run(args, &directory, duckdb.as_mut().ok(), table)?;
        }
    }
    if wants("recovery") {
        recovery::run(args, &directory, table)?;
    }
    Ok(())
}

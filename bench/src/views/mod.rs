//! Measures answers by key: the release binary over a data directory, from outside, and the groups of views in memory.
//!
//! | measured | by |
//! | --- | --- |
//! | the matching app's routes by `wrk`, beside a bare HTTP server and Redis in the same run | [`app`], [`wrk`], [`bare`], [`redis`] |
//! | how soon a swipe is visible | [`visible`] |
//! | updates by a million keys, from NDJSON and from columns in memory | [`updates`], [`folding`] |
//! | views over views, joins, alerts | [`derived`] |
//! | ten million keys: memory, a restart | [`many_keys`] |
//!
//! Load and server share the machine. The final contents of views are checked against the events sent.

mod app;
mod bare;
mod derived;
mod folding;
mod many_keys;
mod pairs;
mod redis;
mod updates;
mod visible;
mod wrk;

pub(crate) use bare::{WORD, run as run_bare};

use crate::{
    args::{Args, Part},
    stored::directory,
    table::{Row, Table},
};

/// Maximum bytes of all of it on disk.
const BYTES: u64 = 12 << 30;

/// Measures all of it and adds the rows.
pub(crate) fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let wants = |piece| args.wants_piece(Part::Views, piece);
    if wants("folding") {
        folding::run(args, table)?;
    }
    match directory(args, if args.quick { BYTES / 8 } else { BYTES }) {
        Ok(directory) => {
            if wants("app") {
                app::run(args, &directory, table)?;
            }
            if wants("updates") {
                updates::run(args, &directory, table)?;
            }
            if wants("derived") {
                derived::run(args, &directory, table)?;
            }
            if wants("many-keys") {
                many_keys::run(args, &directory, table)?;
            }
            Ok(())
        }
        Err(why) => {
            table.push(Row::not_measured("answers by key, from outside", &why));
            Ok(())
        }
    }
}

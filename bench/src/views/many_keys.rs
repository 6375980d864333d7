//! Measures ten million keys: how many of them are in memory, and how long a killed server takes until it serves them again.

use std::{path::Path, sync::Arc, time::Instant};

use anyhow::Context;

use super::{
    pairs::{DECLARED, TOTALS, push},
    updates::read,
};
use crate::{
    args::Args,
    bodies::Bodies,
    machine,
    sending::{Plan, Sending},
    stored::Stored,
    table::{Row, Table, Verdict, grouped, mib},
};

const KEYS: usize = 10_000_000;
const KEYS_QUICK: usize = 500_000;
/// The memory limits for keys: those of views, and of the cache of their files.
const SETTINGS: [&str; 2] = ["--views.memory-bytes-max=256MiB", "--views.cache-bytes=256MiB"];
const SET_BYTES: u64 = 512 << 20;
/// The other memory of an idle server: the program, buffers of files, the allocator's caches.
const OTHER_BYTES: u64 = 512 << 20;
const RESTART_SECONDS_MAX: f64 = 10.0;

/// Measures and adds the row.
pub(super) fn run(args: &Args, directory: &Path, table: &mut Table) -> anyhow::Result<()> {
    let keys = if args.quick { KEYS_QUICK } else { KEYS };
    let mut stored = Stored::start(directory, &SETTINGS)?;
    stored.declare(DECLARED)?;
    let mut text = Vec::new();
    // Each key once, in an order that jumps about: the factor is odd and no multiple of 5, and keys is 5 and 2 many times.
    (0..keys).for_each(|number| push(&mut text, number * 7_368_787 % keys, number % 1000));
    let bodies = Arc::new(Bodies::of(text.into())?);
    let count = bodies.holding(keys as u64);
    let sent = Sending::start(&Plan::all(stored.server()?.address, "pairs", &bodies, count))?.finish()?;
    stored.wait_for_views()?;
    let (found, events, _) = read(&stored.sql(TOTALS)?)?;
    let again_from = Instant::now();
    // Updates of all of them once more, so that states are read back and written again.
    let again = Sending::start(&Plan::all(stored.server()?.address, "pairs", &bodies, count))?.finish()?;
    let while_sent = machine::memory(&stored.server()?.process());
    stored.wait_for_views()?;
    let memory = machine::memory(&stored.server()?.process());
    let counted = again_from.elapsed().as_secs_f64();
    let (_, twice, _) = read(&stored.sql(TOTALS)?)?;
    stored.kill();
    let start = Instant::now();
    let serving = stored.start_again()?.as_secs_f64();
    let mut client = stored.client()?;
    let row = client.get(&format!("/v1/views/by_key/keys/{}?consistent=true", keys / 2))?;
    let restart = start.elapsed().as_secs_f64();
    let row: serde_json::Value = serde_json::from_slice(&row).context("a row is no JSON")?;
    let after = machine::memory(&stored.server()?.process());
    let is_right =
        (found, events, twice) == (keys as u64, keys as u64, 2 * keys as u64) && row["n"].as_u64() == Some(2);
    let is_bounded = memory.own <= SET_BYTES + OTHER_BYTES;
    table.push(Row {
        what: format!("{} keys: memory, and a restart after SIGKILL", grouped(keys as u64)),
        figure: format!("{}, {restart:.2} s until a key's row is given out", mib(memory.own)),
        conditions: format!(
            "{}the release binary, {}; each key twice, acknowledged at {} and {} events/s, the second time counted at {}, and memory \
             looked at then; when the last of them was acknowledged {}, which events on their way and rows before their commit are \
             part of, the most that was resident {}, after the restart {}; served again after {serving:.2} s",
            if is_right { "" } else { "its counts are wrong; " },
            SETTINGS.join(" "),
            grouped((sent.events as f64 / sent.seconds) as u64),
            grouped((again.events as f64 / again.seconds) as u64),
            grouped((again.events as f64 / counted) as u64),
            mib(while_sent.own),
            mib(memory.peak),
            mib(after.own),
        ),
        needed: format!("≤ {} as set and {} for all else, < {RESTART_SECONDS_MAX} s", mib(SET_BYTES), mib(OTHER_BYTES)),
        verdict: match is_right {
            true => Verdict::of(is_bounded && restart < RESTART_SECONDS_MAX),
            false => Verdict::Wrong,
        },
    });
    Ok(())
}

//! Measures the log alone: published events over HTTP, acknowledged from disk, as fast as they are taken. By turns with a
//! bare loop that does only the log's required work.
//!
//! Nothing reaches the stream's table: a file replaces its directory, and the small queue to it is soon full.

use std::{path::Path, sync::Arc};

use anyhow::Context;
use serde_json::Value;

use super::{bare, kafka::Kafka};
use crate::{
    args::Args,
    bodies::Bodies,
    machine,
    samples::Samples,
    sending::{Plan, Sending},
    stored::{BlockedTable, Stored},
    table::{Row, Table, Verdict, grouped, mib},
    workload::published,
};

const STREAM: &str = "published";
const BYTES_PER_SECOND_MIN: f64 = 300e6;
const SHARE_MIN: f64 = 0.7;
/// The required share of the speed of a Kafka broker, which does not sync.
const KAFKA_SHARE_MIN: f64 = 2.0;
/// Bytes that Kafka is sent, of each.
const KAFKA_BYTES: u64 = 1 << 30;
/// Events that are made, and sent again and again.
const MADE: usize = 128 << 10;
/// Bytes of events that are sent in a round.
const ROUND_BYTES: u64 = 2 << 30;

/// Measures by turns, and adds the row.
pub(super) fn run(args: &Args, directory: &Path, table: &mut Table) -> anyhow::Result<()> {
    let (made, round_bytes) = if args.quick { (MADE / 8, ROUND_BYTES / 8) } else { (MADE, ROUND_BYTES) };
    let mut lines = Vec::new();
    published(0).write(made, &mut lines);
    let event_bytes = lines.len() / made;
    let bodies = Arc::new(Bodies::of(lines.into())?);
    let settings = ["--store.tail-bytes-max=1MiB", "--store.commit-bytes=1MiB", "--data.feed-bytes-max=1MiB"];
    let stored = Stored::start(directory, &settings)?;
    stored.sql(&format!("CREATE STREAM {STREAM} WITH (store = true)"))?;
    let away = stored.block_table(STREAM)?;
    let mut plan = Plan {
        address: stored.server()?.address,
        stream: STREAM,
        bodies: Arc::clone(&bodies),
        first: 0,
        count: Some(round_bytes.div_ceil(1 << 20)),
        rate: None,
    };
    let (mut ours, mut theirs, mut groups, mut sizes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut events = 0;
    let what = stored.server()?.what;
    for round in 1..=args.rounds() {
        let before = Written::of(&stored)?;
        let sent = Sending::start(&plan)?.finish()?;
        let written = Written::of(&stored)?.since(before);
        let speed = sent.bytes as f64 / sent.seconds;
        let bare = bare::run(directory, &bodies, sent.count, written.group_bytes())?;
        eprintln!(
            "round {round}: {:.0} MB/s, bare {:.0} MB/s; {} groups of {:.0} KB, {:.2} of the time synced",
            speed / 1e6,
            bare / 1e6,
            written.groups,
            written.group_bytes() / 1e3,
            written.sync_seconds / sent.seconds,
        );
        ours.push(speed);
        theirs.push(bare);
        groups.push(written.group_bytes());
        sizes.push(written.bytes / sent.bytes as f64);
        plan.first += sent.count;
        events += sent.events;
    }
    let kafka = Kafka::named()
        .and_then(|kafka| kafka.run(directory, &bodies, KAFKA_BYTES.min(round_bytes) / event_bytes as u64));
    let shares = Samples::new(ours.iter().zip(&theirs).map(|(ours, bare)| ours / bare).collect())?;
    let (ours, theirs) = (Samples::new(ours)?, Samples::new(theirs)?);
    let count = recovered(stored, away)?;
    let fault = (count != events).then(|| format!("{count} events after a kill, not {events}; "));
    let speed = ours.median();
    table.push(Row {
        what: "durable ingest, the log alone".to_owned(),
        figure: format!("{:.0} MB/s, {:.2} of a bare loop", speed / 1e6, shares.median()),
        conditions: format!(
            "{}{what}, sender on the same {} cores, ack=disk, bodies of 1 MiB of {event_bytes}-byte events over HTTP, {} a \
             round, {:.0} to {:.0} MB/s in {} rounds, {:.2} of their bytes in the log; bare: the same groups of {:.0} KB compressed, written and synced, \
             {:.0} MB/s; all {} events were there after a kill",
            fault.as_deref().unwrap_or_default(),
            machine::cores(),
            mib(round_bytes),
            ours.least() / 1e6,
            ours.most() / 1e6,
            ours.len(),
            Samples::new(sizes)?.median(),
            Samples::new(groups)?.median() / 1e3,
            theirs.median() / 1e6,
            grouped(events),
        ),
        needed: format!(
            "≥ {:.0} MB/s, or {SHARE_MIN} of a bare loop that compresses, writes and syncs",
            BYTES_PER_SECOND_MIN / 1e6
        ),
        verdict: match fault {
            Some(_) => Verdict::Wrong,
            None => Verdict::of(speed >= BYTES_PER_SECOND_MIN || shares.median() >= SHARE_MIN),
        },
    });
    let what = "durable ingest, the log alone, to the speed of a Kafka broker";
    table.push(match kafka {
        Err(why) => Row { needed: format!("≥ {KAFKA_SHARE_MIN}"), ..Row::not_measured(what, &why) },
        Ok(theirs) => Row {
            what: what.to_owned(),
            figure: format!("{:.2}", speed / theirs),
            conditions: format!(
                "the same events, one broker on the same cores, confluent-kafka from Python with acks=all, lz4 and 4 partitions, \
                 the faster of one and two sending processes: {:.0} MB/s; the broker does not sync",
                theirs / 1e6
            ),
            needed: format!("≥ {KAFKA_SHARE_MIN}"),
            verdict: Verdict::of(speed / theirs >= KAFKA_SHARE_MIN),
        },
    });
    Ok(())
}

/// Kills the server, gives the next one its table back, and asks how many events the stream has had.
fn recovered(mut stored: Stored, away: BlockedTable) -> anyhow::Result<u64> {
    stored.kill();
    away.restore()?;
    stored.start_again()?;
    let answer = stored.client()?.get(&format!("/v1/streams/{STREAM}"))?;
    let stream: Value = serde_json::from_slice(&answer)?;
    stream["position"].as_u64().context("a stream has no position")
}

/// The bytes and groups that the log has written so far.
#[derive(Debug, Clone, Copy)]
struct Written {
    bytes: f64,
    groups: f64,
    sync_seconds: f64,
}

impl Written {
    fn of(stored: &Stored) -> anyhow::Result<Written> {
        Ok(Written {
            bytes: stored.metric("swiftwater_log_bytes_total")?,
            groups: stored.metric("swiftwater_log_syncs_total")?,
            sync_seconds: stored.metric("swiftwater_log_sync_seconds_total")?,
        })
    }

    fn since(self, before: Written) -> Written {
        Written {
            bytes: self.bytes - before.bytes,
            groups: self.groups - before.groups,
            sync_seconds: self.sync_seconds - before.sync_seconds,
        }
    }

    fn group_bytes(self) -> f64 {
        self.bytes / self.groups.max(1.0)
    }
}

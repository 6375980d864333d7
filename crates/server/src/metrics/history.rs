//! The log, the tables of stored streams, views and joins, in numbers.
//!
//! A stream whose own numbers are shown has those of its table too; the tables of the others are told as one.

use swiftwater_engine::{HistoryMetrics, JoinsMetrics, StreamStatus, TableMetrics, ViewsMetrics};

use super::{Kind, Numbers, Table, own_and_others};

/// `shown`: the streams that have numbers of their own.
pub(super) fn families(table: &mut Table, history: &HistoryMetrics, shown: &[StreamStatus]) {
    log_families(table, history);
    view_families(table, &history.views);
    join_families(table, &history.joins);
    let is_shown = |table: &TableMetrics| shown.iter().any(|stream| stream.name == table.name);
    let (own, rest): (Vec<_>, Vec<_>) = history.tables.iter().cloned().partition(is_shown);
    let others = rest.into_iter().reduce(|mut sum, table| {
        sum.lag_events += table.lag_events;
        sum.commits += table.commits;
        sum.files += table.files;
        sum.file_bytes += table.file_bytes;
        sum.held_back += table.held_back;
        sum.waiting_bytes += table.waiting_bytes;
        sum.is_failing |= table.is_failing;
        sum
    });
    table_families(table, &own, others.as_ref());
}

fn log_families(table: &mut Table, history: &HistoryMetrics) {
    table.counter("swiftwater_log_bytes_total", "Bytes that the log has ever synced.", history.log_bytes);
    let syncs = "Groups of events that the log has written and synced.";
    table.counter("swiftwater_log_syncs_total", syncs, history.log_syncs);
    let seconds = history.log_sync_nanos as f64 / 1e9;
    table.counter("swiftwater_log_sync_seconds_total", "Time that the log's syncs took.", seconds);
    let queued = "Bytes that were appended to the log and are not synced.";
    table.gauge("swiftwater_log_queued_bytes", queued, history.log_queued_bytes);
    let files = "Bytes of the log's files, those kept for reuse included.";
    table.gauge("swiftwater_log_file_bytes", files, history.log_file_bytes);
}

fn view_families(table: &mut Table, views: &ViewsMetrics) {
    table.gauge("swiftwater_views", "Views.", views.views);
    let lag = "Events that a view does not count yet, of all views.";
    table.gauge("swiftwater_views_lag_events", lag, views.lag_events);
    table.gauge("swiftwater_views_held_keys", "Keys of views in memory.", views.keys_held);
    table.gauge("swiftwater_views_held_bytes", "Bytes that these take, about.", views.held_bytes);
    let reads = "Keys of views that were looked for and found in memory.";
    table.counter("swiftwater_views_reads_held_total", reads, views.reads_held);
    let reads = "Keys of views that were looked for on disk.";
    table.counter("swiftwater_views_reads_stored_total", reads, views.reads_stored);
    let failing = "Views that are not kept on disk, or do not go on.";
    table.gauge("swiftwater_views_failing", failing, views.failing);
    table.gauge("swiftwater_alerts", "Alerts.", views.alerts);
    let firing = "Keys that meet the condition of an alert.";
    table.gauge("swiftwater_alerts_firing_keys", firing, views.alerts_firing);
    let failing = "Alerts that do not go on at present.";
    table.gauge("swiftwater_alerts_failing", failing, views.alerts_failing);
}

fn join_families(table: &mut Table, joins: &JoinsMetrics) {
    table.gauge("swiftwater_joins", "Joins.", joins.joins);
    let pairs = "Pairs that joins told since they were created.";
    table.counter("swiftwater_joins_pairs_total", pairs, joins.pairs);
    let late = "Events that were late for a join, and joined nothing.";
    table.counter("swiftwater_joins_late_total", late, joins.late);
    let ahead = "Events whose times were too far ahead of their arrival for a join, and joined nothing.";
    table.counter("swiftwater_joins_ahead_total", ahead, joins.ahead);
    let kept = "Events that joins keep for those to come.";
    table.gauge("swiftwater_joins_kept_events", kept, joins.kept_events);
    table.gauge("swiftwater_joins_kept_bytes", "Bytes that these take.", joins.kept_bytes);
    table.gauge("swiftwater_joins_failing", "Joins that do not go on at present.", joins.failing);
}

fn table_families(table: &mut Table, own: &[TableMetrics], others: Option<&TableMetrics>) {
    let families: Numbers<'_, TableMetrics> = &[
        (
            Kind::Gauge,
            "swiftwater_table_lag_events",
            "Events that a stream's table has not committed.",
            |table| table.lag_events.into(),
        ),
        (Kind::Counter, "swiftwater_table_commits_total", "Commits to a stream's table.", |table| {
            table.commits.into()
        }),
        (Kind::Gauge, "swiftwater_table_files", "Files of a table's newest version.", |table| {
            table.files.into()
        }),
        (Kind::Gauge, "swiftwater_table_file_bytes", "Bytes of these files.", |table| {
            table.file_bytes.into()
        }),
        (
            Kind::Counter,
            "swiftwater_table_held_back_total",
            "Requests that waited because the stream's table, or a view of it, lagged.",
            |table| table.held_back.into(),
        ),
        (
            Kind::Gauge,
            "swiftwater_table_waiting_bytes",
            "Bytes of rows that wait for their commit.",
            |table| table.waiting_bytes.into(),
        ),
        (
            Kind::Gauge,
            "swiftwater_table_failing",
            "1 while a commit is tried again, as the store fails.",
            |table| u64::from(table.is_failing).into(),
        ),
    ];
    table.of_rows("stream", &own_and_others(own, |table| table.name.as_str(), others), families);
}

//! The metrics of the log, the tables of stored streams, views, joins, jobs, sinks, topics and endpoints.
//!
//! A stream that is listed individually has the metrics of its table too; the tables of the other streams are added up.

use std::sync::Arc;

use swiftwater_engine::{
    Endpoint, HistoryMetrics, JobStatus, JoinsMetrics, SearchMetrics, SinkStatus, StreamStatus, TableMetrics,
    TopicMetrics, ViewsMetrics,
};

use swiftwater_sql::DistributionReading;

use super::{Kind, Number, Numbers, Sample, Table, own_and_others};

/// `shown`: the streams that have numbers of their own.
pub(crate) fn families(
    table: &mut Table,
    (history, searches): (Option<&HistoryMetrics>, Option<&SearchMetrics>),
    endpoints: &[Arc<Endpoint>],
    shown: &[StreamStatus],
) {
    job_families(table, history.map_or(&[], |history| &history.jobs));
    sink_families(table, history.map_or(&[], |history| &history.sinks));
    topic_families(table, history.map_or(&[], |history| &history.topics));
    endpoint_families(table, endpoints);
    if let Some(searches) = searches {
        search_families(table, searches);
    }
    let Some(history) = history else { return };
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
    table.counter("swiftwater_log_bytes_total", "Bytes that the log synced.", history.log_bytes);
    let syncs = "Groups of events that the log wrote and synced.";
    table.counter("swiftwater_log_syncs_total", syncs, history.log_syncs);
    let seconds = history.log_sync_nanos as f64 / 1e9;
    table.counter("swiftwater_log_sync_seconds_total", "Time of the log's syncs.", seconds);
    let queued = "Bytes that are appended to the log and not synced yet.";
    table.gauge("swiftwater_log_queued_bytes", queued, history.log_queued_bytes);
    let files = "Size of the log's files, reserved files included.";
    table.gauge("swiftwater_log_file_bytes", files, history.log_file_bytes);
}

fn search_families(table: &mut Table, searches: &SearchMetrics) {
    table.gauge("swiftwater_search_running", "Searches of stored events that run.", searches.running);
    table.gauge("swiftwater_search_waiting", "Searches that wait for their turn.", searches.waiting);
    let refused = "Searches refused because search.waiting_max of them waited.";
    table.counter("swiftwater_search_refused_total", refused, searches.refused);
    let failed = "Searches that failed or were ended, refused ones included.";
    table.counter("swiftwater_search_failed_total", failed, searches.failed);
    let number = Number::Seconds { counts: searches.times, sum: searches.micros as f64 / 1e6 };
    let samples = vec![Sample { labels: vec![], number }];
    let help = "Time of an answered search, its wait included.";
    table.family(Kind::Histogram, "swiftwater_search_seconds", help, samples);
    let rows = "Rows that answered searches read.";
    table.counter("swiftwater_search_rows_scanned_total", rows, searches.rows_scanned);
    table.counter("swiftwater_search_hits_total", "Hits of answered searches.", searches.hits);
    let built = "Index files that were built from the rows of their data files.";
    table.counter("swiftwater_search_files_built_total", built, searches.files_built);
    let merged = "Index files that were merged from those of the files that compaction merged.";
    table.counter("swiftwater_search_files_merged_total", merged, searches.files_merged);
}

/// Statements over several machines.
pub(crate) fn distribution_families(table: &mut Table, counts: DistributionReading) {
    let divided = "SQL statements that were divided, to run on several machines.";
    table.counter("swiftwater_sql_distributed_total", divided, counts.divided);
    let repeated = "Tries of SQL statements after one that a lost worker ended.";
    table.counter("swiftwater_sql_retries_total", repeated, counts.repeated);
    let run_here = "Divided SQL statements that ran on this node in the end.";
    table.counter("swiftwater_sql_fallbacks_total", run_here, counts.run_here);
    let tasks = "Tasks of other nodes' SQL statements that were begun here.";
    table.counter("swiftwater_sql_tasks_total", tasks, counts.tasks);
    let received = "Bytes of rows that came from tasks of other nodes, as they are in memory.";
    table.counter("swiftwater_sql_received_bytes_total", received, counts.received_bytes);
    let served = "SQL statements of other nodes of which tasks run here.";
    table.gauge("swiftwater_sql_statements_served", served, counts.statements_served);
}

fn view_families(table: &mut Table, views: &ViewsMetrics) {
    table.gauge("swiftwater_views", "Views.", views.views);
    let lag = "Events that a view has not counted yet, summed over all views.";
    table.gauge("swiftwater_views_lag_events", lag, views.lag_events);
    table.gauge("swiftwater_views_held_keys", "Keys of views in memory.", views.keys_held);
    table.gauge("swiftwater_views_held_bytes", "Approximate memory of these keys.", views.held_bytes);
    let reads = "Lookups of views' keys that memory answered.";
    table.counter("swiftwater_views_reads_held_total", reads, views.reads_held);
    let reads = "Lookups of views' keys that read the disk.";
    table.counter("swiftwater_views_reads_stored_total", reads, views.reads_stored);
    let failing = "Views that are not persisted, or are stopped.";
    table.gauge("swiftwater_views_failing", failing, views.failing);
    table.gauge("swiftwater_alerts", "Alerts.", views.alerts);
    let firing = "Keys that meet the condition of an alert.";
    table.gauge("swiftwater_alerts_firing_keys", firing, views.alerts_firing);
    let failing = "Alerts that are stopped at present.";
    table.gauge("swiftwater_alerts_failing", failing, views.alerts_failing);
}

fn join_families(table: &mut Table, joins: &JoinsMetrics) {
    table.gauge("swiftwater_joins", "Joins.", joins.joins);
    let pairs = "Pairs that joins wrote since they were created.";
    table.counter("swiftwater_joins_pairs_total", pairs, joins.pairs);
    let late = "Late events, which joined nothing.";
    table.counter("swiftwater_joins_late_total", late, joins.late);
    let ahead = "Events too far ahead of their arrival, which joined nothing.";
    table.counter("swiftwater_joins_ahead_total", ahead, joins.ahead);
    let kept = "Stored events that may still join.";
    table.gauge("swiftwater_joins_kept_events", kept, joins.kept_events);
    table.gauge("swiftwater_joins_kept_bytes", "Size of these events.", joins.kept_bytes);
    table.gauge("swiftwater_joins_failing", "Joins that are stopped at present.", joins.failing);
}

fn table_families(table: &mut Table, own: &[TableMetrics], others: Option<&TableMetrics>) {
    let families: Numbers<'_, TableMetrics> = &[
        (
            Kind::Gauge,
            "swiftwater_table_lag_events",
            "Events that the stream's table has not committed.",
            |table| table.lag_events.into(),
        ),
        (Kind::Counter, "swiftwater_table_commits_total", "Commits to the stream's table.", |table| {
            table.commits.into()
        }),
        (Kind::Gauge, "swiftwater_table_files", "Files of the table's newest version.", |table| {
            table.files.into()
        }),
        (Kind::Gauge, "swiftwater_table_file_bytes", "Size of these files.", |table| table.file_bytes.into()),
        (
            Kind::Counter,
            "swiftwater_table_held_back_total",
            "Requests that waited because the table, or a view of the stream, lagged.",
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
            "1 while a commit is retried because the store fails, else 0.",
            |table| u64::from(table.is_failing).into(),
        ),
    ];
    table.of_rows("stream", &own_and_others(own, |table| table.name.as_str(), others), families);
}

fn job_families(table: &mut Table, jobs: &[JobStatus]) {
    let families: Numbers<'_, JobStatus> = &[
        (Kind::Gauge, "swiftwater_job_running", "1 while an attempt at the job runs, else 0.", |job| {
            u64::from(job.is_running).into()
        }),
        (Kind::Counter, "swiftwater_job_runs_total", "Successful runs since the job was created.", |job| {
            job.runs.into()
        }),
        (Kind::Counter, "swiftwater_job_failures_total", "Failed attempts.", |job| job.failures.into()),
        (
            Kind::Counter,
            "swiftwater_job_retries_total",
            "Finished attempts that followed a failure.",
            |job| job.retries.into(),
        ),
        (Kind::Counter, "swiftwater_job_rows_total", "Rows that the job's statements wrote.", |job| {
            job.rows.into()
        }),
        (
            Kind::Counter,
            "swiftwater_job_seconds_total",
            "Time of the job's statements, failed ones included.",
            |job| (job.millis as f64 / 1e3).into(),
        ),
    ];
    let rows: Vec<(&str, &JobStatus)> = jobs.iter().map(|job| (&*job.name, job)).collect();
    table.of_rows("job", &rows, families);
}

fn sink_families(table: &mut Table, sinks: &[SinkStatus]) {
    let families: Numbers<'_, SinkStatus> = &[
        (
            Kind::Counter,
            "swiftwater_sink_deliveries_total",
            "Deliveries since the sink was created.",
            |sink| sink.delivered.0.into(),
        ),
        (Kind::Counter, "swiftwater_sink_rows_total", "Rows of these deliveries.", |sink| {
            sink.delivered.1.into()
        }),
        (
            Kind::Counter,
            "swiftwater_sink_dead_rows_total",
            "Rows that went to the dead-letter stream.",
            |sink| sink.dead_rows.into(),
        ),
        (
            Kind::Gauge,
            "swiftwater_sink_failing",
            "1 if the last attempt at a delivery failed, else 0.",
            |sink| u64::from(sink.failing.is_some()).into(),
        ),
        (
            Kind::Gauge,
            "swiftwater_sink_behind_seconds",
            "Event time between the last delivered window and the last closed window.",
            |sink| (sink.behind_ms.unwrap_or(0) as f64 / 1e3).into(),
        ),
        (
            Kind::Gauge,
            "swiftwater_sink_behind_events",
            "Events that a sink of a stream's events has not processed.",
            |sink| sink.events.map_or(0, |events| events.0).into(),
        ),
        (
            Kind::Counter,
            "swiftwater_sink_lost_events_total",
            "Events that were deleted before a sink of a stream's events has read them.",
            |sink| sink.events.map_or(0, |events| events.1).into(),
        ),
    ];
    let rows: Vec<(&str, &SinkStatus)> = sinks.iter().map(|sink| (&*sink.name, sink)).collect();
    table.of_rows("sink", &rows, families);
}

fn topic_families(table: &mut Table, topics: &[TopicMetrics]) {
    let families: Numbers<'_, TopicMetrics> = &[
        (
            Kind::Gauge,
            "swiftwater_kafka_lag_messages",
            "Messages between the positions and the ends of the partitions that a stream reads.",
            |topic| topic.lag.into(),
        ),
        (
            Kind::Counter,
            "swiftwater_kafka_lost_messages_total",
            "Messages that were deleted before they were read.",
            |topic| topic.lost.into(),
        ),
        (
            Kind::Counter,
            "swiftwater_kafka_skipped_messages_total",
            "Offsets that statements have skipped.",
            |topic| topic.skipped.into(),
        ),
        (
            Kind::Counter,
            "swiftwater_kafka_tombstones_total",
            "Messages without a value that were left out.",
            |topic| topic.tombstones.into(),
        ),
        (
            Kind::Gauge,
            "swiftwater_kafka_failing_partitions",
            "Partitions that are not read at present because of an error.",
            |topic| topic.failing_partitions.into(),
        ),
    ];
    let rows: Vec<(&str, &TopicMetrics)> = topics.iter().map(|topic| (&*topic.stream, topic)).collect();
    table.of_rows("stream", &rows, families);
}

fn endpoint_families(table: &mut Table, endpoints: &[Arc<Endpoint>]) {
    let labels = |endpoint: &Endpoint| {
        let name = &endpoint.create.name;
        vec![("method", name.method.text().to_owned()), ("path", name.path.to_string())]
    };
    let counts = endpoints.iter().flat_map(|endpoint| {
        let classes = endpoint.counts.classes().into_iter().enumerate().skip(2);
        classes.map(move |(class, count)| {
            let class = ("class", format!("{class}xx"));
            Sample { labels: [labels(endpoint), vec![class]].concat(), number: count.into() }
        })
    });
    let help = "Answered requests of endpoints by the class of the status.";
    table.family(Kind::Counter, "swiftwater_endpoint_requests_total", help, counts.collect());
    let times = endpoints.iter().map(|endpoint| {
        let (counts, micros) = endpoint.counts.times();
        Sample { labels: labels(endpoint), number: Number::Seconds { counts, sum: micros as f64 / 1e6 } }
    });
    let help = "Time from the head of an endpoint's request to the head of its answer.";
    table.family(Kind::Histogram, "swiftwater_endpoint_request_seconds", help, times.collect());
}

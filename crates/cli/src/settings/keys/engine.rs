//! The settings of streams and queries, and their limits.

use swiftwater_event::StreamName;
use swiftwater_runtime::{FastQuery, SlowReader};

use super::{DAY, GIB, KIB, Key, Kind, MIB, SECOND, TIB, Value};

pub(super) fn keys() -> Vec<Key> {
    vec![
        number!(
            "engine.shards",
            Kind::Count(0, 1_024),
            engine.shards,
            "Number of threads that decode, match and operate. 0: one per core."
        ),
        Key {
            name: "engine.default_stream",
            doc: "Stream that `STREAM()` names. Empty: none, so each query must name its stream.",
            kind: Kind::Text(stream_name_or_empty),
            get: |settings| {
                let name = settings.engine.default_stream.as_ref();
                Value::Text(name.map_or_else(String::new, |name| name.as_str().to_owned()))
            },
            set: |settings, value| {
                if let Value::Text(text) = value {
                    settings.engine.default_stream = StreamName::new(&text).ok();
                }
            },
        },
        number!(
            "engine.streams_max",
            Kind::Count(1, 1_000_000),
            engine.streams_max,
            "Maximum number of streams."
        ),
        number!(
            "engine.pending_bytes_max",
            Kind::Bytes(MIB, TIB),
            engine.pending_bytes_max,
            "Maximum bytes of events that wait for a shard, over all streams. Senders wait beyond it. In a cluster, as many bytes more wait for \
             brokers."
        ),
        number!(
            "engine.batch_bytes_max",
            Kind::Bytes(KIB, 64 * MIB),
            engine.batch_bytes_max,
            "Size up to which small batches are joined before a shard processes them."
        ),
        number!(
            "engine.recent_bytes_max",
            Kind::Bytes(0, TIB),
            engine.recent_bytes_max,
            "Maximum bytes of the samples of newest events that `/v1/streams/{stream}/recent` shows, over all streams. 0: no \
             samples."
        ),
        number!(
            "engine.tick_ms",
            Kind::Millis(1, SECOND),
            engine.tick_ms,
            "Time between checks of the clock, for windows and durations."
        ),
        number!(
            "engine.queries_max",
            Kind::Count(1, 10_000_000),
            engine.queries_max,
            "Maximum number of live queries."
        ),
        number!(
            "engine.query_text_bytes_max",
            Kind::Bytes(256, 16 * MIB),
            engine.query_text_bytes_max,
            "Maximum length of a query's text."
        ),
        number!(
            "engine.query_duration_ms_max",
            Kind::Millis(0, 3_650 * DAY),
            engine.query_duration_ms_max,
            "Maximum duration of a query. 0: no limit."
        ),
        number!(
            "engine.query_duration_ms_default",
            Kind::Millis(0, 3_650 * DAY),
            engine.query_duration_ms_default,
            "Duration of a query that states none. 0: `engine.query_duration_ms_max`."
        ),
        number!(
            "engine.query_end_wait_ms",
            Kind::Millis(0, DAY),
            engine.query_end_wait_ms,
            "Maximum time that `DELETE` and `kill` wait for events that were sent before, so that the last \
             emit counts them."
        ),
        number!(
            "engine.query_emits_max",
            Kind::Count(0, 1_000_000_000),
            engine.query_emits_max,
            "Maximum number of emits of one query in each `engine.emits_interval_ms`. 0: no limit."
        ),
        Key {
            name: "engine.fast_query",
            doc: "Reaction to a query that exceeds `engine.query_emits_max`. `end`: the query ends with an \
                  error. `drop`: surplus emits are dropped and counted in the `meta` of the next emit. \
                  Queries by Bullet's rules always end.",
            kind: Kind::Choice(&["end", "drop"]),
            get: |settings| {
                let word = match settings.engine.fast_query {
                    FastQuery::End => "end",
                    FastQuery::Drop => "drop",
                };
                Value::Text(word.to_owned())
            },
            set: |settings, value| {
                if let Value::Text(text) = value {
                    settings.engine.fast_query =
                        if text == "drop" { FastQuery::Drop } else { FastQuery::End };
                }
            },
        },
        number!(
            "engine.bullet_emits_max",
            Kind::Count(0, 1_000_000_000),
            engine.bullet_emits_max,
            "Maximum number of emits of one query by Bullet's rules in each `engine.emits_interval_ms`. \
             Each event that a window by record takes in counts too. 0: no limit."
        ),
        number!(
            "engine.emits_interval_ms",
            Kind::Millis(1, DAY),
            engine.emits_interval_ms,
            "Time over which the emits of a query are counted."
        ),
        Key {
            name: "engine.bullet_windows",
            doc: "Whether queries by Bullet's rules have windows (`run`), or run as if they had no \
                  `WINDOWING` (`ignore`).",
            kind: Kind::Choice(&["run", "ignore"]),
            get: |settings| {
                let word = if settings.engine.bullet_ignores_windows { "ignore" } else { "run" };
                Value::Text(word.to_owned())
            },
            set: |settings, value| {
                if let Value::Text(text) = value {
                    settings.engine.bullet_ignores_windows = text == "ignore";
                }
            },
        },
        number!(
            "engine.answer_rows_default",
            Kind::Count(1, 1_000_000_000),
            engine.answer_rows_default,
            "Maximum number of rows of an answer that is returned as one (no window, not streaming), if \
             the query has no `LIMIT`."
        ),
        number!(
            "engine.emit_bytes_max",
            Kind::Bytes(4 * KIB, GIB),
            engine.emit_bytes_max,
            "Maximum bytes of records in one emit. A larger result ends its query with an error."
        ),
        number!(
            "engine.query_state_bytes_max",
            Kind::Bytes(64 * KIB, TIB),
            engine.query_state_bytes_max,
            "Maximum bytes of groups, rows and windows of one query. A query that needs more ends with an \
             error."
        ),
        number!(
            "engine.pattern_partials_max",
            Kind::Count(1, 1_000_000),
            engine.pattern_partials_max,
            "Maximum number of matches of a pattern in progress for one key. A query that needs more ends \
             with an error."
        ),
        number!(
            "engine.state_bytes_max",
            Kind::Bytes(MIB, TIB),
            engine.state_bytes_max,
            "Maximum bytes of groups, rows and windows of all queries together. The query that needs more \
             ends with an error."
        ),
        number!(
            "engine.subscriber_bytes_max",
            Kind::Bytes(4 * KIB, GIB),
            engine.subscriber_bytes_max,
            "Maximum bytes of emits that wait for one subscriber."
        ),
        number!(
            "engine.subscriber_emits_max",
            Kind::Count(1, 1_000_000),
            engine.subscriber_emits_max,
            "Maximum number of emits that wait for one subscriber."
        ),
        number!(
            "engine.subscribers_bytes_max",
            Kind::Bytes(KIB, TIB),
            engine.subscribers_bytes_max,
            "Maximum bytes of emits that wait for all subscribers together. Beyond, each subscriber loses \
             its oldest emits first."
        ),
        Key {
            name: "engine.slow_reader",
            doc: "Reaction when a subscriber exceeds one of these limits. `drop`: its oldest waiting emits \
                  are dropped and counted in the `meta` of the next emit. `cut_off`: its query ends with \
                  an error.",
            kind: Kind::Choice(&["drop", "cut_off"]),
            get: |settings| {
                let word = match settings.engine.slow_reader {
                    SlowReader::Drop => "drop",
                    SlowReader::CutOff => "cut_off",
                };
                Value::Text(word.to_owned())
            },
            set: |settings, value| {
                if let Value::Text(text) = value {
                    settings.engine.slow_reader =
                        if text == "cut_off" { SlowReader::CutOff } else { SlowReader::Drop };
                }
            },
        },
        number!(
            "engine.detached_kept_ms",
            Kind::Millis(0, 365 * DAY),
            engine.detached_kept_ms,
            "Time for which the results of an ended detached query can be fetched."
        ),
        number!(
            "engine.linger_ms_max",
            Kind::Millis(0, DAY),
            engine.linger_ms_max,
            "Maximum time for which a query may outlive its reader (`linger_ms`)."
        ),
        number!(
            "engine.detached_durable_max",
            Kind::Count(0, 1_000_000),
            engine.detached_durable_max,
            "Maximum number of detached queries over stored streams that continue after a restart. Further \
             detached queries do not."
        ),
        number!(
            "engine.detached_noted_ms",
            Kind::Millis(10, DAY),
            engine.detached_noted_ms,
            "Time between records of the progress of durable detached queries."
        ),
        number!(
            "engine.distinct_entries",
            Kind::Count(32, 67_108_864),
            engine.distinct_entries,
            "Number of distinct values of each group that `COUNT(DISTINCT)` counts exactly, rounded up to \
             a power of two. Beyond, the result is an estimate with its bounds."
        ),
        number!(
            "engine.quantile_k",
            Kind::Count(8, 65_535),
            engine.quantile_k,
            "Number of values of each group for which quantiles and distributions are exact. Beyond, they \
             are estimates with their bounds."
        ),
        number!(
            "engine.top_entries",
            Kind::Count(8, 67_108_864),
            engine.top_entries,
            "Number of entries in the map of `TOP`, rounded up to a power of two. Three quarters of them \
             are counted exactly. Beyond, the counts are estimates with their bounds."
        ),
    ]
}

fn stream_name_or_empty(text: &str) -> Result<(), String> {
    if text.is_empty() { Ok(()) } else { StreamName::new(text).map(drop).map_err(|error| error.to_string()) }
}

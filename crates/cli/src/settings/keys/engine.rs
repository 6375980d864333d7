//! Streams, queries and their limits.

use swiftwater_event::StreamName;
use swiftwater_runtime::{FastQuery, SlowReader};

use super::{DAY, GIB, KIB, Key, Kind, MIB, SECOND, TIB, Value};

pub(super) fn keys() -> Vec<Key> {
    vec![
        number!(
            "engine.shards",
            Kind::Count(0, 1_024),
            engine.shards,
            "Threads that decode, match and operate; 0: one per core."
        ),
        Key {
            name: "engine.default_stream",
            doc: "The stream that `STREAM()` means; empty: none, so that queries have to name theirs.",
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
            "Streams that may exist at once."
        ),
        number!(
            "engine.pending_bytes_max",
            Kind::Bytes(MIB, TIB),
            engine.pending_bytes_max,
            "Bytes of events that wait to be looked at, over all streams; a source that sends more waits."
        ),
        number!(
            "engine.batch_bytes_max",
            Kind::Bytes(KIB, 64 * MIB),
            engine.batch_bytes_max,
            "Bytes of small batches that are joined into one before a shard looks at them."
        ),
        number!(
            "engine.tick_ms",
            Kind::Millis(1, SECOND),
            engine.tick_ms,
            "Time between looks at the clock, for windows and durations."
        ),
        number!(
            "engine.queries_max",
            Kind::Count(1, 10_000_000),
            engine.queries_max,
            "Queries that may stand at once."
        ),
        number!(
            "engine.query_text_bytes_max",
            Kind::Bytes(256, 16 * MIB),
            engine.query_text_bytes_max,
            "The longest query text."
        ),
        number!(
            "engine.query_duration_ms_max",
            Kind::Millis(0, 3_650 * DAY),
            engine.query_duration_ms_max,
            "The longest that a query may stand; 0: no limit."
        ),
        number!(
            "engine.query_duration_ms_default",
            Kind::Millis(0, 3_650 * DAY),
            engine.query_duration_ms_default,
            "How long a query stands that does not say so; 0: as long as it may."
        ),
        number!(
            "engine.query_end_wait_ms",
            Kind::Millis(0, DAY),
            engine.query_end_wait_ms,
            "How long ending a query by hand waits for the events that were sent before, so that its last answer has them."
        ),
        number!(
            "engine.query_emits_max",
            Kind::Count(0, 1_000_000_000),
            engine.query_emits_max,
            "Emits that a query may give in each `emits_interval_ms`; 0: no limit."
        ),
        Key {
            name: "engine.fast_query",
            doc: "What happens to a query that gives more: it is ended with an error, or the emits that are too many are \
                  dropped and counted in the next one's meta; one by Bullet's rules is always ended.",
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
            "The same for queries by Bullet's rules, where each event that a window by record takes in counts too."
        ),
        number!(
            "engine.emits_interval_ms",
            Kind::Millis(1, DAY),
            engine.emits_interval_ms,
            "The time over which a query's emits are counted."
        ),
        Key {
            name: "engine.bullet_windows",
            doc: "Whether queries by Bullet's rules have windows, or are run as if they had no WINDOWING.",
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
            "Rows of an answer that is given as one (no window, not streaming) where the query states no LIMIT."
        ),
        number!(
            "engine.emit_bytes_max",
            Kind::Bytes(4 * KIB, GIB),
            engine.emit_bytes_max,
            "The most bytes of records in one emit; a larger result ends its query with an error."
        ),
        number!(
            "engine.query_state_bytes_max",
            Kind::Bytes(64 * KIB, TIB),
            engine.query_state_bytes_max,
            "The most bytes of groups, rows and windows that one query may hold."
        ),
        number!(
            "engine.pattern_partials_max",
            Kind::Count(1, 1_000_000),
            engine.pattern_partials_max,
            "The most matches of a pattern that may be begun with one key; beyond, the query ends with an error."
        ),
        number!(
            "engine.state_bytes_max",
            Kind::Bytes(MIB, TIB),
            engine.state_bytes_max,
            "The most bytes that all queries together may hold."
        ),
        number!(
            "engine.subscriber_bytes_max",
            Kind::Bytes(4 * KIB, GIB),
            engine.subscriber_bytes_max,
            "Bytes of emits that wait for one subscriber."
        ),
        number!(
            "engine.subscriber_emits_max",
            Kind::Count(1, 1_000_000),
            engine.subscriber_emits_max,
            "Emits that wait for one subscriber."
        ),
        number!(
            "engine.subscribers_bytes_max",
            Kind::Bytes(KIB, TIB),
            engine.subscribers_bytes_max,
            "Bytes of emits that wait for all subscribers together; beyond, each one's oldest give way to its newest."
        ),
        Key {
            name: "engine.slow_reader",
            doc: "What happens when either is passed: its oldest waiting emits are dropped and counted in the next one's \
                  meta, or its query is ended with an error.",
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
            "How long a detached query that ended is kept for pick-up."
        ),
        number!(
            "engine.detached_durable_max",
            Kind::Count(0, 1_000_000),
            engine.detached_durable_max,
            "Detached queries over stored streams that may stand and go on after a restart; further ones do not go on."
        ),
        number!(
            "engine.detached_noted_ms",
            Kind::Millis(10, DAY),
            engine.detached_noted_ms,
            "Time after which it is written down how far such queries are."
        ),
        number!(
            "engine.distinct_entries",
            Kind::Count(32, 67_108_864),
            engine.distinct_entries,
            "Distinct values that COUNT(DISTINCT) counts exactly, of each group; the next power of two is taken. Of more it \
             gives an estimate with its bounds."
        ),
        number!(
            "engine.quantile_k",
            Kind::Count(8, 65_535),
            engine.quantile_k,
            "Values of which quantiles and distributions are exact, of each group. Of more they are estimates with their \
             bounds."
        ),
        number!(
            "engine.top_entries",
            Kind::Count(8, 67_108_864),
            engine.top_entries,
            "Entries of the map of TOP, of which three quarters are counted exactly; the next power of two is taken. Of more \
             values it gives estimates with their bounds."
        ),
    ]
}

fn stream_name_or_empty(text: &str) -> Result<(), String> {
    if text.is_empty() { Ok(()) } else { StreamName::new(text).map(drop).map_err(|error| error.to_string()) }
}

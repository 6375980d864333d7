//! Tests of WINDOWING, in both dialects.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod common;

use common::{both, bullet, native};

/// A window of a query with aggregation, and how the plan shows it.
#[track_caller]
fn window(text: &str, expected: &str) {
    native(
        &format!("SELECT COUNT(*) FROM STREAM() WINDOWING {text}"),
        &format!("aggregates #0 = COUNT(*) | columns COUNT(*) = #0 | window {expected}"),
    );
}

/// A window of a RAW query that cannot be; it stands on a line of its own.
#[track_caller]
fn refused(text: &str, native_fault: &str, bullet_fault: &str) {
    let query = format!("SELECT a FROM STREAM() WINDOWING\n{text}");
    native(&query, native_fault);
    bullet(&query, bullet_fault);
}

#[test]
fn windows_that_both_have() {
    both(
        "SELECT * FROM STREAM() WINDOWING TUMBLING(5000, TIME)",
        "the event itself | window every 5000 ms of arrival",
    );
    both(
        "SELECT * FROM STREAM() WINDOWING EVERY(1, RECORD, FIRST, 1, RECORD)",
        "the event itself | window every 1 matched events",
    );
    both(
        "SELECT COUNT(*) FROM STREAM() WINDOWING EVERY(5, TIME, ALL) LIMIT 1",
        "aggregates #0 = COUNT(*) | columns COUNT(*) = #0 | window everything so far, every 5 ms of arrival | limit 1",
    );
    let after_limit = "SELECT * FROM STREAM() LIMIT 5 WINDOWING TUMBLING(1, TIME)";
    native(after_limit, "the event itself | window every 1 ms of arrival | limit 5");
    bullet(after_limit, "1:32: WINDOWING must come before LIMIT");
    let records = "SELECT COUNT(*) FROM STREAM() WINDOWING TUMBLING(5, RECORD)";
    native(records, "aggregates #0 = COUNT(*) | columns COUNT(*) = #0 | window every 5 matched events");
    bullet(records, "a window counted in records is for queries without aggregation");
}

#[test]
fn windows_of_our_own() {
    window("TUMBLING(INTERVAL '10 seconds', TIME)", "every 10000 ms of arrival");
    window("TUMBLING(INTERVAL 2 HOURS, TIME)", "every 7200000 ms of arrival");
    window("EVERY(1000, TIME, LAST, 10000, TIME)", "the last 10000, every 1000 ms of arrival");
    window("EVERY(1000, TIME, LAST, 1000, TIME)", "every 1000 ms of arrival");
    window("EVERY(1000, TIME, FIRST, 10, TIME)", "the first 10 of every 1000 ms of arrival");
    window("EVERY(10, RECORD, LAST, 100, RECORD)", "the last 100, every 10 matched events");
    window("EVERY(10, RECORD, ALL)", "everything so far, every 10 matched events");
    window("TUMBLING(5, EVENT(ts))", "every 5 ms by ts, up to 0 ms late");
    window("TUMBLING(5, EVENT(t.s : MAP[LONG], 0))", "every 5 ms by t.s : MAP[LONG], up to 0 ms late");
    window("TUMBLING(5, event(ts * 1000, INTERVAL '5 s'))", "every 5 ms by ts * 1000, up to 5000 ms late");
    let same = "the last 9, every 5 ms by ts, up to 7 ms late";
    window("EVERY(5, EVENT(ts, 7), LAST, 9, EVENT)", same);
    window("EVERY(5, EVENT(ts, 7), LAST, 9, EVENT(ts, 7))", same);
    window("SESSION(5, TIME)", "a session, until 5 ms without an event of arrival");
    window(
        "SESSION(INTERVAL '1 minute', EVENT(ts))",
        "a session, until 60000 ms without an event by ts, up to 0 ms late",
    );
}

#[test]
fn windows_that_cannot_be() {
    let size = "a window's size must be above 0";
    refused("EVERY(0, RECORD, FIRST, 0, RECORD)", &format!("2:7: {size}"), size);
    refused("EVERY(5, RECORD)", "2:16: expected `,`, found `)`", "2:16: expected `,`, found `)`");
    let all = "a window over ALL needs an aggregation: a RAW query cannot store all events";
    refused("EVERY(5, TIME, ALL)", &format!("1:24: {all}"), all);
    refused(
        "EVERY(5, RECORD, ALL)",
        &format!("1:24: {all}"),
        "a window over ALL cannot be counted in records",
    );
    let exactly = "a window must contain exactly the events between two emits";
    refused(
        "EVERY(5, TIME, FIRST, 6, TIME)",
        "2:23: FIRST cannot be more than the distance between two emits",
        exactly,
    );
    refused("EVERY(5, TIME, FIRST, 5, RECORD)", "2:23: a window is counted in one unit", exactly);
    refused(
        "TUMBLNG(5, TIME)",
        "2:1: expected TUMBLING or EVERY or SESSION, found `TUMBLNG`",
        "2:1: expected TUMBLING or EVERY, found `TUMBLNG`",
    );
    refused(
        "TUMBLING(99999999999999999999, TIME)",
        "2:10: a window's size can be at most 9223372036854775807",
        "a window's size can be at most 2147483647",
    );
    bullet(
        "SELECT a FROM STREAM() WINDOWING EVERY(5, TIME, LAST, 5, TIME)",
        "1:49: expected ALL or FIRST, found `LAST`",
    );
    let fault = |text: &str, fault: &str| native(&format!("SELECT a FROM STREAM() WINDOWING\n{text}"), fault);
    fault("TUMBLING(INTERVAL '5 parsecs', TIME)", "2:19: no unit of time `parsecs`");
    fault("TUMBLING(INTERVAL 5 SECONDS, RECORD)", "2:10: a number of records cannot be an INTERVAL");
    fault(
        "TUMBLING(5, EVENT)",
        "2:13: EVENT needs the path of an event's time: the stream declares no WATERMARK",
    );
    fault("TUMBLING(5, EVENT('now'))", "2:19: the time of an event cannot be STRING");
    fault("EVERY(5, EVENT(a), LAST, 9, EVENT(b))", "2:26: a window is counted in one unit");
    fault("SESSION(5, RECORD)", "2:9: a session is ended by time, not by a number of records");
    fault("EVERY(5, TIME, LAST)", "2:20: expected `,`, found `)`");
    fault("EVERY(5, TIME, LATEST, 5, TIME)", "2:16: expected FIRST or LAST or ALL, found `LATEST`");
}

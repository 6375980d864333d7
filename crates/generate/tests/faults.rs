//! Tests faulty events: the requested number of them, each with its one fault, and JSON unless they are corrupt.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use serde_json::Value;
use swiftwater_generate::{
    Events, Fault, FaultInjector, LogsSettings, SwipesSettings, TelecomSettings, Workload,
};

const EVENTS: usize = 2000;

fn workloads() -> [Workload; 5] {
    [
        Workload::SmartHome,
        Workload::Articles,
        Workload::Logs(LogsSettings::default()),
        Workload::Swipes(SwipesSettings::default()),
        Workload::Telecom(TelecomSettings { flows: true, ..TelecomSettings::default() }),
    ]
}

fn lines(events: &mut dyn Events) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    (0..EVENTS).for_each(|_| events.push(&mut out));
    out.split_inclusive(|byte| *byte == b'\n').map(|line| line[..line.len() - 1].to_vec()).collect()
}

/// An event as it should be, and as it is.
type Pair = (Vec<u8>, Vec<u8>);

/// The events as they should be, and as they are with a fault, beside how many are said to have it.
fn with(fault: Fault, workload: Workload) -> (Vec<Pair>, u64) {
    let right = lines(&mut *workload.begin(3).unwrap());
    let mut faulty = FaultInjector::new(workload.begin(3).unwrap(), 3, &[(fault, fault.share())]);
    let wrong = lines(&mut faulty);
    assert_eq!((right.len(), wrong.len()), (EVENTS, EVENTS), "{}: an event a line", fault.name());
    let counts: Vec<_> = faulty.counts().collect();
    assert_eq!(counts.len(), 1);
    (right.into_iter().zip(wrong).collect(), counts[0].1)
}

fn check(fault: Fault, is_as_said: impl Fn(&[u8], &[u8]) -> bool) {
    for workload in workloads() {
        let (pairs, count) = with(fault, workload);
        let changed: Vec<_> = pairs.iter().filter(|(right, wrong)| right != wrong).collect();
        assert_eq!(changed.len() as u64, count, "{} of {workload:?}", fault.name());
        let expected = EVENTS as f64 * fault.share();
        assert!((0.5..1.6).contains(&(count as f64 / expected)), "{}: {count}", fault.name());
        for (right, wrong) in changed {
            assert!(is_as_said(right, wrong), "{}: {}", fault.name(), String::from_utf8_lossy(wrong));
        }
    }
}

fn read(line: &[u8]) -> Value {
    serde_json::from_slice(line).unwrap()
}

/// Number of an event's values for which the condition holds.
fn count(value: &Value, is_such: &dyn Fn(&Value) -> bool) -> usize {
    let within = match value {
        Value::Object(members) => members.values().map(|value| count(value, is_such)).sum(),
        Value::Array(values) => values.iter().map(|value| count(value, is_such)).sum(),
        _ => 0,
    };
    usize::from(is_such(value)) + within
}

#[test]
fn what_is_missing_is_gone() {
    check(Fault::Missing, |right, wrong| {
        let (right, wrong) = (read(right), read(wrong));
        count(&wrong, &|_| true) < count(&right, &|_| true)
    });
}

#[test]
fn nulls_are_null() {
    check(Fault::Null, |right, wrong| {
        count(&read(wrong), &Value::is_null) == count(&read(right), &Value::is_null) + 1
    });
}

#[test]
fn numbers_become_texts() {
    check(Fault::NumberAsText, |right, wrong| {
        let (right, wrong) = (read(right), read(wrong));
        count(&wrong, &Value::is_number) + 1 == count(&right, &Value::is_number)
            && count(&wrong, &Value::is_string) == count(&right, &Value::is_string) + 1
    });
}

#[test]
fn unknown_fields_are_added() {
    check(Fault::UnknownField, |right, wrong| {
        count(&read(wrong), &|_| true) > count(&read(right), &|_| true)
    });
}

#[test]
fn escapes_mean_the_same() {
    check(Fault::UnicodeEscape, |right, wrong| read(wrong) == read(right) && wrong.len() == right.len() + 5);
}

#[test]
fn what_comes_twice_is_right_the_second_time() {
    // The reader of the tests keeps the last value of a name.
    check(Fault::DuplicateKey, |right, wrong| read(wrong) == read(right) && wrong.len() > right.len());
}

#[test]
fn corrupt_lines_are_no_json() {
    check(Fault::Corrupt, |_, wrong| !wrong.is_empty() && serde_json::from_slice::<Value>(wrong).is_err());
}

#[test]
fn faults_come_together() {
    let all: Vec<_> = Fault::ALL.into_iter().map(|fault| (fault, 1.0)).collect();
    for workload in workloads() {
        let mut faulty = FaultInjector::new(workload.begin(1).unwrap(), 1, &all[..6]);
        let lines = lines(&mut faulty);
        assert!(lines.iter().all(|line| serde_json::from_slice::<Value>(line).is_ok()), "{workload:?}");
    }
}

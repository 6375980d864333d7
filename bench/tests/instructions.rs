//! Counts instructions per event with callgrind, for the cases that `swiftwater-bench counted` names. A rise of more than 10
//! % over `instructions.txt` is a failure. Times on a shared machine are less reliable.
//!
//! Only a release build without coverage or the like is counted, and only where valgrind is installed; elsewhere each case
//! reports that it is skipped. `SWIFTWATER_BLESS=1` records the counts. Valgrind knows AVX2 but not AVX-512, so the AVX2
//! paths are counted; on another architecture the record is not used.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_methods, reason = "a test")]

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command};

/// By how much a count may rise.
const RISE_MAX: f64 = 1.1;
const SYMBOL: &str = "*swiftwater_counted*";

fn record_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/instructions.txt")
}

/// Cases and instructions an event, a line each.
fn record() -> BTreeMap<String, f64> {
    let text = fs::read_to_string(record_path()).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once(' '));
    pairs.map(|(case, count)| (case.to_owned(), count.trim().parse().unwrap())).collect()
}

/// The reason why nothing can be counted here.
fn hindrance() -> Option<&'static str> {
    if cfg!(debug_assertions) {
        return Some(
            "this is no release build: cargo test --release -p swiftwater-bench --test instructions",
        );
    }
    if !cfg!(target_arch = "x86_64") {
        return Some("what is recorded was counted on x86-64");
    }
    let valgrind = Command::new("valgrind").arg("--version").output();
    if valgrind.is_ok_and(|output| output.status.success()) { None } else { Some("there is no valgrind") }
}

/// The names of all cases, as the program tells them.
fn cases() -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_swiftwater-bench")).arg("counted").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert!(!names.is_empty(), "the program names no case");
    names
}

/// Instructions an event of a case.
fn count(case: &str) -> f64 {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--error-exitcode=0", &format!("--toggle-collect={SYMBOL}")])
        .arg(format!("--callgrind-out-file={}", directory.path().join("out").display()))
        .arg(env!("CARGO_BIN_EXE_swiftwater-bench"))
        .args(["counted", case])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{case} failed: {said}");
    let events: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
    let collected = said.lines().find_map(|line| line.split_once("Collected :")).expect("no count").1;
    let instructions: f64 = collected.split_whitespace().next().unwrap().parse().unwrap();
    assert!(instructions > 0.0, "{case}: nothing was counted: is `{SYMBOL}` still there?");
    instructions / events
}

#[test]
fn instructions_an_event_have_not_risen() {
    if let Some(hindrance) = hindrance() {
        cases().iter().for_each(|case| eprintln!("skipped: {case}: {hindrance}"));
        return;
    }
    let is_blessed = std::env::var_os("SWIFTWATER_BLESS").is_some();
    let (recorded, mut found, mut faults) = (record(), String::new(), Vec::new());
    let cases = cases();
    // A case that was renamed or dropped would stay recorded, and never be looked at.
    let is_left = |case: &&String| !is_blessed && !cases.contains(case);
    faults.extend(recorded.keys().filter(is_left).map(|case| format!("{case}: recorded, but no case")));
    for case in &cases {
        let count = count(case);
        found += &format!("{case} {count:.0}\n");
        match recorded.get(case) {
            _ if is_blessed => eprintln!("{case}: {count:.0} instructions an event"),
            None => faults.push(format!("{case}: {count:.0} instructions an event, none recorded")),
            Some(&least) => {
                eprintln!(
                    "{case}: {count:.0} instructions an event, {:+.1} %",
                    (count / least - 1.0) * 100.0
                );
                if count > least * RISE_MAX {
                    faults.push(format!("{case}: {count:.0} instructions an event, {least:.0} recorded"));
                }
            }
        }
    }
    if is_blessed {
        let head = "# Instructions an event under callgrind (AVX2), by case: tests/instructions.rs writes this with\n\
                    # SWIFTWATER_BLESS=1 and fails where one rises by more than 10 %.\n";
        fs::write(record_path(), head.to_owned() + &found).unwrap();
    }
    assert!(faults.is_empty(), "{}\nSWIFTWATER_BLESS=1 records them", faults.join("\n"));
}

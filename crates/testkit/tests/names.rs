//! Files and modules carry the field's terms: everyday words that some of them once had do not come back.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A name that says too little, and the term that a reader would look for.
const REFUSED: [(&str, &str); 56] = [
    ("acknowledged", "ack_horizon"),
    ("alike", "shared_outputs"),
    ("apart", "io_threads"),
    ("asking", "submit"),
    ("begin", "submit"),
    ("changing", "ddl"),
    ("commons", "plan_interning"),
    ("detached", "durable_query"),
    ("distinct_apart", "distinct_rewrite"),
    ("doubled", "duplicate_columns"),
    ("doubting", "warnings"),
    ("ends", "finish"),
    ("fault", "panic_guard"),
    ("feeding", "table_writer"),
    ("few_groups", "dictionary_group_by"),
    ("first_together", "first_batch_barrier"),
    ("following", "resume_point"),
    ("gate", "byte_budget"),
    ("giving", "replay"),
    ("holding", "validation"),
    ("into", "event_builder"),
    ("joins", "lookup_join"),
    ("keeping", "task"),
    ("known", "state"),
    ("lanes", "packed_counters"),
    ("ledger", "table_version"),
    ("lifetime", "lifecycle"),
    ("line", "run_queue"),
    ("little_memory", "spill_rules"),
    ("mailbox", "subscriber_queue"),
    ("making", "staged_table"),
    ("members", "fan_out"),
    ("needed", "retention"),
    ("noting", "checkpoint"),
    ("once", "scoped"),
    ("opening", "reconcile"),
    ("over", "derived"),
    ("owner", "committer"),
    ("past", "backfill"),
    ("producers", "dedup"),
    ("raising", "propagate"),
    ("short_texts", "short_string_compare"),
    ("sieve", "bloom_filter"),
    ("stabbing", "interval_index"),
    ("steady", "steady_clock"),
    ("stop", "cancellation"),
    ("stored", "stored_stream"),
    ("taken", "group_input"),
    ("telling", "notify"),
    ("together", "group_commit"),
    ("tries", "retry"),
    ("upkeep", "maintenance"),
    ("waiting", "freshness"),
    ("waits", "sync_futures"),
    ("way", "posting"),
    ("ways", "cycles"),
];

/// Functions that had an everyday verb, and what they do in the terms of the field.
const REFUSED_FUNCTIONS: [(&str, &str); 90] = [
    ("begin_alert", "start_alert"),
    ("begin_alerts", "start_alerts"),
    ("begin_and_end", "start_and_end"),
    ("begin_attempt", "start_attempt"),
    ("begin_backup", "start_backup"),
    ("begin_followers", "start_followers"),
    ("begin_join", "start_join"),
    ("begin_joins", "start_joins"),
    ("begin_keeping", "start_commit"),
    ("begin_over", "start_derived"),
    ("begin_rebuild", "start_rebuild"),
    ("begin_rebuilding", "start_rebuilding"),
    ("begin_stored", "ensure_stored"),
    ("begin_view", "start_view"),
    ("bury", "to_dead_letter"),
    ("give_joined", "attach_joined"),
    ("give_matches", "emit_matches"),
    ("give_rows", "emit_rows"),
    ("give_table", "set_table"),
    ("give_to_member", "emit_to_member"),
    ("give_truths", "emit_truths"),
    ("give_up_last", "abandon_last"),
    ("give_values", "emit_values"),
    ("give_warnings", "emit_warnings"),
    ("hold_for", "retain_for"),
    ("hold_for_joins", "retain_for_joins"),
    ("hold_joined", "pin_joined"),
    ("keep_a_spare", "ensure_spare"),
    ("keep_and_tell", "persist_and_notify"),
    ("keep_bad", "quarantine_bad"),
    ("keep_changes", "retain_changes"),
    ("keep_house", "run_checkpoints"),
    ("keep_jobs", "run_jobs"),
    ("keep_joined", "maintain_joined_tables"),
    ("keep_known", "persist_state"),
    ("keep_ready", "watch_readiness"),
    ("keep_sinks", "run_sinks"),
    ("keep_store", "reconcile_store"),
    ("keep_view", "maintain_view"),
    ("keep_views", "maintain_views"),
    ("kept_all", "committed_all"),
    ("kept_raised", "committed_raised"),
    ("note_end", "record_end"),
    ("note_error", "record_error"),
    ("note_failure", "record_failure"),
    ("note_faults", "record_faults"),
    ("note_followed", "checkpoint_queries"),
    ("note_forgotten", "record_forgotten"),
    ("note_given", "record_emitted"),
    ("note_hash", "record_hash"),
    ("note_kept", "record_commit"),
    ("note_lost", "record_lost"),
    ("note_lost_files", "record_lost_files"),
    ("note_named", "record_named"),
    ("note_on_uppers", "record_on_uppers"),
    ("note_plain", "record_plain"),
    ("note_planned", "record_planned"),
    ("note_rebuilt", "record_rebuilt"),
    ("note_success", "record_success"),
    ("note_taken", "record_taken"),
    ("note_told", "record_notified"),
    ("note_unopened", "record_unopened"),
    ("note_wanted", "record_wanted"),
    ("noted_error", "recorded_error"),
    ("put_away", "retire"),
    ("put_in_line", "enqueue"),
    ("spawn_keeping", "spawn_view"),
    ("take_fed", "next_fed"),
    ("take_in_order", "accept_in_order"),
    ("take_one", "accept_one"),
    ("take_past", "replay_past"),
    ("take_shared_step", "accept_shared_step"),
    ("take_slices", "accept_slices"),
    ("take_step", "accept_step"),
    ("take_timed", "accept_timed"),
    ("take_together", "accept_together"),
    ("tell_faults", "report_faults"),
    ("tell_if_not_ready", "report_if_not_ready"),
    ("tell_lost", "report_lost"),
    ("tell_meta", "report_meta"),
    ("tell_pairs", "append_pairs"),
    ("tell_rejections", "report_rejections"),
    ("tell_room", "report_room"),
    ("tell_shutdown", "report_shutdown"),
    ("tell_stream", "notify_stream"),
    ("tell_synced", "report_synced"),
    ("tell_time", "log_time"),
    ("tell_timed", "report_timed"),
    ("tell_trouble", "report_trouble"),
    ("tell_waiting", "append_waiting"),
];

/// All files and directories below `directory`.
fn below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a directory of sources is read") {
            let path = entry.expect("an entry of a directory is read").path();
            if path.is_dir() {
                open.push(path.clone());
            }
            found.push(path);
        }
    }
    found
}

/// The term to use for the name of `path`; none where the name is good.
fn term_for(path: &Path) -> Option<&'static str> {
    let name = path.file_stem()?.to_str()?;
    REFUSED.iter().find(|(word, _)| *word == name).map(|(_, term)| *term)
}

#[test]
fn files_are_named_by_the_terms_of_the_field() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("all crates lie in one directory");
    let mut files = 0;
    let mut faults = Vec::new();
    for room in fs::read_dir(crates).expect("the directory of the crates is read") {
        let sources = room.expect("an entry of a directory is read").path().join("src");
        if !sources.is_dir() {
            continue;
        }
        for path in below(&sources) {
            files += 1;
            if let Some(term) = term_for(&path) {
                faults.push(format!("{}: use `{term}`", path.display()));
            }
        }
    }
    assert!(files > 500, "only {files} files were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn everyday_word_is_refused_with_its_term() {
    assert_eq!(term_for(Path::new("crates/engine/src/mailbox.rs")), Some("subscriber_queue"));
    assert_eq!(term_for(Path::new("crates/engine/src/subscriber_queue.rs")), None);
}

#[test]
fn functions_are_named_by_what_they_do() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("all crates lie in one directory");
    let mut faults = Vec::new();
    for room in fs::read_dir(crates).expect("the directory of the crates is read") {
        let sources = room.expect("an entry of a directory is read").path().join("src");
        if !sources.is_dir() {
            continue;
        }
        for path in below(&sources).iter().filter(|path| path.extension().is_some_and(|end| end == "rs")) {
            let text = fs::read_to_string(path).expect("a source file is read");
            for name in text
                .split("fn ")
                .skip(1)
                .filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())
            {
                if let Some((_, term)) = REFUSED_FUNCTIONS.iter().find(|(refused, _)| *refused == name) {
                    faults.push(format!("{}: `{name}` is `{term}`", path.display()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

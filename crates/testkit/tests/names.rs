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

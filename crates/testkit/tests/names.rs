//! Tests that files and modules have the field's terms as names, and that the everyday words that some once had do not
//! return.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A name that says too little, and the term that a reader would look for.
const REFUSED: [(&str, &str); 63] = [
    ("acknowledged", "ack_horizon"),
    ("alike", "shared_outputs"),
    ("apart", "io_threads"),
    ("aside", "views_file"),
    ("asking", "submit"),
    ("begin", "submit"),
    ("changing", "ddl"),
    ("commons", "plan_interning"),
    ("detached", "durable_query"),
    ("distinct_apart", "distinct_rewrite"),
    ("doubled", "duplicate_columns"),
    ("doubting", "warnings"),
    ("doubts", "warnings"),
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
    ("kept_rows", "memory_rows"),
    ("known", "state"),
    ("lanes", "packed_counters"),
    ("ledger", "table_version"),
    ("lifetime", "lifecycle"),
    ("line", "run_queue"),
    ("little_memory", "spill_rules"),
    ("made", "generated_table"),
    ("mailbox", "subscriber_queue"),
    ("making", "staged_table"),
    ("members", "fan_out"),
    ("needed", "retention"),
    ("newcomers", "pending_connections"),
    ("noting", "checkpoint"),
    ("once", "scoped"),
    ("opening", "reconcile"),
    ("over", "derived"),
    ("owner", "committer"),
    ("past", "backfill"),
    ("producers", "dedup"),
    ("raising", "propagate"),
    ("short_texts", "short_string_compare"),
    ("shown", "row_hash"),
    ("sieve", "bloom_filter"),
    ("stabbing", "interval_index"),
    ("steady", "steady_clock"),
    ("stop", "cancellation"),
    ("stored", "stored_stream"),
    ("taken", "group_input"),
    ("telling", "notify"),
    ("together", "group_commit"),
    ("tries", "retry"),
    ("turns", "admission"),
    ("upkeep", "maintenance"),
    ("waiting", "freshness"),
    ("waits", "sync_futures"),
    ("way", "posting"),
    ("ways", "cycles"),
];

/// Functions that had an everyday verb, and what they do in the terms of the field.
const REFUSED_FUNCTIONS: [(&str, &str); 255] = [
    ("answers_are_right", "all_correct"),
    ("apart", "run_on_io_thread"),
    ("ask_and_end", "end_detached"),
    ("ask_answer_and_forget", "run_and_end_queries"),
    ("ask_by_get", "submit_by_get"),
    ("asks_for_websocket", "is_websocket_upgrade"),
    ("away", "identity_mismatch"),
    ("begin_again", "restart_at"),
    ("begin_again_at", "restart_at"),
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
    ("begin_what_is_due", "start_due"),
    ("begins_with_point", "starts_with_point"),
    ("begun", "started_count"),
    ("bring", "normalize"),
    ("bring_back", "restore_objects"),
    ("bring_query_back", "restore_query"),
    ("bury", "to_dead_letter"),
    ("came_about", "record_success"),
    ("carried_out", "check_applied"),
    ("check_kept", "check_log_start"),
    ("come_and_go", "disconnect_midway"),
    ("delete_kept", "delete_state"),
    ("directory_trouble", "directory_error"),
    ("doubts", "warnings"),
    ("feed_again", "reread_feed"),
    ("feed_on", "feed_table"),
    ("find_doubts", "find_warnings"),
    ("find_failing", "reject_failing"),
    ("find_missing", "reject_missing"),
    ("follow_on", "run_follower"),
    ("forget_what_was_given", "forget_returned"),
    ("forget_what_was_kept_long_enough", "forget_expired"),
    ("found_first", "skip_contradictions"),
    ("give_all", "expand_star"),
    ("give_back", "recycle"),
    ("give_back_on_panic", "restore_on_panic"),
    ("give_joined", "attach_joined"),
    ("give_matches", "emit_matches"),
    ("give_on", "emit_partial"),
    ("give_out", "emit_results"),
    ("give_rows", "emit_rows"),
    ("give_table", "set_table"),
    ("give_to_member", "emit_to_member"),
    ("give_truths", "emit_truths"),
    ("give_up_last", "abandon_last"),
    ("give_values", "emit_values"),
    ("give_warnings", "emit_warnings"),
    ("given_up", "grace_expired"),
    ("gives_as_they_come", "emits_immediately"),
    ("gives_way", "is_replaced_by"),
    ("go_back", "rewind_to"),
    ("go_back_to", "rewind_to"),
    ("go_on", "seek_next_event"),
    ("go_on_at", "set_resume_position"),
    ("go_on_keeping_changes", "resume_changelog"),
    ("go_to", "advance_to"),
    ("goes_on_anywhere", "resumes_anywhere"),
    ("goes_on_at", "resume_position"),
    ("goes_on_with_a_record", "resumes_after_record"),
    ("hand_on_run", "append_run"),
    ("hand_out", "emit_rows"),
    ("hand_over", "enqueue"),
    ("has_handed_on", "has_delivered"),
    ("held_from", "first_nonempty_window"),
    ("held_whole", "collect_with_share"),
    ("hold_for", "retain_for"),
    ("hold_for_joins", "retain_for_joins"),
    ("hold_joined", "pin_joined"),
    ("hold_syncs", "block_syncs"),
    ("holds_any", "contains_any"),
    ("holds_too_much", "exceeds_share"),
    ("hurry", "request_flush"),
    ("join_on", "run_join"),
    ("judge", "validate_tokens"),
    ("keep_a_spare", "ensure_spare"),
    ("keep_after_micros", "retention_cutoff_micros"),
    ("keep_and_tell", "persist_and_notify"),
    ("keep_bad", "quarantine_bad"),
    ("keep_changes", "retain_changes"),
    ("keep_house", "run_checkpoints"),
    ("keep_if", "replace_if"),
    ("keep_jobs", "run_jobs"),
    ("keep_joined", "maintain_joined_tables"),
    ("keep_known", "persist_state"),
    ("keep_last", "dedup_last"),
    ("keep_ready", "watch_readiness"),
    ("keep_sinks", "run_sinks"),
    ("keep_store", "reconcile_store"),
    ("keep_to", "pin_to_cores"),
    ("keep_up", "run_maintenance"),
    ("keep_up_to_end", "finish_maintenance"),
    ("keep_view", "maintain_view"),
    ("keep_views", "maintain_views"),
    ("keep_what_was_cut", "reserve_trimmed"),
    ("keeps", "filter_slots"),
    ("keeps_nothing", "is_contradiction"),
    ("keeps_nothing_of", "discards_events_of"),
    ("kept_all", "committed_all"),
    ("kept_at", "committed_at"),
    ("kept_raised", "committed_raised"),
    ("know_joined", "restore_joined"),
    ("learn", "intern"),
    ("leave_off", "close"),
    ("leave_spares", "create_spares"),
    ("leaves_enough", "has_free_reserve"),
    ("leaves_segment", "rolls_early"),
    ("let_go_of_changes", "release_changes"),
    ("let_go_of_windows", "release_windows"),
    ("let_stand", "start_query"),
    ("look_again", "poll_pause"),
    ("look_at_aggregates", "map_aggregates"),
    ("look_at_group", "with_row_of_group"),
    ("look_at_row", "with_single_row"),
    ("look_at_state", "with_row_of_state"),
    ("look_for_kinds", "find_kinds"),
    ("look_from", "restrict_from"),
    ("look_ready", "check_readiness"),
    ("look_until", "restrict_until"),
    ("looked", "complete_attempt"),
    ("looked_at_before", "release_before"),
    ("made_again", "replay_emit"),
    ("made_event", "event_action"),
    ("make_one_line", "join_lines"),
    ("make_room", "widen_for"),
    ("make_spare", "create_spare"),
    ("next_to_tell", "next_messages"),
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
    ("note_of", "encode_checkpoint"),
    ("note_on_uppers", "record_on_uppers"),
    ("note_plain", "record_plain"),
    ("note_planned", "record_planned"),
    ("note_rebuilt", "record_rebuilt"),
    ("note_success", "record_success"),
    ("note_taken", "record_taken"),
    ("note_told", "record_notified"),
    ("note_unopened", "record_unopened"),
    ("note_wanted", "record_wanted"),
    ("noted", "checkpoint"),
    ("noted_error", "recorded_error"),
    ("noted_in", "decode_checkpoint"),
    ("over_all_rows", "with_all_rows"),
    ("over_parameters", "parse_over_parameters"),
    ("over_parameters_alone", "parameters_only"),
    ("over_row", "parse_over_row"),
    ("own_word", "native_type_name"),
    ("passes", "may_match"),
    ("put_aside", "write_views_file"),
    ("put_away", "retire"),
    ("put_in_line", "enqueue"),
    ("put_slots", "substitute_slots"),
    ("raised", "raise_limit"),
    ("reach", "advance_to"),
    ("reaches_at", "idle_arrival_of"),
    ("read_view_again", "reread_view"),
    ("rows_in_turn", "generated_table"),
    ("said", "panic_message"),
    ("say", "set_status"),
    ("say_ready", "report_ready"),
    ("see", "record_variable"),
    ("see_name", "record_name"),
    ("set_aside", "quarantine_file"),
    ("settle_at_start", "reconcile_at_start"),
    ("settle_truths", "nullify_truth_errors"),
    ("settle_values", "nullify_errors"),
    ("spawn_keeping", "spawn_view"),
    ("stand", "submit_detached"),
    ("stands_at", "set_position"),
    ("stands_for", "resolve_name"),
    ("take_at", "accept_at"),
    ("take_away", "block_table"),
    ("take_batch", "fold_batch"),
    ("take_blocking", "next_blocking"),
    ("take_datagrams", "ingest_datagrams"),
    ("take_early", "drain_early"),
    ("take_effect", "apply_effect"),
    ("take_fed", "next_fed"),
    ("take_from", "next_from"),
    ("take_group", "next_group"),
    ("take_in", "accept_event"),
    ("take_in_order", "accept_in_order"),
    ("take_keyword", "accept_keyword"),
    ("take_length", "read_length"),
    ("take_one", "accept_one"),
    ("take_out", "retract"),
    ("take_out_chosen", "retract_selected"),
    ("take_out_empty", "nullify_empty_texts"),
    ("take_past", "replay_past"),
    ("take_pattern_faults", "drain_pattern_faults"),
    ("take_shared_step", "accept_shared_step"),
    ("take_slices", "accept_slices"),
    ("take_step", "accept_step"),
    ("take_symbol", "accept_symbol"),
    ("take_synced_waiters", "drain_synced_waiters"),
    ("take_text", "read_text"),
    ("take_texts", "drain_texts"),
    ("take_timed", "accept_timed"),
    ("take_together", "accept_together"),
    ("take_unasked", "drain_unread"),
    ("take_until", "push_due"),
    ("take_varint", "read_varint"),
    ("take_view_number", "allocate_view_id"),
    ("take_where", "drain_where"),
    ("take_word", "accept_word"),
    ("take_words", "accept_words"),
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
    ("tells_all", "rows_suffice_for"),
    ("told_by", "add_outcome"),
    ("took_longer", "timeout_error"),
    ("trouble", "stall_error"),
    ("try_out", "try_plan"),
    ("try_take", "try_next"),
    ("waits_since", "oldest_pending_arrival"),
    ("walk_on", "continue_walk"),
    ("want_of", "requested_path"),
    ("want_values", "requested_values"),
    ("wanted_as", "cast_to"),
    ("wanted_most", "preferred_form"),
    ("whose", "referenced_sides"),
];

/// Types that were named by a participle, an adverb or a word of every day, and the noun of the field for each.
const REFUSED_TYPES: [(&str, &str); 149] = [
    ("Acked", "AckedBody"),
    ("Aim", "PlanGoal"),
    ("Answered", "UnorderedAnswer"),
    ("Apart", "PaddedCounter"),
    ("Around", "MessageContext"),
    ("Aside", "ViewsFile"),
    ("Ask", "QueryRequest"),
    ("Asked", "JoinConditions"),
    ("Asker", "SqlClient"),
    ("Attempting", "AttemptGuard"),
    ("Away", "BlockedTable"),
    ("Begun", "StagedState"),
    ("Broken", "OperandFaults"),
    ("Care", "BuildEffort"),
    ("Chores", "MaintenanceRequests"),
    ("Chosen", "ChosenRow"),
    ("Clash", "BodyConflict"),
    ("Cleared", "PrunedChanges"),
    ("Collected", "CollectedValues"),
    ("Compared", "ColumnLiteral"),
    ("Compressing", "CompressionPolicy"),
    ("Cuts", "SliceBoundaries"),
    ("Damaged", "CorruptFile"),
    ("Debt", "PendingWork"),
    ("Doing", "JobActivity"),
    ("Doubles", "DoubleSum"),
    ("Doubt", "QueryWarning"),
    ("Doubts", "WarningChecker"),
    ("Due", "HeadDeadline"),
    ("EmitRest", "OptionalMeta"),
    ("Ending", "ShutdownNotifier"),
    ("Entered", "StatementScope"),
    ("Errand", "TickerRequest"),
    ("Evolved", "EvolvedSchema"),
    ("Explosion", "ExplodeRun"),
    ("Extent", "WindowSize"),
    ("Faulty", "FaultInjector"),
    ("Fed", "QueuedBatch"),
    ("Filed", "IndexEntry"),
    ("Flaw", "FrameFault"),
    ("Folding", "RowFold"),
    ("FoundFirst", "SkipContradictions"),
    ("Front", "FrameHeader"),
    ("Gait", "ClockPace"),
    ("Given", "AggregationOutput"),
    ("GivenUp", "GraceExpired"),
    ("Gives", "SumOutput"),
    ("Good", "ValidRows"),
    ("GotEmit", "ReceivedEmit"),
    ("Grown", "ExtendedColumns"),
    ("Guess", "PredictedKey"),
    ("Handed", "PendingMerge"),
    ("Held", "ValidatedBatch"),
    ("HeldSlices", "QuerySlices"),
    ("InRuns", "PartitionRunSink"),
    ("InTurn", "GeneratedTable"),
    ("InTurnExec", "GeneratorExec"),
    ("Inferred", "InferredBatch"),
    ("KeepError", "MaintainError"),
    ("Keeping", "CommitTask"),
    ("Kept", "ExpiringQueries"),
    ("KeptRows", "MemoryRows"),
    ("Known", "PositionedState"),
    ("Late", "MaterializedColumns"),
    ("Lead", "KeyPrefix"),
    ("Leave", "CallOutcome"),
    ("Leaving", "DetachingQuery"),
    ("Left", "RemainingRows"),
    ("Life", "StoreSession"),
    ("LogHold", "LogRetentionGuard"),
    ("LookUp", "LookupRequest"),
    ("Looked", "ConnectionState"),
    ("Looks", "ClockSamples"),
    ("Made", "WorkerOutput"),
    ("Maker", "FilterBuilder"),
    ("Marked", "ViewEntry"),
    ("Misfits", "MistypedRows"),
    ("Newcomer", "PendingConnection"),
    ("Newcomers", "PendingConnections"),
    ("NoState", "InvalidState"),
    ("OfDistinct", "DistinctSum"),
    ("OfKey", "KeySessions"),
    ("OfParts", "DecomposedAggregate"),
    ("OfTheSpawner", "InheritStatement"),
    ("OneAnswer", "CollectedAnswer"),
    ("Otherwise", "ElseClause"),
    ("Over", "DerivedFrom"),
    ("Packed", "PackedPayload"),
    ("PastError", "BackfillError"),
    ("Patience", "RetryDeadline"),
    ("Picked", "SelectedRows"),
    ("RaiseError", "PropagateError"),
    ("Raised", "PropagatedChanges"),
    ("Ran", "ScenarioRecord"),
    ("Reached", "MatchProgress"),
    ("Reads", "TableReferences"),
    ("Recognizing", "PatternScope"),
    ("Refused", "RejectedEvent"),
    ("Resumes", "ResumeGranularity"),
    ("RowsInTurn", "RowGenerator"),
    ("RowsOfKey", "KeyRows"),
    ("RowsWanted", "ScanRequest"),
    ("Said", "RequestValues"),
    ("Seen", "TimedRow"),
    ("SeenOtherwise", "TableOverrides"),
    ("SessionHeld", "SessionState"),
    ("Shown", "RowHash"),
    ("Since", "Stopwatch"),
    ("Skipped", "SkippedText"),
    ("Spare", "SpareFile"),
    ("Stamp", "KeyMeta"),
    ("Standing", "RunningQuery"),
    ("Stuck", "BlockingTable"),
    ("Subscribed", "ClientSubscription"),
    ("Summing", "ChecksumBuilder"),
    ("Sums", "SumAggregate"),
    ("Surroundings", "BatchContext"),
    ("TakeError", "AcceptError"),
    ("TakeRows", "RowConsumer"),
    ("TakeSamples", "SampleConsumer"),
    ("Taken", "ReservedName"),
    ("Taker", "ByteReader"),
    ("TextPoints", "TextPointIndex"),
    ("TextStabbing", "TextIntervalIndex"),
    ("Thing", "DdlObjectKind"),
    ("Timed", "EventTimeFold"),
    ("ToFile", "AccessConditions"),
    ("Told", "ChangedKeys"),
    ("ToldKey", "ChangedKey"),
    ("Took", "ChangeDurations"),
    ("Tools", "DecodeBuffers"),
    ("Tried", "FetchOutcome"),
    ("Trouble", "StallReason"),
    ("Turns", "AdmissionControl"),
    ("Undecided", "PendingSizeLimit"),
    ("Undrawable", "PlotError"),
    ("Unfinished", "PartialOutput"),
    ("Unfit", "UnsupportedView"),
    ("Unmakeable", "WorkloadError"),
    ("Unpark", "UnparkWaker"),
    ("Upkept", "MaintenanceResult"),
    ("Used", "ProducerUse"),
    ("WantedTable", "ReferencedTable"),
    ("Watch", "RunMonitor"),
    ("What", "PlannedAction"),
    ("WhileWanted", "CancellableCondition"),
    ("Whose", "ReferencedSides"),
    ("Written", "CommitOutcome"),
    ("Wrong", "WindowFault"),
];

/// The keyword that declares a function.
const FUNCTION: [&str; 1] = ["fn"];

/// The keywords that declare a type.
const TYPE: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

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

/// The names that a source text declares after one of these keywords.
fn declared<'t>(text: &'t str, keywords: &'t [&'t str]) -> impl Iterator<Item = &'t str> {
    text.lines().filter_map(|line| {
        let mut words =
            line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        if line.trim_start().starts_with("//") || !words.any(|word| keywords.contains(&word)) {
            return None;
        }
        words.next()
    })
}

/// For each refused name that a source text declares, the name and the term to use.
fn refused<'t>(
    text: &'t str,
    keywords: &'t [&'t str],
    list: &'t [(&'static str, &'static str)],
) -> impl Iterator<Item = (&'static str, &'static str)> + 't {
    declared(text, keywords).filter_map(|name| list.iter().find(|(refused, _)| *refused == name).copied())
}

/// The refused names that the sources of all crates declare, with their files.
fn faults(keywords: &[&str], list: &[(&'static str, &'static str)]) -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("all crates lie in one directory");
    let mut faults = Vec::new();
    for room in fs::read_dir(crates).expect("the directory of the crates is read") {
        let sources = room.expect("an entry of a directory is read").path().join("src");
        if !sources.is_dir() {
            continue;
        }
        for path in below(&sources).iter().filter(|path| path.extension().is_some_and(|end| end == "rs")) {
            let text = fs::read_to_string(path).expect("a source file is read");
            let named = refused(&text, keywords, list);
            faults.extend(named.map(|(name, term)| format!("{}: `{name}` is `{term}`", path.display())));
        }
    }
    faults
}

#[test]
fn functions_are_named_by_what_they_do() {
    let faults = faults(&FUNCTION, &REFUSED_FUNCTIONS);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn types_are_named_by_nouns_of_the_field() {
    let faults = faults(&TYPE, &REFUSED_TYPES);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn refused_name_is_found_where_it_is_declared() {
    let text = "// struct Upkept;\npub(crate) struct Upkept<'a> {\n    upkept: Upkept,\n}\nimpl Upkept {}\n\
                    pub async fn keep_up(&mut self) {}\n    self.keep_up();\n";
    let types: Vec<_> = refused(text, &TYPE, &REFUSED_TYPES).collect();
    assert_eq!(types, [("Upkept", "MaintenanceResult")]);
    let functions: Vec<_> = refused(text, &FUNCTION, &REFUSED_FUNCTIONS).collect();
    assert_eq!(functions, [("keep_up", "run_maintenance")]);
}

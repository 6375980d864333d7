//! One query over an input that ends: the same matcher and operators, run in the calling process, as fast as the input
//! can be read, with the same answer for any number of shards.
//!
//! A mapped file is cut into blocks between events; workers check blocks and match their events in parallel, and the merger
//! puts what they made in the order of the input. Bytes that come from a reader, and arrays, are split into events one
//! piece after another, and matched in parallel from there on.

mod deal;
mod event_times;
mod feed;
mod merger;
mod options;
mod worker;

use std::{
    ops::ControlFlow,
    sync::{Arc, mpsc},
};

use swiftwater_event::Clock;
use swiftwater_lang::{ParseOptions, plan::Statement};
use swiftwater_live::{Index, SlicePlan, StandingQuery};

pub use self::options::{EventPrefilter, InputError, InputOptions, InputSource, InputSummary};
use self::options::{QUERY, TIME_BEGINS};
use self::{deal::is_dealt, feed::Feed, merger::Merger, worker::Worker};
use crate::{
    Emit, EngineConfig, QueryForm, RuntimeError,
    query::totals::Totals,
    query::warnings::warnings_of,
    runtime::{compile, with_shards},
    threads::spawn,
};

/// Runs one query over an input; `on_emit` gets each emit in order, the last one with `finished`, and may stop it.
/// `on_progress` is told the bytes looked at so far, now and then.
pub fn run_input(
    source: InputSource,
    text: &str,
    options: &InputOptions,
    clock: Arc<dyn Clock>,
    on_progress: &mut dyn FnMut(u64),
    on_emit: &mut dyn FnMut(Emit) -> ControlFlow<()>,
) -> Result<InputSummary, InputError> {
    let config = with_shards(options.config.clone());
    let started = clock.now();
    let parse_options = ParseOptions {
        dialect: options.dialect,
        schema: options.schema.as_deref(),
        types: options.types.as_deref(),
        joined: None,
        parameters: &options.parameters,
        lists_rows: false,
        now: started,
        text_bytes_max: config.query_text_bytes_max,
    };
    let statement = options.form.parse(text, &parse_options).map_err(RuntimeError::Query)?;
    let doubts = match options.form {
        QueryForm::Bql => swiftwater_lang::warnings(text, &parse_options, &[]),
        QueryForm::Json => Vec::new(),
    };
    let warnings = warnings_of(doubts)?;
    let matched = matched_query(&statement, options, &config)?;
    let query = Arc::new(compile(statement, &config)?);
    let matched = matched.unwrap_or_else(|| Arc::clone(&query));
    let origin = if options.time_field.is_some() { TIME_BEGINS } else { started };
    let slices = Arc::new(SlicePlan::of(&query, origin));
    let index = Index::default().with_slices(QUERY, &matched, &slices);
    let may_block = matches!(source, InputSource::Reader(_));
    let feed = Arc::new(Feed::new(source, options, config.shards));
    let totals = Totals::default();
    let (results, inbox) = mpsc::sync_channel(config.shards * 2);
    let worker = Arc::new(Worker {
        index,
        closes: slices.at(0).1.start_of(started) > i64::MIN,
        options: options.clone(),
        prefilter: options.prefilter.clone().filter(|_| options.time_field.is_none() && options.workers <= 1),
        feed: Arc::clone(&feed),
        clock: Arc::clone(&clock),
        started,
    });
    let threads: Vec<_> = (0..config.shards)
        .map(|number| {
            let (worker, results) = (Arc::clone(&worker), results.clone());
            spawn(&format!("input-{number}"), move || worker.run(&results))
        })
        .collect();
    drop(results);
    let mut merger = Merger::new(query, options, &config, &totals, &*clock, started, warnings);
    let outcome = merger.run(&feed, &inbox, on_progress, on_emit);
    feed.stop();
    // Workers that wait for room in the channel must see that nobody reads it any more.
    drop(inbox);
    // One that waits for a reader's next bytes is left to find out when they come: that may be never.
    if !may_block {
        for thread in threads {
            let _ = thread.join();
        }
    }
    outcome
}

/// The query that matches are made by, where it is not the query itself: each worker may have to give as many rows as
/// the result may have, so that of one batch there can be more.
fn matched_query(
    statement: &Statement,
    options: &InputOptions,
    config: &EngineConfig,
) -> Result<Option<Arc<StandingQuery>>, RuntimeError> {
    if !is_dealt(&statement.query, options) {
        return Ok(None);
    }
    let mut statement = statement.clone();
    statement.query.limit = None;
    Ok(Some(Arc::new(compile(statement, config)?)))
}

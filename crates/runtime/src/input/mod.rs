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
mod worker;

use std::{
    ops::ControlFlow,
    sync::{Arc, mpsc},
};

use bytes::Bytes;
use swiftwater_event::{CheckLimits, Clock, EventBatch, Millis, Path, Rejection, StreamName};
use swiftwater_lang::{
    Dialect, ParseOptions, Schema,
    plan::{Literal, Statement},
};
use swiftwater_live::{Index, SlicePlan, StandingQuery};

use self::{deal::is_dealt, feed::Feed, merger::Merger, worker::Worker};
use crate::{
    Emit, EngineConfig, QueryForm, RuntimeError,
    query::totals::Totals,
    query::warnings::warnings_of,
    runtime::{compile, with_shards},
    threads::spawn,
};

/// The source of the bytes.
pub enum InputSource {
    /// All of them at once: a mapped file. Cut into blocks that all shards check and look at in parallel.
    Bytes(Bytes),
    /// Read to the end, by one shard after another.
    Reader(Box<dyn std::io::Read + Send>),
}

/// The events of a batch that may match the query, by row, in order.
pub type EventPrefilter = Arc<dyn Fn(&EventBatch) -> Vec<u32> + Send + Sync>;

/// How an input is to be looked at.
#[derive(Clone, Default)]
pub struct InputOptions {
    /// Limits and shards.
    pub config: EngineConfig,
    /// Which events are refused.
    pub check: CheckLimits,
    /// Whose rules hold.
    pub dialect: Dialect,
    /// Declared types of fields.
    pub schema: Option<Arc<Schema>>,
    /// The path that says when an event arrived (RFC 3339 text, or whole milliseconds); arrival never goes back: an
    /// event with an earlier time, or none, arrives with the one before it, and those before any with a time in 1970.
    /// Windows then lie on multiples of their length. Without it the input has no time: windows by time close at its
    /// end.
    pub time_field: Option<Path>,
    /// Each record tells its times.
    pub times: bool,
    /// The types of the records' values, where they are known apart from the schema that the query is checked against.
    pub types: Option<Arc<Schema>>,
    /// The values of `$1`, `$2`, … in the text.
    pub parameters: Vec<Literal>,
    /// How the query is written.
    pub form: QueryForm,
    /// Workers that Bullet would have dealt the records to, record k to worker k mod n: the rows of a RAW result
    /// without a window by record depend on it. 1, and with a `time_field`: they come in the order of the input.
    pub workers: usize,
    /// Events that it leaves out are validated and counted, and not decoded: they must be such as the query does not
    /// match. Rows have the order of the input all the same. Ignored with a `time_field`, where each event moves time on,
    /// and with several `workers`, to which all events are dealt.
    pub prefilter: Option<EventPrefilter>,
}

/// The summary of the input that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InputSummary {
    /// Good events looked at.
    pub accepted: u64,
    /// Events refused.
    pub rejected: u64,
    /// The first of them.
    pub rejections: Vec<Rejection>,
    /// Bytes read.
    pub bytes: u64,
}

/// An input that could not be looked at to its end.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The query was refused.
    #[error(transparent)]
    Engine(#[from] RuntimeError),
    /// Reading failed.
    #[error("the input could not be read to its end")]
    Read(#[from] std::io::Error),
}

/// Where time begins for an input that has times of its own, and its windows: 1970.
const TIME_BEGINS: Millis = 0;

const QUERY: swiftwater_live::QueryNumber = 1;

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

fn input_name() -> StreamName {
    StreamName::new("input").expect("`input` follows the rules for names")
}

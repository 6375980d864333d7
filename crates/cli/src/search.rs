//! `swiftwater search`: finds events by their words, in a server's streams, or in a file or standard input in this process.
//!
//! The search of an input is a live query over it, so a file is read by all cores, and an event is found as it is on a server.

mod counts;
mod remote;

use std::{
    io::{self, BufWriter, Write},
    ops::ControlFlow,
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use swiftwater_event::{Clock, StreamName};
use swiftwater_runtime::{EngineConfig, EventPrefilter, InputOptions, run_input};
use swiftwater_text::{EventSearch, MatcherScratch, Prefilter, query::Operator};

use crate::{
    args::SearchArgs,
    exit::{Failure, Outcome},
    ingest::DeclaredFields,
    input_file::{Place, StopReading},
    progress::Progress,
    query::{
        WRONG_QUERY,
        local::{check_limits, limits},
        opened::{failed, open, read_so_far, report_rejections},
    },
    signals, stdio,
};

/// Bold and red, as grep marks what it found; and back.
const MARK: (&str, &str) = ("\x1b[1;31m", "\x1b[0m");

/// The operator between words side by side.
const OPERATOR: Operator = Operator::And;

/// Runs the command.
pub(crate) fn run(args: &SearchArgs, clock: Arc<dyn Clock>) -> Outcome {
    let words: Vec<String> = std::iter::once(&args.first).chain(&args.rest).cloned().collect();
    match (&args.input, words.as_slice()) {
        (Some(input), [query]) => run_over_input(args, query, input, clock),
        (None, [streams @ .., query]) if !streams.is_empty() => remote::run(args, streams, query),
        (Some(_), _) => Err(Failure::coded(
            WRONG_QUERY,
            anyhow::anyhow!("--input takes one search\n    Write it as one word: 'timeout status:500'."),
        )),
        (None, _) => Err(Failure::coded(
            WRONG_QUERY,
            anyhow::anyhow!(
                "name a stream before the search, or a file with --input\n    As in: swiftwater search logs 'timeout'."
            ),
        )),
    }
}

fn run_over_input(args: &SearchArgs, query: &str, input: &Path, clock: Arc<dyn Clock>) -> Outcome {
    let search = EventSearch::of_event(query, OPERATOR, None);
    let search = search.map_err(|faults| {
        let lines = faults.0.iter().map(|fault| match &fault.hint {
            Some(hint) => format!("\n  {fault}\n    {hint}"),
            None => format!("\n  {fault}"),
        });
        Failure::coded(
            WRONG_QUERY,
            anyhow::anyhow!("the search cannot be read:{}", lines.collect::<String>()),
        )
    })?;
    stdio::exit_when_stdout_closes();
    let place = Place::of(input);
    let stop = StopReading::default();
    if place == Place::Stdin {
        let stop = stop.clone();
        signals::on_interrupt(move || stop.stop()).context("cannot catch signals")?;
    }
    let opened = open(&place, &stop, &DeclaredFields::default())?;
    let progress = Progress::bytes(opened.bytes, args.quiet);
    let (read, form) = (opened.read, opened.form);
    let options = options(&search)?;
    let marks = !args.count && (args.color || stdio::stdout_is_terminal());
    let mut found = Found { marks, ..Found::new(search) };
    let mut stdout = BufWriter::with_capacity(256 << 10, io::stdout());
    let mut failure = None;
    let mut on_emit = |emit: swiftwater_runtime::Emit| {
        let records = &emit.records.text;
        let written = progress.suspend(|| found.write(records, &mut stdout));
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(Failure::output(error));
                ControlFlow::Break(())
            }
        }
    };
    let mut on_progress = |looked_at: u64| progress.set(read_so_far(read.as_ref(), looked_at));
    let ran =
        run_input(opened.source, &live_query(args, query), &options, clock, &mut on_progress, &mut on_emit);
    progress.finish();
    if let Some(failure) = failure {
        return Err(failure);
    }
    let summary = ran.map_err(|error| failed(error, &place))?;
    stdout.flush().map_err(Failure::output)?;
    report_rejections(&summary, &place, &form);
    Ok(ExitCode::SUCCESS)
}

/// The live query of a search.
fn live_query(args: &SearchArgs, query: &str) -> String {
    let condition = format!("SEARCH('{}')", query.replace('\'', "''"));
    if args.count {
        return format!("SELECT COUNT(*) AS events FROM STREAM(input, MAX, TIME) WHERE {condition}");
    }
    let limit = args.limit.map_or(String::new(), |limit| format!(" LIMIT {limit}"));
    format!("SELECT * FROM STREAM(input, MAX, TIME) WHERE {condition}{limit}")
}

fn options(search: &EventSearch) -> anyhow::Result<InputOptions> {
    let settings = limits()?;
    let prefilter = Prefilter::of(search).map(|prefilter| {
        let candidates: EventPrefilter = Arc::new(move |batch| prefilter.candidates(batch));
        candidates
    });
    Ok(InputOptions {
        check: check_limits(&settings),
        config: EngineConfig { default_stream: StreamName::new("input").ok(), ..settings.engine },
        workers: 1,
        prefilter,
        ..InputOptions::default()
    })
}

/// Writes the events that were found.
struct Found {
    search: EventSearch,
    /// True if the places of matches are marked.
    marks: bool,
    scratch: MatcherScratch,
    out: Vec<u8>,
}

impl Found {
    fn new(search: EventSearch) -> Found {
        Found { search, marks: true, scratch: MatcherScratch::default(), out: Vec::new() }
    }

    fn write(&mut self, records: &[u8], to: &mut impl Write) -> io::Result<()> {
        match self.marks {
            true => self.write_marked(records, to)?,
            false => to.write_all(records)?,
        }
        to.flush()
    }

    /// Writes events, one a line, with the places of matches marked.
    fn write_marked(&mut self, records: &[u8], to: &mut impl Write) -> io::Result<()> {
        self.out.clear();
        for record in records.split_inclusive(|byte| *byte == b'\n') {
            // Events are UTF-8: they were checked.
            let Ok(text) = std::str::from_utf8(record) else { continue };
            let mut at = 0;
            for place in self.search.places(text, &mut self.scratch) {
                self.out.extend_from_slice(&record[at..place.start]);
                self.out.extend_from_slice(MARK.0.as_bytes());
                self.out.extend_from_slice(&record[place.start..place.end]);
                self.out.extend_from_slice(MARK.1.as_bytes());
                at = place.end;
            }
            self.out.extend_from_slice(&record[at..]);
        }
        to.write_all(&self.out)
    }
}

//! A query of a file or of standard input, run in this process.

use std::{
    fs,
    ops::ControlFlow,
    path::Path as FilePath,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::Context;
use swiftwater_engine::{
    Emit, EngineConfig, EngineError, ErrorKind, InputError, InputOptions, InputSource, InputSummary,
    run_input,
};
use swiftwater_event::{CheckLimits, Clock, Path, StreamName};
use swiftwater_lang::{Dialect, Schema};
use swiftwater_server::wire;

use super::{Answer, WRONG_QUERY};
use crate::{
    args::QueryArgs,
    exit::{Failure, Outcome},
    input_file::{self, Counted, Packing, Place, StopReading},
    output::{Meta, grouped},
    progress::Progress,
    signals,
    stdio::complain,
};

/// What `STREAM()` means here.
const INPUT_STREAM: &str = "input";

/// Runs the query over the input, and writes the answer.
pub(super) fn run(args: &QueryArgs, text: &str, place: &Place, clock: Arc<dyn Clock>) -> Outcome {
    let options = options(args)?;
    let stop = StopReading::default();
    let opened = open(place, &stop)?;
    if matches!(place, Place::Stdin) {
        // The input then ends here, and the query gives its final result.
        let stop = stop.clone();
        signals::on_interrupt(move || stop.stop()).context("cannot catch signals")?;
    }
    let progress = Progress::bytes(opened.bytes, args.quiet);
    let read = opened.read;
    let mut answer = Answer::new(args);
    let mut failure = None;
    let mut on_emit = |emit: Emit| match progress.suspend(|| write(&mut answer, &emit)) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failure = Some(error);
            ControlFlow::Break(())
        }
    };
    let mut on_progress =
        |looked_at: u64| progress.set(read.as_ref().map_or(looked_at, |read| read.load(Ordering::Relaxed)));
    let ran = run_input(opened.source, text, &options, clock, &mut on_progress, &mut on_emit);
    progress.finish();
    if let Some(failure) = failure {
        return Err(failure);
    }
    let summary = ran.map_err(|error| refused(error, place))?;
    let status = answer.end()?;
    tell_rejections(&summary, place);
    if args.strict && summary.rejected > 0 { Ok(ExitCode::from(1)) } else { Ok(status) }
}

fn options(args: &QueryArgs) -> anyhow::Result<InputOptions> {
    let time_field = match &args.time_field {
        Some(text) => Some(Path::parse(text).with_context(|| format!("`{text}` is not a path of a field"))?),
        None => None,
    };
    Ok(InputOptions {
        config: EngineConfig {
            shards: args.shards.map_or(0, usize::from),
            default_stream: StreamName::new(INPUT_STREAM).ok(),
            ..EngineConfig::default()
        },
        check: CheckLimits::default(),
        dialect: if args.bullet { Dialect::Bullet } else { Dialect::Native },
        schema: args.types.as_deref().map(schema).transpose()?,
        time_field,
        times: args.times,
    })
}

fn schema(path: &FilePath) -> anyhow::Result<Arc<Schema>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let schema =
        Schema::from_json(&text).with_context(|| format!("cannot read types from {}", path.display()))?;
    Ok(Arc::new(schema))
}

/// An input, and how far it was read as it lies there, where that is not what the engine sees.
struct Opened {
    source: InputSource,
    bytes: Option<u64>,
    read: Option<Arc<AtomicU64>>,
}

fn open(place: &Place, stop: &StopReading) -> anyhow::Result<Opened> {
    if let Place::File(path) = place
        && let Some(bytes) = input_file::map(path)?
    {
        return Ok(Opened { bytes: Some(bytes.len() as u64), source: InputSource::Bytes(bytes), read: None });
    }
    let input = input_file::open(place, stop)?;
    if input.packing == Packing::None {
        return Ok(Opened { source: InputSource::Reader(input.reader), bytes: input.bytes, read: None });
    }
    let read = Arc::default();
    let unpacked = input.packing.unpack(Counted::new(input.reader, &read));
    let reader = unpacked.with_context(|| format!("cannot unpack {}", place.name()))?;
    Ok(Opened { source: InputSource::Reader(reader), bytes: input.bytes, read: Some(read) })
}

fn write(answer: &mut Answer, emit: &Emit) -> Result<(), Failure> {
    let mut meta_text = Vec::new();
    wire::write_meta(&emit.meta, &mut meta_text);
    let meta_text = String::from_utf8_lossy(&meta_text);
    let mut meta: Meta = serde_json::from_str(&meta_text).context("the answer's meta cannot be read")?;
    meta.query.columns =
        emit.meta.query.columns.as_ref().map(|names| names.iter().map(ToString::to_string).collect());
    answer.emit(&emit.records.text, &meta_text, meta)
}

fn refused(error: InputError, place: &Place) -> Failure {
    match error {
        InputError::Engine(error) => {
            let code = if error.kind() == ErrorKind::Invalid { WRONG_QUERY } else { 1 };
            let hint = match &error {
                EngineError::Query(_) => String::new(),
                _ => error.hint().map_or_else(String::new, |hint| format!("\n{hint}")),
            };
            Failure::coded(code, anyhow::anyhow!("{error}{hint}"))
        }
        InputError::Read(error) => {
            anyhow::Error::new(error).context(format!("cannot read {} to its end", place.name())).into()
        }
    }
}

fn tell_rejections(summary: &InputSummary, place: &Place) {
    if summary.rejected == 0 {
        return;
    }
    let all = summary.accepted + summary.rejected;
    complain(&format!("{} of {} events were rejected:", grouped(summary.rejected), grouped(all)));
    for rejection in &summary.rejections {
        complain(&format!(
            "  {}:{}:{}: {}",
            place.name(),
            rejection.line,
            rejection.column,
            rejection.message
        ));
    }
    if summary.rejections.len() < summary.rejected as usize {
        complain(&format!("  and {} more", grouped(summary.rejected - summary.rejections.len() as u64)));
    }
}

//! Runs a query over a file or standard input in this process.

use std::{fs, ops::ControlFlow, path::Path as FilePath, process::ExitCode, sync::Arc};

use anyhow::Context;
use swiftwater_event::{CheckLimits, Clock, Path, StreamName};
use swiftwater_lang::{
    Dialect, ParseOptions, Schema,
    plan::{Explain, Literal},
};
use swiftwater_runtime::{
    Analysis, Emit, EngineConfig, InputOptions, Principal, QueryForm, Runtime, RuntimeError, SubmitOptions,
    run_input,
};
use swiftwater_server::wire;

use super::{
    Answer, bullet,
    opened::{failed, open, read_so_far, refused, report_rejections},
    parameter_values, print_text,
};
use crate::{
    args::QueryArgs,
    exit::{Failure, Outcome},
    ingest::DeclaredFields,
    input_file::{Place, StopReading},
    output::Meta,
    progress::Progress,
    settings::{Settings, Sources, environment, load},
    signals,
};

/// The stream that `STREAM()` means here.
const INPUT_STREAM: &str = "input";

/// Runs the query over the input, and writes the answer.
pub(super) fn run(args: &QueryArgs, text: &str, place: &Place, clock: Arc<dyn Clock>) -> Outcome {
    let options = options(args, text)?;
    let is_bullets = args.bullet && args.output.is_none();
    // Before the input is waited for.
    let mut analysis = None;
    match wants_explain(text, &options, &*clock) {
        Ok(Some(Explain::Plan)) => return print_text(&explain(text, &options, clock)?),
        Ok(Some(Explain::Analyze)) => {
            analysis = Some((Analysis::default(), explain(text, &options, Arc::clone(&clock))?));
        }
        Ok(None) => {}
        Err(error) if is_bullets => return bullet::refuse(&error),
        Err(error) => return Err(refused(error)),
    }
    let stop = StopReading::default();
    if matches!(place, Place::Stdin) {
        // The input then ends here, and the query gives its final result.
        let stop = stop.clone();
        signals::on_interrupt(move || stop.stop()).context("cannot catch signals")?;
    }
    if is_bullets {
        return bullet::run(args, text, place, &options, clock, &stop);
    }
    let opened = open(place, &stop, &declared(&options))?;
    let progress = Progress::bytes(opened.bytes, args.quiet);
    let (read, form) = (opened.read, opened.form);
    let mut answer = Answer::new(args.output, args.quiet);
    let mut failure = None;
    let mut on_emit = |emit: Emit| {
        if let Some((analysis, _)) = &mut analysis {
            analysis.add(emit);
            return ControlFlow::Continue(());
        }
        match progress.suspend(|| write(&mut answer, &emit)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let mut on_progress = |looked_at: u64| progress.set(read_so_far(read.as_ref(), looked_at));
    let ran = run_input(opened.source, text, &options, clock, &mut on_progress, &mut on_emit);
    progress.finish();
    if let Some(failure) = failure {
        return Err(failure);
    }
    let summary = ran.map_err(|error| failed(error, place))?;
    let status = match analysis {
        Some((analysis, plan)) => print_text(&analysis.report(plan))?,
        None => answer.end()?,
    };
    report_rejections(&summary, place, &form);
    if args.strict && summary.rejected > 0 { Ok(ExitCode::from(1)) } else { Ok(status) }
}

/// The declared types of the input's fields.
pub(super) fn declared(options: &InputOptions) -> DeclaredFields {
    let said = options.types.as_ref().or(options.schema.as_ref());
    said.into_iter().flat_map(|schema| schema.fields()).map(|(name, ty)| (name.into(), ty.clone())).collect()
}

/// Returns true if the plan is requested rather than the answer; refuses a text that cannot be parsed.
fn wants_explain(
    text: &str,
    options: &InputOptions,
    clock: &dyn Clock,
) -> Result<Option<Explain>, RuntimeError> {
    let parse_options = ParseOptions {
        schema: options.schema.as_deref(),
        types: options.types.as_deref(),
        parameters: &options.parameters,
        ..ParseOptions::new(options.dialect, clock.now())
    };
    let parsed = options.form.parse(text, &parse_options);
    parsed.map(|statement| statement.explain).map_err(RuntimeError::Query)
}

fn explain(text: &str, options: &InputOptions, clock: Arc<dyn Clock>) -> Result<String, Failure> {
    let runtime = Runtime::start(EngineConfig { shards: 1, ..options.config.clone() }, clock);
    let submit = SubmitOptions {
        dialect: options.dialect,
        schema: options.schema.clone(),
        types: options.types.clone(),
        parameters: options.parameters.clone(),
        form: options.form,
        ..SubmitOptions::default()
    };
    runtime.explain(&Principal::local(), text, &submit).map_err(refused)
}

fn options(args: &QueryArgs, text: &str) -> anyhow::Result<InputOptions> {
    let time_field = match &args.time_field {
        Some(text) => Some(Path::parse(text).with_context(|| format!("`{text}` is not a path of a field"))?),
        None => None,
    };
    let settings = limits()?;
    let types = args.types.as_deref().map(schema).transpose()?;
    // Bullet's records have types of their own, and its queries may be checked against others.
    let (types, schema) = match (args.bullet, args.schema.as_deref().map(schema).transpose()?) {
        (true, schema) => (types, schema),
        (false, _) => (None, types),
    };
    Ok(InputOptions {
        config: EngineConfig {
            shards: if args.bullet { None } else { args.shards }.map_or(settings.engine.shards, usize::from),
            default_stream: StreamName::new(INPUT_STREAM).ok(),
            ..settings.engine
        },
        check: check_limits(&settings),
        dialect: if args.bullet { Dialect::Bullet } else { Dialect::Native },
        schema,
        parameters: parameters(args)?,
        form: QueryForm::of(text),
        time_field,
        times: args.times,
        types,
        workers: args.shards.map_or(1, usize::from),
        prefilter: None,
    })
}

/// The values of the query's parameters.
fn parameters(args: &QueryArgs) -> anyhow::Result<Vec<Literal>> {
    let literal = |(at, value)| {
        Literal::of_json(&value).map_err(|what| anyhow::anyhow!("parameter ${} is {what}", at + 1))
    };
    parameter_values(args).into_iter().enumerate().map(literal).collect()
}

/// The limits beyond which events are refused.
pub(crate) fn check_limits(settings: &Settings) -> CheckLimits {
    CheckLimits {
        event_bytes_max: settings.server.event_bytes_max,
        depth_max: settings.server.event_depth_max,
        ..CheckLimits::default()
    }
}

/// The limits of a server hold here, too, and are changed as there, by the environment.
pub(crate) fn limits() -> anyhow::Result<Settings> {
    Ok(load(&Sources { environment: environment(), ..Sources::default() })?.settings)
}

fn schema(path: &FilePath) -> anyhow::Result<Arc<Schema>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let schema =
        Schema::from_json(&text).with_context(|| format!("cannot read types from {}", path.display()))?;
    Ok(Arc::new(schema))
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

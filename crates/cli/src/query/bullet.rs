//! Runs a query over an input by Bullet's rules, and answers in Bullet's form: one emit per line, each with its kind.
//!
//! The input has no time, so its end is the end of the duration, and of every window by time. A refused query is answered on
//! standard output, too, as by Bullet's web service.

use std::{
    io::{self, Write},
    ops::ControlFlow,
    process::ExitCode,
    sync::Arc,
};

use swiftwater_event::Clock;
use swiftwater_runtime::{Emit, EndReason, ErrorKind, InputError, InputOptions, RuntimeError, run_input};
use swiftwater_server::wire;

use super::{WRONG_QUERY, opened};
use crate::{
    args::QueryArgs,
    exit::{Failure, Outcome},
    input_file::{Place, StopReading},
    progress::Progress,
    stdio,
};

/// Runs the query over the input, and writes what Bullet would answer.
pub(super) fn run(
    args: &QueryArgs,
    text: &str,
    place: &Place,
    options: &InputOptions,
    clock: Arc<dyn Clock>,
    stop: &StopReading,
) -> Outcome {
    let opened = opened::open(place, stop, &super::local::declared(options))?;
    let progress = Progress::bytes(opened.bytes, args.quiet);
    let mut out = io::stdout().lock();
    let mut line = Vec::new();
    let mut failure = None;
    let mut has_failed = false;
    let mut on_emit = |emit: Emit| {
        let reason = emit.meta.finished.as_ref().map(|finished| &finished.reason);
        has_failed |= matches!(reason, Some(EndReason::Failed(_)));
        line.clear();
        wire::write_bullet_line(&emit, &mut line);
        line.push(b'\n');
        match progress.suspend(|| out.write_all(&line).and_then(|()| out.flush())) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(Failure::output(error));
                ControlFlow::Break(())
            }
        }
    };
    let (read, form) = (opened.read, opened.form);
    let mut on_progress = |looked_at: u64| progress.set(opened::read_so_far(read.as_ref(), looked_at));
    let ran = run_input(opened.source, text, options, clock, &mut on_progress, &mut on_emit);
    progress.finish();
    drop(out);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let summary = match ran {
        Err(InputError::Engine(error)) if error.kind() == ErrorKind::Invalid => return refuse(&error),
        ran => ran.map_err(|error| opened::failed(error, place))?,
    };
    opened::report_rejections(&summary, place, &form);
    let is_wrong = has_failed || (args.strict && summary.rejected > 0);
    Ok(if is_wrong { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Writes the errors of a query that cannot be run.
pub(super) fn refuse(error: &RuntimeError) -> Outcome {
    let mut line = Vec::new();
    wire::write_bullet_errors(&wire::BulletError::of(error), &mut line);
    line.push(b'\n');
    stdio::write_out(|out| out.write_all(&line))?;
    Ok(ExitCode::from(WRONG_QUERY))
}

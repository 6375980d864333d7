//! A progress bar on standard error, if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::stdio::stderr_is_terminal;

/// A bar; none where nobody sees it.
pub(crate) struct Progress(ProgressBar);

const KNOWN: &str = "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {events} ETA {eta}";
const EVENTS: &str = "{wide_bar} {human_pos}/{human_len} events {per_sec} ETA {eta}";
const SECONDS: &str = "{wide_bar} {msg} {elapsed} ETA {eta}";
const OPEN: &str = "{spinner} {bytes} {bytes_per_sec} {events}";

impl Progress {
    /// Bytes of `all`, or of nobody knows how many.
    pub(crate) fn bytes(all: Option<u64>, quiet: bool) -> Progress {
        Progress::with_events(all, quiet, |_, _| {})
    }

    /// The same, with a word about events from `events`.
    pub(crate) fn with_events(
        all: Option<u64>,
        quiet: bool,
        events: impl Fn(&ProgressState, &mut dyn std::fmt::Write) + Clone + Send + Sync + 'static,
    ) -> Progress {
        if quiet || !stderr_is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(all, ProgressDrawTarget::stderr_with_hz(10));
        let style = ProgressStyle::with_template(if all.is_some() { KNOWN } else { OPEN });
        bar.set_style(style.expect("the templates are well formed").with_key("events", events));
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar)
    }

    /// A progress bar of counted objects, which the template names.
    fn counted(all: u64, quiet: bool, template: &'static str) -> Progress {
        if quiet || !stderr_is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(Some(all), ProgressDrawTarget::stderr_with_hz(10));
        bar.set_style(ProgressStyle::with_template(template).expect("the templates are well formed"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar)
    }

    /// A progress bar of events.
    pub(crate) fn events(all: u64, quiet: bool) -> Progress {
        Progress::counted(all, quiet, EVENTS)
    }

    /// Seconds that something is expected to take.
    pub(crate) fn seconds(all: u64, quiet: bool) -> Progress {
        Progress::counted(all, quiet, SECONDS)
    }

    /// Shows the present action.
    pub(crate) fn set_status(&self, what: String) {
        self.0.set_message(what);
    }

    /// Sets the progress so far, in bytes or counted objects.
    pub(crate) fn set(&self, done: u64) {
        self.0.set_position(done);
    }

    /// Runs a function on the same terminal, with the bar hidden.
    pub(crate) fn suspend<T>(&self, then: impl FnOnce() -> T) -> T {
        self.0.suspend(then)
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

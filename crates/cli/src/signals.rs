//! Catches the signals Ctrl-C, SIGTERM, and SIGHUP, which a terminal sends when it closes.

use std::{future::Future, io};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit status of a process that a person interrupted, as shells give it.
pub(crate) const INTERRUPTED: u8 = 130;

/// The signals that ask the process to end.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    /// The signal; none if the process was started so that it ignores it, as `nohup` does.
    hangup: Option<Signal>,
}

impl Interrupts {
    /// Catches the signals, which then no longer end the process by themselves. Needs a tokio runtime.
    pub(crate) fn catch() -> io::Result<Interrupts> {
        Ok(Interrupts {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: match ignores_hangup() {
                true => None,
                false => Some(signal(SignalKind::hangup())?),
            },
        })
    }

    /// The next of them; answers its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            () = received(&mut self.hangup) => "SIGHUP",
        }
    }
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => _ = signal.recv().await,
        None => std::future::pending().await,
    }
}

/// Returns true if the process has ignored SIGHUP since it was started, according to the kernel (proc_pid_status(5),
/// `SigIgn`).
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // Signal 1 is the lowest bit.
    mask & 1 == 1
}

/// A runtime for talking to a server: all on this thread.
pub(crate) fn client_runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Runs `then` on a thread of its own at the first signal; a second one ends the process at once.
pub(crate) fn on_interrupt(then: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let runtime = client_runtime()?;
    let interrupts = runtime.block_on(async { Interrupts::catch() })?;
    let watch = move || {
        runtime.block_on(ended_by(interrupts, async { then() }));
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(watch).map(drop)
}

async fn ended_by(mut interrupts: Interrupts, then: impl Future<Output = ()>) {
    interrupts.next().await;
    then.await;
    interrupts.next().await;
    std::process::exit(INTERRUPTED.into());
}

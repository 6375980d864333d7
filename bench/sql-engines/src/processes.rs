//! Child processes, and the processor time that they have used.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

/// The unit of times in /proc: `USER_HZ`, which is 100 on every Linux that programs see.
const TICKS_PER_SECOND: f64 = 100.0;

const START_MAX: Duration = Duration::from_secs(60);

/// A child that is killed when it is dropped. Its errors go to a log.
pub(crate) struct Process {
    child: Child,
    log: String,
}

impl Process {
    pub(crate) fn start(command: &mut Command, log: &Path) -> anyhow::Result<Process> {
        let file = fs::File::create(log).with_context(|| format!("log {}", log.display()))?;
        let child = command.stderr(file).spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Process { child, log: log.display().to_string() })
    }

    /// Starts a child with output that goes to its log, too.
    pub(crate) fn start_silent(command: &mut Command, log: &Path) -> anyhow::Result<Process> {
        Self::start(command.stdin(Stdio::null()).stdout(Stdio::null()), log)
    }

    pub(crate) fn pipes(&mut self) -> anyhow::Result<(ChildStdin, ChildStdout)> {
        Ok((
            self.child.stdin.take().context("no standard input")?,
            self.child.stdout.take().context("no output")?,
        ))
    }

    /// Waits until it listens at an address.
    pub(crate) fn wait_for(&mut self, address: &str) -> anyhow::Result<()> {
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("a process ended with {status}; its log is {}", self.log);
            }
            if began.elapsed() > START_MAX {
                bail!("a process does not listen on {address} after {START_MAX:?}; its log is {}", self.log);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The user and system time so far, in seconds.
    pub(crate) fn processor_seconds(&self) -> anyhow::Result<f64> {
        let path = format!("/proc/{}/stat", self.child.id());
        let stat = fs::read_to_string(&path).with_context(|| format!("{path}; the log is {}", self.log))?;
        // The name in brackets may have spaces. `utime` and `stime` are the fields 14 and 15.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok());
        let (Some(user), Some(system)) = (ticks(11), ticks(12)) else { bail!("{path} has no times: {stat}") };
        Ok((user + system) / TICKS_PER_SECOND)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

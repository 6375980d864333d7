//! Runs the binary as people and scripts do: with arguments, standard input, signals; returns its output.

#![allow(dead_code, reason = "each test program uses its own part")]
#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

pub(crate) mod garbage;
pub(crate) mod http;
pub(crate) mod tortured;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdout, Command, Output, Stdio},
    thread::JoinHandle,
    time::Duration,
};

use swiftwater_event::{Clock, SystemClock};

/// Time limit after which a test fails; a busy machine is slow, and in a long run there is more to catch up with.
fn patience() -> Duration {
    Duration::from_secs(if tortured::soak_seconds().is_some() { 300 } else { 30 })
}

/// The binary, with nothing of this environment that it reads. `SWIFTWATER_BIN` names another one than was built.
pub(crate) fn swiftwater(args: &[&str]) -> Command {
    let binary = std::env::var_os("SWIFTWATER_BIN");
    let mut command = Command::new(binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_swiftwater").into()));
    command.args(args).stdin(Stdio::null());
    clear_environment(&mut command);
    command
}

fn clear_environment(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let of_ours = ["SWIFTWATER", "AWS_"].iter().any(|start| name.to_string_lossy().starts_with(start));
        if of_ours || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct ProcessOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for ProcessOutput {
    fn from(output: Output) -> ProcessOutput {
        ProcessOutput {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs to the end, with nothing on standard input.
pub(crate) fn run(args: &[&str]) -> ProcessOutput {
    swiftwater(args).output().unwrap().into()
}

/// Runs to the end, with a pipe on standard input.
pub(crate) fn run_with(args: &[&str], input: &[u8]) -> ProcessOutput {
    let mut command = swiftwater(args);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A process that finds a fault before its input's end does not read on.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let ran = child.wait_with_output().unwrap().into();
    writer.join().unwrap();
    ran
}

/// A running process; killed when it is dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) out: BufReader<ChildStdout>,
    /// Its standard error, which is read as it comes: a process whose pipe is full waits.
    errors: Option<JoinHandle<String>>,
}

impl Running {
    pub(crate) fn start(args: &[&str]) -> Running {
        Running::spawn(swiftwater(args))
    }

    /// Starts it by another program, which runs the command.
    pub(crate) fn start_by(args: &[&str], by: impl FnOnce(&mut Command) -> Command) -> Running {
        let mut command = by(&mut swiftwater(args));
        command.stdin(Stdio::null());
        clear_environment(&mut command);
        Running::spawn(command)
    }

    fn spawn(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = child.stderr.take().unwrap();
        let errors = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stderr.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Running { child, out, errors: Some(errors) }
    }

    /// The next line of output, without its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        if line.is_empty() {
            panic!("the process ended: {}", self.errors());
        }
        line.trim_end().to_owned()
    }

    /// All that it has written on standard error, once it has ended.
    pub(crate) fn errors(&mut self) -> String {
        self.errors.take().map(|errors| errors.join().unwrap()).unwrap_or_default()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// The rest of its output, and its exit code.
    pub(crate) fn end(mut self) -> ProcessOutput {
        let mut out = String::new();
        self.out.read_to_string(&mut out).unwrap();
        let err = self.errors();
        ProcessOutput { code: self.child.wait().unwrap().code(), out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server of its own for a test.
pub(crate) struct TestServer {
    pub(crate) running: Running,
    /// `http://127.0.0.1:…`
    pub(crate) url: String,
}

impl TestServer {
    pub(crate) fn start(args: &[&str]) -> TestServer {
        Self::start_as(&["serve", "--listen", "127.0.0.1:0", "--log", "warn"], args)
    }

    pub(crate) fn start_as(command: &[&str], args: &[&str]) -> TestServer {
        let mut running = Running::start(&[command, args].concat());
        let line = running.line();
        let url =
            line.strip_prefix("listening on ").unwrap_or_else(|| panic!("not ready: {line}")).to_owned();
        TestServer { running, url }
    }

    /// The body of an answer.
    /// Over a data directory, with settings under which much happens in little time.
    pub(crate) fn over(data: &Path) -> TestServer {
        Self::over_with(data, &[])
    }

    pub(crate) fn over_with(data: &Path, more: &[&str]) -> TestServer {
        let args = [
            "--data",
            data.to_str().expect("a path of tests is text"),
            "--store.commit-interval-ms",
            "50",
            "--data.checkpoint-interval-ms",
            "20",
            "--data.log-free-bytes-min",
            "0",
            "--views.commit-interval-ms",
            "30",
        ];
        TestServer::start(&[&args, more].concat())
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let authority = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(authority).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Waits until an answer's body has this in it.
    pub(crate) fn wait_for(&self, path: &str, text: &str) {
        until(&format!("{path} to show {text}"), || self.get(path).contains(text));
    }

    pub(crate) fn ingest(&self, stream: &str, events: &str) -> ProcessOutput {
        run_with(&["ingest", "--server", &self.url, stream], events.as_bytes())
    }
}

/// Waits for something to become true.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let clock = SystemClock::new();
    while !is_so() {
        assert!(clock.monotonic_nanos() < patience().as_nanos() as u64, "waited too long for {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Seconds that something took.
pub(crate) fn seconds<T>(action: impl FnOnce() -> T) -> (f64, T) {
    let clock = SystemClock::new();
    let result = action();
    (clock.monotonic_nanos() as f64 / 1e9, result)
}

/// Waits until a process has its own way with SIGINT, as the kernel tells it.
pub(crate) fn until_interrupts_are_caught(id: u32) {
    until("signals to be caught", || {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
        // Signal 2 is bit 1.
        caught & 2 != 0
    });
}

//! Runs the examples of README.md against the built binary: every ` ```sh ` block, in order, from the project's root.
//!
//! A comment on the line before a block may say how:
//!
//! ```text
//! <!-- example: server -->           it starts the server; the test has started the demo on a port of its own instead
//! <!-- example: until 3 lines -->    it goes on for ever: done when it has printed three lines
//! <!-- example: not run: why -->     counted as ignored
//! ```
//!
//! Any other block must end by itself within [`PATIENCE`], with exit code 0. `127.0.0.1:8080` and `localhost:8080` are
//! replaced by the test server's address, and SWIFTWATER_SERVER tells `swiftwater query` and its like to ask it.
//!
//! The binary is the one that SWIFTWATER_BIN names, or else built here; where that fails, all examples are ignored and
//! counted so. This is a test of its own kind (`harness = false`), because libtest cannot say that a test was skipped.

#![expect(clippy::print_stdout, reason = "this is a test runner, and prints like one")]

use std::{
    error::Error,
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::Duration,
};

use swiftwater_event::{Clock, SystemClock};

const PATIENCE: Duration = Duration::from_secs(60);

type Outcome = Result<(), Box<dyn Error>>;

/// How a block is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mode {
    ToEnd,
    Server,
    UntilLines(usize),
    NotRun(String),
}

/// One ` ```sh ` block.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Example {
    /// Of its first line, from 1.
    line: usize,
    mode: Mode,
    script: String,
}

fn mode(comment: &str) -> Result<Mode, String> {
    if comment == "server" {
        return Ok(Mode::Server);
    }
    if let Some(why) = comment.strip_prefix("not run: ") {
        return Ok(Mode::NotRun(why.to_owned()));
    }
    let lines = comment.strip_prefix("until ").and_then(|rest| rest.strip_suffix(" lines"));
    lines.and_then(|count| count.parse().ok()).map(Mode::UntilLines).ok_or_else(|| format!("`{comment}`?"))
}

fn examples(markdown: &str) -> Result<Vec<Example>, String> {
    let mut examples = Vec::new();
    let mut next_mode = Mode::ToEnd;
    let mut lines = markdown.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let comment = line.strip_prefix("<!-- example: ").and_then(|rest| rest.strip_suffix(" -->"));
        if let Some(comment) = comment {
            next_mode = mode(comment).map_err(|error| format!("README.md:{}: {error}", at + 1))?;
        } else if let Some(language) = line.strip_prefix("```") {
            let body: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```")).collect();
            let mode = std::mem::replace(&mut next_mode, Mode::ToEnd);
            if language == "sh" {
                examples.push(Example { line: at + 2, mode, script: body.join("\n") });
            }
        }
    }
    Ok(examples)
}

/// A child process with all that it starts; killed when dropped.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(command: &mut Command) -> Result<Running, Box<dyn Error>> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let (sender, lines) = mpsc::channel();
        let stdout = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn std::io::Read + Send>);
        let stderr = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn std::io::Read + Send>);
        for (prefix, pipe) in [("", stdout), ("stderr: ", stderr)] {
            let sender = sender.clone();
            let Some(pipe) = pipe else { continue };
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    if sender.send(format!("{prefix}{line}")).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Running { child, lines })
    }

    /// Reads what it prints until it has printed `lines_wanted` lines, or has ended; then its exit must be a success.
    fn read(&mut self, lines_wanted: Option<usize>) -> Outcome {
        let clock = SystemClock::new();
        let mut said = Vec::new();
        let mut printed = 0;
        loop {
            let waited = Duration::from_nanos(clock.monotonic_nanos());
            let Some(left) = PATIENCE.checked_sub(waited) else {
                return Err(format!("not done after {PATIENCE:?}; it said:\n{}", said.join("\n")).into());
            };
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    printed += usize::from(!line.starts_with("stderr: "));
                    said.push(line);
                    if lines_wanted.is_some_and(|wanted| printed >= wanted) {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = self.child.wait()?;
        match lines_wanted {
            Some(wanted) => {
                Err(format!("ended after {printed} of {wanted} lines:\n{}", said.join("\n")).into())
            }
            None if status.success() => Ok(()),
            None => Err(format!("{status}; it said:\n{}", said.join("\n")).into()),
        }
    }
}

impl Running {
    /// Where a server listens, as it says on starting.
    fn address(&mut self) -> Result<String, Box<dyn Error>> {
        let mut said = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            if let Some((_, address)) = line.split_once("listening on http://") {
                return Ok(address.trim().trim_end_matches('/').to_owned());
            }
            said.push(line);
        }
        Err(format!("the server does not say where it listens:\n{}", said.join("\n")).into())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let group = format!("-{}", self.child.id());
            // An error means that it has ended meanwhile.
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            let _ = self.child.wait();
        }
    }
}

/// The demo server, and a directory where the binary is called `swiftwater`.
struct Stage {
    _server: Running,
    address: String,
    path: std::ffi::OsString,
    root: PathBuf,
}

impl Stage {
    fn set(binary: &Path, root: &Path) -> Result<Stage, Box<dyn Error>> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
        fs::create_dir_all(&folder)?;
        let link = folder.join("swiftwater");
        if fs::symlink_metadata(&link).is_ok() {
            fs::remove_file(&link)?;
        }
        std::os::unix::fs::symlink(binary, &link)?;
        let mut path = folder.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());

        let mut server = Running::start(Command::new(binary).args(["demo", "--listen", "127.0.0.1:0"]))?;
        let address = server.address()?;
        Ok(Stage { _server: server, address, path, root: root.to_owned() })
    }

    fn run(&self, example: &Example) -> Outcome {
        let lines_wanted = match &example.mode {
            Mode::Server | Mode::NotRun(_) => return Ok(()),
            Mode::ToEnd => None,
            Mode::UntilLines(count) => Some(*count),
        };
        let script = example.script.replace("127.0.0.1:8080", &self.address);
        let script = script
            .replace("localhost:8080", &self.address)
            .replace("target/release/swiftwater", "swiftwater");
        let mut command = Command::new("sh");
        command.args(["-euc", &script]).current_dir(&self.root).env("PATH", &self.path);
        command.env("SWIFTWATER_SERVER", format!("http://{}", self.address));
        Running::start(&mut command)?.read(lines_wanted)
    }
}

/// The binary to try, or why there is none.
fn binary() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("SWIFTWATER_BIN") {
        return fs::canonicalize(&path)
            .map_err(|error| format!("SWIFTWATER_BIN: {}: {error}", path.display()));
    }
    let mut build = Command::new(env!("CARGO"));
    // The whole workspace with its tests, because that is what `cargo test --workspace` has just built: without them the
    // features of some dependency would be others, and most of them built again.
    build.args(["build", "--workspace", "--bins", "--tests", "--message-format", "json"]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    // What cargo tells a test of its package: build scripts that look at it (ring's does) would find it changed, and
    // everything above them would be built again, here and in the next build.
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("CARGO_PKG_") || name_text.starts_with("CARGO_MANIFEST_") {
            build.env_remove(&name);
        }
    }
    let output = build.current_dir(env!("CARGO_MANIFEST_DIR")).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err("the binary does not build".to_owned());
    }
    let messages = output.stdout.split(|&byte| byte == b'\n');
    let mut executables = messages.filter_map(|line| {
        let message: serde_json::Value = serde_json::from_slice(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    });
    executables
        .find(|path| path.file_stem().is_some_and(|name| name == "swiftwater"))
        .ok_or("no binary".to_owned())
}

fn examples_are_found_with_their_modes() {
    let markdown = "# X\n<!-- example: server -->\n```sh\nmake run\n```\n```json\n{}\n```\n\
                    <!-- example: until 3 lines -->\n```sh\na\nb\n```\n<!-- example: not run: because -->\n```sh\n```\n\
                    ```sh\nc\n```\n";
    let example = |line, mode, script: &str| Example { line, mode, script: script.to_owned() };
    assert_eq!(
        examples(markdown),
        Ok(vec![
            example(4, Mode::Server, "make run"),
            example(11, Mode::UntilLines(3), "a\nb"),
            example(16, Mode::NotRun("because".to_owned()), ""),
            example(18, Mode::ToEnd, "c"),
        ])
    );
    assert_eq!(examples("<!-- example: sometimes -->\n"), Err("README.md:1: `sometimes`?".to_owned()));
}

fn failing_example_is_seen() {
    let run = |script: &str, lines| {
        Running::start(Command::new("sh").args(["-euc", script])).and_then(|mut running| running.read(lines))
    };
    assert!(run("true", None).is_ok());
    assert!(run("false; true", None).is_err());
    assert!(run("echo 1; echo 2; exec sleep 1000", Some(2)).is_ok());
    assert!(run("echo 1", Some(2)).is_err());
}

#[derive(Default)]
struct Count {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Count {
    fn passed(&mut self, name: &str) {
        self.passed += 1;
        println!("test {name} ... ok");
    }

    fn ignored(&mut self, name: &str, why: &str) {
        self.ignored += 1;
        println!("test {name} ... ignored, {why}");
    }

    fn failed(&mut self, name: &str, error: &dyn std::fmt::Display) {
        self.failed += 1;
        println!("test {name} ... FAILED\n{error}\n");
    }
}

fn run_all(count: &mut Count) -> Outcome {
    // These end the run by a panic.
    examples_are_found_with_their_modes();
    count.passed("examples_are_found_with_their_modes");
    failing_example_is_seen();
    count.passed("failing_example_is_seen");

    let root = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))?;
    let examples = examples(&fs::read_to_string(root.join("README.md"))?)?;
    if examples.iter().all(|example| matches!(example.mode, Mode::Server | Mode::NotRun(_))) {
        return Err("README.md shows nothing that can be run".into());
    }
    let binary = binary();
    let stage = match &binary {
        Ok(binary) => Some(Stage::set(binary, &root)?),
        Err(_) => None,
    };
    for example in &examples {
        let name = format!("README.md:{}", example.line);
        match (&example.mode, &stage, &binary) {
            (Mode::NotRun(why), _, _) => count.ignored(&name, why),
            (_, None, Err(why)) => count.ignored(&name, why),
            (_, None, Ok(_)) => count.failed(&name, &"no server"),
            (_, Some(stage), _) => match stage.run(example) {
                Ok(()) => count.passed(&name),
                Err(error) => count.failed(&name, &error),
            },
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    if std::env::args().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    println!("\nrunning the examples of README.md");
    let mut count = Count::default();
    if let Err(error) = run_all(&mut count) {
        count.failed("README.md", &error);
    }
    let Count { passed, failed, ignored } = count;
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {result}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; 0 filtered out\n"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

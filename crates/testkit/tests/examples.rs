//! Tests the examples of README.md and of `docs/` against the built binary, each page's in order, as a reader would run
//! them.
//!
//! README.md's ` ```sh ` blocks run from the project's root, beside the demo. Each page of `docs/`, in whatever folder, has
//! a fresh server and an empty folder of its own. Its ` ```sql ` blocks are run by `swiftwater sql`. Its ` ```bql ` blocks
//! are submitted to the server as queries that stay. Its ` ```toml ` blocks are read as settings files by `swiftwater serve
//! --print-config`, and its ` ```sh ` blocks run in the folder. ` ```json ` and ` ```ndjson ` blocks are parsed. [`SHOWN`]
//! lists the languages whose blocks are not run, each with the reason; a block of any other language fails the test.
//!
//! A comment on the line before a block may select another mode:
//!
//! ```text
//! <!-- example: server -->           its first line starts the server: the test has started one, with that line's flags
//! <!-- example: until 3 lines -->    it never ends: done when it has printed three lines
//! <!-- example: not run: why -->     counted as ignored
//! ```
//!
//! Any other block must end by itself within [`PATIENCE`], with exit code 0. Addresses and paths are replaced by those of
//! the test ([`Stage::script`]), and large numbers of events by small ones. SWIFTWATER_SERVER directs `swiftwater query` and
//! similar commands to that server.
//!
//! The binary is the one that SWIFTWATER_BIN names, or otherwise built here; if that fails, all examples are ignored and
//! counted so. This is a test of its own kind (`harness = false`), because libtest cannot report that a test was skipped.

#![expect(clippy::print_stdout, reason = "this is a test runner, and prints like one")]

use std::{
    error::Error,
    fs,
    io::{self, BufRead, BufReader},
    net::TcpListener,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::Duration,
};

use swiftwater_event::{Clock, SystemClock};

const PATIENCE: Duration = Duration::from_secs(60);

type Outcome = Result<(), Box<dyn Error>>;

/// The way a block is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mode {
    ToEnd,
    Server,
    UntilLines(usize),
    NotRun(String),
}

/// The language of a block that is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Shell,
    Sql,
    Query,
    /// A settings file.
    Settings,
    /// One JSON value, for which no server is needed.
    Json,
    /// A JSON value a line.
    JsonLines,
    /// The block is only shown: its mode has the reason.
    Shown,
}

/// The languages whose blocks are not run here, each with the reason.
const SHOWN: [(&str, &str); 4] = [
    ("text", "output or a picture"),
    ("nginx", "crates/cli/tests/proxies.rs runs it"),
    ("haproxy", "crates/cli/tests/proxies.rs runs it"),
    ("yaml", "crates/cli/tests/proxies.rs reads it and asks its probes"),
];

impl Language {
    /// The language that the word behind a block's three backticks names.
    fn named(word: &str) -> Option<Language> {
        match word {
            "sh" => Some(Language::Shell),
            "sql" => Some(Language::Sql),
            "bql" => Some(Language::Query),
            "toml" => Some(Language::Settings),
            "json" => Some(Language::Json),
            "ndjson" => Some(Language::JsonLines),
            _ => SHOWN.iter().any(|(shown, _)| *shown == word).then_some(Language::Shown),
        }
    }
}

/// One block.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Example {
    language: Language,
    /// Number of its first line, from 1.
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

fn examples(page: &str, markdown: &str) -> Result<Vec<Example>, String> {
    let mut examples = Vec::new();
    let mut next_mode = Mode::ToEnd;
    let mut lines = markdown.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let comment = line.strip_prefix("<!-- example: ").and_then(|rest| rest.strip_suffix(" -->"));
        if let Some(comment) = comment {
            next_mode = mode(comment).map_err(|error| format!("{page}:{}: {error}", at + 1))?;
        } else if line.trim_start().starts_with("```") && !line.starts_with("```") {
            return Err(format!("{page}:{}: an indented block is not run", at + 1));
        } else if let Some(word) = line.strip_prefix("```") {
            let language = Language::named(word)
                .ok_or_else(|| format!("{page}:{}: blocks of `{word}` are not run, see SHOWN", at + 1))?;
            let body: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```")).collect();
            let mut mode = std::mem::replace(&mut next_mode, Mode::ToEnd);
            if let Some((_, why)) = SHOWN.iter().find(|(shown, _)| *shown == word) {
                mode = Mode::NotRun((*why).to_owned());
            }
            examples.push(Example { language, line: at + 2, mode, script: body.join("\n") });
        }
    }
    Ok(examples)
}

/// Checks that every value of a block is JSON.
fn parsed(example: &Example) -> Outcome {
    let values = match example.language {
        Language::JsonLines => example.script.lines().collect(),
        _ => vec![example.script.as_str()],
    };
    for value in values {
        serde_json::from_str::<serde_json::Value>(value).map_err(|error| format!("{error}: {value}"))?;
    }
    Ok(())
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
    /// The address that a server prints when it starts.
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

/// A page's server, and where its examples run.
struct Stage {
    _server: Running,
    /// Texts of the pages, each with the one that is meant here.
    replaced: Vec<(String, String)>,
    address: String,
    path: std::ffi::OsString,
    folder: Folder,
}

/// The folder where examples run.
struct Folder {
    path: PathBuf,
    /// True for a page's own folder, which goes with it: a server's log alone takes 128 MiB.
    scratch: bool,
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.scratch {
            // The next run empties it if this fails.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A directory where the binary is called `swiftwater`, before all others.
fn path(binary: &Path) -> Result<std::ffi::OsString, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples");
    fs::create_dir_all(&folder)?;
    let link = folder.join("swiftwater");
    if fs::symlink_metadata(&link).is_ok() {
        fs::remove_file(&link)?;
    }
    std::os::unix::fs::symlink(binary, &link)?;
    let mut path = folder.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    Ok(path)
}

/// An empty folder for a page.
fn folder_of(page: &str) -> Result<Folder, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages").join(page);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(Folder { path: folder, scratch: true })
}

impl Stage {
    /// The demo, in the project's root.
    fn of_readme(binary: &Path, root: &Path) -> Result<Stage, Box<dyn Error>> {
        let server = Running::start(Command::new(binary).args(["demo", "--listen", "127.0.0.1:0"]))?;
        let replaced = vec![("target/quick/swiftwater".to_owned(), "swiftwater".to_owned())];
        Stage::beside(server, replaced, binary, Folder { path: root.to_owned(), scratch: false })
    }

    /// A server that stores, with the flags of the page's own line that starts one.
    fn of_page(binary: &Path, page: &str, examples: &[Example]) -> Result<Stage, Box<dyn Error>> {
        let folder = folder_of(page)?;
        let mut replaced = vec![
            ("/mnt/backups".to_owned(), folder.path.join("backups").to_string_lossy().into_owned()),
            ("~/".to_owned(), format!("{}/", folder.path.to_string_lossy())),
            // So many events that a debug build makes them at once.
            ("1_000_000".to_owned(), "1_000".to_owned()),
            ("--queries 50000".to_owned(), "--queries 500".to_owned()),
        ];
        // Ports that a page names, but the server's own; the system picks others, which were free a moment ago.
        for port in ["6514", "5514"] {
            let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            replaced.push((port.to_owned(), free.to_string()));
        }
        let mut server = Command::new(binary);
        server.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path.join("data"));
        let line = examples.iter().find(|example| example.mode == Mode::Server);
        let line = line.and_then(|example| example.script.lines().next()).unwrap_or_default();
        let line = line.split_once("serve").map_or("", |(_, flags)| flags);
        let line = line.split_once(" #").map_or(line, |(flags, _)| flags);
        let mut flags = line.split_whitespace();
        while let Some(flag) = flags.next() {
            if flag == "--data" {
                flags.next();
                continue;
            }
            if flag == "…" {
                continue;
            }
            server.arg(replaced.iter().fold(flag.to_owned(), |flag, (page, here)| flag.replace(page, here)));
        }
        Stage::beside(Running::start(&mut server)?, replaced, binary, folder)
    }

    fn beside(
        mut server: Running,
        mut replaced: Vec<(String, String)>,
        binary: &Path,
        folder: Folder,
    ) -> Result<Stage, Box<dyn Error>> {
        let address = server.address()?;
        for named in ["127.0.0.1:8080", "localhost:8080"] {
            replaced.push((named.to_owned(), address.clone()));
        }
        Ok(Stage { _server: server, replaced, address, path: path(binary)?, folder })
    }

    /// An example's text as it is run here.
    fn script(&self, text: &str) -> String {
        self.replaced.iter().fold(text.to_owned(), |text, (page, here)| text.replace(page, here))
    }

    fn run(&self, example: &Example) -> Outcome {
        let lines_wanted = match &example.mode {
            Mode::NotRun(_) => return Ok(()),
            Mode::Server | Mode::ToEnd => None,
            Mode::UntilLines(count) => Some(*count),
        };
        let mut text = self.script(&example.script);
        if example.mode == Mode::Server {
            // The rest of the block goes on beside the server.
            text = text.split_once('\n').map_or(String::new(), |(_, rest)| rest.to_owned());
        }
        let block = self.folder.path.join("block");
        let script = match example.language {
            Language::Shell => text,
            Language::Settings => {
                fs::write(&block, text)?;
                "swiftwater serve --config block --print-config".to_owned()
            }
            Language::Json | Language::JsonLines | Language::Shown => return Ok(()),
            Language::Sql => {
                fs::write(&block, text)?;
                "swiftwater sql --file block".to_owned()
            }
            Language::Query => {
                fs::write(&block, text)?;
                "curl -sS --fail-with-body -H 'content-type: text/plain' --data-binary @block \
                 \"$SWIFTWATER_SERVER/v1/queries?detach=true\""
                    .to_owned()
            }
        };
        let mut command = Command::new("sh");
        command.args(["-euc", &script]).current_dir(&self.folder.path).env("PATH", &self.path);
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
    // The variables that cargo sets for a test of its package are removed: build scripts that read them (ring's
    // does) would find them changed, and everything above them would be built again, here and in the next build.
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
    let markdown = "# X\n<!-- example: server -->\n```sh\nmake run\n```\n```json\n{}\n```\n```text\n1\n```\n\
                    <!-- example: until 3 lines -->\n```sh\na\nb\n```\n<!-- example: not run: because -->\n```sql\n```\n\
                    ```bql\nc\n```\n";
    let example =
        |language, line, mode, script: &str| Example { language, line, mode, script: script.to_owned() };
    assert_eq!(
        examples("x.md", markdown),
        Ok(vec![
            example(Language::Shell, 4, Mode::Server, "make run"),
            example(Language::Json, 7, Mode::ToEnd, "{}"),
            example(Language::Shown, 10, Mode::NotRun("output or a picture".to_owned()), "1"),
            example(Language::Shell, 14, Mode::UntilLines(3), "a\nb"),
            example(Language::Sql, 19, Mode::NotRun("because".to_owned()), ""),
            example(Language::Query, 21, Mode::ToEnd, "c"),
        ])
    );
    for refused in ["```\na\n```\n", "```python\na\n```\n", "- a\n  ```sh\n  b\n  ```\n"] {
        assert!(examples("x.md", refused).is_err(), "{refused}");
    }
    assert_eq!(examples("x.md", "<!-- example: sometimes -->\n"), Err("x.md:1: `sometimes`?".to_owned()));
}

fn failing_example_is_seen() {
    let json = |language, script: &str| {
        parsed(&Example { language, line: 1, mode: Mode::ToEnd, script: script.to_owned() })
    };
    assert!(json(Language::Json, "{\n}").is_ok() && json(Language::JsonLines, "{}\n1").is_ok());
    assert!(json(Language::Json, "{}\n1").is_err() && json(Language::JsonLines, "{\n}").is_err());
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

/// The Markdown files of a folder below the root and of those in it, as paths from the root.
fn pages(root: &Path, folder: &str) -> io::Result<Vec<String>> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            pages.extend(self::pages(root, &path)?);
        } else if path.ends_with(".md") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(pages)
}

fn run_all(count: &mut Count) -> Outcome {
    // These end the run by a panic.
    examples_are_found_with_their_modes();
    count.passed("examples_are_found_with_their_modes");
    failing_example_is_seen();
    count.passed("failing_example_is_seen");

    let root = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))?;
    let binary = binary();
    let mut pages = vec!["README.md".to_owned()];
    pages.extend(self::pages(&root, "docs")?);
    for page in &pages {
        let examples = examples(page, &fs::read_to_string(root.join(page))?)?;
        run_page(count, page, &examples, &root, &binary)?;
    }
    if count.passed < 40 && binary.is_ok() {
        return Err(format!("{} examples are too few", count.passed).into());
    }
    Ok(())
}

fn run_page(
    count: &mut Count,
    page: &str,
    examples: &[Example],
    root: &Path,
    binary: &Result<PathBuf, String>,
) -> Outcome {
    if examples.iter().all(|example| matches!(example.mode, Mode::NotRun(_))) {
        examples.iter().for_each(|example| example.ignored(count, page));
        return Ok(());
    }
    let needs_server = |example: &Example| {
        !matches!(example.mode, Mode::NotRun(_))
            && !matches!(example.language, Language::Json | Language::JsonLines)
    };
    let stage = match binary {
        Ok(_) if !examples.iter().any(needs_server) => None,
        Ok(binary) if page == "README.md" => Some(Stage::of_readme(binary, root)?),
        Ok(binary) => Some(Stage::of_page(binary, page, examples)?),
        Err(_) => None,
    };
    for example in examples {
        let name = format!("{page}:{}", example.line);
        match (&example.mode, &stage, binary) {
            (Mode::NotRun(_), _, _) => example.ignored(count, page),
            _ if !needs_server(example) => match parsed(example) {
                Ok(()) => count.passed(&name),
                Err(error) => count.failed(&name, &error),
            },
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

impl Example {
    fn ignored(&self, count: &mut Count, page: &str) {
        if let Mode::NotRun(why) = &self.mode {
            count.ignored(&format!("{page}:{}", self.line), why);
        }
    }
}

fn main() -> ExitCode {
    if std::env::args().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    println!("\nrunning the examples of README.md and docs");
    let mut count = Count::default();
    if let Err(error) = run_all(&mut count) {
        count.failed("examples", &error);
    }
    let Count { passed, failed, ignored } = count;
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {result}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; 0 filtered out\n"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

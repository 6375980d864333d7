//! A server to measure: a child process of this same binary with its own data directory, or one that runs already.
//!
//! Sends it one request at a time, for the setup and the lookups of scenarios; [`super::feed`] and `swiftwater-load` send
//! the load.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use hyper::Method;
use serde_json::Value;
use tokio::runtime::Handle;

use super::scenario::Context;
use crate::client::{Client, Problem, full, read_all};

const READY: &str = "listening on ";
/// Lines of what a server said that are shown when it fails.
const LINES_SHOWN: usize = 5;

/// See the head of this module. A child ends with it, and its directory goes.
pub(super) struct Server {
    /// Its address.
    pub(super) address: SocketAddr,
    client: Client,
    runtime: Handle,
    child: Option<(Child, tempfile::TempDir)>,
}

impl Server {
    /// Starts one with these settings, as flags without their `--`; `is_stored`: over a data directory. If a server was
    /// given, it is used instead, provided that there are no settings.
    pub(super) fn start(context: &Context, settings: &[&str], is_stored: bool) -> anyhow::Result<Server> {
        let runtime = context.runtime.handle().clone();
        if let Some(url) = &context.given {
            ensure!(
                settings.is_empty(),
                "the scenario needs a server with its own settings ({}): leave --server out",
                settings.join(" ")
            );
            return Server::running(url, runtime);
        }
        let directory = tempfile::Builder::new().prefix("swiftwater-seeds-").tempdir_in(&context.directory);
        let directory = directory
            .with_context(|| format!("cannot make a directory in {}", context.directory.display()))?;
        Server::over(directory, runtime, settings, is_stored)
    }

    /// Starts one that only runs parts of this one's statements over several machines, with one thread; the address where it does.
    pub(super) fn worker(&self, context: &Context) -> anyhow::Result<(Server, String)> {
        let (_, directory) = self.child.as_ref().context("only a server of this command has workers")?;
        let tables = directory.path().join("data").join("tables");
        let address = free_address()?;
        let settings = [
            "sql-worker".to_owned(),
            format!("store.location={}", tables.display()),
            format!("sql.worker-listen={address}"),
            "sql.threads=1".to_owned(),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        Ok((Server::start(context, &settings, false)?, address))
    }

    /// Starts it again over its directory, with other settings.
    pub(super) fn again(mut self, settings: &[&str]) -> anyhow::Result<Server> {
        let (mut child, directory) =
            self.child.take().context("only a server of this command can restart")?;
        child.kill().context("the server cannot be stopped")?;
        child.wait().context("the server does not stop")?;
        Server::over(directory, self.runtime.clone(), settings, true)
    }

    fn over(
        directory: tempfile::TempDir,
        runtime: Handle,
        settings: &[&str],
        is_stored: bool,
    ) -> anyhow::Result<Server> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let said =
            File::create(directory.path().join("said.log")).context("cannot write the server's log")?;
        let mut command = Command::new(&program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn"]);
        if is_stored {
            command.arg("--data").arg(directory.path().join("data"));
        }
        command.args(settings.iter().map(|setting| format!("--{setting}")));
        // Neither a settings file nor the environment changes what is measured.
        command.current_dir(directory.path());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SWIFTWATER_") {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let line = ready(&mut child);
        let said = || fs::read_to_string(directory.path().join("said.log")).unwrap_or_default();
        let url = match line.as_deref().map(|line| line.trim().strip_prefix(READY)) {
            Ok(Some(url)) => url.to_owned(),
            Ok(None) | Err(_) => {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
                bail!("the server did not start: {}", last_lines(&said()));
            }
        };
        let mut server = Server::running(&url, runtime)?;
        server.child = Some((child, directory));
        Ok(server)
    }

    fn running(url: &str, runtime: Handle) -> anyhow::Result<Server> {
        let client = Client::new(url)?;
        let host = url.trim_start_matches("http://").trim_end_matches('/');
        let address = host.to_socket_addrs().ok().and_then(|mut all| all.next());
        let address = address.with_context(|| format!("`{url}` cannot be resolved"))?;
        let server = Server { address, client, runtime, child: None };
        server.ask(Method::GET, "/healthz", &[], Bytes::new())?;
        Ok(server)
    }

    /// The last warnings that it wrote; none where it is not a child of this process.
    pub(super) fn last_warnings(&self) -> Option<String> {
        let (_, directory) = self.child.as_ref()?;
        let said = fs::read_to_string(directory.path().join("said.log")).ok()?;
        Some(last_lines(&said)).filter(|lines| !lines.is_empty())
    }

    /// The bytes of its data directory; none where that is not ours.
    pub(super) fn disk_bytes(&self) -> Option<u64> {
        let (_, directory) = self.child.as_ref()?;
        Some(bytes_below(&directory.path().join("data")))
    }

    /// The client for connections of its own.
    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// One request; the answer's body if it went well.
    pub(super) fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Bytes> {
        let body = full(body);
        let (status, bytes) = self.runtime.block_on(async {
            let response = self.client.connect().await?.send(method.clone(), path, headers, body).await?;
            anyhow::Ok((response.status(), read_all(response).await?))
        })?;
        ensure!(status.is_success(), "{method} {path}: {}", Problem::read(status, &bytes).text(None));
        Ok(bytes)
    }

    /// The answer at a path, as JSON.
    pub(super) fn get(&self, path: &str) -> anyhow::Result<Value> {
        let bytes = self.ask(Method::GET, path, &[], Bytes::new())?;
        serde_json::from_slice(&bytes).with_context(|| format!("GET {path} is no JSON"))
    }

    /// Runs statements; rows of the last, an object each.
    pub(super) fn sql(&self, text: &str) -> anyhow::Result<Vec<Value>> {
        let headers = [("content-type", "text/plain"), ("accept", "application/x-ndjson")];
        let bytes = self.ask(Method::POST, "/v1/sql", &headers, text.to_owned())?;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).context("a row is no JSON")).collect()
    }

    /// Submits a detached live query; returns its id.
    pub(super) fn detach(&self, query: &str) -> anyhow::Result<String> {
        let headers = [("content-type", "text/plain")];
        let bytes = self.ask(Method::POST, "/v1/queries?detach=true", &headers, query.to_owned())?;
        let answer: Value = serde_json::from_slice(&bytes).context("no id of a query")?;
        answer["id"].as_str().map(str::to_owned).context("no id of a query")
    }

    /// Ends a query that was left standing; all its emits.
    pub(super) fn end(&self, id: &str) -> anyhow::Result<Vec<Value>> {
        self.ask(Method::DELETE, &format!("/v1/queries/{id}"), &[], Bytes::new())?;
        let path = format!("/v1/queries/{id}/results?after=0");
        let bytes = self.ask(Method::GET, &path, &[("accept", "application/x-ndjson")], Bytes::new())?;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).context("an emit is no JSON")).collect()
    }

    /// Events that a stream has taken; 0 where there is none yet.
    pub(super) fn events(&self, stream: &str) -> anyhow::Result<u64> {
        let all = self.get("/v1/streams")?;
        let streams = all["streams"].as_array().context("no list of streams")?;
        let it = streams.iter().find(|one| one["name"] == stream);
        Ok(it.and_then(|one| one["events"].as_u64()).unwrap_or(0))
    }

    /// All numbers that it tells of itself.
    pub(super) fn numbers(&self) -> anyhow::Result<Numbers> {
        let bytes = self.ask(Method::GET, "/metrics", &[], Bytes::new())?;
        Ok(Numbers::read(&String::from_utf8_lossy(&bytes)))
    }

    /// The most memory that it ever had, in bytes: as the system tells of a child, else what the server tells of now.
    pub(super) fn peak_bytes(&self) -> anyhow::Result<u64> {
        let peak = self.child.as_ref().and_then(|(child, _)| peak_of(child.id()));
        match peak {
            Some(bytes) => Ok(bytes),
            None => Ok(self.numbers()?.sum("process_resident_memory_bytes") as u64),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.child {
            // It may have ended by itself; then there is nothing to end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// An address of this machine that is free.
pub(super) fn free_address() -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
    Ok(listener.local_addr()?.to_string())
}

fn ready(child: &mut Child) -> anyhow::Result<String> {
    let out = child.stdout.take().context("the server's output was taken")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line).context("the server printed nothing")?;
    Ok(line)
}

fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

/// `VmHWM` of a process.
fn peak_of(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// The bytes of all files; files that disappear meanwhile do not count.
fn bytes_below(directory: &std::path::Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(facts) if facts.is_dir() => bytes_below(&entry.path()),
            Ok(facts) => facts.len(),
            Err(_) => 0,
        })
        .sum()
}

/// The values of `/metrics` at a moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Numbers(Vec<(String, String, f64)>);

impl Numbers {
    /// Reads lines `name{labels} number`.
    fn read(text: &str) -> Numbers {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let numbers = lines.filter_map(|line| {
            let (name, number) = line.rsplit_once(' ')?;
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            Some((name.to_owned(), labels.trim_end_matches('}').to_owned(), number.parse().ok()?))
        });
        Numbers(numbers.collect())
    }

    /// The sum of all numbers of a name.
    pub(super) fn sum(&self, name: &str) -> f64 {
        self.0.iter().filter(|(its, _, _)| its == name).map(|(_, _, number)| number).sum()
    }

    /// The sum of those with a label of a value.
    pub(super) fn sum_of(&self, name: &str, label: &str, value: &str) -> f64 {
        let label = format!("{label}=\"{value}\"");
        let of_name = self.0.iter().filter(|(its, labels, _)| its == name && labels.contains(&label));
        of_name.map(|(_, _, number)| number).sum()
    }

    /// Seconds of processor time that it had used.
    pub(super) fn cpu_seconds(&self) -> f64 {
        self.sum("process_cpu_seconds_total")
    }

    /// The time of each stage of the shards between two moments, as shares of all shards' time: `decode 31 %, …`.
    pub(super) fn busy_since(&self, before: &Numbers) -> String {
        let name = "swiftwater_shard_busy_seconds_total";
        let up =
            self.sum("swiftwater_shard_up_seconds_total") - before.sum("swiftwater_shard_up_seconds_total");
        let shares = swiftwater_engine::STAGES.iter().map(|stage| {
            let busy = self.sum_of(name, "stage", stage) - before.sum_of(name, "stage", stage);
            format!("{stage} {:.0} %", 100.0 * busy / up.max(1e-9))
        });
        shares.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_by_name_and_label() {
        let text = "# HELP a b\na{x=\"1\",stage=\"decode\"} 2\na{x=\"2\",stage=\"match\"} 3.5\nb 7\n";
        let numbers = Numbers::read(text);
        assert_eq!((numbers.sum("a"), numbers.sum("b"), numbers.sum("c")), (5.5, 7.0, 0.0));
        assert_eq!(numbers.sum_of("a", "stage", "match"), 3.5);
    }

    #[test]
    fn only_the_end_of_what_was_said_is_shown() {
        assert_eq!(last_lines("1\n2\n3\n4\n5\n6\n7"), "3\n4\n5\n6\n7");
        assert_eq!(last_lines(""), "");
    }
}

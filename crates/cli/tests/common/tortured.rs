//! Runs a server and watches it: its output, its memory, and whether it still answers.

#![allow(clippy::print_stderr, reason = "figures are shown beside a test that fails")]

use std::io::Write;

use serde_json::Value;

use super::{TestServer, http::Connection, until};

/// 1 MiB.
pub(crate) const MIB: u64 = 1 << 20;

/// The memory that a server may use on a machine of two cores, and on this one, where it has threads of its own for each
/// core: shards, workers, and the allocator's caches for them.
pub(crate) fn base(two_cores: u64, each_more: u64) -> u64 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    two_cores + cores.saturating_sub(2) * each_more
}

/// Duration of a soak test, if a long run is requested.
pub(crate) fn soak_seconds() -> Option<u64> {
    let text = std::env::var("SOAK_SECONDS").ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("SOAK_SECONDS is a number of seconds, not `{text}`")))
}

/// The amount of work: little within a change's tests, much in a long run.
pub(crate) fn amount(short: usize, long: usize) -> usize {
    if soak_seconds().is_some() { long } else { short }
}

/// The seed: `TORTURE_SEED`, or always the same. A test that fails shows it.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("TORTURE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    eprintln!("TORTURE_SEED={seed}");
    seed
}

/// Shows a figure: in a long run at once, otherwise beside a test that fails.
pub(crate) fn show(text: &str) {
    if soak_seconds().is_some() {
        // Not being able to show it changes nothing.
        let _ = writeln!(std::io::stderr(), "torture: {text}");
    } else {
        eprintln!("torture: {text}");
    }
}

/// Bytes of memory that a process holds, and the most that it held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

/// A server that must not have panicked at its end.
pub(crate) struct Tortured {
    server: TestServer,
    pub(crate) authority: String,
}

impl Tortured {
    pub(crate) fn start(args: &[&str]) -> Tortured {
        let server = TestServer::start(args);
        let authority = server.url.strip_prefix("http://").unwrap().to_owned();
        Tortured { server, authority }
    }

    pub(crate) fn url(&self) -> &str {
        &self.server.url
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(&self.authority).unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.connect().ask("GET", path, b"").unwrap().json()
    }

    /// Ends a query.
    pub(crate) fn delete(&self, id: &str) {
        let answer = self.connect().ask("DELETE", &format!("/v1/queries/{id}"), b"").unwrap();
        assert_eq!(answer.status, 204, "{}", String::from_utf8_lossy(&answer.body));
    }

    /// Queries that stand, and detached ones that wait for their reader.
    pub(crate) fn queries(&self) -> usize {
        let (mut count, mut after) = (0, String::new());
        loop {
            let page = self.get(&format!("/v1/queries?limit=10000{after}"));
            count += page["queries"].as_array().unwrap().len();
            match page["next"].as_str() {
                Some(id) => after = format!("&after={id}"),
                None => return count,
            }
        }
    }

    /// A query that is ended does not see what was taken but still waits.
    pub(crate) fn until_all_is_looked_at(&self) {
        until("every event to be looked at", || self.owned_bytes("pending") == 0);
    }

    pub(crate) fn until_no_query_stands(&self) {
        until("the last query to end", || self.queries() == 0);
        until("the last emit to be dropped", || self.owned_bytes("subscribers") == 0);
        self.until_all_is_looked_at();
        assert_eq!(self.owned_bytes("state"), 0);
    }

    /// Bytes that the server reports for an owner.
    pub(crate) fn owned_bytes(&self, owner: &str) -> u64 {
        let metrics = self.connect().ask("GET", "/metrics", b"").unwrap().body;
        let metrics = String::from_utf8(metrics).unwrap();
        let start = format!("swiftwater_memory_bytes{{owner=\"{owner}\"}} ");
        let number = metrics.lines().find_map(|line| line.strip_prefix(&start));
        number.unwrap_or_else(|| panic!("no {start}in {metrics}")).parse().unwrap()
    }

    /// The memory; none once the process has ended.
    pub(crate) fn memory(&self) -> Option<Memory> {
        let path = format!("/proc/{}/status", self.server.running.child.id());
        let status = std::fs::read_to_string(path).ok()?;
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
        };
        Some(Memory { now: bytes("VmRSS:")?, peak: bytes("VmHWM:")? })
    }

    /// Time of processors that the process has had, in the kernel's ticks; 0 once it has ended.
    pub(crate) fn cpu_ticks(&self) -> u64 {
        let path = format!("/proc/{}/stat", self.server.running.child.id());
        let stat = std::fs::read_to_string(path).unwrap_or_default();
        // Behind the name, which may hold anything: state is the 3rd field, user and system time the 14th and 15th.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
    }

    /// The peak begins anew at what the process holds now; where the kernel does not let it, the old one stays.
    pub(crate) fn forget_peak(&self) {
        let _ = std::fs::write(format!("/proc/{}/clear_refs", self.server.running.child.id()), "5");
    }

    /// The peak is shown, and is below a bound.
    pub(crate) fn check_peak(&self, what: &str, bound: u64) {
        let Memory { now, peak } = self.memory().unwrap();
        show(&format!(
            "{what}: {} MiB now, {} MiB at most, bound {} MiB",
            now / MIB,
            peak / MIB,
            bound / MIB
        ));
        assert!(peak < bound, "{what}: {peak} bytes, bound is {bound}");
    }

    pub(crate) fn signal(&self, name: &str) {
        self.server.running.signal(name);
    }

    /// Still answers, ends when it is told to, and has written nothing of a panic.
    pub(crate) fn ends_well(self) {
        assert_eq!(self.connect().ask("GET", "/healthz", b"").unwrap().body, b"ok\n");
        self.signal("TERM");
        self.has_ended_well();
    }

    pub(crate) fn has_ended_well(mut self) {
        until("the server to end", || self.server.running.child.try_wait().unwrap().is_some());
        let TestServer { running, .. } = self.server;
        let ran = running.end();
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
}

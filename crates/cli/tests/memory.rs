//! Tests the memory of random growing statements over small tables, against the real binary. For any statement, the memory
//! of the process rises by at most `sql.memory_bytes_max` for the running one, and 1 GiB. Each ends within 2 s of its
//! cancel.
//!
//! An answer and an error are both right; a crash, more memory, and a statement that continues are not. `TORTURE_SEED`
//! determines the statements. With `SOAK_SECONDS` set (`make torture`) there are more of them, for that long. Named attacks
//! are in the tests of the crate `sql`; these are for the attacks that nobody has thought of.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails a test, and it tells what it measured"
)]

mod common;

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    sync::mpsc,
    thread,
    time::Duration,
};

use common::tortured::{MIB, Tortured, seed, soak_seconds};
use swiftwater_event::{Clock, SystemClock};
use swiftwater_testkit::Rng;

/// Memory of one statement.
const STATEMENT_BYTES: u64 = 64 * MIB;
/// Memory that all statements may take beyond that.
const BEYOND_BYTES: u64 = 1 << 30;
/// Milliseconds that a cancelled statement may go on: three times as many where DataFusion is not optimized, beside other tests.
const END_MS_MAX: u64 = if cfg!(debug_assertions) { 6_000 } else { 2_000 };
/// Memory beyond which the server is killed, before the machine has no memory left; the test continues with another
/// one.
const GIVEN_UP_BYTES: u64 = 3 << 30;
const GIVEN_UP_MS: u64 = 20_000;
/// Milliseconds after which a statement is cancelled, in a short run and in a long one.
const RUN_MS: (u64, u64) = (300, 3_000);
/// Seconds of the short run.
const SHORT_SECONDS: u64 = 8;

/// Composes statements. `a` has 3,000 rows of `k` (unique), `g` (of 50 values), `s` (some 60 bytes), `d` (DOUBLE) and `l` (a list
/// of numbers); `b` has 60 rows of `k`, `g` and `s` of some 20 KB.
struct Statements {
    rng: Rng,
}

impl Statements {
    fn one(&mut self, from: &[&str]) -> String {
        self.rng.pick(from).to_owned()
    }

    /// Numbers of repetitions, or lengths.
    fn count(&mut self) -> String {
        self.one(&[
            "0",
            "1",
            "2",
            "3",
            "10",
            "20",
            "100",
            "300",
            "1000",
            "1700",
            "5000",
            "20000",
            "100000",
            "3000000",
            "20000000",
            "2147483647",
            "-1",
            "k",
            "k % 100",
            "g * 100",
            "NULL",
        ])
    }

    fn text(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.one(&["s", "s", "s", "s", "'z'", "''", "'wxyz'", "CAST(k AS VARCHAR)", "'ä漢'"]);
        }
        let below = depth - 1;
        let (a, count) = (self.text(below), self.count());
        match self.rng.below(31) {
            0..=3 => format!("repeat({a}, {count})"),
            4 | 5 => format!("replace({a}, {}, {})", self.pattern(), self.text(below)),
            6..=8 => format!("regexp_replace({a}, {}, {}, 'g')", self.regexp(), self.text(below)),
            9 => format!("regexp_replace({a}, {}, {})", self.regexp(), self.text(below)),
            10 => format!("lpad({a}, {count}, {})", self.text(below)),
            11 => format!("rpad({a}, {count}, {})", self.text(below)),
            12 => format!("translate({a}, {}, {})", self.text(below), self.text(below)),
            13 => format!("concat({a}, {}, {})", self.text(below), self.text(below)),
            14 => format!("concat_ws({a}, {}, {}, {})", self.text(below), self.text(below), self.text(0)),
            15 | 16 => format!("({a} || {})", self.text(below)),
            17 => format!(
                "{}({a})",
                self.one(&["upper", "lower", "reverse", "initcap", "btrim", "md5", "quote_ident"])
            ),
            18 => format!("encode({a}::bytea, '{}')", self.one(&["hex", "base64"])),
            19 => format!("array_to_string({}, {a})", self.list(below)),
            20 => format!("CAST({} AS VARCHAR)", self.list(below)),
            21 => format!("substr({a}, {}, {count})", self.number(0)),
            22 => format!("split_part({a}, {}, {})", self.pattern(), self.number(0)),
            23 => format!("overlay({a} placing {} from 2)", self.text(below)),
            24 => format!("coalesce(nullif({a}, {}), {})", self.text(below), self.text(0)),
            25 => format!("CASE WHEN {} THEN {a} ELSE {} END", self.condition(below), self.text(below)),
            26 => format!("(SELECT string_agg({}, ',') FROM a AS i WHERE i.g = x.g)", self.text(below)),
            27 => format!("regexp_match({a}, {})[1]", self.regexp()),
            28 => format!("to_hex({})", self.number(below)),
            29 => format!("left({a}, {count})"),
            _ => format!("string_to_array({a}, {})[1]", self.pattern()),
        }
    }

    fn pattern(&mut self) -> String {
        self.one(&["'a'", "''", "'z'", "' '", "'e'", "'0'", "s", "'no such'", "'漢'"])
    }

    fn regexp(&mut self) -> String {
        self.one(&[
            "'.'",
            "''",
            "'a|e|[0-9]'",
            "'(.)(.)'",
            "'.*'",
            "'(a*)*b'",
            "'\\w+'",
            "'(.{1,100}){1,50}'",
            "s",
            "'$'",
        ])
    }

    fn number(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.one(&["k", "g", "1", "7", "k % 7", "k * 1000", "-3", "100000"]);
        }
        let below = depth - 1;
        match self.rng.below(14) {
            0..=2 => format!("length({})", self.text(below)),
            3 => format!("octet_length({})", self.text(below)),
            4 | 5 => format!("levenshtein({}, {})", self.text(below), self.text(below)),
            6 | 7 => format!("cardinality({})", self.list(below)),
            8 => format!("strpos({}, {})", self.text(below), self.text(below)),
            9 => format!("(SELECT count(*) FROM a AS i WHERE i.k {} x.k)", self.one(&["<", "=", "<>", ">"])),
            10 => format!("(SELECT max(length({})) FROM a AS i WHERE i.g = x.g)", self.text(below)),
            11 => format!("regexp_count({}, {})", self.text(below), self.regexp()),
            12 => format!("array_position({}, {})", self.list(below), self.number(0)),
            _ => format!("({} + {})", self.number(below), self.number(below)),
        }
    }

    /// A list of numbers, or of texts.
    fn list(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.one(&["l", "l", "make_array(k, g)", "make_array(s, s)", "range(0, 10)"]);
        }
        let below = depth - 1;
        let (a, count) = (self.list(below), self.count());
        match self.rng.below(20) {
            0 | 1 => format!("array_repeat({}, {count})", self.number(below)),
            2 => format!("array_repeat({}, {count})", self.text(below)),
            3 => format!("flatten(array_repeat({a}, {count}))"),
            4 | 5 => format!("range({}, {count})", self.number(0)),
            6 => {
                format!("generate_series({}, {count}, {})", self.number(0), self.one(&["1", "3", "-1", "g"]))
            }
            7 => {
                format!("string_to_array({}, {})", self.text(below), self.one(&["NULL", "'a'", "''", "' '"]))
            }
            8 => format!("array_concat({a}, {})", self.list(below)),
            9 => format!("array_append({a}, {})", self.number(below)),
            10 => format!("array_resize({a}, {count})"),
            11 => format!("array_distinct({a})"),
            12 => format!("array_sort({a})"),
            13 => format!("array_union({a}, {})", self.list(below)),
            14 => format!("array_replace_all({a}, {}, {})", self.number(0), self.number(0)),
            15 => format!("(SELECT array_agg({}) FROM a AS i WHERE i.g = x.g)", self.number(0)),
            16 => format!("array_except({a}, {})", self.list(below)),
            17 => format!("array_reverse({a})"),
            18 => format!("array_intersect({a}, {})", self.list(below)),
            _ => format!("flatten(make_array({a}, {a}, {a}))"),
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        match self.rng.below(7) {
            0 => format!("{} > {}", self.number(depth), self.number(0)),
            1 => format!("{} LIKE {}", self.text(depth), self.one(&["'%a%b%c%d%e%'", "'%'", "s"])),
            2 => format!("{} ~ {}", self.text(depth), self.regexp()),
            3 => format!("{} <> {}", self.text(depth), self.text(depth)),
            4 => "x.k IN (SELECT i.k FROM a AS i WHERE i.g <= x.g)".to_owned(),
            5 => "EXISTS (SELECT 1 FROM a AS i WHERE i.g = x.g AND i.k > x.k)".to_owned(),
            _ => format!("{} IS NOT NULL", self.list(depth)),
        }
    }

    fn value(&mut self, depth: usize) -> String {
        match self.rng.below(5) {
            0 | 1 => self.text(depth),
            2 | 3 => self.list(depth),
            _ => self.number(depth),
        }
    }

    /// Rows of `x`, which has the columns of the tables.
    fn rows(&mut self) -> String {
        let table = self.one(&["a", "a", "a", "b"]);
        match self.rng.below(12) {
            0..=5 => format!("{table} AS x"),
            6 => format!("{table} AS x CROSS JOIN (SELECT k AS k2 FROM a) AS y"),
            7 => format!("{table} AS x JOIN (SELECT g AS g2, s AS s2 FROM a) AS y ON x.g = y.g2"),
            8 => format!("{table} AS x LEFT JOIN (SELECT k AS k2, s AS s2 FROM b) AS y ON x.k < y.k2"),
            9 => format!("(SELECT k, g, s, l, unnest({}) AS u FROM {table} AS x) AS x", self.list(2)),
            10 => format!(
                "{table} AS x CROSS JOIN generate_series(1, {}) AS n(n)",
                self.one(&["10", "1000", "100000", "1000000000"])
            ),
            _ => format!("(SELECT k, g, {} AS s, l FROM {table} AS x) AS x", self.text(1)),
        }
    }

    fn window(&mut self) -> String {
        let order = self.one(&[
            "ORDER BY x.k",
            "ORDER BY x.s",
            "PARTITION BY x.g ORDER BY x.k",
            "",
            "ORDER BY x.g, x.k DESC",
        ]);
        let frame = self.one(&[
            "",
            "ROWS BETWEEN 1000 PRECEDING AND 1000 FOLLOWING",
            "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
            "ROWS BETWEEN 10 PRECEDING AND CURRENT ROW",
            "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
        ]);
        format!("OVER ({order} {frame})")
    }

    fn aggregate(&mut self, depth: usize) -> String {
        match self.rng.below(12) {
            0 | 1 => format!("array_agg({})", self.value(depth)),
            2 => format!("array_agg(DISTINCT {})", self.text(depth)),
            3 => format!("array_agg({} ORDER BY {})", self.text(depth), self.value(depth)),
            4 | 5 => format!("string_agg({}, {})", self.text(depth), self.one(&["','", "'; and '", "''"])),
            6 => format!("count(DISTINCT {})", self.value(depth)),
            7 => format!("max({})", self.text(depth)),
            8 => format!("{}({})", self.one(&["first_value", "last_value", "min"]), self.text(depth)),
            9 => format!(
                "{}({})",
                self.one(&["median", "approx_distinct", "sum", "stddev"]),
                self.number(depth)
            ),
            10 => format!("approx_percentile_cont({}, 0.5)", self.number(depth)),
            _ => format!("nth_value({}, 3)", self.text(depth)),
        }
    }

    fn statement(&mut self) -> String {
        let depth = 1 + self.rng.below(3);
        let rows = self.rows();
        match self.rng.below(20) {
            0..=2 => format!("SELECT max(length({})) FROM {rows}", self.text(depth)),
            3 => format!("SELECT {}, {} FROM {rows}", self.value(depth), self.value(depth)),
            4 => format!("SELECT count(*) FROM {rows} WHERE {}", self.condition(depth)),
            5 | 6 => {
                let (call, window) = (self.aggregate(depth - 1), self.window());
                format!("SELECT count(*), max(c) FROM (SELECT {call} {window} AS c FROM {rows}) AS q")
            }
            7 => format!("SELECT {} {} AS c FROM {rows}", self.aggregate(depth - 1), self.window()),
            8 | 9 => {
                let sets = self.one(&["CUBE", "ROLLUP"]);
                let keys = 3 + self.rng.below(8);
                let keys: Vec<String> = (0..keys)
                    .map(|_| match self.rng.below(4) {
                        0 => self.value(depth - 1),
                        _ => format!("{} % {}", self.one(&["x.k", "x.g"]), 2 + self.rng.below(60)),
                    })
                    .collect();
                let call = self.aggregate(depth - 1);
                format!(
                    "SELECT count(*) FROM (SELECT {call} AS c FROM {rows} GROUP BY {sets} ({})) AS q",
                    keys.join(", ")
                )
            }
            10 => {
                let (a, b, c) = (self.value(depth - 1), self.value(depth - 1), self.value(depth - 1));
                format!(
                    "SELECT {} FROM {rows} GROUP BY GROUPING SETS (({a}, {b}), ({b}, {c}), ({a}), ({c}), ())",
                    self.aggregate(depth - 1)
                )
            }
            11 => format!("SELECT {} FROM {rows} GROUP BY {}", self.aggregate(depth), self.value(depth - 1)),
            12 => format!("SELECT DISTINCT {} AS v FROM {rows}", self.value(depth)),
            13 => format!(
                "SELECT * FROM (SELECT {} AS v FROM {rows}) AS q ORDER BY v {}",
                self.value(depth),
                self.one(&["", "LIMIT 10", "DESC LIMIT 100000", "LIMIT 10 OFFSET 100000"])
            ),
            14 | 15 => {
                let on = self.one(&["c0.g = c1.g", "c0.g < c1.g", "c0.v = c1.v", "c0.k + c1.k > 5"]);
                let more = self.one(&[
                    "",
                    " JOIN c AS c2 ON c1.g = c2.g",
                    " CROSS JOIN c AS c2",
                    " FULL JOIN c AS c2 ON c1.v = c2.v",
                ]);
                let what = self.one(&[
                    "count(*)",
                    "array_agg(c1.v)",
                    "c0.v, c1.v",
                    "count(DISTINCT c0.v)",
                    "max(c1.v)",
                ]);
                format!(
                    "WITH c AS (SELECT k, g, {} AS v FROM {rows}) SELECT {what} FROM c AS c0 JOIN c AS c1 ON {on}{more}",
                    self.value(depth - 1)
                )
            }
            16 => {
                let link = self.one(&[" UNION ALL ", " UNION ", " INTERSECT ", " EXCEPT "]);
                let parts = 2 + self.rng.below(30);
                let text = self.text(depth);
                vec![format!("SELECT {text} AS v FROM {rows}"); parts].join(&link)
            }
            17 => format!(
                "SELECT count(*), max(u) FROM (SELECT unnest({}) AS u FROM {rows}) AS q",
                self.list(depth)
            ),
            18 => format!(
                "WITH RECURSIVE r AS (SELECT 1 AS n, s AS t FROM {rows} UNION ALL SELECT n + 1, {} FROM r WHERE n < 40) \
                 SELECT max(length(t)) FROM r",
                self.one(&["t || t", "repeat(t, 3)", "replace(t, 'a', t)", "lpad(t, n * 100000)"])
            ),
            _ => format!(
                "SELECT count(*) FROM {rows} WHERE {} = (SELECT max({}) FROM a AS i WHERE i.g = x.g)",
                self.text(depth),
                self.text(depth - 1)
            ),
        }
    }
}

/// Runs a statement; the beginning of its answer, however long that is.
fn run(authority: &str, name: &str, text: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(authority) else { return "nobody answers".to_owned() };
    let fields = format!("host: {authority}\r\nconnection: close\r\nswiftwater-statement: {name}");
    let length = text.len();
    let sent = write!(stream, "POST /v1/sql HTTP/1.1\r\n{fields}\r\ncontent-length: {length}\r\n\r\n{text}");
    let (mut answer, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    // The rest goes by; a body that is broken off has ended as well.
    while let (true, Ok(read)) = (sent.is_ok(), stream.read(&mut piece)) {
        if read == 0 {
            break;
        }
        if answer.len() < 4096 {
            answer.extend_from_slice(&piece[..read]);
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[derive(Debug, Default)]
struct Measured {
    answered: u64,
    limits: u64,
    refused: u64,
    cancelled: u64,
    peak: u64,
    end_ms: u64,
    faults: Vec<String>,
}

impl Measured {
    fn count(&mut self, answer: &str, was_cancelled: bool) {
        let status = answer.split(' ').nth(1).unwrap_or("none");
        match status {
            _ if was_cancelled => self.cancelled += 1,
            "200" => self.answered += 1,
            "422" if answer.contains("sql.memory_bytes_max") => self.limits += 1,
            _ => self.refused += 1,
        }
    }
}

/// Cancels a statement, which may have ended meanwhile, or the server with it.
fn cancel(authority: &str, name: &str) {
    let Ok(mut stream) = TcpStream::connect(authority) else { return };
    let head = format!("DELETE /v1/sql/{name} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n");
    let waits = stream.set_read_timeout(Some(Duration::from_secs(1)));
    if waits.and_then(|()| stream.write_all(head.as_bytes())).is_ok() {
        // A request is not taken from a connection that is closed before it was read.
        let _ = stream.read(&mut [0; 64]);
    }
}

fn sql(server: &Tortured, text: &str) {
    let answer = server.connect().ask("POST", "/v1/sql", text.as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{text}: {}", String::from_utf8_lossy(&answer.body));
}

fn start(data: &Path) -> Tortured {
    Tortured::start(&[
        "--data",
        data.to_str().unwrap(),
        "--data.log-free-bytes-min",
        "0",
        "--sql.memory-bytes-max",
        "64MiB",
        "--sql.spill-bytes-max",
        "1GiB",
    ])
}

/// The end of a statement.
struct Ended {
    answer: String,
    was_cancelled: bool,
    /// Bytes that the process had at most, beyond those of its start.
    peak: u64,
    /// Milliseconds from the cancel, or from the answer, until nothing is computed any more.
    end_ms: u64,
    /// The server is gone, or was killed before it would take the machine.
    is_killed: bool,
}

/// Runs a statement and looks at the server meanwhile.
fn watch(server: &Tortured, (base, run_ms): (u64, u64), name: &str, text: &str) -> Ended {
    let clock = SystemClock::new();
    let now_ms = || clock.monotonic_nanos() / 1_000_000;
    server.forget_peak();
    let (sender, answers) = mpsc::channel();
    let asking = {
        let (authority, name, text) = (server.authority.clone(), name.to_owned(), text.to_owned());
        thread::spawn(move || sender.send(run(&authority, &name, &text)))
    };
    let (mut answer, mut cancelled_ms, mut peak, mut is_killed) = (None, None, 0, false);
    while answer.is_none() {
        answer = answers.recv_timeout(Duration::from_millis(5)).ok();
        let Some(memory) = server.memory() else {
            is_killed = true;
            break;
        };
        peak = memory.peak.saturating_sub(base).max(peak);
        let goes_on = cancelled_ms.is_some_and(|cancelled_ms| now_ms() > cancelled_ms + GIVEN_UP_MS);
        if goes_on || memory.now > base + GIVEN_UP_BYTES {
            server.signal("KILL");
            is_killed = true;
            break;
        }
        if answer.is_none() && cancelled_ms.is_none() && now_ms() > run_ms {
            cancelled_ms = Some(now_ms());
            cancel(&server.authority, name);
        }
    }
    let was_cancelled = cancelled_ms.is_some();
    let cancelled_ms = cancelled_ms.unwrap_or_else(now_ms);
    // The answer may be there before all threads of the statement have seen that it ended.
    let mut rested_ms = now_ms();
    while was_cancelled && !is_killed && now_ms() < cancelled_ms + GIVEN_UP_MS {
        let before = server.cpu_ticks();
        thread::park_timeout(Duration::from_millis(50));
        if server.cpu_ticks() <= before + 2 {
            break;
        }
        rested_ms = now_ms();
    }
    drop(asking.join());
    if let Some(memory) = server.memory() {
        peak = memory.peak.saturating_sub(base).max(peak);
    }
    let end_ms = rested_ms.saturating_sub(cancelled_ms);
    Ended { answer: answer.unwrap_or_default(), was_cancelled, peak, end_ms, is_killed }
}

#[test]
fn random_statements_stay_within_their_memory_and_end_when_they_are_cancelled() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut server = start(&data);
    sql(
        &server,
        "CREATE TABLE a AS SELECT value AS k, value % 50 AS g, \
         concat(md5(CAST(value AS VARCHAR)), ' ', md5(CAST(value % 99 AS VARCHAR))) AS s, value / 7.0 AS d, \
         make_array(value, value % 3, value % 7) AS l FROM generate_series(1, 3000)",
    );
    sql(
        &server,
        "CREATE TABLE b AS SELECT k, g, repeat(concat(s, k), 250 + k) AS s, d, l FROM a WHERE k <= 60",
    );
    let (seconds, run_ms) = match soak_seconds() {
        Some(seconds) => (seconds, RUN_MS.1),
        None => (SHORT_SECONDS, RUN_MS.0),
    };
    let clock = SystemClock::new();
    let mut statements = Statements { rng: Rng::new(seed()) };
    let mut base = server.memory().unwrap().now;
    let mut measured = Measured::default();
    let mut number = 0_u64;
    while clock.monotonic_nanos() / 1_000_000_000 < seconds {
        number += 1;
        let text = statements.statement();
        let ended = watch(&server, (base, run_ms), &format!("random-{number}"), &text);
        let Ended { answer, was_cancelled, peak, end_ms, is_killed } = ended;
        measured.count(&answer, was_cancelled);
        if std::env::var_os("SHOW_STATEMENTS").is_some() {
            let end: String =
                answer.rsplit("\r\n\r\n").next().unwrap_or_default().chars().take(300).collect();
            println!("{:>5} MiB {end_ms:>5} ms {was_cancelled} {text}\n    {end}", peak / MIB);
        }
        measured.peak = measured.peak.max(peak);
        measured.end_ms = measured.end_ms.max(end_ms);
        if is_killed || peak > STATEMENT_BYTES + BEYOND_BYTES || end_ms > END_MS_MAX || answer.is_empty() {
            let fault =
                format!("{} MiB more at most, ended {end_ms} ms after its cancel: {text}", peak / MIB);
            println!("{fault}");
            measured.faults.push(fault);
        }
        if is_killed {
            drop(server);
            server = start(&data);
            base = server.memory().unwrap().now;
        }
    }
    let Measured { answered, limits, refused, cancelled, peak, end_ms, faults } = measured;
    let told = format!(
        "{number} random statements: {answered} answered, {limits} beyond their memory, {refused} refused, {cancelled} \
         cancelled; {} MiB more at most, {end_ms} ms to end",
        peak / MIB
    );
    println!("{told}");
    assert!(answered > number / 20, "too few can be computed: {told}");
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    server.ends_well();
}

//! Tests with system calls that acknowledged events are durable. If a request waits for the disk, its record must be written
//! and the log's file synced before the first byte of the answer is sent.
//!
//! The real server runs under `strace`, while several clients send at the same time. If `strace` is not available, the test
//! reports that it skipped.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails a test, and it tells what it did"
)]

mod common;

use std::{collections::HashMap, path::Path, process::Command, thread};

use common::{Running, TestServer, http::Connection, until};

const CLIENTS: usize = 4;
const REQUESTS: usize = 25;

/// The calls by which a server writes, syncs and answers.
const CALLS: &str = "trace=fdatasync,fsync,write,writev,sendto,sendmsg,pwrite64,pwritev,pwritev2";

/// A system call, as it stands in a trace.
#[derive(Debug, Clone, PartialEq)]
struct Call {
    name: String,
    /// Its file: a path, or a socket.
    on: String,
    arguments: String,
    result: i64,
    /// The line in which it began, and that in which its result was known.
    began: usize,
    ended: usize,
}

impl Call {
    fn is_write(&self) -> bool {
        !self.is_sync()
    }

    fn is_sync(&self) -> bool {
        ["fdatasync", "fsync"].contains(&self.name.as_str())
    }
}

/// All calls that have ended: lines are `PID name(FD<WHAT>, …) = RESULT`, or such a one in two, where other threads came
/// in between: `… <unfinished ...>` and `PID <... name resumed>…`.
fn calls(trace: &str) -> Vec<Call> {
    let mut begun: HashMap<&str, (usize, String)> = HashMap::new();
    let mut calls = Vec::new();
    for (number, line) in trace.lines().enumerate() {
        let Some((thread, rest)) = line.trim_start().split_once(' ') else { continue };
        let rest = rest.trim_start();
        let (began, text) = if let Some(start) = rest.strip_suffix("<unfinished ...>") {
            begun.insert(thread, (number, start.trim_end().to_owned()));
            continue;
        } else if let Some((_, end)) = rest.strip_prefix("<... ").and_then(|rest| rest.split_once("resumed>"))
        {
            let Some((began, start)) = begun.remove(thread) else { continue };
            (began, start + end)
        } else {
            (number, rest.to_owned())
        };
        let (Some((name, _)), Some((inner, result))) = (text.split_once('('), text.rsplit_once(" = ")) else {
            continue;
        };
        let result = result.split(' ').next().unwrap_or_default().parse();
        let (Some((_, on)), Ok(result)) = (inner.split_once('<'), result) else { continue };
        let on = on.split_once('>').map_or(on, |(on, _)| on).to_owned();
        let arguments = inner.replace("\\\"", "\"");
        calls.push(Call { name: name.to_owned(), on, arguments, result, began, ended: number });
    }
    calls
}

/// A request that was acknowledged: what marks its event, and the offset that it was told.
type Told = (String, u64);

/// The fault of an acknowledgement; none if its event was synced before.
fn fault(calls: &[Call], (mark, offset): &Told) -> Option<String> {
    let marked = format!("\"mark\":\"{mark}\"");
    let is_record =
        |call: &&Call| call.is_write() && call.on.contains("/log/") && call.arguments.contains(&marked);
    let Some(record) = calls.iter().find(is_record) else {
        return Some(format!("{mark} was never written into the log"));
    };
    let told = [format!("\"offset\":{offset},"), format!("\"offset\":{offset}}}")];
    let is_answer = |call: &&Call| {
        call.is_write()
            && call.on.starts_with("socket:")
            && call.arguments.contains("HTTP/1.1 200 OK")
            && told.iter().any(|told| call.arguments.contains(told))
    };
    let Some(answer) = calls.iter().find(is_answer) else {
        return Some(format!("no answer tells of {mark}"));
    };
    let is_synced = calls.iter().any(|call| {
        call.is_sync()
            && call.on == record.on
            && call.result == 0
            && call.began > record.ended
            && call.ended < answer.began
    });
    let (written, answered) = (record.ended + 1, answer.began + 1);
    (!is_synced).then(|| {
        format!("{mark} was written in line {written} and answered in line {answered}: no sync lies between")
    })
}

/// Checks that this machine allows processes to be traced; the error has the reason.
fn can_trace(dir: &Path) -> Result<(), String> {
    let out = dir.join("probe");
    let probe =
        Command::new("strace").args(["-D", "-f", "--seccomp-bpf", "-o"]).arg(&out).arg("true").output();
    match probe {
        Err(error) => Err(format!("`strace` cannot be had: {error}")),
        Ok(output) if !output.status.success() => {
            Err(format!("`strace` may not trace: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
        Ok(_) => {
            until("the probe to be traced", || {
                std::fs::read_to_string(&out).is_ok_and(|text| text.contains("+++ exited"))
            });
            Ok(())
        }
    }
}

#[test]
fn no_acknowledgement_is_sent_before_its_record_is_synced() {
    let dir = tempfile::tempdir().unwrap();
    if let Err(why) = can_trace(dir.path()) {
        println!("skipped: 1 test, {why}");
        return;
    }
    let (trace, data) = (dir.path().join("trace"), dir.path().join("data"));
    let traced = |serve: &mut Command| {
        let mut command = Command::new("strace");
        command.args([
            "-D",
            "-f",
            "--seccomp-bpf",
            "-y",
            "-q",
            "-s",
            "8192",
            "-e",
            "signal=none",
            "-e",
            CALLS,
            "-o",
        ]);
        command.arg(&trace).arg(serve.get_program()).args(serve.get_args());
        command
    };
    let args = [
        "--data",
        data.to_str().unwrap(),
        "--data.log-compression",
        "none",
        "--data.log-free-bytes-min",
        "0",
    ];
    let mut running = Running::start_by(
        &[&["serve", "--listen", "127.0.0.1:0", "--log", "warn"][..], &args].concat(),
        traced,
    );
    let url = running.line().strip_prefix("listening on ").unwrap().to_owned();
    let server = TestServer { running, url };
    let authority = server.url.strip_prefix("http://").unwrap();
    let create = b"CREATE STREAM t (mark STRING)";
    let created = Connection::open(authority).unwrap().ask("POST", "/v1/sql", create).unwrap();
    assert_eq!(created.status, 200, "{}", String::from_utf8_lossy(&created.body));
    let client = |client: usize| -> Vec<Told> {
        let mut connection = Connection::open(authority).unwrap();
        let request = |number: usize| {
            let mark = format!("c{client}n{number}");
            let event = format!("{{\"mark\":\"{mark}\"}}");
            let path = "/v1/streams/t/events?ack=disk";
            let answer = connection.ask("POST", path, event.as_bytes()).unwrap();
            assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
            (mark, answer.json()["position"]["offset"].as_u64().unwrap())
        };
        (0..REQUESTS).map(request).collect()
    };
    let told: Vec<Told> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let id = server.running.child.id();
    server.running.signal("TERM");
    assert_eq!(server.running.end().code, Some(0));
    // The tracer ends after what it traces.
    let is_end = |line: &str| {
        line.strip_prefix(&id.to_string()).is_some_and(|line| line.trim_start() == "+++ exited with 0 +++")
    };
    let mut text = String::new();
    until("the trace to be whole", || {
        text = String::from_utf8_lossy(&std::fs::read(&trace).unwrap()).into_owned();
        text.lines().any(is_end)
    });
    let calls = calls(&text);
    let syncs = calls.iter().filter(|call| call.is_sync() && call.on.contains("/log/")).count();
    let faults: Vec<String> = told.iter().filter_map(|told| fault(&calls, told)).collect();
    assert_eq!(faults, [""; 0]);
    assert_eq!(told.len(), CLIENTS * REQUESTS);
    println!("{} acknowledgements, each after a sync; {syncs} syncs of the log", told.len());
}

/// A trace in which a record is written, perhaps synced, and acknowledged.
fn check(between: &[&str], expected: Option<&str>) {
    let log = "/data/log/00000001.log";
    let mut lines = vec![format!(
        "7 pwritev(9<{log}>, [{{iov_base=\"\\1\\2{{\\\"mark\\\":\\\"m\\\"}}\", iov_len=90}}], 1, 64) = 90"
    )];
    lines.extend(between.iter().map(|line| line.replace("LOG", log)));
    lines.push(
        "8 writev(12<socket:[77]>, [{iov_base=\"HTTP/1.1 200 OK\\r\\n\\r\\n\", iov_len=19}, \
         {iov_base=\"{\\\"accepted\\\":1,\\\"position\\\":{\\\"offset\\\":5,\\\"partition\\\":0}}\", iov_len=50}], 2) = 69"
            .to_owned(),
    );
    let found = fault(&calls(&lines.join("\n")), &("m".to_owned(), 5));
    assert_eq!(found.as_deref(), expected, "{lines:#?}");
}

#[test]
fn trace_tells_what_was_synced_before_it_was_acknowledged() {
    let early = Some("m was written in line 1 and answered in line 2: no sync lies between");
    let later = Some("m was written in line 1 and answered in line 3: no sync lies between");
    check(&["7 fdatasync(9<LOG>) = 0"], None);
    check(&["7 fdatasync(9<LOG> <unfinished ...>", "7 <... fdatasync resumed>) = 0"], None);
    check(&[], early);
    check(&["7 fdatasync(10</data/catalog/catalog.new>) = 0"], later);
    check(&["7 fdatasync(9<LOG>) = -1 EIO (Input/output error)"], later);
    check(&["7 fdatasync(9<LOG> <unfinished ...>"], later);
    // One that was under way when the record was written is not of it.
    let calls = calls(
        "6 fdatasync(9</d/log/1> <unfinished ...>\n\
         7 pwritev(9</d/log/1>, [{iov_base=\"{\\\"mark\\\":\\\"m\\\"}\", iov_len=9}], 1, 64) = 9\n\
         6 <... fdatasync resumed>)                 = 0\n\
         8 write(12<socket:[77]>, \"HTTP/1.1 200 OK\\r\\n\\r\\n{\\\"offset\\\":5}\", 33) = 33\n",
    );
    assert_eq!(calls.len(), 3);
    assert!(fault(&calls, &("m".to_owned(), 5)).is_some());
    assert_eq!(
        fault(&calls, &("other".to_owned(), 5)).as_deref(),
        Some("other was never written into the log")
    );
}

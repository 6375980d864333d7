//! Tests a server under heavy load: many requests at once, for long, from clients that break off, do not read or send
//! nonsense. At its end, each test checks that the server still answers, that it counted right, and that its memory stayed
//! within bounds.
//!
//! With `SOAK_SECONDS` set (`make torture`) the tests do more, and the last one runs for that long; without it, all of them
//! take seconds. `TORTURE_SEED` is the random seed.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use std::{
    collections::{HashSet, VecDeque},
    io::{Read, Write},
    process::Stdio,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

use common::{
    Running,
    garbage::{Attacker, gzip, zstd},
    http::{Connection, Results},
    seconds, swiftwater,
    tortured::{self, MIB, Tortured, amount, seed, show, soak_seconds},
    until,
};
use swiftwater_event::{Clock, SystemClock};
use swiftwater_testkit::Rng;

/// The memory of a server that does not depend on its input: the binary, stacks, buffers of a few connections, and
/// the allocator's caches for each thread.
fn base() -> u64 {
    tortured::base(256 * MIB, 64 * MIB)
}
/// The memory of one more connection while it sends: bytes read ahead, a piece, and one that waits for room.
const SENDER: u64 = 2 * MIB;

/// A line of about a hundred bytes.
fn event(number: usize) -> String {
    format!("{{\"n\":{number},\"user\":\"user-{}\",\"text\":\"{:060}\"}}\n", number % 1000, number)
}

fn events(from: usize, count: usize) -> Vec<u8> {
    (from..from + count).flat_map(|number| event(number).into_bytes()).collect()
}

/// The number in the column `n` of a result's one record.
fn count_in(emit: &serde_json::Value) -> Option<u64> {
    emit["records"][0]["n"].as_u64()
}

#[test]
fn a_body_of_a_gigabyte_is_counted_and_not_kept() {
    let server = Tortured::start(&["--engine.pending-bytes-max", "16MiB"]);
    let mut count = server.connect().query("SELECT COUNT(*) AS n FROM STREAM(s, MAX, TIME)").unwrap();
    let block_events = 10_000;
    let block = events(0, block_events);
    let blocks = amount(64 << 20, 1 << 30).div_ceil(block.len());
    let mut connection = server.connect();
    let (took, accepted) = seconds(|| {
        connection.write_head("POST", "/v1/streams/s/events", &["transfer-encoding: chunked"]).unwrap();
        for _ in 0..blocks {
            connection.write_chunk(&block).unwrap();
        }
        connection.write_chunk(b"").unwrap();
        connection.answer().unwrap().json()["accepted"].as_u64().unwrap()
    });
    assert_eq!(accepted, (blocks * block_events) as u64);
    show(&format!("one body: {:.1} MB/s", (blocks * block.len()) as f64 / 1e6 / took));
    server.until_all_is_looked_at();
    server.delete(&count.id);
    let mut counted = None;
    let meta = count.each(|emit| counted = count_in(emit).or(counted)).unwrap();
    assert_eq!((counted, meta["query"]["reason"].as_str()), (Some(accepted), Some("killed")));
    server.check_peak("one body", 16 * MIB + base());
    server.until_no_query_stands();
    server.ends_well();
}

#[test]
fn many_bodies_at_once_are_held_piece_by_piece() {
    let server = Tortured::start(&["--engine.pending-bytes-max", "16MiB"]);
    let mut count = server.connect().query("SELECT COUNT(*) AS n FROM STREAM(s, MAX, TIME)").unwrap();
    let (senders, blocks) = (60, amount(1, 200));
    let block = events(0, 10_000);
    thread::scope(|scope| {
        for _ in 0..senders {
            scope.spawn(|| {
                let mut connection = server.connect();
                let length = format!("content-length: {}", blocks * block.len());
                connection.write_head("POST", "/v1/streams/s/events", &[&length]).unwrap();
                (0..blocks).for_each(|_| connection.write(&block).unwrap());
                assert_eq!(connection.answer().unwrap().json()["accepted"], blocks * 10_000);
            });
        }
    });
    server.until_all_is_looked_at();
    server.delete(&count.id);
    let mut counted = None;
    count.each(|emit| counted = count_in(emit).or(counted)).unwrap();
    assert_eq!(counted, Some((senders * blocks * 10_000) as u64));
    server.check_peak("many bodies", 16 * MIB + base() + senders as u64 * SENDER);
    server.until_no_query_stands();
    server.ends_well();
}

#[test]
fn an_event_of_ten_megabytes_is_refused_and_not_kept() {
    let server = Tortured::start(&[]);
    let big = format!("{{\"text\":\"{}\"}}\n", "x".repeat(10 << 20));
    let mut connection = server.connect();
    let mut accepted = 0;
    let rounds = amount(10, 200);
    for round in 0..rounds {
        let body = [events(0, 100), big.clone().into_bytes(), events(0, 100 + round % 3)].concat();
        let told = connection.ask("POST", "/v1/streams/s/events", &body).unwrap().json();
        assert_eq!((&told["accepted"], &told["rejected"]), (&(200 + round % 3).into(), &1.into()));
        assert_eq!(told["errors"][0]["line"], 101);
        let message = told["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains("longer than 1048576 bytes"), "{message}");
        accepted += told["accepted"].as_u64().unwrap();
    }
    let answer = connection.ask("POST", "/v1/streams/s/events", big.as_bytes()).unwrap();
    assert_eq!((answer.status, answer.json()["setting"].as_str()), (413, Some("server.event_bytes_max")));
    // The limit itself is allowed.
    for (length, status) in [(1 << 20, 200), ((1 << 20) + 1, 413)] {
        let event = format!("{{\"text\":\"{}\"}}", "x".repeat(length - "{\"text\":\"\"}".len()));
        assert_eq!(connection.ask("POST", "/v1/streams/s/events", event.as_bytes()).unwrap().status, status);
    }
    let stream = server.get("/v1/streams/s");
    assert_eq!(stream["events"], accepted + 1);
    assert_eq!(stream["rejected"], rounds + 2);
    server.check_peak("long events", base());
    server.ends_well();
}

#[test]
fn garbage_is_answered_or_dropped_and_changes_nothing() {
    let server = Tortured::start(&["--engine.pending-bytes-max", "16MiB"]);
    let (seed, attackers, attacks) = (seed(), 12, amount(15, 2_000));
    let taken = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..attackers {
            let (authority, taken) = (&server.authority, &taken);
            scope.spawn(move || {
                let mut attacker = Attacker::new(seed * 1_000 + number, authority);
                (0..attacks).for_each(|_| attacker.attack());
                taken.fetch_add(attacker.accepted, Relaxed);
            });
        }
    });
    server.until_no_query_stands();
    // The counts of the server equal its answers, except for bodies whose answer nobody waited for.
    let streams = server.get("/v1/streams");
    let told_of = |name: &str| ["broken", "bombs", "mixed", "deep"].contains(&name);
    let streams = streams["streams"].as_array().unwrap();
    let events = streams.iter().filter(|stream| told_of(stream["name"].as_str().unwrap()));
    let events: u64 = events.map(|stream| stream["events"].as_u64().unwrap()).sum();
    assert_eq!(events, taken.into_inner());
    server.check_peak("garbage", 16 * MIB + base() + attackers * SENDER);
    server.ends_well();
}

#[test]
fn ten_thousand_queries_are_asked_answered_and_forgotten() {
    let server = Tortured::start(&[]);
    let mut after = Vec::new();
    for round in 0..amount(2, 10) {
        run_and_end_queries(&server, &format!("round-{round}"));
        after.push(server.memory().unwrap().now);
    }
    show(&format!("after each round: {:?} MiB", after.iter().map(|bytes| bytes / MIB).collect::<Vec<_>>()));
    // Each round has a stream of its own, and what was held for its queries stays with it, about 2 KiB for each. Right
    // would be that no round adds to what the first one left.
    let kept = (after.len() * amount(3_200, 20_500) * 3 * 1024) as u64;
    assert!(after[after.len() - 1] < after[0] + 64 * MIB + kept, "{after:?}");
    server.ends_well();
}

/// Starts queries, sends each its one event, and ends them all.
fn run_and_end_queries(server: &Tortured, stream: &str) {
    let standing = amount(1_000, 10_000);
    let (asked, streaming) = (amount(2_000, 10_000), amount(200, 500));
    let before = server.memory().unwrap().now;
    let text = |number: usize| {
        format!("SELECT n, user FROM STREAM(\"{stream}\", MAX, TIME) WHERE user = 'user-{number}'")
    };
    let submit = |from: usize, count: usize| -> Vec<(usize, String)> {
        let threads = 8;
        thread::scope(|scope| {
            let shares: Vec<_> = (0..threads)
                .map(|share| {
                    let text = &text;
                    scope.spawn(move || {
                        let mut connection = server.connect();
                        let mine = (from..from + count).filter(|number| number % threads == share);
                        let submit = |number| {
                            let text = text(number);
                            let answer =
                                connection.ask("POST", "/v1/queries?detach=true", text.as_bytes()).unwrap();
                            assert_eq!(answer.status, 201);
                            (number, answer.json()["id"].as_str().unwrap().to_owned())
                        };
                        mine.map(submit).collect::<Vec<_>>()
                    })
                })
                .collect();
            shares.into_iter().flat_map(|share| share.join().unwrap()).collect()
        })
    };
    let mut detached = submit(0, standing);
    let mut streams: Vec<(usize, Results)> = (standing..standing + streaming)
        .map(|number| (number, server.connect().query(&text(number)).unwrap()))
        .collect();
    let (took, more) = seconds(|| submit(standing + streaming, asked));
    show(&format!("{:.0} queries submitted a second over {standing} that stand", asked as f64 / took));
    detached.extend(more);
    assert_eq!(server.queries(), standing + streaming + asked);

    let all = standing + streaming + asked;
    let body: String =
        (0..all).map(|number| format!("{{\"n\":{number},\"user\":\"user-{number}\"}}\n")).collect();
    let answer =
        server.connect().ask("POST", &format!("/v1/streams/{stream}/events"), body.as_bytes()).unwrap();
    assert_eq!(answer.json()["accepted"], all);
    server.until_all_is_looked_at();
    for (number, results) in &mut streams {
        let emit = results.next().unwrap().unwrap();
        let record = serde_json::json!([{"n": number, "user": format!("user-{number}")}]);
        assert_eq!(emit["records"], record);
    }
    let mut connection = server.connect();
    let mut largest = 0;
    for (place, (number, id)) in detached.iter().enumerate() {
        if place % 1000 == 0 {
            largest = largest.max(server.memory().unwrap().now);
        }
        assert_eq!(connection.ask("DELETE", &format!("/v1/queries/{id}"), b"").unwrap().status, 204);
        let results = connection.ask("GET", &format!("/v1/queries/{id}/results"), b"").unwrap();
        let text = String::from_utf8(results.body).unwrap();
        let record = format!("{{\"records\":[{{\"n\":{number},\"user\":\"user-{number}\"}}],");
        assert!(text.starts_with(&record), "{text}");
        assert_eq!(text.matches("\"n\":").count(), 1, "{text}");
        assert!(text.contains("\"matched\":1,") && text.contains("\"reason\":\"killed\""), "{text}");
    }
    drop(streams);
    server.until_no_query_stands();
    let after = server.memory().unwrap();
    let of = |bytes: u64| bytes / MIB;
    show(&format!(
        "{all} queries: {} MiB before, {} MiB with them, {} MiB after",
        of(before),
        of(largest),
        of(after.now)
    ));
    server.check_peak("queries", 3 * base() + all as u64 * 16 * 1024);
}

/// A pair of clients that nothing may disturb: one sends numbered events, one reads them all.
struct Steady {
    results: Results,
    sender: Connection,
    sent: usize,
}

impl Steady {
    fn start(server: &Tortured) -> Steady {
        let results = server.connect().query("SELECT n FROM STREAM(steady, MAX, TIME)").unwrap();
        Steady { results, sender: server.connect(), sent: 0 }
    }

    /// Sends some events, and reads as many records, in order, of which none was dropped.
    fn round(&mut self) {
        let count = 50;
        let answer = self.sender.ask("POST", "/v1/streams/steady/events", &events(self.sent, count)).unwrap();
        assert_eq!(answer.json()["accepted"], count);
        let until = self.sent + count;
        while self.sent < until {
            let emit = self.results.next().unwrap().unwrap();
            assert_eq!(emit["meta"]["counts"]["dropped"], 0);
            for record in emit["records"].as_array().unwrap() {
                assert_eq!(record["n"], self.sent);
                self.sent += 1;
            }
        }
    }

    fn end(mut self, server: &Tortured) {
        server.delete(&self.results.id);
        let meta = self.results.each(|emit| assert_eq!(emit["records"], serde_json::json!([]))).unwrap();
        assert_eq!(meta["counts"]["matched"], self.sent);
        assert_eq!(server.get("/v1/streams/steady")["events"], self.sent);
    }
}

/// A client that asks or sends, and is gone in the middle of it.
fn disconnect_midway(rng: &mut Rng, authority: &str) {
    let mut connection = Connection::open(authority).unwrap();
    if rng.chance(0.4) {
        let body = events(0, 200);
        let length = format!("content-length: {}", body.len());
        connection.write_head("POST", "/v1/streams/gone/events", &[&length]).unwrap();
        connection.write(&body[..rng.below(body.len())]).unwrap();
        return;
    }
    let from = format!("FROM STREAM({}, MAX, TIME)", rng.pick(&["gone", "steady"]));
    let text = match rng.below(4) {
        0 => format!("SELECT * {from}"),
        1 => format!("SELECT user, COUNT(*) AS n {from} GROUP BY user"),
        2 => format!("SELECT COUNT(*) AS n {from} WINDOWING EVERY(20, TIME, ALL)"),
        _ => format!("SELECT * {from} WHERE n < 0"),
    };
    let accept = rng.pick(&["accept: */*", "accept: text/event-stream", "accept: application/json"]);
    connection.send("POST", "/v1/queries", &[accept], text.as_bytes()).unwrap();
    // It may have no answer yet: nobody waits longer than this before going.
    connection.reader.get_ref().set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let _ = connection.reader.read_exact(&mut vec![0; rng.below(2_000)]);
}

#[test]
fn clients_that_are_gone_leave_nothing_and_disturb_nobody() {
    let server = Tortured::start(&[]);
    let (seed, clients) = (seed(), amount(150, 5_000));
    let mut steady = Steady::start(&server);
    let running = AtomicU64::new(4);
    thread::scope(|scope| {
        for number in 0..4 {
            let (authority, running) = (&server.authority, &running);
            scope.spawn(move || {
                let mut rng = Rng::new(seed * 1_000 + number);
                (0..clients).for_each(|_| disconnect_midway(&mut rng, authority));
                running.fetch_sub(1, Relaxed);
            });
        }
        while running.load(Relaxed) > 0 {
            steady.round();
        }
    });
    until("only the steady query to stand", || server.queries() == 1);
    steady.round();
    show(&format!("{} clients gone, {} events beside them", 4 * clients, steady.sent));
    steady.end(&server);
    server.until_no_query_stands();
    server.check_peak("gone clients", base());
    server.ends_well();
}

#[test]
fn a_reader_that_does_not_read_holds_nobody_up() {
    let args = ["--engine.pending-bytes-max", "16MiB", "--engine.subscriber-bytes-max", "2MiB"];
    let server = Tortured::start(&args);
    let block_events = 5_000;
    let block = events(0, block_events);
    let blocks = amount(40, 600);
    let query = "SELECT * FROM STREAM(s, MAX, TIME)";
    let mut connection = server.connect();
    let mut send = || {
        let (took, ()) = seconds(|| {
            for _ in 0..blocks {
                connection.send("POST", "/v1/streams/s/events", &[], &block).unwrap();
                assert_eq!(connection.answer().unwrap().json()["accepted"], block_events);
            }
            server.until_all_is_looked_at();
        });
        took
    };
    let ends = |results: &mut Results| {
        let mut read = 0;
        let meta = results.each(|emit| read += emit["records"].as_array().unwrap().len()).unwrap();
        let count = |name: &str| meta["counts"][name].as_u64().unwrap() as usize;
        assert_eq!(count("matched"), blocks * block_events);
        assert_eq!(read + count("dropped"), blocks * block_events, "{meta}");
        count("dropped")
    };
    let mut reading = server.connect().query(query).unwrap();
    let id = reading.id.clone();
    let with_reader = thread::scope(|scope| {
        let reader = scope.spawn(|| ends(&mut reading));
        let took = send();
        server.delete(&id);
        reader.join().unwrap();
        took
    });
    let mut silent = server.connect().query(query).unwrap();
    let without_reader = send();
    show(&format!("{with_reader:.2} s with a reader, {without_reader:.2} s with one that does not read"));
    assert!(without_reader < with_reader * 3.0 + 1.0);
    server.check_peak("silent reader", 16 * MIB + base() + 8 * MIB);
    server.delete(&silent.id);
    let dropped = ends(&mut silent);
    show(&format!("{dropped} of {} records dropped", blocks * block_events));
    assert!(dropped > 0);
    server.until_no_query_stands();
    server.ends_well();
}

#[test]
fn a_server_that_is_stopped_under_load_answers_everybody() {
    let server = Tortured::start(&["--engine.pending-bytes-max", "16MiB"]);
    let text = "SELECT COUNT(*) AS n FROM STREAM(s, MAX, TIME)";
    let counts: Vec<Results> = (0..amount(50, 300)).map(|_| server.connect().query(text).unwrap()).collect();
    // Told by answers, and sent without an answer: the server may have taken those or not.
    let (told, untold) = (AtomicU64::new(0), AtomicU64::new(0));
    let (took, counted) = thread::scope(|scope| {
        let (told, untold) = (&told, &untold);
        for _ in 0..4 {
            // Before the server is stopped, however late the thread begins.
            let mut connection = server.connect();
            scope.spawn(move || {
                let block = events(0, 1_000);
                while let Ok(answer) = connection.ask("POST", "/v1/streams/s/events", &block) {
                    told.fetch_add(answer.json()["accepted"].as_u64().unwrap(), Relaxed);
                }
                untold.fetch_add(1_000, Relaxed);
            });
        }
        until("load", || told.load(Relaxed) > 10_000);
        server.signal("TERM");
        seconds(|| {
            let final_count = |mut results: Results| {
                let mut counted = None;
                let meta = results.each(|emit| counted = count_in(emit).or(counted)).unwrap();
                assert_eq!(meta["query"]["reason"], "shutdown");
                counted.unwrap()
            };
            counts.into_iter().map(final_count).collect::<HashSet<u64>>()
        })
    });
    server.has_ended_well();
    let (told, untold) = (told.into_inner(), untold.into_inner());
    show(&format!("{took:.2} s to shut down; {counted:?} counted, {told} told, {untold} perhaps"));
    assert_eq!(counted.len(), 1, "all queries stood before the first event: {counted:?}");
    assert!(
        counted.iter().all(|counted| (told..=told + untold).contains(counted)),
        "{counted:?}, told {told}"
    );
    assert!(took < 10.0);
}

#[test]
fn commands_that_are_killed_leave_nothing() {
    let server = Tortured::start(&[]);
    let mut steady = Steady::start(&server);
    for _ in 0..amount(3, 100) {
        let args = ["query", "--server", server.url(), "SELECT * FROM STREAM(killed, MAX, TIME)"];
        let mut query = Running::start(&args);
        until("the query to stand", || server.queries() == 2);
        let mut ingest = swiftwater(&["ingest", "--server", server.url(), "killed"])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = ingest.stdin.take().unwrap();
        stdin.write_all(&events(0, 2_000)).unwrap();
        query.line();
        query.signal("KILL");
        steady.round();
        // In the middle of an event.
        stdin.write_all(b"{\"n\":").unwrap();
        ingest.kill().unwrap();
        ingest.wait().unwrap();
        assert_eq!(query.end().code, None);
        until("the query to end", || server.queries() == 1);
        steady.round();
    }
    steady.end(&server);
    server.until_no_query_stands();
    server.ends_well();
}

/// One of the clients of the soak: does one thing after another, as chance has it.
struct Soaker<'s> {
    rng: Rng,
    attacker: Attacker,
    server: &'s Tortured,
    silent: VecDeque<Results>,
    /// Events of the stream `soak` that the server says it took.
    accepted: u64,
}

impl Soaker<'_> {
    fn act(&mut self) {
        match self.rng.below(8) {
            0 | 1 => self.attacker.attack(),
            2 | 3 => disconnect_midway(&mut self.rng, &self.server.authority),
            4 | 5 => self.send(),
            6 => self.end_detached(),
            _ => {
                let silent = self.server.connect().query("SELECT * FROM STREAM(soak, MAX, TIME)").unwrap();
                self.silent.push_back(silent);
                if self.silent.len() > 3 {
                    self.silent.pop_front();
                }
            }
        }
    }

    fn send(&mut self) {
        let body = events(0, self.rng.below(2_000));
        let (encoding, body) = match self.rng.below(3) {
            0 => ("gzip", gzip(&body)),
            1 => ("zstd", zstd(&body)),
            _ => ("identity", body),
        };
        let encoding = format!("content-encoding: {encoding}");
        let mut connection = self.server.connect();
        let answer = connection.ask_with("POST", "/v1/streams/soak/events", &[&encoding], &body).unwrap();
        self.accepted += answer.json()["accepted"].as_u64().unwrap();
    }

    /// A detached query that is ended, and whose results are read or never asked for.
    fn end_detached(&mut self) {
        let mut connection = self.server.connect();
        let text = "SELECT user, COUNT(*) AS n FROM STREAM(soak, MAX, TIME) GROUP BY user";
        let answer = connection.ask("POST", "/v1/queries?detach=true", text.as_bytes()).unwrap();
        let path = format!("/v1/queries/{}", answer.json()["id"].as_str().unwrap());
        self.send();
        assert_eq!(connection.ask("DELETE", &path, b"").unwrap().status, 204);
        if self.rng.chance(0.5) {
            assert_eq!(connection.ask("GET", &format!("{path}/results"), b"").unwrap().status, 200);
        } else {
            assert_eq!(connection.ask("DELETE", &path, b"").unwrap().status, 204);
        }
        assert_eq!(connection.ask("GET", &path, b"").unwrap().status, 404);
    }
}

#[test]
fn memory_does_not_grow_however_long_it_goes_on() {
    let args = ["--engine.pending-bytes-max", "16MiB", "--engine.subscriber-bytes-max", "1MiB"];
    let server = Tortured::start(&args);
    let duration = soak_seconds().unwrap_or(3) as f64;
    let seed = seed();
    let mut count = server.connect().query("SELECT COUNT(*) AS n FROM STREAM(soak, MAX, TIME)").unwrap();
    let mut steady = Steady::start(&server);
    let (mut samples, over) = (Vec::new(), AtomicBool::new(false));
    let (accepted, actions) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..3 {
            let (server, over, accepted, actions) = (&server, &over, &accepted, &actions);
            let seed = seed * 1_000 + number;
            scope.spawn(move || {
                let _over = OnEnd(over);
                let attacker = Attacker::new(seed, &server.authority);
                let (rng, silent) = (Rng::new(seed), VecDeque::new());
                let mut soaker = Soaker { rng, attacker, server, silent, accepted: 0 };
                while !over.load(Relaxed) {
                    soaker.act();
                    actions.fetch_add(1, Relaxed);
                }
                accepted.fetch_add(soaker.accepted, Relaxed);
            });
        }
        let _over = OnEnd(&over);
        let clock = SystemClock::new();
        let passed = || clock.monotonic_nanos() as f64 / 1e9;
        while passed() < duration && !over.load(Relaxed) {
            steady.round();
            if passed() > samples.len() as f64 * duration / 400.0 {
                samples.push(server.memory().unwrap().now);
            }
        }
    });
    steady.end(&server);
    server.until_all_is_looked_at();
    server.delete(&count.id);
    let mut counted = None;
    count.each(|emit| counted = count_in(emit).or(counted)).unwrap();
    assert_eq!(counted.unwrap_or(0), accepted.into_inner());
    server.until_no_query_stands();
    let quarter = samples.len() / 4;
    let median = |samples: &[u64]| {
        let mut samples = samples.to_vec();
        samples.sort_unstable();
        samples[samples.len() / 2]
    };
    let (first, last) = (median(&samples[..quarter]), median(&samples[samples.len() - quarter..]));
    show(&format!(
        "{} actions in {duration} s; {} MiB in the first quarter, {} MiB in the last",
        actions.into_inner(),
        first / MIB,
        last / MIB
    ));
    // Within seconds a server has not even warmed up.
    let growth_max = amount(128, 48) as u64 * MIB;
    assert!(last < first + growth_max, "{first} bytes in the first quarter, {last} in the last: {samples:?}");
    server.check_peak("soak", 16 * MIB + base() + 32 * SENDER);
    server.ends_well();
}

/// Signals the end to the other threads, also if a test fails.
struct OnEnd<'o>(&'o AtomicBool);

impl Drop for OnEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

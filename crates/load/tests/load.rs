//! Tests load against a server made of threads, which answers as each test specifies.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use swiftwater_event::SystemClock;
use swiftwater_load::{Arrival, Body, Lines, Outcome, Plan, Report, Request, Sample, Template, run};

/// A request as the server saw it.
#[derive(Debug, Clone)]
struct ReceivedRequest {
    line: String,
    fields: Vec<String>,
    body: String,
}

/// The server's reaction to a request: whole answers, or nothing, and then it closes the connection.
type Answer = dyn Fn(&ReceivedRequest, u64) -> Option<Vec<u8>> + Send + Sync;

struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<ReceivedRequest> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim_end().is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    let line = lines.remove(0);
    Some(ReceivedRequest { line, fields: lines, body: String::from_utf8(body).unwrap() })
}

impl Server {
    fn start(answer: impl Fn(&ReceivedRequest, u64) -> Option<Vec<u8>> + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, number) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
        let (all, answer) = (Arc::clone(&seen), Arc::new(answer) as Arc<Answer>);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (all, number, answer) = (Arc::clone(&all), Arc::clone(&number), Arc::clone(&answer));
                thread::spawn(move || {
                    let mut reader = BufReader::new(stream.unwrap());
                    while let Some(seen) = read(&mut reader) {
                        all.lock().unwrap().push(seen.clone());
                        let number = number.fetch_add(1, Ordering::SeqCst);
                        let Some(answer) = answer(&seen, number) else { return };
                        if reader.get_mut().write_all(&answer).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Server { address, seen }
    }

    fn received(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().unwrap().clone()
    }
}

fn ok(_: &ReceivedRequest, _: u64) -> Option<Vec<u8>> {
    Some(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())
}

fn request(method: &str, path: &str, body: Body) -> Request {
    Request {
        name: format!("{method} {path}"),
        weight: 1,
        method: method.to_owned(),
        path: Template::new(path).unwrap(),
        fields: vec![("X-A".to_owned(), "b".to_owned())],
        body,
    }
}

fn plan(address: SocketAddr, requests: Vec<Request>, count: u64) -> Plan {
    Plan {
        address,
        host: address.to_string(),
        requests,
        arrival: Arrival::Answered,
        requests_max: Some(count),
        duration: None,
        warm_up: Duration::ZERO,
        connections: 5,
        threads: 2,
        retries: 0,
        expected: Vec::new(),
        timeout: Duration::from_secs(30),
        seed: 1,
        producer: None,
    }
}

fn done(plan: &Plan) -> (Report, Vec<Sample>) {
    let samples = Mutex::new(Vec::new());
    let take = |new: &[Sample]| samples.lock().unwrap().extend_from_slice(new);
    let report = run(plan, &SystemClock::new(), &AtomicBool::new(false), Some(&take), None, |_| {}).unwrap();
    (report, samples.into_inner().unwrap())
}

#[test]
fn every_request_is_sent_and_counted_once() {
    let server = Server::start(ok);
    let lines = Lines::new(b"{\"a\":1}\n{\"a\":2}\n".to_vec()).unwrap();
    let mut requests = vec![
        request("POST", "/x/{n}", Body::Lines(Arc::new(lines))),
        request("GET", "/y/{1..3}", Body::None),
    ];
    requests[1].weight = 3;
    let (report, samples) = done(&plan(server.address, requests, 1000));
    let seen = server.received();
    let gets: Vec<_> = seen.iter().filter(|seen| seen.line.starts_with("GET /y/")).collect();
    assert_eq!((seen.len(), gets.len()), (1000, 750));
    for number in ["1", "2", "3"] {
        assert!(gets.iter().any(|seen| seen.line == format!("GET /y/{number} HTTP/1.1")), "{number}");
    }
    for seen in &seen {
        assert!(seen.fields.contains(&"X-A: b".to_owned()), "{seen:?}");
        assert!(seen.fields.contains(&format!("Host: {}", server.address)), "{seen:?}");
    }
    // Lines go by the request's number, which its path has.
    for post in seen.iter().filter(|seen| seen.line.starts_with("POST")) {
        let number: u64 = post.line["POST /x/".len()..].split(' ').next().unwrap().parse().unwrap();
        assert_eq!(post.body, format!("{{\"a\":{}}}", number % 2 + 1));
    }
    let counts: Vec<_> = report.kinds.iter().map(|kind| (kind.latency.count(), kind.failures)).collect();
    assert_eq!(counts, [(250, 0), (750, 0)]);
    let total = report.total();
    assert_eq!(total.received_bytes, 1000 * ok(&seen[0], 0).unwrap().len() as u64);
    assert_eq!(total.outcomes.get(&Outcome::Answered(200)), Some(&1000));
    assert_eq!(samples.len(), 1000);
    assert!(report.seconds > 0.0 && total.latency.min() > 0);
}

#[test]
fn the_same_seed_asks_the_same() {
    let asked = || {
        let server = Server::start(ok);
        let requests = vec![request("POST", "/{1..1000000}", Body::Text(Template::new("{1..99}").unwrap()))];
        done(&plan(server.address, requests, 200));
        let mut asked: Vec<_> = server.received().into_iter().map(|seen| (seen.line, seen.body)).collect();
        asked.sort();
        asked
    };
    assert_eq!(asked(), asked());
}

#[test]
fn what_fails_is_sent_again_and_then_counted() {
    // The first hundred and five answers are of failure.
    let server = Server::start(|_, number| {
        Some(match number {
            ..105 => b"HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n".to_vec(),
            _ => b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n".to_vec(),
        })
    });
    let one = |retries, count| {
        let requests = vec![request("POST", "/", Body::Text(Template::new("x").unwrap()))];
        let plan = Plan {
            connections: 1,
            threads: 1,
            retries,
            producer: Some("p".to_owned()),
            ..plan(server.address, requests, count)
        };
        done(&plan).0.total()
    };
    let failed = one(9, 10);
    assert_eq!((failed.failures, failed.retries), (10, 90));
    assert_eq!(failed.outcomes.get(&Outcome::Answered(503)), Some(&10));
    let seen = server.received();
    // A retry has the number of its request.
    let numbers = |of: &[ReceivedRequest]| -> Vec<String> {
        of.iter()
            .flat_map(|seen| seen.fields.iter().filter(|field| field.starts_with("Swiftwater-Sequence")))
            .cloned()
            .collect()
    };
    assert_eq!(
        numbers(&seen)[8..11],
        ["Swiftwater-Sequence: 1", "Swiftwater-Sequence: 1", "Swiftwater-Sequence: 2"]
    );
    assert!(seen[0].fields.contains(&"Swiftwater-Producer: p-0-0".to_owned()), "{:?}", seen[0]);
    let plan = Plan { expected: vec![503], ..plan(server.address, vec![request("GET", "/", Body::None)], 5) };
    assert_eq!((done(&plan).0.total().failures, server.received().len()), (0, 105));
    let good = one(9, 10);
    assert_eq!((good.failures, good.retries, good.latency.count()), (0, 0, 10));
}

#[test]
fn connections_that_break_are_made_anew() {
    // Every third request's connection is closed without an answer.
    let server = Server::start(|seen, number| if number % 3 == 2 { None } else { ok(seen, number) });
    let requests = || vec![request("GET", "/", Body::None)];
    let (report, _) = done(&Plan { connections: 1, threads: 1, ..plan(server.address, requests(), 9) });
    let total = report.total();
    assert_eq!((total.failures, total.outcomes.get(&Outcome::Closed)), (3, Some(&3)));
    let (report, _) =
        done(&Plan { connections: 1, threads: 1, retries: 5, ..plan(server.address, requests(), 9) });
    assert_eq!(report.total().failures, 0);
    assert!(report.total().retries > 0);
}

#[test]
fn nobody_there_is_counted() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let (report, samples) = done(&plan(address, vec![request("GET", "/", Body::None)], 20));
    assert_eq!(report.total().outcomes.get(&Outcome::Unreachable), Some(&20));
    assert!(samples.iter().all(|sample| sample.received_bytes == 0));
}

#[test]
fn what_takes_too_long_is_given_up() {
    let (gate, held) = std::sync::mpsc::channel::<()>();
    let held = Mutex::new(held);
    let server = Server::start(move |seen, number| {
        if number == 0 {
            // Until the test is over.
            let _ = held.lock().unwrap().recv();
        }
        ok(seen, number)
    });
    let plan = Plan {
        connections: 1,
        threads: 1,
        timeout: Duration::from_millis(50),
        ..plan(server.address, vec![request("GET", "/", Body::None)], 3)
    };
    let (report, samples) = done(&plan);
    drop(gate);
    assert_eq!(report.total().outcomes.get(&Outcome::TimedOut), Some(&1));
    assert_eq!(report.total().outcomes.get(&Outcome::Answered(200)), Some(&2));
    assert!(samples[0].latency_nanos >= 50_000_000, "{samples:?}");
}

#[test]
fn an_open_loop_counts_from_when_requests_were_due() {
    // The server stands still until half of the requests are due.
    let (gate, held) = std::sync::mpsc::channel::<()>();
    let held = Mutex::new(held);
    let server = Server::start(move |seen, number| {
        if number == 0 {
            let _ = held.lock().unwrap().recv_timeout(Duration::from_millis(300));
        }
        ok(seen, number)
    });
    let plan = Plan {
        arrival: Arrival::Rate(500.0),
        connections: 1,
        threads: 1,
        ..plan(server.address, vec![request("GET", "/", Body::None)], 250)
    };
    let (report, mut samples) = done(&plan);
    drop(gate);
    samples.sort_by_key(|sample| sample.due_nanos);
    assert_eq!((samples.len(), report.unsent), (250, 0));
    for (number, sample) in samples.iter().enumerate() {
        assert_eq!(sample.due_nanos, number as u64 * 2_000_000);
    }
    // Requests that were due while the server was stopped waited for it: the hundredth for 100 ms of the 300.
    assert!(samples[0].latency_nanos >= 300_000_000);
    assert!(samples[100].latency_nanos >= 100_000_000, "{:?}", samples[100]);
    assert!(report.seconds >= 0.498, "{}", report.seconds);
}

#[test]
fn a_time_ends_it() {
    let server = Server::start(ok);
    let requests = || vec![request("GET", "/", Body::None)];
    let closed = Plan {
        requests_max: None,
        duration: Some(Duration::from_millis(200)),
        warm_up: Duration::from_millis(50),
        ..plan(server.address, requests(), 0)
    };
    let (report, samples) = done(&closed);
    assert!(report.total().latency.count() > 0 && (0.0..30.0).contains(&report.seconds));
    assert!(samples.iter().all(|sample| (50_000_000..200_000_000).contains(&sample.due_nanos)));
    let open = Plan { arrival: Arrival::Rate(1000.0), requests_max: None, ..closed };
    let (report, _) = done(&open);
    assert_eq!(report.total().latency.count() + report.unsent, 150);
}

#[test]
fn whoever_stops_it_gets_what_there_is() {
    let server = Server::start(ok);
    let plan = Plan { requests_max: None, ..plan(server.address, vec![request("GET", "/", Body::None)], 0) };
    let stop = AtomicBool::new(false);
    let mut intervals = Vec::new();
    let report = run(&plan, &SystemClock::new(), &stop, None, Some(Duration::from_millis(20)), |interval| {
        intervals.push(interval.latency.count());
        if intervals.iter().sum::<u64>() > 10 {
            stop.store(true, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert!(report.total().latency.count() > 10);
    assert!(intervals.iter().sum::<u64>() <= report.total().latency.count());
}

//! Measures delivery of records to a hundred connections, beside a bare writer of the same bytes to as many connections in
//! the same run.
//!
//! The server is a separate process, and so is the bare writer. The reader, one thread with all connections, is the same for
//! both, and counts records in its input. Events are sent only as far ahead of the slowest connection as the server buffers
//! for a reader. So nothing is lost, and every connection gets every event.

use std::{
    fs::File,
    io::{ErrorKind, Read, Seek, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use memchr::memmem;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use swiftwater_testkit::published::PublishedEvents;

use crate::{
    args::Args,
    http::Client,
    machine,
    samples::Samples,
    server::{Running, ready},
    table::{Row, Table, Verdict, grouped, mib},
};

/// The first argument of this program as a bare writer; its standard input is the file that it writes.
pub(crate) const WORD: &str = "writer";
const CONNECTIONS: usize = 100;
const STREAM: &str = "delivery";
const SHARE_MIN: f64 = 0.7;
/// Events of one body.
const BODY_EVENTS: usize = 256;
/// Events that go in before the slowest connection has had them: less than the server keeps for one.
const AHEAD: u64 = 2048;
const READ_BYTES: usize = 256 << 10;
const WRITE_BYTES: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(60);

/// The delivered records.
struct Case {
    what: &'static str,
    select: &'static str,
    /// The prefix of each record, which occurs nowhere else.
    mark: &'static [u8],
    events: u64,
}

const CASES: [Case; 2] = [
    Case { what: "whole events", select: "*", mark: b"{\"s01\":", events: 40 * 256 },
    Case { what: "30-byte projections", select: "l2, s05", mark: b"{\"l2\":", events: 400 * 256 },
];

/// Measures both cases and adds their rows.
pub(crate) fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    for case in CASES {
        let events = if args.quick { case.events / 8 } else { case.events };
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        let mut what = "";
        let mut bytes = 0;
        for round in 1..=args.rounds() {
            let server = Running::start()?;
            what = server.what;
            let served = serve(&server, &case, events)?;
            drop(server);
            let written = write_bare(&served.first, &case, events)?;
            eprintln!(
                "round {round}: {}: {:.2} GB/s, bare {:.2} GB/s",
                case.what,
                served.bytes as f64 / served.seconds / 1e9,
                written.bytes as f64 / written.seconds / 1e9
            );
            bytes = served.bytes;
            ours.push(served.bytes as f64 / served.seconds);
            bare.push(written.bytes as f64 / written.seconds);
        }
        let shares = Samples::new(ours.iter().zip(&bare).map(|(ours, bare)| ours / bare).collect())?;
        let (ours, bare) = (Samples::new(ours)?, Samples::new(bare)?);
        let deliveries = events * CONNECTIONS as u64;
        table.push(Row {
            what: format!("{} to {CONNECTIONS} connections, share of a bare writer's speed", case.what),
            figure: format!("{:.2}", shares.median()),
            conditions: format!(
                "{what}, {} deliveries, {}, NDJSON; {:.2} GB/s, {} deliveries/s; bare {:.2} GB/s; {:.2} to {:.2} in {} \
                 runs; every connection's records counted",
                grouped(deliveries),
                mib(bytes),
                ours.median() / 1e9,
                grouped((ours.median() / bytes as f64 * deliveries as f64) as u64),
                bare.median() / 1e9,
                shares.least(),
                shares.most(),
                shares.len(),
            ),
            needed: format!("≥ {SHARE_MIN}"),
            verdict: Verdict::of(shares.median() >= SHARE_MIN),
        });
    }
    Ok(())
}

/// The result of one side.
struct Delivered {
    seconds: f64,
    /// Over all connections.
    bytes: u64,
    /// All bytes of the first connection.
    first: Vec<u8>,
}

fn serve(server: &Running, case: &Case, events: u64) -> anyhow::Result<Delivered> {
    let query = format!("SELECT {} FROM STREAM({STREAM}, MAX, TIME)", case.select);
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = Client::connect(server.address)?;
        client.send(&client.post_text("/v1/queries", "application/x-ndjson", query.as_bytes()))?;
        let head = client.head()?;
        ensure!(head.status == 200, "`{query}` has status {}", head.status);
        streams.push(client.into_stream());
    }
    let slowest = Arc::new(AtomicU64::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let sender = {
        let (slowest, is_over) = (Arc::clone(&slowest), Arc::clone(&is_over));
        let mut client = Client::connect(server.address)?;
        let mut generator = PublishedEvents::new(21, 0, 0.0);
        let bodies: Vec<Vec<u8>> = (0..8)
            .map(|_| {
                let mut body = Vec::new();
                generator.write(BODY_EVENTS, &mut body);
                client.post_text(&format!("/v1/streams/{STREAM}/events"), "application/json", &body)
            })
            .collect();
        let work = move || -> anyhow::Result<()> {
            for (number, body) in (0..events / BODY_EVENTS as u64).zip(bodies.iter().cycle()) {
                while number * BODY_EVENTS as u64 >= slowest.load(Ordering::Acquire) + AHEAD {
                    if is_over.load(Ordering::Acquire) {
                        return Ok(());
                    }
                    thread::sleep(Duration::from_micros(20));
                }
                client.send(body)?;
                client.answer()?;
            }
            Ok(())
        };
        thread::Builder::new().name("sender".to_owned()).spawn(work)?
    };
    let delivered = receive(streams, case.mark, events, &slowest);
    is_over.store(true, Ordering::Release);
    sender.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    delivered
}

/// Reads all connections until each has had so many records.
fn receive(
    mut streams: Vec<TcpStream>,
    mark: &[u8],
    records: u64,
    slowest: &AtomicU64,
) -> anyhow::Result<Delivered> {
    let finder = memmem::Finder::new(mark);
    for stream in &streams {
        stream.set_nonblocking(true)?;
    }
    let mut counts = vec![0_u64; streams.len()];
    // The end of what was read, which may be a mark's beginning.
    let mut rests: Vec<Vec<u8>> = vec![Vec::new(); streams.len()];
    let mut delivered = Delivered { seconds: 0.0, bytes: 0, first: Vec::new() };
    let mut buffer = vec![0; mark.len() + READ_BYTES];
    let start = Instant::now();
    let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    while counts.iter().any(|&count| count < records) {
        let is_ready: Vec<bool> = {
            let mut waiting: Vec<PollFd<'_>> =
                streams.iter().map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
            let ready = poll(&mut waiting, Some(&patience)).context("cannot wait for connections")?;
            ensure!(
                ready > 0,
                "nothing came for a minute; the slowest connection has {:?}",
                counts.iter().min()
            );
            waiting.iter().map(|one| !one.revents().is_empty()).collect()
        };
        for (place, stream) in streams.iter_mut().enumerate().filter(|(place, _)| is_ready[*place]) {
            let kept = rests[place].len();
            buffer[..kept].copy_from_slice(&rests[place]);
            let read = match stream.read(&mut buffer[kept..]) {
                Ok(0) => bail!("connection {place} ended after {} records", counts[place]),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error).context("cannot read a connection"),
            };
            delivered.bytes += read as u64;
            if place == 0 {
                delivered.first.extend_from_slice(&buffer[kept..kept + read]);
            }
            let text = &buffer[..kept + read];
            counts[place] += finder.find_iter(text).count() as u64;
            // One byte less than a mark: no mark is counted twice.
            let rest = text.len().saturating_sub(mark.len() - 1);
            rests[place].clear();
            rests[place].extend_from_slice(&text[rest..]);
        }
        slowest.store(counts.iter().copied().min().unwrap_or(0), Ordering::Release);
    }
    delivered.seconds = start.elapsed().as_secs_f64();
    ensure!(counts.iter().all(|&count| count == records), "a connection got more records than there are");
    Ok(delivered)
}

/// Writes these bytes to each connection with a simple writer.
fn write_bare(bytes: &[u8], case: &Case, events: u64) -> anyhow::Result<Delivered> {
    let mut file = tempfile::tempfile().context("cannot make a file")?;
    file.write_all(bytes)?;
    file.rewind()?;
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut child = Command::new(program)
        .arg(WORD)
        .stdin(file)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start a bare writer")?;
    let delivered = ready(&mut child).and_then(|address| {
        let streams: Vec<TcpStream> =
            (0..CONNECTIONS).map(|_| TcpStream::connect(address)).collect::<Result<_, _>>()?;
        receive(streams, case.mark, events, &AtomicU64::new(0))
    });
    // It may have ended by itself; then there is nothing to end.
    let _ = child.kill();
    let _ = child.wait();
    delivered
}

/// This program as a bare writer: as soon as all connections are there, it writes its input to each of them, a piece to
/// one after another, on as many threads as there are cores.
pub(crate) fn run_writer() -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    File::from(std::io::stdin().as_fd().try_clone_to_owned()?).read_to_end(&mut bytes)?;
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    println!("{}{}", crate::server::READY, listener.local_addr()?);
    let mut streams: Vec<TcpStream> =
        (0..CONNECTIONS).map(|_| listener.accept().map(|(stream, _)| stream)).collect::<Result<_, _>>()?;
    let each = streams.len().div_ceil(machine::cores());
    thread::scope(|scope| {
        let writers: Vec<_> = streams
            .chunks_mut(each)
            .map(|streams| {
                let bytes = &bytes;
                scope.spawn(move || -> std::io::Result<()> {
                    for piece in bytes.chunks(WRITE_BYTES) {
                        for stream in &mut *streams {
                            stream.write_all(piece)?;
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        writers.into_iter().try_for_each(|writer| {
            writer.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?.context("cannot write")
        })
    })?;
    // The reader closes first, or ends this process.
    let mut rest = Vec::new();
    streams[0].read_to_end(&mut rest).context("cannot wait for the reader")?;
    Ok(())
}

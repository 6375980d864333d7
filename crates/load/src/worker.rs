//! A worker thread's share of a run: its connections, the requests that are due on them, and their outcomes.
//!
//! Requests have numbers; with t threads, thread k sends those whose number modulo t is k. In an open loop, number i is due
//! at i divided by the rate. It is sent over any connection that is free then, or as soon as one is.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mio::{Events as Ready, Poll, Token};
use rustix::event::{PollFd, PollFlags, Timespec};
use swiftwater_event::Clock;
use swiftwater_generate::{Events, Rng};

use crate::{
    connection::{Connection, ConnectionState, Job},
    histogram::Histogram,
    plan::{Arrival, Body, Plan, round_robin},
    report::{Counts, Outcome, Sample},
};

/// The time a connection rests after nobody could be reached, or its connection broke.
const REST_NANOS: u64 = 50_000_000;
/// Interval of the checks for attempts that have taken too long, and for a stop of the run.
const SWEEP_NANOS: u64 = 20_000_000;
/// Samples that are handed on at once.
const SAMPLES: usize = 1024;
/// Bytes read at once.
const SCRATCH_BYTES: usize = 64 << 10;

/// The counts of a thread, for reports.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) kinds: Vec<Counts>,
    /// The latencies since the last report.
    pub(crate) interval: Histogram,
    pub(crate) interval_failures: u64,
    /// The time at which the last request ended, in nanoseconds since the beginning.
    pub(crate) last_nanos: u64,
    pub(crate) unsent: u64,
}

/// Consumes some samples, on the thread that has them.
pub type SampleConsumer<'s> = dyn Fn(&[Sample]) + Sync + 's;

/// State that all threads of a run share.
pub(crate) struct Run<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) began: u64,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) samples: Option<&'a SampleConsumer<'a>>,
}

pub(crate) struct Worker<'a> {
    run: &'a Run<'a>,
    tally: &'a Mutex<Tally>,
    poll: Poll,
    connections: Vec<Connection>,
    idle: Vec<usize>,
    /// The connections that pause, each with the end of its pause.
    resting: Vec<(u64, usize)>,
    busy: usize,
    turns: Vec<usize>,
    /// The head of each request up to the path, and after it up to the length.
    heads: Vec<(Vec<u8>, Vec<u8>)>,
    /// The generator of each request's bodies, if they are generated.
    made: Vec<Option<Box<dyn Events>>>,
    numbers: Numbers,
    /// The next of this thread's requests, from 0.
    next: u64,
    swept: u64,
    body: Vec<u8>,
    scratch: Vec<u8>,
    samples: Vec<Sample>,
}

/// The numbers and times of a thread's requests.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    thread: u64,
    threads: u64,
    /// The count of this thread.
    count: u64,
    rate: Option<f64>,
    /// No request is begun later, in a closed loop.
    end: u64,
}

/// The action for the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Its number and when it is due, in nanoseconds since the beginning.
    Due(u64, u64),
    At(u64),
    Finished,
}

impl Numbers {
    fn of(plan: &Plan, thread: usize) -> Numbers {
        let (thread, threads) = (thread as u64, plan.threads as u64);
        let rate = match plan.arrival {
            Arrival::Answered => None,
            Arrival::Rate(rate) => Some(rate),
        };
        let end = plan.duration.map_or(u64::MAX, nanos);
        // In an open loop the time determines the number.
        let by_time =
            rate.zip(plan.duration).map(|(rate, duration)| (rate * duration.as_secs_f64()).ceil() as u64);
        let all = plan.requests_max.unwrap_or(u64::MAX).min(by_time.unwrap_or(u64::MAX));
        let count = all / threads + u64::from(thread < all % threads);
        Numbers { thread, threads, count, rate, end }
    }

    fn due(&self, next: u64) -> u64 {
        let number = next * self.threads + self.thread;
        self.rate.map_or(0, |rate| (number as f64 / rate * 1e9) as u64)
    }

    fn next(&self, next: u64, now: u64) -> Next {
        if next >= self.count || self.rate.is_none() && now >= self.end {
            return Next::Finished;
        }
        let number = next * self.threads + self.thread;
        match self.rate {
            None => Next::Due(number, now),
            Some(_) => match self.due(next) {
                due if due <= now => Next::Due(number, due),
                due => Next::At(due),
            },
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl<'a> Worker<'a> {
    pub(crate) fn new(run: &'a Run<'a>, thread: usize, tally: &'a Mutex<Tally>) -> io::Result<Worker<'a>> {
        let plan = run.plan;
        let share = plan.connections / plan.threads + usize::from(thread < plan.connections % plan.threads);
        let made = plan.requests.iter().map(|request| match &request.body {
            Body::Made(make) => Some(make(plan.seed.wrapping_add(thread as u64))),
            _ => None,
        });
        Ok(Worker {
            run,
            tally,
            poll: Poll::new()?,
            connections: (0..share).map(|_| Connection::default()).collect(),
            idle: (0..share).rev().collect(),
            resting: Vec::new(),
            busy: 0,
            turns: round_robin(&plan.requests),
            heads: plan.requests.iter().map(|request| heads(plan, request)).collect(),
            made: made.collect(),
            numbers: Numbers::of(plan, thread),
            next: 0,
            swept: 0,
            body: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES],
            samples: Vec::with_capacity(SAMPLES),
        })
    }

    /// Sends until the run is over and all that is on its way has ended.
    pub(crate) fn work(mut self) -> io::Result<()> {
        let mut ready = Ready::with_capacity(1024);
        // Requests that are due by the end are sent as long as an attempt may take.
        let patience = self
            .run
            .plan
            .duration
            .map_or(u64::MAX, |duration| nanos(duration).saturating_add(nanos(self.run.plan.timeout)));
        loop {
            let now = self.now();
            let is_stopped = self.run.stop.load(Ordering::Relaxed) || now >= patience;
            self.requeue_rested(now);
            let wait_until = self.start_due(now, is_stopped);
            let next = if is_stopped { Next::Finished } else { self.numbers.next(self.next, now) };
            if self.busy == 0 && next == Next::Finished {
                break;
            }
            self.wait(wait_until)?;
            self.poll.poll(&mut ready, Some(Duration::ZERO)).or_else(|error| match error.kind() {
                io::ErrorKind::Interrupted => Ok(()),
                _ => Err(error),
            })?;
            for event in &ready {
                let place = event.token().0;
                let looked = self.connections[place].poll_io(&mut self.scratch);
                self.complete_attempt(place, looked);
            }
            self.sweep();
        }
        self.deliver_samples();
        let now = self.now();
        let due = (self.next..self.numbers.count)
            .take_while(|next| self.numbers.rate.is_some() && self.numbers.due(*next) <= now);
        let unsent = due.count() as u64;
        self.lock().unsent = unsent;
        Ok(())
    }

    fn now(&self) -> u64 {
        self.run.clock.monotonic_nanos().saturating_sub(self.run.began)
    }

    /// Connections that have rested are idle again.
    fn requeue_rested(&mut self, now: u64) {
        let Worker { resting, idle, .. } = self;
        resting.retain(|(until, place)| {
            let is_over = *until <= now;
            if is_over {
                idle.push(*place);
            }
            !is_over
        });
    }

    /// Sends what is due over idle connections; answers until when there is nothing to do unless something comes in.
    fn start_due(&mut self, now: u64, is_stopped: bool) -> u64 {
        let mut until = self.swept + SWEEP_NANOS;
        while !is_stopped && let Some(&place) = self.idle.last() {
            match self.numbers.next(self.next, now) {
                Next::Due(number, due) => {
                    self.idle.pop();
                    self.next += 1;
                    self.begin(place, number, due);
                }
                Next::At(due) => {
                    until = until.min(due);
                    break;
                }
                Next::Finished => break,
            }
        }
        self.resting.iter().map(|(rested, _)| *rested).fold(until, u64::min)
    }

    /// Waits until a connection is ready, or up to a time: by nanoseconds, which the poll itself does not do.
    fn wait(&self, until: u64) -> io::Result<()> {
        let left = Duration::from_nanos(until.saturating_sub(self.now()));
        // SAFETY: the poll, and so its descriptor, lives longer than this borrow.
        let fd = unsafe { BorrowedFd::borrow_raw(self.poll.as_raw_fd()) };
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn begin(&mut self, place: usize, number: u64, due: u64) {
        let request = self.turns[(number % self.turns.len() as u64) as usize];
        self.write_request(place, request, number);
        let begun = self.now();
        let job = Job { request, due, begun, attempts: 1, sent_bytes: 0, received_bytes: 0 };
        self.connections[place].job = Some(job);
        self.busy += 1;
        self.attempt(place);
    }

    fn attempt(&mut self, place: usize) {
        let address = self.run.plan.address;
        let connection = &mut self.connections[place];
        let looked = connection.send(address, self.poll.registry(), Token(place), &mut self.scratch);
        self.complete_attempt(place, looked);
    }

    /// Writes a request into the buffer from which its connection sends it.
    fn write_request(&mut self, place: usize, request: usize, number: u64) {
        let plan = self.run.plan;
        let Connection { out, sequence, .. } = &mut self.connections[place];
        let mut rng = Rng::new(plan.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (start, rest) = &self.heads[request];
        out.clear();
        out.extend_from_slice(start);
        plan.requests[request].path.push(number, &mut rng, out);
        out.extend_from_slice(rest);
        let mut digits = itoa::Buffer::new();
        if let Some(producer) = &plan.producer {
            *sequence += 1;
            out.extend_from_slice(b"Swiftwater-Producer: ");
            out.extend_from_slice(producer.as_bytes());
            out.push(b'-');
            out.extend_from_slice(digits.format(self.numbers.thread).as_bytes());
            out.push(b'-');
            out.extend_from_slice(digits.format(place).as_bytes());
            out.extend_from_slice(b"\r\nSwiftwater-Sequence: ");
            out.extend_from_slice(digits.format(*sequence).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        let body = match &plan.requests[request].body {
            Body::None => {
                out.extend_from_slice(b"\r\n");
                return;
            }
            Body::Lines(lines) => lines.get(number),
            Body::Text(template) => {
                self.body.clear();
                template.push(number, &mut rng, &mut self.body);
                &self.body
            }
            Body::Made(_) => {
                self.body.clear();
                if let Some(made) = &mut self.made[request] {
                    made.push(&mut self.body);
                }
                self.body.trim_ascii_end()
            }
        };
        out.extend_from_slice(b"Content-Length: ");
        out.extend_from_slice(digits.format(body.len()).as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(body);
    }

    /// Completes an attempt: sends a failed request again, or counts it.
    fn complete_attempt(&mut self, place: usize, looked: ConnectionState) {
        let ConnectionState::Ended(outcome) = looked else { return };
        let now = self.now();
        let plan = self.run.plan;
        let Some(job) = &mut self.connections[place].job else { return };
        let again =
            !plan.is_good(outcome) && job.attempts <= plan.retries && !self.run.stop.load(Ordering::Relaxed);
        // The server is not there again at once: the request waits with its connection.
        let is_away = matches!(outcome, Outcome::Unreachable | Outcome::Closed);
        if again && !is_away {
            job.attempts += 1;
            job.begun = now;
            // An answer that failed at once would end here again at once: bounded by the retries.
            self.attempt(place);
            return;
        }
        if again {
            // Begun later, by the sweep.
            job.begun = u64::MAX;
            return;
        }
        let Some(job) = self.connections[place].job.take() else { return };
        self.busy -= 1;
        if is_away {
            self.resting.push((now + REST_NANOS, place));
        } else {
            self.idle.push(place);
        }
        self.count(&job, outcome, now);
    }

    fn count(&mut self, job: &Job, outcome: Outcome, now: u64) {
        let latency_nanos = now.saturating_sub(job.due);
        let Job { request, due: due_nanos, attempts, sent_bytes, received_bytes, .. } = *job;
        let is_failure = !self.run.plan.is_good(outcome);
        let sample = Sample {
            request,
            due_nanos,
            latency_nanos,
            outcome,
            is_failure,
            attempts,
            sent_bytes,
            received_bytes,
        };
        let mut tally = self.lock();
        tally.interval.record(latency_nanos);
        tally.interval_failures += u64::from(is_failure);
        if due_nanos < nanos(self.run.plan.warm_up) {
            return;
        }
        tally.last_nanos = now;
        if let Some(counts) = tally.kinds.get_mut(request) {
            counts.record(&sample);
        }
        drop(tally);
        if self.run.samples.is_some() {
            self.samples.push(sample);
            if self.samples.len() == SAMPLES {
                self.deliver_samples();
            }
        }
    }

    fn deliver_samples(&mut self) {
        if let Some(take) = self.run.samples {
            take(&self.samples);
        }
        self.samples.clear();
    }

    /// Ends attempts that have taken too long, and begins those that have rested.
    fn sweep(&mut self) {
        let now = self.now();
        if now < self.swept + SWEEP_NANOS {
            return;
        }
        self.swept = now;
        let timeout = nanos(self.run.plan.timeout);
        for place in 0..self.connections.len() {
            let connection = &mut self.connections[place];
            let Some(job) = &mut connection.job else { continue };
            if job.begun == u64::MAX {
                job.begun = now;
                job.attempts += 1;
                self.attempt(place);
            } else if now.saturating_sub(job.begun) >= timeout {
                connection.drop_stream();
                self.complete_attempt(place, ConnectionState::Ended(Outcome::TimedOut));
            }
        }
    }

    /// The lock cannot be held by a panicking thread.
    fn lock(&self) -> std::sync::MutexGuard<'a, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request's head up to its path, and from behind it on.
fn heads(plan: &Plan, request: &crate::plan::Request) -> (Vec<u8>, Vec<u8>) {
    let start = format!("{} ", request.method).into_bytes();
    let mut rest = format!(" HTTP/1.1\r\nHost: {}\r\n", plan.host).into_bytes();
    for (name, value) in &request.fields {
        rest.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    (start, rest)
}

//! The plan of a load: which requests to send, how often, and when to end. It is plain data, parsed from flags.

use std::{net::SocketAddr, ops::Range, sync::Arc, time::Duration};

use swiftwater_generate::Events;

use crate::{report::Outcome, template::Template};

/// The most connections of a run.
pub const CONNECTIONS_MAX: usize = 10_000;
/// The most that the weights of a mix may add up to.
pub const WEIGHTS_MAX: u32 = 10_000;

/// One run.
pub struct Plan {
    /// The destination of requests.
    pub address: SocketAddr,
    /// The `Host` field.
    pub host: String,
    /// The requests, sent by turns; at least one.
    pub requests: Vec<Request>,
    /// The times at which requests are due.
    pub arrival: Arrival,
    /// Ends after so many requests.
    pub requests_max: Option<u64>,
    /// Ends after so long.
    pub duration: Option<Duration>,
    /// Requests that are due before are sent and not counted.
    pub warm_up: Duration,
    /// Connections that are kept, at least one and no fewer than threads.
    pub connections: usize,
    /// Threads that share them.
    pub threads: usize,
    /// Number of further attempts of a failed request before it counts as failed.
    pub retries: u32,
    /// Statuses of 400 and above that are as good as others.
    pub expected: Vec<u16>,
    /// The longest that an attempt may take.
    pub timeout: Duration,
    /// The seed of the random places in templates and of generated bodies.
    pub seed: u64,
    /// Every connection numbers its requests as a producer of this name, so that the server stores a retry once.
    pub producer: Option<String>,
}

impl Plan {
    /// True if an attempt ended as it should: with a status below 400, or one that is expected.
    pub(crate) fn is_good(&self, outcome: Outcome) -> bool {
        matches!(outcome, Outcome::Answered(status) if status < 400 || self.expected.contains(&status))
    }
}

/// The times at which requests are due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrival {
    /// Closed loop: each connection sends the next one as soon as the last is answered.
    Answered,
    /// Open loop: at so many a second, whatever becomes of them; latencies count from when each was due.
    Rate(f64),
}

/// One kind of request of a mix.
pub struct Request {
    /// Its name in reports.
    pub name: String,
    /// Its share of all requests is this weight divided by the sum of all weights. At least 1.
    pub weight: u32,
    /// GET, POST and so on.
    pub method: String,
    /// The path and the query.
    pub path: Template,
    /// Further fields of the head.
    pub fields: Vec<(String, String)>,
    /// Its body.
    pub body: Body,
}

/// The body of a request.
pub enum Body {
    /// The request has no body, and not even a length.
    None,
    /// A text whose places are filled.
    Text(Template),
    /// These lines by turns.
    Lines(Arc<Lines>),
    /// Events that are made; each thread has its own, from a seed of its own.
    Made(Box<dyn Fn(u64) -> Box<dyn Events> + Send + Sync>),
}

/// Lines that lie in one buffer, without their ends.
#[derive(Debug)]
pub struct Lines {
    bytes: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl Lines {
    /// The lines that are not empty; none where there are none.
    pub fn new(bytes: Vec<u8>) -> Option<Lines> {
        let mut places = Vec::new();
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &bytes).chain([bytes.len()]) {
            let line = bytes[start..end].trim_ascii_end();
            if !line.is_empty() {
                places.push(start..start + line.len());
            }
            start = end + 1;
        }
        (!places.is_empty()).then_some(Lines { bytes, places })
    }

    /// The line for a request.
    pub(crate) fn get(&self, number: u64) -> &[u8] {
        &self.bytes[self.places[(number % self.places.len() as u64) as usize].clone()]
    }
}

/// The order in which requests of a mix follow each other: as evenly as may be, and the same over and over (smooth weighted
/// round-robin).
pub(crate) fn round_robin(requests: &[Request]) -> Vec<usize> {
    let weights: Vec<i64> = requests.iter().map(|request| i64::from(request.weight.max(1))).collect();
    let total: i64 = weights.iter().sum();
    let mut credits = vec![0; weights.len()];
    let turn = |_| {
        credits.iter_mut().zip(&weights).for_each(|(credit, weight)| *credit += weight);
        let richest = (0..credits.len()).rev().max_by_key(|place| credits[*place]).unwrap_or(0);
        credits[richest] -= total;
        richest
    };
    (0..total).map(turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(weight: u32) -> Request {
        Request {
            name: String::new(),
            weight,
            method: "GET".to_owned(),
            path: Template::new("/").unwrap(),
            fields: Vec::new(),
            body: Body::None,
        }
    }

    #[test]
    fn a_mix_is_even() {
        assert_eq!(round_robin(&[request(1)]), [0]);
        assert_eq!(round_robin(&[request(1), request(4), request(4)]), [1, 2, 0, 1, 2, 1, 2, 1, 2]);
    }

    #[test]
    fn lines_are_taken_by_turns() {
        let lines = Lines::new(b"a\r\n\nbc\nd".to_vec()).unwrap();
        let all: Vec<&[u8]> = (0..4).map(|number| lines.get(number)).collect();
        assert_eq!(all, [&b"a"[..], b"bc", b"d", b"a"]);
        assert!(Lines::new(b"\n \n".to_vec()).is_none());
    }
}

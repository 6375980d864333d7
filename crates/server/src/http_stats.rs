//! Counts requests and their durations, by route and status.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::http::{Method, StatusCode};
use swiftwater_runtime::LATENCY_BOUNDS_MICROS;

/// Requests by route, method and status; the number of keys is bounded, since unknown paths are one route and unknown
/// methods one method.
#[derive(Debug, Default)]
pub(crate) struct HttpStats {
    requests: Mutex<Requests>,
    /// Connections ever taken.
    pub(crate) connections_taken: AtomicU64,
    /// Connections ever refused, because there were too many.
    pub(crate) connections_refused: AtomicU64,
    /// Connections ever ended.
    pub(crate) connections_ended: AtomicU64,
}

/// All requests so far.
#[derive(Debug, Default, Clone)]
pub(crate) struct Requests {
    /// The counts by route, method and status.
    pub(crate) counts: BTreeMap<(&'static str, &'static str, u16), u64>,
    /// Time until the answer's head was ready, by route.
    pub(crate) times: BTreeMap<&'static str, LatencyHistogram>,
}

/// A histogram over [`LATENCY_BOUNDS_MICROS`], with one bucket above.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct LatencyHistogram {
    pub(crate) counts: [u64; LATENCY_BOUNDS_MICROS.len() + 1],
    pub(crate) sum_micros: u64,
}

impl HttpStats {
    /// Counts a request whose answer's head is ready after `micros`.
    pub(crate) fn count(&self, route: &'static str, method: &Method, status: StatusCode, micros: u64) {
        let method = method_name(method);
        let status = status.as_u16();
        let bucket = LATENCY_BOUNDS_MICROS.partition_point(|&bound| bound < micros);
        let mut requests = self.lock();
        *requests.counts.entry((route, method, status)).or_default() += 1;
        let times = requests.times.entry(route).or_default();
        times.counts[bucket] += 1;
        times.sum_micros += micros;
    }

    pub(crate) fn requests(&self) -> Requests {
        self.lock().clone()
    }

    pub(crate) fn connections(&self) -> u64 {
        let ended = self.connections_ended.load(Ordering::Relaxed);
        self.connections_taken.load(Ordering::Relaxed).saturating_sub(ended)
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::PATCH => "PATCH",
        _ => "other",
    }
}

//! Makes emits of a query's results, and puts them in its subscriber queue.
//!
//! Limits: how often a query may emit ([`EmitRate`]), `emit_bytes_max`, and those of the subscriber queue. Records beyond them
//! are dropped and counted, or end the query.

use std::sync::atomic::Ordering;

use swiftwater_event::Millis;
use swiftwater_lang::{Dialect, plan::Window};
use swiftwater_live::{QueryStep, ResultSet, ResultWindow};
use tracing::warn;

use super::Running;
use crate::{
    EndReason, EngineConfig, Finished, Records, StreamMeta, WindowMeta,
    coverage::Coverage,
    limits::{self, Full},
    query::totals::Totals,
    rate::{ClockSamples, EmitRate},
    subscriber_queue::{Delivery, OptionalMeta, QueuedEmit},
};

/// The context in which emits are made.
pub(crate) struct EmitContext<'e> {
    pub(crate) config: &'e EngineConfig,
    pub(crate) totals: &'e Totals,
    pub(crate) stream: StreamMeta,
    pub(crate) stream_exists: bool,
    /// The stream's looks at the clock, where there are such.
    pub(crate) looks: Option<&'e ClockSamples>,
    pub(crate) now: Millis,
    pub(crate) now_micros: i64,
    /// What results are of, if events are matched elsewhere.
    pub(crate) coverage: Option<&'e dyn Coverage>,
    /// Events are gone through again: how often a query answers is told of by no clock.
    pub(crate) is_again: bool,
}

impl Running {
    /// Passes results to the reader, and leaves none. With `finished`, the last of them (or an empty one) is the
    /// query's last emit. Returns the reason why the query must end, if it must.
    pub(crate) fn emit_results(
        &mut self,
        results: &mut Vec<ResultSet>,
        finished: Option<EndReason>,
        context: &EmitContext<'_>,
    ) -> Option<EndReason> {
        if finished.is_none()
            && !self.is_ending
            && !context.is_again
            && self.handle.dialect == Dialect::Native
            && let Some(too_often) = self.rate(context.config).check(context.now)
        {
            self.is_ending = true;
            results.clear();
            return Some(EndReason::RateLimited(too_often));
        }
        if finished.is_some() && results.is_empty() {
            results.push(self.nothing(context.now));
        }
        self.rate_until(context.now + 1, context).add(results.len() as u64);
        self.is_finished |= finished.is_some();
        let count = results.len();
        let mut must_end = None;
        for (place, mut result) in results.drain(..).enumerate() {
            let is_last = finished.is_some() && place + 1 == count;
            let window_end = result.window.map_or(i64::MIN, |window| window.end);
            if !is_last && !context.is_again && !self.rate(context.config).admits(context.now) {
                let is_durable = self.handle.following.is_some();
                let work = self.work();
                work.counts.expression_errors += result.expression_errors;
                if is_durable {
                    // An omitted result has its number: it may be there when it is made again.
                    work.emits += 1;
                    work.records += result.count;
                    work.result_errors += result.expression_errors;
                }
                self.handle.mailbox.count_dropped(result.count);
                context.totals.records_dropped.fetch_add(result.count, Ordering::Relaxed);
                continue;
            }
            let emit = self.emit(&mut result, finished.clone().filter(|_| is_last), context);
            self.pass_at(window_end, context.stream.position);
            let size = emit.records.text.len();
            if size > context.config.emit_bytes_max && finished.is_none() {
                must_end = Some(EndReason::Failed(limits::one_result(size, context.config)));
                break;
            }
            let totals = context.totals;
            match self.handle.mailbox.push(emit, context.config, &totals.subscriber_bytes) {
                Delivery::Queued { dropped, full } => {
                    totals.records_dropped.fetch_add(dropped, Ordering::Relaxed);
                    // Once for each query: what is lost from then on is counted, in `meta` and in the metrics.
                    if let Some(Full { setting, held, limit }) = full {
                        warn!(
                            query = %self.handle.meta.id, setting, held, limit,
                            "a reader is slower than its results, and the oldest are dropped: read faster, select \
                             less, or raise the limit"
                        );
                    }
                }
                Delivery::CutOff(full) => {
                    must_end = Some(EndReason::Failed(full.cut_off()));
                    break;
                }
            }
        }
        must_end.filter(|_| !std::mem::replace(&mut self.is_ending, true))
    }

    /// Makes an emit of a result, of which nothing but what is to be known besides its records may be used any more.
    pub(crate) fn emit(
        &mut self,
        result: &mut ResultSet,
        finished: Option<EndReason>,
        context: &EmitContext<'_>,
    ) -> QueuedEmit {
        let work = self.work();
        work.emits += 1;
        work.records += result.count;
        work.counts.expression_errors += result.expression_errors;
        work.result_errors += result.expression_errors;
        work.cost.bytes_out += result.text.len() as u64;
        let mut warnings = Vec::new();
        if !context.stream_exists {
            warnings.push(format!("stream `{}` has had no event yet", context.stream.name));
        }
        warnings.extend(work.rate.as_ref().and_then(EmitRate::warning));
        let is_first = work.emits == 1;
        if is_first || finished.is_some() {
            warnings.extend_from_slice(&self.handle.warnings);
        }
        context.totals.records_out.fetch_add(result.count, Ordering::Relaxed);
        context.totals.bytes_out.fetch_add(result.text.len() as u64, Ordering::Relaxed);
        let window = result.window.map(|window| (window.start, window.end));
        let cluster = context.coverage.and_then(|coverage| coverage.of(self.handle.number, window));
        let is_plain = finished.is_none()
            && cluster.is_none()
            && context.stream.lost == 0
            && warnings.is_empty()
            && result.window.is_none()
            && result.sketches.is_empty()
            && result.inner_sketches.is_none()
            && result.failure.is_none();
        let is_empty_last = finished.is_some() && result.count == 0 && self.numbers_records();
        let rest = || OptionalMeta {
            finished: finished.map(|reason| Finished { at: context.now, reason, cost: self.cost() }),
            window: result.window.map(|window| WindowMeta {
                kind: window.kind,
                number: window.number,
                records: window.records,
                start: window.start,
                end: window.end,
                emitted: context.now,
            }),
            cluster,
            lost: context.stream.lost,
            sketches: std::mem::take(&mut result.sketches),
            inner_sketches: result.inner_sketches.take(),
            failure: result.failure.take(),
            warnings,
        };
        let rest = (!is_plain).then(|| Box::new(rest()));
        let records = Records { text: std::mem::take(&mut result.text), count: result.count };
        QueuedEmit {
            records,
            // The last emit has a number of its own, though it has no record.
            number: self.number() + u64::from(is_empty_last),
            position: context.stream.position,
            lag_ms: context.stream.lag_ms,
            sample: context.stream.sample,
            counts: self.counts(context.stream.position),
            rest,
        }
    }

    /// A result without records. By Bullet's rules it has a window wherever the query has one.
    pub(crate) fn nothing(&self, now: Millis) -> ResultSet {
        let number = self.emits() + 1;
        let window =
            self.last_window().map(|kind| ResultWindow { kind, number, records: 0, start: now, end: now });
        ResultSet { window, ..ResultSet::default() }
    }

    /// The kind of the window that Bullet tells of a last emit, though nothing is left for it.
    pub(crate) fn last_window(&self) -> Option<&'static str> {
        let plan = &self.query.plan;
        match plan.window {
            Window::None => None,
            _ if plan.dialect == Dialect::Native => None,
            Window::Records { .. } => Some("record"),
            _ => Some("tumbling"),
        }
    }

    /// Counts what matching handed on in one batch to windows by record, in Bullet.
    pub(crate) fn count_parts(&mut self, step: &QueryStep, context: &EmitContext<'_>) {
        let Some(rows) = &step.rows else { return };
        if self.handle.dialect == Dialect::Bullet && matches!(self.query.plan.window, Window::Records { .. })
        {
            let events = rows.rows.chunk_by(|one, next| one == next).count();
            self.rate_until(context.now + 1, context).add_parts(events as u64);
        }
    }

    /// The reason why it must be ended, if it answers more often than Bullet allows: that is found out before a
    /// window closes.
    pub(crate) fn exceeds_rate(&mut self, context: &EmitContext<'_>) -> Option<EndReason> {
        if self.handle.dialect == Dialect::Native || self.is_ending {
            return None;
        }
        let too_often = self.rate_until(context.now, context).check(context.now)?;
        self.is_ending = true;
        Some(EndReason::RateLimited(too_often))
    }

    /// Returns [`Running::rate`] after ending Bullet's intervals that ended before `until` without an emit.
    fn rate_until(&mut self, until: Millis, context: &EmitContext<'_>) -> &mut EmitRate {
        let is_bullet = self.handle.dialect == Dialect::Bullet;
        let rate = self.rate(context.config);
        if let Some(looks) = context.looks.filter(|_| is_bullet) {
            rate.catch_up(looks, until);
        }
        rate
    }

    /// The limit of its emits, and their rate.
    fn rate(&mut self, config: &EngineConfig) -> &mut EmitRate {
        let (dialect, received) = (self.handle.dialect, self.handle.meta.received);
        self.work().rate.get_or_insert_with(|| EmitRate::new(config, dialect, received))
    }
}

//! Advances the time of streams that are fed with events of known arrivals: one window's end after another, each once all events before
//! it are looked at. So what windows hold does not depend on when a clock was read.

use std::{sync::Arc, time::Duration};

use swiftwater_event::Millis;
use swiftwater_runtime::parts::Stream;

use crate::{durable::history::run_blocking, shared::Shared};

/// The time that a wait for events to be looked at lasts before others have their turn.
const LOOK: Duration = Duration::from_millis(100);

/// Advances a stream's time; `on_due` is called with each time at which something closes, before it does.
pub(crate) async fn advance_fed(
    shared: &Arc<Shared>,
    stream: &Arc<Stream>,
    until: Millis,
    mut on_due: impl FnMut(Millis),
) {
    let mut before = None;
    loop {
        if stream.may_be_idle(until) {
            drain_fed(stream).await;
        }
        let (closes, idle) = (stream.next_due(), stream.idle_due(until));
        let due = idle.map_or(closes, |idle| closes.min(idle));
        if due > until || before == Some(due) {
            break;
        }
        before = Some(due);
        drain_fed(stream).await;
        on_due(due);
        // Each tick has the time at which it is due, so that the same events have the same ticks.
        if idle == Some(due) && stream.advance_idle(due) {
            shared.enqueue(Arc::clone(stream));
            drain_fed(stream).await;
        }
        if closes <= due {
            run_blocking(usize::MAX, || shared.tick_stream(stream, due));
        }
        tokio::task::consume_budget().await;
    }
}

/// Waits until all that a stream was fed with is looked at.
pub(crate) async fn drain_fed(stream: &Stream) {
    while !stream.is_drained() {
        run_blocking(usize::MAX, || stream.wait_for_appended(LOOK));
        tokio::task::yield_now().await;
    }
}

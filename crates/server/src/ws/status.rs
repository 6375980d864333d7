//! The status of streams and queries over a connection, again and again.

use serde_json::Value;
use swiftwater_runtime::{Principal, QueryList, StreamStatus};
use tokio::time::{MissedTickBehavior, interval};

use super::{
    Task,
    frame::{StatusFrame, StatusOf},
};
use crate::{
    body::heavy,
    queries::list_text,
    server::{Phase, Shared},
    wire::{stream_json, time_text},
};

pub(super) async fn run(task: Task, ask: StatusFrame) {
    let mut ticks = interval(ask.interval);
    // A client that was without credit gets the newest one, and none of those that it has missed.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let reason = tokio::select! {
            biased;
            () = task.control.end.notified() => "client",
            () = task.shared.reached(Phase::Draining) => "shutdown",
            () = async { task.control.credit.available().await; ticks.tick().await; } => {
                let data = heavy(usize::MAX, || text(&task.shared, &ask));
                if task.send("status", None, &data).await.is_err() {
                    return;
                }
                continue;
            }
        };
        return task.ended(reason).await;
    }
}

fn text(shared: &Shared, ask: &StatusFrame) -> String {
    let now = time_text(shared.engine.clock().now());
    match ask.of {
        StatusOf::Streams => {
            let streams = busiest(shared.engine.streams(&Principal::anonymous()), ask.limit);
            let streams: Vec<Value> = streams.iter().map(stream_json).collect();
            format!("{{\"of\":\"streams\",\"now\":\"{now}\",\"streams\":{}}}", Value::from(streams))
        }
        StatusOf::Queries(sort) => {
            let list = QueryList { prefix: String::new(), sort, limit: ask.limit, after: None };
            let list = list_text(shared, &list);
            format!("{{\"of\":\"queries\",\"now\":\"{now}\",{}", &list[1..])
        }
    }
}

/// The streams with the highest rates, and among equal ones in the order of their names.
fn busiest(mut streams: Vec<StreamStatus>, limit: usize) -> Vec<StreamStatus> {
    streams.sort_by(|one, other| {
        let by_rate = other.events_per_second.total_cmp(&one.events_per_second);
        by_rate.then_with(|| one.name.cmp(&other.name))
    });
    streams.truncate(limit);
    streams
}

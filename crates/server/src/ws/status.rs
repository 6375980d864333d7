//! The status of objects over a connection, again and again.

use serde_json::Value;
use swiftwater_runtime::{Principal, QueryList, StreamList};
use tokio::time::{MissedTickBehavior, interval};

use super::{
    Task,
    frame::{StatusFrame, StatusOf},
    objects::objects,
};
use crate::{
    body::heavy,
    problem::Problem,
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
                let data = match text(&task.shared, &ask).await {
                    Ok(data) => data,
                    Err(problem) => return task.failed(&problem).await,
                };
                if task.send("status", None, &data).await.is_err() {
                    return;
                }
                continue;
            }
        };
        return task.ended(reason).await;
    }
}

async fn text(shared: &Shared, ask: &StatusFrame) -> Result<String, Problem> {
    let now = time_text(shared.engine.clock().now());
    Ok(match ask.of {
        StatusOf::Streams(sort) => heavy(usize::MAX, || {
            let list = StreamList { prefix: String::new(), sort, limit: ask.limit, after: None };
            let page = shared.engine.list_streams(&Principal::anonymous(), &list);
            let streams: Vec<Value> = page.streams.iter().map(stream_json).collect();
            format!("{{\"of\":\"streams\",\"now\":\"{now}\",\"streams\":{}}}", Value::from(streams))
        }),
        StatusOf::Queries(sort) => heavy(usize::MAX, || {
            let list = QueryList { prefix: String::new(), sort, limit: ask.limit, after: None };
            let list = list_text(shared, &list);
            format!("{{\"of\":\"queries\",\"now\":\"{now}\",{}", &list[1..])
        }),
        StatusOf::Objects(kind) => {
            let (objects, name) = (Value::from(objects(shared, kind, ask.limit).await?), kind.name());
            format!("{{\"of\":\"{name}\",\"now\":\"{now}\",\"{name}\":{objects}}}")
        }
    })
}

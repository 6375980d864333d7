//! The changes of a view over a connection: those of one batch of events together.

use std::time::Duration;

use swiftwater_engine::{Principal, ViewChangesSome};
use tokio::time::{Instant, interval_at};

use super::{Gone, Task, frame::ChangesFrame};
use crate::server::Phase;

/// Sends the changes of a view, from a position on or from now on.
pub(super) async fn run(task: Task, ask: ChangesFrame) {
    let feed = task.shared.engine.view_changes(&Principal::anonymous(), &ask.view, ask.from).await;
    let mut feed = match feed {
        Ok(feed) => feed,
        Err(error) => return task.failed(&error.into()).await,
    };
    let started = serde_json::json!({"view": ask.view, "position": feed.position()});
    if task.send("started", None, &started.to_string()).await.is_err() {
        return;
    }
    let period = Duration::from_millis(task.shared.config.keep_alive_ms.max(1));
    let mut told = interval_at(Instant::now() + period, period);
    // Further than what the client was told, as batches came that changed no row.
    let mut untold = None;
    loop {
        let some = tokio::select! {
            biased;
            () = task.control.end.notified() => return task.ended("client").await,
            () = task.shared.reached(Phase::Draining) => return task.ended("shutdown").await,
            some = async { task.control.credit.available().await; feed.next().await } => some,
            _ = told.tick(), if untold.is_some() => {
                let position = untold.take();
                Ok(Some(ViewChangesSome { changes: Vec::new(), position, ends_walk: true }))
            }
        };
        match some {
            // Many batches may change no row: where to go on is told now and then.
            Ok(Some(some)) if some.changes.is_empty() && !some.ends_walk => {
                untold = some.position.or(untold);
            }
            Ok(Some(some)) => {
                untold = None;
                if let Err(Gone) = task.send("change", None, &written(&some)).await {
                    return;
                }
            }
            Ok(None) => return task.ended("forgotten").await,
            Err(error) => return task.failed(&error.into()).await,
        }
    }
}

fn written(some: &ViewChangesSome) -> String {
    let mut out = b"{\"changes\":[".to_vec();
    for (place, change) in some.changes.iter().enumerate() {
        out.extend_from_slice(if place > 0 { b",{\"key\":" } else { b"{\"key\":" });
        out.extend_from_slice(&change.key.json());
        out.extend_from_slice(b",\"row\":");
        out.extend_from_slice(change.row.as_deref().unwrap_or(b"null"));
        out.push(b'}');
    }
    let position = some.position.map_or("null".to_owned(), |position| position.to_string());
    out.extend_from_slice(format!("],\"position\":{position}}}").as_bytes());
    String::from_utf8(out).expect("keys and rows are written as UTF-8")
}

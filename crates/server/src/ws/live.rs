//! Live queries over a connection: new ones, and those that are taken up again.

use serde_json::{Value, json};
use swiftwater_lang::Dialect;
use swiftwater_runtime::{
    Emit, EndReason, Principal, QueryColumn, QueryMeta, Records, SubmitOptions, Subscription,
};

use super::{
    Gone, Task,
    frame::{AttachFrame, QueryFrame},
    thinning::Thinning,
};
use crate::{
    body::heavy,
    columns::columns_json,
    problem::Problem,
    queries::{check_length, heaviness, or_elsewhere, with_saved_text},
    query_request::QueryRequest,
    wire,
};

/// Submits a query, and sends its emits.
pub(super) async fn query(task: Task, ask: QueryFrame) {
    let thinned = ask.records_per_second_max;
    let submitted = submit(&task, ask).await;
    run(task, submitted, thinned).await;
}

/// Takes up a query that goes on without a reader.
pub(super) async fn attach(task: Task, ask: AttachFrame) {
    let AttachFrame { query, after, records_per_second_max: thinned, .. } = ask;
    let (shared, principal) = (&task.shared, Principal::anonymous());
    let subscription = match after {
        None => shared.engine.attach(&principal, &query),
        Some(number) => shared.engine.attach_after(&principal, &query, number),
    };
    let subscription = or_elsewhere(shared, &query, subscription).await;
    let submitted = subscription.map(|subscription| {
        let dialect = match shared.engine.query(&principal, &query).map(|status| status.dialect) {
            Ok("bullet") => Dialect::Bullet,
            _ => Dialect::Native,
        };
        let options = SubmitOptions { dialect, ..SubmitOptions::default() };
        // Values of parameters are not known any more: such a text has the columns' names alone.
        let facts = shared.engine.check(&principal, &subscription.query().text, &options);
        (subscription, facts.ok().and_then(|facts| facts.columns))
    });
    run(task, submitted, thinned).await;
}

type Submitted = (Subscription, Option<Vec<QueryColumn>>);

async fn submit(task: &Task, ask: QueryFrame) -> Result<Submitted, Problem> {
    let (shared, principal) = (&task.shared, Principal::anonymous());
    let QueryFrame { source, .. } = ask;
    let request = QueryRequest { source, dialect: ask.dialect, parameters: ask.parameters };
    let request = with_saved_text(shared, request)?;
    let text = request.text();
    check_length(shared, text)?;
    let mut options = SubmitOptions { linger_ms: ask.linger_ms, ..request.options() };
    shared.engine.pin_joined(text, &options).await?;
    let facts = heavy(heaviness(text), || shared.engine.check(&principal, text, &options))?;
    if facts.explain.is_some() {
        return Err(Problem::bad_request("EXPLAIN has one answer").hint("Send it to POST /v1/queries."));
    }
    shared.engine.ask_cluster(text, &mut options).await?;
    let subscription = heavy(heaviness(text), || shared.engine.submit(&principal, text, options))?;
    Ok((subscription, facts.columns))
}

async fn run(task: Task, submitted: Result<Submitted, Problem>, thinned: Option<u64>) {
    let (subscription, columns) = match submitted {
        Ok(submitted) => submitted,
        Err(problem) => return task.failed(&problem).await,
    };
    let started = started(subscription.query(), columns.as_deref());
    if task.send("started", None, &started.to_string()).await.is_err() {
        return;
    }
    let now = task.shared.engine.clock().monotonic_nanos();
    let thinning = thinned.map(|most| Thinning::new(most, now));
    if let Ok(reason) = emits(&task, subscription, thinning).await {
        task.ended(reason).await;
    }
}

/// Sends emits until there are no more; returns the reason.
async fn emits(
    task: &Task,
    mut subscription: Subscription,
    mut thinning: Option<Thinning>,
) -> Result<&'static str, Gone> {
    let (mut reason, mut is_ending) = (None, false);
    loop {
        // A client that ends a query gets what is left, whether it has credit or not.
        let emit = tokio::select! {
            biased;
            () = task.control.end.notified(), if !is_ending => {
                is_ending = true;
                heavy(usize::MAX, || subscription.end(EndReason::Client));
                continue;
            }
            emit = next(task, &mut subscription, is_ending) => emit,
        };
        let Some(emit) = emit else { return Ok(reason.unwrap_or_else(|| without_last(task, &subscription))) };
        if let Some(finished) = &emit.meta.finished {
            reason = Some(wire::reason_name(&finished.reason));
        }
        let number = emit.meta.number;
        let data = written(task, emit, thinning.as_mut());
        task.send("emit", Some(number), &data).await?;
    }
}

/// The reason why a reader gets no further emit, though it has had no last one.
fn without_last(task: &Task, subscription: &Subscription) -> &'static str {
    match (subscription.is_replaced(), task.shared.is_ready()) {
        (true, _) => "replaced",
        // It goes on when the server is there again.
        (false, false) => "shutdown",
        (false, true) => "forgotten",
    }
}

async fn next(task: &Task, subscription: &mut Subscription, is_ending: bool) -> Option<Emit> {
    if !is_ending {
        task.control.credit.available().await;
    }
    subscription.next().await
}

/// An emit as it is over HTTP. Of single matches as many are left out as the client wants.
fn written(task: &Task, mut emit: Emit, thinning: Option<&mut Thinning>) -> String {
    let is_of_matches = emit.meta.window.is_none() && emit.meta.finished.is_none();
    let thinned = thinning.map(|thinning| {
        if is_of_matches {
            let now = task.shared.engine.clock().monotonic_nanos();
            let (text, count) = thinning.taken(&emit.records.text, emit.records.count, now);
            emit.records = Records { text: text.into(), count };
        }
        thinning.left_out
    });
    let mut out = Vec::new();
    wire::write_thinned_emit(&emit, thinned, &mut out);
    String::from_utf8(out).expect("records and metadata are written as UTF-8")
}

fn started(query: &QueryMeta, columns: Option<&[QueryColumn]>) -> Value {
    let columns = match columns {
        Some(columns) => Some(columns_json(columns)),
        None => query.columns.as_ref().map(|names| names.iter().map(|name| json!({"name": name})).collect()),
    };
    json!({
        "query": query.id.to_string(),
        "text": &*query.text,
        "received": wire::time_text(query.received),
        "columns": columns,
    })
}

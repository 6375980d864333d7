//! `/v1/ws`: many live results over one WebSocket, by the sub-protocol `swiftwater.v1`.
//!
//! ```text
//! client: {"id": 1, "op": "query", …}        server: {"hello": …} {"id": 1, "event": "started", …} {"id": 1, "event": "emit", …}
//! ```
//!
//! Each request with an answer that goes on is a *subscription* with a task of its own. A task waits until its client has
//! credit left ([`credit`]), takes one emit from the engine, and sends it as frames ([`frame`]). All tasks send into one
//! short queue, whose places are given in the order of asking, so subscriptions take turns frame by frame. What a client
//! without credit misses is decided by the engine's rule for slow readers.
//!
//! A connection that breaks drops its subscriptions; a query with `linger_ms` goes on for that time, and `attach` takes it up.

#[cfg(feature = "history")]
mod changes;
mod credit;
mod frame;
mod live;
mod objects;
mod status;
mod thinning;
mod writer;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    extract::{
        Extension, State, WebSocketUpgrade,
        ws::{CloseFrame, Message, WebSocket, close_code},
    },
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt, stream::SplitStream};
use serde_json::json;
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::{Instant, interval_at},
};

use self::{
    credit::Credit,
    frame::{ClientFrame, Op},
    writer::{Outgoing, Writer},
};
use crate::{
    about,
    parameters::{Parameters, bad, cut},
    problem::Problem,
    server::{Connection, Phase, Shared},
    wire::time_text,
};

/// The sub-protocol.
const PROTOCOL: &str = "swiftwater.v1";
/// The longest message of a client, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Frames that wait to be written.
const QUEUE_FRAMES: usize = 4;
/// The setting that limits the subscriptions of a connection.
const SUBSCRIPTIONS_SETTING: &str = "server.ws_subscriptions_max";
/// Pings without an answer after which a connection ends.
const PINGS_MAX: u32 = 2;

pub(crate) async fn connect(
    State(shared): State<Arc<Shared>>,
    Extension(connection): Extension<Arc<Connection>>,
    uri: Uri,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let parameters = Parameters::parse(uri.query(), &["compress"])?;
    let is_deflated = match parameters.get("compress") {
        None | Some("none") => false,
        Some("deflate") => true,
        Some(other) => {
            return Err(bad(format!("`compress` is `{}`", cut(other))).hint("Values are: none, deflate."));
        }
    };
    let upgrade = upgrade.map_err(|_| {
        Problem::new(
            StatusCode::UPGRADE_REQUIRED,
            "upgrade-required",
            "The request needs another protocol",
            "this path is for WebSockets",
        )
        .hint("Connect by WebSocket with the sub-protocol swiftwater.v1, or send POST /v1/queries.")
    });
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(problem) => {
            let mut response = problem.into_response();
            response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            return Ok(response);
        }
    };
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL);
    let mut offered =
        offered.iter().filter_map(|field| field.to_str().ok()).flat_map(|field| field.split(','));
    if headers.contains_key(header::SEC_WEBSOCKET_PROTOCOL) && !offered.any(|name| name.trim() == PROTOCOL) {
        return Err(Problem::bad_request("the client speaks none of the sub-protocols of this path")
            .hint("Offer the sub-protocol swiftwater.v1."));
    }
    let Ok(place) = Arc::clone(&shared.ws_places).try_acquire_owned() else {
        let most = shared.config.ws_connections_max;
        let detail = format!("{most} connections of /v1/ws are open, which is the limit");
        return Err(Problem::too_many(detail, "server.ws_connections_max", most as u64));
    };
    let upgrade =
        upgrade.protocols([PROTOCOL]).max_message_size(MESSAGE_BYTES_MAX).max_frame_size(MESSAGE_BYTES_MAX);
    Ok(upgrade.on_upgrade(move |socket| async move {
        let session = Session::new(Arc::clone(&shared), is_deflated);
        session.run(socket).await;
        tracing::debug!(number = connection.number, "a connection of /v1/ws ended");
        drop(place);
    }))
}

/// One connection.
struct Session {
    shared: Arc<Shared>,
    subscriptions: Subscriptions,
    outgoing: mpsc::Sender<Outgoing>,
    queue: mpsc::Receiver<Outgoing>,
    is_deflated: bool,
}

/// The subscriptions of a connection, by the client's number.
#[derive(Clone, Default)]
struct Subscriptions(Arc<Mutex<HashMap<u64, Arc<Control>>>>);

/// The part of a subscription that the client's frames reach.
struct Control {
    credit: Credit,
    end: Notify,
}

/// The state of a subscription's task.
struct Task {
    shared: Arc<Shared>,
    id: u64,
    control: Arc<Control>,
    subscriptions: Subscriptions,
    outgoing: mpsc::Sender<Outgoing>,
}

/// The client does not take frames any more.
struct Gone;

impl Session {
    fn new(shared: Arc<Shared>, is_deflated: bool) -> Session {
        let (outgoing, queue) = mpsc::channel(QUEUE_FRAMES);
        Session { shared, subscriptions: Subscriptions::default(), outgoing, queue, is_deflated }
    }

    async fn run(self, socket: WebSocket) {
        let Session { shared, subscriptions, outgoing, queue, is_deflated } = self;
        let (sink, stream) = socket.split();
        let writer = Writer::new(sink, queue, is_deflated);
        let reader = Reader { shared: Arc::clone(&shared), subscriptions, outgoing, tasks: JoinSet::new() };
        // The writer ends when all senders are gone, or the client takes nothing; the reader when the client leaves.
        tokio::select! {
            () = async { tokio::join!(reader.run(stream), writer.run()); } => {}
            () = shared.reached(Phase::Cut) => {}
        }
    }
}

/// Reads the client's frames, and owns the tasks of its subscriptions: they end with it.
struct Reader {
    shared: Arc<Shared>,
    subscriptions: Subscriptions,
    outgoing: mpsc::Sender<Outgoing>,
    tasks: JoinSet<()>,
}

impl Reader {
    async fn run(mut self, mut stream: SplitStream<WebSocket>) {
        if self.send(hello(&self.shared)).await.is_err() {
            return;
        }
        let period = Duration::from_millis(self.shared.config.keep_alive_ms.max(1));
        let mut pings = interval_at(Instant::now() + period, period);
        let (shared, mut unanswered) = (Arc::clone(&self.shared), 0);
        let closing = shared.reached(Phase::Closing);
        let mut closing = std::pin::pin!(closing);
        loop {
            let message = tokio::select! {
                message = stream.next() => message,
                _ = pings.tick() => {
                    unanswered += 1;
                    if unanswered > PINGS_MAX || self.outgoing.send(Outgoing::Ping).await.is_err() {
                        return;
                    }
                    continue;
                }
                // Tasks that have ended are forgotten.
                Some(_) = self.tasks.join_next() => continue,
                () = self.outgoing.closed() => return,
                () = &mut closing => return self.close().await,
            };
            let Some(Ok(message)) = message else { return };
            unanswered = 0;
            let text = match message {
                Message::Text(text) => text,
                // Pings are answered where they are read.
                Message::Ping(_) | Message::Pong(_) => continue,
                Message::Binary(_) => {
                    let problem = Problem::bad_request("a frame is binary").hint("Send JSON as text frames.");
                    if self.send(frame::problem(None, &problem)).await.is_err() {
                        return;
                    }
                    continue;
                }
                Message::Close(_) => return,
            };
            let answer = match ClientFrame::parse(&text) {
                Ok(ask) => {
                    let id = ask.id;
                    self.begin(ask).map_err(|problem| (Some(id), problem))
                }
                Err(fault) => Err(fault),
            };
            let answer = match answer {
                Ok(answer) => answer,
                Err((id, problem)) => Some(frame::problem(id, &problem)),
            };
            if let Some(answer) = answer
                && self.send(answer).await.is_err()
            {
                return;
            }
        }
    }

    /// Does what a frame asks for; returns the answer, if it has one at once.
    fn begin(&mut self, ask: ClientFrame) -> Result<Option<String>, Problem> {
        let ClientFrame { id, op } = ask;
        match op {
            Op::Ping => {
                let now = time_text(self.shared.engine.clock().now());
                return Ok(Some(frame::short(Some(id), "pong", &json!({"now": now}))));
            }
            // A subscription may have ended while the frame was on its way.
            Op::Credit(bytes) => {
                if let Some(control) = self.subscriptions.get(id) {
                    control.credit.add(bytes);
                }
            }
            Op::End => {
                if let Some(control) = self.subscriptions.get(id) {
                    control.end.notify_one();
                }
            }
            Op::Query(ask) => {
                let task = self.task(id, ask.credit)?;
                self.tasks.spawn(live::query(task, ask));
            }
            Op::Attach(ask) => {
                let task = self.task(id, ask.credit)?;
                self.tasks.spawn(live::attach(task, ask));
            }
            Op::Status(ask) => {
                let task = self.task(id, ask.credit)?;
                self.tasks.spawn(status::run(task, ask));
            }
            #[cfg(feature = "history")]
            Op::Changes(ask) => {
                let task = self.task(id, ask.credit)?;
                self.tasks.spawn(changes::run(task, ask));
            }
            #[cfg(not(feature = "history"))]
            Op::Changes(_) => return Err(Problem::bad_request(crate::engine::WITHOUT_HISTORY)),
        }
        Ok(None)
    }

    fn task(&mut self, id: u64, credit: u64) -> Result<Task, Problem> {
        // A task whose subscription has ended may still wait to send its last frame.
        while self.tasks.try_join_next().is_some() {}
        if self.tasks.len() >= 2 * self.most() {
            let (detail, most) = ("the last frames of many subscriptions were not received yet", self.most());
            return Err(Problem::too_many(detail, SUBSCRIPTIONS_SETTING, most as u64)
                .hint("Read the frames of the connection."));
        }
        let control = Arc::new(Control { credit: Credit::new(credit), end: Notify::new() });
        self.subscriptions.insert(id, Arc::clone(&control), self.most())?;
        Ok(Task {
            shared: Arc::clone(&self.shared),
            id,
            control,
            subscriptions: self.subscriptions.clone(),
            outgoing: self.outgoing.clone(),
        })
    }

    /// The most subscriptions.
    fn most(&self) -> usize {
        self.shared.config.ws_subscriptions_max
    }

    async fn send(&self, text: String) -> Result<(), Gone> {
        self.outgoing.send(Outgoing::Text(text)).await.map_err(|_| Gone)
    }

    /// Ends what is still there: the server stops.
    async fn close(mut self) {
        // All queries have ended by now. Their last emits are sent, whether there is credit for them or not.
        for control in self.subscriptions.all() {
            control.credit.add(frame::CREDIT_BYTES_MAX);
        }
        while self.tasks.join_next().await.is_some() {}
        let reason = CloseFrame { code: close_code::RESTART, reason: "the server stops".into() };
        let _ = self.outgoing.send(Outgoing::Close(reason)).await;
    }
}

impl Task {
    /// Sends an event with data as JSON text, once there is credit for it.
    async fn send(&self, event: &'static str, number: Option<u64>, data: &str) -> Result<(), Gone> {
        self.control.credit.spend(data.len());
        for frame in frame::Frames::new(self.id, event, number, data) {
            self.send_frame(frame).await?;
        }
        Ok(())
    }

    async fn send_frame(&self, frame: String) -> Result<(), Gone> {
        self.outgoing.send(Outgoing::Text(frame)).await.map_err(|_| Gone)
    }

    /// Sends the last frame. From now on the client may use the number again.
    async fn ended(&self, reason: &str) {
        self.subscriptions.remove(self.id);
        let _ = self.send_frame(frame::short(Some(self.id), "ended", &json!({"reason": reason}))).await;
    }

    /// Sends a problem, and the last frame.
    async fn failed(&self, problem: &Problem) {
        if self.send_frame(frame::problem(Some(self.id), problem)).await.is_ok() {
            self.ended("failed").await;
        }
    }
}

impl Subscriptions {
    fn insert(&self, id: u64, control: Arc<Control>, most: usize) -> Result<(), Problem> {
        let mut all = self.lock();
        if all.contains_key(&id) {
            return Err(
                bad(format!("subscription {id} is there already")).hint("Use a number once at a time.")
            );
        }
        if all.len() >= most {
            let detail = format!("this connection has {most} subscriptions, which is the limit");
            return Err(Problem::too_many(detail, SUBSCRIPTIONS_SETTING, most as u64));
        }
        all.insert(id, control);
        Ok(())
    }

    fn get(&self, id: u64) -> Option<Arc<Control>> {
        self.lock().get(&id).cloned()
    }

    fn remove(&self, id: u64) {
        self.lock().remove(&id);
    }

    fn all(&self) -> Vec<Arc<Control>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Control>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first frame.
fn hello(shared: &Shared) -> String {
    json!({"hello": {
        "version": about::VERSION,
        "build": about::console_build(shared),
        "now": time_text(shared.engine.clock().now()),
        "features": about::features(shared),
        "limits": {
            "frame_bytes_max": frame::FRAME_BYTES_MAX,
            "message_bytes_max": MESSAGE_BYTES_MAX,
            "subscriptions_max": shared.config.ws_subscriptions_max,
            "credit_bytes": frame::CREDIT_BYTES,
            "linger_ms_max": shared.engine.config().linger_ms_max,
        },
    }})
    .to_string()
}

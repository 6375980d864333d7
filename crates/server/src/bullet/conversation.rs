//! One STOMP conversation of Bullet's `ws-query`: the client's messages and the server's answers.
//!
//! ```text
//! client  SEND /server/request   {"type": "NEW_QUERY", "content": "SELECT …"}      {"type": "KILL_QUERY", "content": id}
//! server  MESSAGE                {"type": "ACK", "content": id}                    the query runs
//!                                {"type": "MESSAGE", "content": result}            one of several results
//!                                {"type": "COMPLETE", "content": result}           the last one
//!                                {"type": "FAIL", "content": result}               with the errors in its `meta`
//! ```
//!
//! `content` of an answer is text: the id, or a result's JSON. Answers go to every client that subscribed to one of
//! [`RESPONSES`]. One query runs at a time; it ends when the client kills it, unsubscribes, or disconnects. Knows nothing of
//! the transport of messages, which is in [`super::sockjs`] and [`super::websocket`].

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use swiftwater_runtime::{Emit, EndReason, Subscription};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::{Instant, timeout},
};

use super::{
    error_result, failure_of, invalid_query,
    outgoing::Outgoing,
    result_text,
    stomp::{Frame, Reader, Received, Version},
    submit, too_many_queries,
};
use crate::{
    parameters::cut,
    server::{Phase, Shared},
};

/// The destination of requests.
const REQUESTS: &str = "/server/request";
/// The destinations of answers, to which clients subscribe.
const RESPONSES: [&str; 2] = ["/client/response", "/user/client/response"];
/// Subscriptions of one session; every one of them gets every answer.
const SUBSCRIPTIONS_MAX: usize = 4;
/// A client that is silent for this many of its heart-beats is gone.
const BEATS_MISSED_MAX: u32 = 3;

/// A session as it stands.
struct Conversation {
    shared: Arc<Shared>,
    /// The version; none before CONNECT.
    version: Option<Version>,
    subscriptions: Vec<ClientSubscription>,
    query: Option<RunningQuery>,
    /// Frames that are to be sent.
    out: Vec<Frame>,
    messages: u64,
    /// It ends when `out` is sent.
    is_over: bool,
    /// Interval within which at least a line end is sent.
    send_beat: Option<Duration>,
    /// Interval within which the client promised to send something.
    receive_beat: Option<Duration>,
}

struct ClientSubscription {
    id: String,
    destination: String,
}

/// A running query of this session, and its permit among all that may run.
struct RunningQuery {
    subscription: Subscription,
    _place: OwnedSemaphorePermit,
}

/// Runs a conversation until either side ends it.
pub(super) async fn converse(shared: Arc<Shared>, mut incoming: mpsc::Receiver<String>, outgoing: Outgoing) {
    let config = &shared.config.bullet;
    let mut reader = Reader::new(config.message_bytes_max);
    let mut conversation = Conversation::new(Arc::clone(&shared));
    let mut heard = Instant::now();
    let mut sent = Instant::now();
    // A client that connects and sends nothing is disconnected, as one whose head does not arrive.
    let connect_by = Instant::now() + Duration::from_millis(shared.config.head_read_timeout_ms.max(1));
    loop {
        let beat_due = conversation.send_beat.map(|beat| sent + beat);
        let silent = match conversation.version {
            None => Some(connect_by),
            Some(_) => conversation.receive_beat.map(|beat| heard + beat * BEATS_MISSED_MAX),
        };
        tokio::select! {
            message = incoming.recv() => {
                let Some(message) = message else { return };
                heard = Instant::now();
                conversation.accept_message(&mut reader, &message).await;
            }
            emit = next_emit(&mut conversation.query) => conversation.send_emit(emit),
            () = at(beat_due) => {
                if !outgoing.send("\n".to_owned()).await {
                    return;
                }
                sent = Instant::now();
            }
            () = at(silent) => conversation.refuse("the client has been silent for too long"),
            // A query that stands gets its last result first.
            () = shared.reached(Phase::Closing), if conversation.query.is_none() => {
                conversation.refuse("the server is shutting down");
            }
        }
        let version = conversation.version.unwrap_or(Version::V1_0);
        for frame in std::mem::take(&mut conversation.out) {
            if !outgoing.send(frame.to_text(version)).await {
                return;
            }
            sent = Instant::now();
        }
        if conversation.is_over {
            return;
        }
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

async fn next_emit(query: &mut Option<RunningQuery>) -> Option<Emit> {
    match query {
        Some(standing) => standing.subscription.next().await,
        None => std::future::pending().await,
    }
}

impl Conversation {
    fn new(shared: Arc<Shared>) -> Conversation {
        Conversation {
            shared,
            version: None,
            subscriptions: Vec::new(),
            query: None,
            out: Vec::new(),
            messages: 0,
            is_over: false,
            send_beat: None,
            receive_beat: None,
        }
    }

    /// Accepts a message of the client's.
    async fn accept_message(&mut self, reader: &mut Reader, message: &str) {
        reader.push(message);
        while !self.is_over {
            match reader.next(self.version.unwrap_or(Version::V1_0)) {
                Ok(None) => return,
                Ok(Some(Received::HeartBeat)) => {}
                Ok(Some(Received::Frame(frame))) => self.frame(&frame).await,
                Err(error) => self.refuse(error),
            }
        }
    }

    /// The protocol was broken, and the session ends.
    fn refuse(&mut self, message: impl Into<String>) {
        let message = message.into();
        self.out.push(Frame::new("ERROR").with("message", message.as_str()).body("text/plain", message));
        self.query = None;
        self.is_over = true;
    }

    async fn frame(&mut self, frame: &Frame) {
        let fault = match (self.version, frame.command.as_str()) {
            (None, "CONNECT" | "STOMP") => self.connect(frame),
            (None, _) => Err("the first frame is not CONNECT".to_owned()),
            (Some(_), "CONNECT" | "STOMP") => Err("the session is connected already".to_owned()),
            (Some(_), "SUBSCRIBE") => self.subscribe(frame),
            (Some(_), "UNSUBSCRIBE") => self.unsubscribe(frame),
            (Some(_), "SEND") => self.request(frame).await,
            (Some(_), "DISCONNECT") => {
                self.query = None;
                self.is_over = true;
                Ok(())
            }
            // Every answer counts as taken when it is sent.
            (Some(_), "ACK" | "NACK") => Ok(()),
            (Some(_), "BEGIN" | "COMMIT" | "ABORT") => Err("transactions are not supported".to_owned()),
            (Some(_), other) => Err(format!("there is no command `{}`", cut(other))),
        };
        match (fault, frame.field("receipt")) {
            (Err(message), receipt) => {
                let begin = self.out.len();
                self.refuse(message);
                if let (Some(receipt), Some(error)) = (receipt, self.out.get_mut(begin)) {
                    *error = error.clone().with("receipt-id", receipt);
                }
            }
            (Ok(()), Some(receipt)) if frame.command != "CONNECT" => {
                self.out.push(Frame::new("RECEIPT").with("receipt-id", receipt));
            }
            (Ok(()), _) => {}
        }
    }

    fn connect(&mut self, frame: &Frame) -> Result<(), String> {
        let Some(version) = Version::agreed(frame.field("accept-version")) else {
            return Err("no common version: this server supports 1.0, 1.1 and 1.2".to_owned());
        };
        self.version = Some(version);
        let beat_ms = self.shared.config.bullet.stomp_heart_beat_ms;
        let mut connected =
            Frame::new("CONNECTED").with("version", version.name()).with("server", "swiftwater");
        if version > Version::V1_0 {
            let asked = frame.field("heart-beat").unwrap_or("0,0");
            let (can, wants) = asked.split_once(',').ok_or("`heart-beat` is not two numbers")?;
            let number =
                |text: &str| text.trim().parse::<u64>().map_err(|_| "`heart-beat` is not two numbers");
            let (can, wants) = (number(can)?, number(wants)?);
            let agreed = |theirs: u64| {
                (theirs > 0 && beat_ms > 0)
                    .then(|| Duration::from_millis(theirs.min(86_400_000).max(beat_ms)))
            };
            self.send_beat = agreed(wants);
            self.receive_beat = agreed(can);
            connected = connected.with("heart-beat", format!("{beat_ms},{beat_ms}"));
        }
        self.out.push(connected);
        Ok(())
    }

    fn subscribe(&mut self, frame: &Frame) -> Result<(), String> {
        let destination = frame.field("destination").ok_or("SUBSCRIBE has no `destination`")?;
        if !RESPONSES.contains(&destination) {
            let (destination, own) = (cut(destination), RESPONSES.join(" and "));
            return Err(format!("no destination `{destination}`; answers are sent to {own}"));
        }
        // 1.0 knows a subscription by its destination, where it has no id.
        let id = match (frame.field("id"), self.version) {
            (Some(id), _) => id,
            (None, Some(Version::V1_0)) => destination,
            (None, _) => return Err("SUBSCRIBE has no `id`".to_owned()),
        };
        if self.subscriptions.iter().any(|other| other.id == id) {
            return Err("a subscription with this `id` exists".to_owned());
        }
        if self.subscriptions.len() >= SUBSCRIPTIONS_MAX {
            return Err(format!("a session may have {SUBSCRIPTIONS_MAX} subscriptions"));
        }
        self.subscriptions
            .push(ClientSubscription { id: id.to_owned(), destination: destination.to_owned() });
        Ok(())
    }

    fn unsubscribe(&mut self, frame: &Frame) -> Result<(), String> {
        let id = frame.field("id").or(frame.field("destination")).ok_or("UNSUBSCRIBE has no `id`")?;
        self.subscriptions.retain(|subscribed| subscribed.id != id);
        if self.subscriptions.is_empty() {
            // No client is left to answer.
            self.query = None;
        }
        Ok(())
    }

    async fn request(&mut self, frame: &Frame) -> Result<(), String> {
        let destination = frame.field("destination").ok_or("SEND has no `destination`")?;
        if destination != REQUESTS {
            return Err(format!("cannot send to `{}`; send requests to {REQUESTS}", cut(destination)));
        }
        if self.subscriptions.is_empty() {
            return Err(format!("SUBSCRIBE to {} before requests", RESPONSES[0]));
        }
        let request = serde_json::from_str::<Value>(&frame.body).unwrap_or_default();
        let content = match &request["content"] {
            Value::String(text) => Some(text.clone()),
            // The JSON form of a query, not wrapped into text.
            Value::Object(object) => Some(Value::Object(object.clone()).to_string()),
            _ => None,
        };
        match (request["type"].as_str(), content) {
            (Some("NEW_QUERY"), Some(text)) => self.begin(&text).await,
            (Some("KILL_QUERY"), id) => self.kill(id),
            _ => self.reply("FAIL", invalid_query()),
        }
        Ok(())
    }

    async fn begin(&mut self, text: &str) {
        if self.query.is_some() {
            let (error, resolution) =
                ("The session has a query already", "Kill the query first, or open another session.");
            return self.reply("FAIL", error_result(error, &[resolution]));
        }
        let Ok(place) = Arc::clone(&self.shared.bullet.places).try_acquire_owned() else {
            return self.reply("FAIL", too_many_queries());
        };
        match submit(&self.shared, text, false).await {
            Ok(subscription) => {
                let id = subscription.query().id.to_string();
                self.query = Some(RunningQuery { subscription, _place: place });
                self.reply("ACK", id);
            }
            Err(errors) => self.reply("FAIL", errors),
        }
    }

    /// Ends the query, if it is the one meant; without an id it is. Bullet sends no result of a query that was killed.
    fn kill(&mut self, id: Option<String>) {
        let is_meant = |standing: &RunningQuery| {
            let own = standing.subscription.query().id;
            id.as_deref().is_none_or(|id| id.parse() == Ok(own))
        };
        if self.query.as_ref().is_some_and(is_meant) {
            self.query = None;
        }
    }

    /// Sends a result; `None`: there is no further one.
    fn send_emit(&mut self, emit: Option<Emit>) {
        let Some(emit) = emit else {
            self.query = None;
            return;
        };
        let kind = match emit.meta.finished.as_ref().map(|finished| &finished.reason) {
            None => "MESSAGE",
            Some(EndReason::Killed) => "FAIL",
            Some(_) if failure_of(&emit).is_some() => "FAIL",
            Some(_) => "COMPLETE",
        };
        if kind != "MESSAGE" {
            self.query = None;
        }
        self.reply(kind, result_text(&emit));
    }

    fn reply(&mut self, kind: &str, content: String) {
        let body = json!({"type": kind, "content": content}).to_string();
        for ClientSubscription { id, destination } in &self.subscriptions {
            self.messages += 1;
            let frame = Frame::new("MESSAGE")
                .with("destination", destination.as_str())
                .with("subscription", id.as_str())
                .with("message-id", self.messages.to_string());
            self.out.push(frame.body("application/json", body.clone()));
        }
    }
}

/// Sends a message to the task that forwards it: it waits for room, for a limited time.
impl Outgoing {
    /// True if the message could be handed on.
    async fn send(&self, text: String) -> bool {
        timeout(self.patience, self.enqueue(text)).await.unwrap_or(false)
    }
}

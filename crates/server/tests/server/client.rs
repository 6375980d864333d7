//! Starts a server on a free port, and provides a small client.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    HeaderMap, Request, StatusCode,
    body::{Frame, Incoming},
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use swiftwater_engine::{Engine, EngineConfig, HistoryConfig};
use swiftwater_event::SystemClock;
use swiftwater_server::{PubSub, Server, ServerConfig, SqlAccess};
use tokio::{
    net::TcpStream,
    sync::{mpsc, oneshot},
    task::{AbortHandle, JoinHandle},
};

use crate::contract::{check_head, check_value};

/// Far longer than anything here takes: a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Fails a test that would wait for ever.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("this should have happened by now")
}

/// A running server.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) postgres: Option<SocketAddr>,
    pub(crate) syslog_tcp: Option<SocketAddr>,
    pub(crate) syslog_udp: Option<SocketAddr>,
    pub(crate) engine: Engine,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn start() -> Running {
        Running::with(EngineConfig::default(), |_| {}).await
    }

    pub(crate) async fn with(engine: EngineConfig, change: impl FnOnce(&mut ServerConfig)) -> Running {
        Running::with_sql(engine, change, None).await
    }

    pub(crate) async fn with_sql(
        engine: EngineConfig,
        change: impl FnOnce(&mut ServerConfig),
        sql: Option<SqlAccess>,
    ) -> Running {
        let engine = Engine::start(EngineConfig { shards: 2, ..engine }, Arc::new(SystemClock::new()));
        Running::over(engine, change, sql).await
    }

    /// A server that keeps what is declared, in this directory.
    pub(crate) async fn storing(directory: &Path, change: impl FnOnce(&mut ServerConfig)) -> Running {
        Running::storing_as(HistoryConfig::at(directory), change).await
    }

    /// The same, as `history` says.
    pub(crate) async fn storing_as(
        history: HistoryConfig,
        change: impl FnOnce(&mut ServerConfig),
    ) -> Running {
        let engine = EngineConfig { shards: 2, ..EngineConfig::default() };
        let engine = Engine::open(engine, history, Arc::new(SystemClock::new()));
        let engine = engine.await.unwrap();
        let sql = SqlAccess { sql: Arc::clone(engine.sql().unwrap()), others: Some(engine.statements()) };
        Running::over(engine, change, Some(sql)).await
    }

    async fn over(engine: Engine, change: impl FnOnce(&mut ServerConfig), sql: Option<SqlAccess>) -> Running {
        Running::running(engine, change, sql, |server| server).await
    }

    /// A server with Bullet's PubSub.
    pub(crate) async fn with_pubsub(
        engine: EngineConfig,
        change: impl FnOnce(&mut ServerConfig),
        pubsub: PubSub,
    ) -> Running {
        let engine = Engine::start(EngineConfig { shards: 2, ..engine }, Arc::new(SystemClock::new()));
        Running::running(engine, change, None, |server| server.with_pubsub(pubsub)).await
    }

    async fn running(
        engine: Engine,
        change: impl FnOnce(&mut ServerConfig),
        sql: Option<SqlAccess>,
        finish: impl FnOnce(Server) -> Server,
    ) -> Running {
        let mut config =
            ServerConfig { listen: vec!["127.0.0.1:0".parse().unwrap()], ..ServerConfig::default() };
        change(&mut config);
        let server = Server::bind_with_sql(engine.clone(), config, sql).await.unwrap();
        let server = finish(server);
        let address = server.addresses()[0];
        let postgres = server.postgres_address();
        let (syslog_tcp, syslog_udp) = (server.syslog_tcp_address(), server.syslog_udp_address());
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Running { address, postgres, syslog_tcp, syslog_udp, engine, stop: Some(stop), task }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::new(self.address).await
    }

    /// One request over a new connection.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        self.client().await.send(method, path, fields, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn ingest(&self, stream: &str, body: impl Into<Bytes>) -> Reply {
        self.send("POST", &format!("/v1/streams/{stream}/events"), &[], body).await
    }

    /// Submits a query and returns when it runs.
    pub(crate) async fn ask(&self, accept: &str, text: &str) -> Reply {
        let reply = self.send("POST", "/v1/queries", &[("accept", accept)], text.to_owned()).await;
        assert_eq!(reply.status, 200);
        reply
    }

    pub(crate) fn begin_stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    pub(crate) async fn stopped(self) {
        soon(self.task).await.unwrap();
    }

    /// Waits until so many queries stand.
    pub(crate) async fn until_queries(&self, count: usize) {
        soon(async {
            while self.get("/v1/queries").await.json().await["queries"].as_array().unwrap().len() != count {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

/// One connection.
pub(crate) struct Client {
    sender: SendRequest<BoxBody<Bytes, std::io::Error>>,
    address: SocketAddr,
    connection: JoinHandle<hyper::Result<()>>,
}

/// The sending end of a body that is sent piece by piece; dropping it ends the body, an error breaks it off.
pub(crate) type Pieces = mpsc::Sender<Result<Frame<Bytes>, std::io::Error>>;

impl Client {
    pub(crate) async fn new(address: SocketAddr) -> Client {
        let stream = soon(TcpStream::connect(address)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        Client { sender, address, connection: tokio::spawn(connection) }
    }

    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        let body = Full::new(body.into()).map_err(|never| match never {}).boxed();
        soon(self.start(method, path, fields, body)).await.unwrap()
    }

    /// Sends a body piece by piece.
    pub(crate) fn stream(
        mut self,
        path: &str,
        fields: &[(&str, &str)],
    ) -> (Pieces, JoinHandle<hyper::Result<Reply>>) {
        let (pieces, mut received) = mpsc::channel(1);
        let frames = futures_util::stream::poll_fn(move |context| received.poll_recv(context));
        let body = BodyExt::boxed(StreamBody::new(frames));
        let fields: Vec<(String, String)> = fields.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
        let path = path.to_owned();
        let reply = tokio::spawn(async move {
            let fields: Vec<(&str, &str)> = fields.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            self.start("POST", &path, &fields, body).await
        });
        (pieces, reply)
    }

    async fn start(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: BoxBody<Bytes, std::io::Error>,
    ) -> hyper::Result<Reply> {
        let mut request = Request::builder().method(method).uri(path);
        if !fields.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", self.address.to_string());
        }
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        self.sender.ready().await?;
        let response = self.sender.send_request(request.body(body).unwrap()).await?;
        let (parts, body) = response.into_parts();
        let status = parts.status.as_u16();
        let schema = check_head(method, path, status, &parts.headers);
        Ok(Reply { status, headers: parts.headers, body, rest: Vec::new(), schema })
    }

    /// The connection: who aborts it goes away at once, whatever is being done.
    pub(crate) fn connection(&self) -> AbortHandle {
        self.connection.abort_handle()
    }
}

/// An answer, the body of which may still come.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    rest: Vec<u8>,
    /// The schema of the body in the contract.
    schema: Option<&'static Value>,
}

impl Reply {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The body as it comes.
    pub(crate) fn into_body(self) -> Incoming {
        self.body
    }

    /// The rest of the body.
    pub(crate) async fn text(self) -> String {
        let body = soon(self.body.collect()).await.unwrap().to_bytes();
        String::from_utf8([self.rest, body.to_vec()].concat()).unwrap()
    }

    /// The body's bytes, none of which was taken.
    pub(crate) async fn bytes(self) -> Bytes {
        soon(self.body.collect()).await.unwrap().to_bytes()
    }

    pub(crate) async fn json(self) -> Value {
        let schema = self.schema;
        let text = self.text().await;
        let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        if let Some(schema) = schema {
            check_value(&value, schema).unwrap_or_else(|fault| panic!("not as in the contract: {fault}"));
        }
        value
    }

    /// The next line, without its end; `None` at the body's end.
    pub(crate) async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(String::from_utf8(line[..end].to_vec()).unwrap());
            }
            match soon(self.body.frame()).await {
                None => return None,
                Some(frame) => self.rest.extend_from_slice(&frame.unwrap().into_data().unwrap_or_default()),
            }
        }
    }

    /// The next line as JSON.
    pub(crate) async fn emit(&mut self) -> Option<Value> {
        self.line().await.map(|line| serde_json::from_str(&line).unwrap())
    }

    /// Records of emits up to `count`, or to the end.
    pub(crate) async fn records(&mut self, count: usize) -> Vec<Value> {
        let mut records = Vec::new();
        while records.len() < count {
            let Some(mut emit) = self.emit().await else { break };
            records.append(emit["records"].as_array_mut().unwrap());
        }
        records
    }

    /// Checks that this is a problem of a kind, and gives it.
    pub(crate) async fn problem(self, status: StatusCode, word: &str) -> Value {
        assert_eq!(self.field("content-type"), "application/problem+json");
        let found = self.status;
        let problem = self.json().await;
        assert_eq!(found, status.as_u16(), "{problem}");
        assert_eq!(problem["status"], status.as_u16());
        assert_eq!(problem["type"], format!("urn:swiftwater:problem:{word}"), "{problem}");
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
        problem
    }
}

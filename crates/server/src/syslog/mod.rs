//! Syslog over TCP and UDP: messages become events of one stream.
//!
//! A connection is read no faster than the engine takes its events, and is not read at all while nothing can be stored. UDP
//! has no back-pressure: datagrams wait in a queue of `syslog.queue_bytes_max`. Those that find no room there are lost,
//! counted and reported. Syslog has no answers, so a sender never learns that an event is on disk; a sender that must know
//! uses HTTP.
//! Limits: `syslog.connections_max`, `syslog.message_bytes_max`; a longer message is cut, and its event reports this.

mod cisco;
mod frames;
mod message;

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use socket2::SockRef;
use swiftwater_event::{CheckLimits, EventMeta, check_block};
use swiftwater_runtime::{AppendOptions, ErrorKind, Principal};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream, UdpSocket},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};

use crate::{
    config::SyslogConfig,
    engine::{EngineError, is_shutting_down},
    inputs::not_kept,
    pending_connections::{PendingConnection, PendingConnections},
    server::{Phase, ServerError, Shared, prepare},
};
use frames::{Frames, without_end};
use message::{MessageContext, write_event};

/// Bytes read at once from a connection.
const READ_BYTES: usize = 64 << 10;
/// The longest datagram there is.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;
/// Datagrams that wait, whatever their size.
const DATAGRAMS_MAX: usize = 64 << 10;
/// Datagrams that become events together.
const DATAGRAMS_AT_ONCE: usize = 1024;
/// Bytes that the system is asked to buffer for the socket of datagrams.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// Connections that have sent nothing yet; one more sends the oldest away.
const NEWCOMERS_MAX: usize = 1000;
/// Pause between attempts to append events while nothing can be stored.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Pause between attempts to accept connections, after one that failed because no file descriptor was free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Interval between warnings about lost datagrams.
const TELL_INTERVAL_NANOS: u64 = 10_000_000_000;

/// Counts of the received messages.
#[derive(Debug, Default)]
pub(crate) struct SyslogStats {
    pub(crate) tcp_messages: AtomicU64,
    pub(crate) udp_messages: AtomicU64,
    /// Messages that were not well formed.
    pub(crate) malformed: AtomicU64,
    /// Datagrams that found no room, and messages that the engine refused.
    pub(crate) dropped: AtomicU64,
    /// Messages that were taken on a server that stores events, into a stream of which nothing is stored.
    pub(crate) unkept: AtomicU64,
    pub(crate) connections_taken: AtomicU64,
    pub(crate) connections_ended: AtomicU64,
}

/// The ports, before anything is read from them.
#[derive(Default)]
pub(crate) struct SyslogPorts {
    pub(crate) tcp: Option<TcpListener>,
    pub(crate) udp: Option<UdpSocket>,
}

impl SyslogPorts {
    pub(crate) async fn bind(config: &SyslogConfig) -> Result<SyslogPorts, ServerError> {
        let mut ports = SyslogPorts::default();
        if let Some(address) = config.tcp_listen {
            let failed = |source| ServerError::Listen { address, source };
            ports.tcp = Some(TcpListener::bind(address).await.map_err(failed)?);
        }
        if let Some(address) = config.udp_listen {
            let failed = |source| ServerError::Listen { address, source };
            let socket = UdpSocket::bind(address).await.map_err(failed)?;
            if let Err(error) = SockRef::from(&socket).set_recv_buffer_size(SOCKET_BUFFER_BYTES) {
                tracing::debug!(%error, "the socket's buffer cannot be changed");
            }
            ports.udp = Some(socket);
        }
        Ok(ports)
    }

    /// Takes messages until the server drains.
    pub(crate) fn serve(self, shared: &Arc<Shared>, alive: &mpsc::Sender<()>) {
        if let Some(listener) = self.tcp {
            tokio::spawn(accept(listener, Arc::clone(shared), alive.clone()));
        }
        if let Some(socket) = self.udp {
            let (queue, waiting) = mpsc::channel(DATAGRAMS_MAX);
            tokio::spawn(receive(socket, queue, Arc::clone(shared), alive.clone()));
            tokio::spawn(ingest_datagrams(waiting, Arc::clone(shared), alive.clone()));
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, alive: mpsc::Sender<()>) {
    let places = Arc::new(Semaphore::new(shared.config.syslog.connections_max));
    let newcomers = PendingConnections::new(NEWCOMERS_MAX);
    loop {
        let taken = tokio::select! {
            taken = listener.accept() => taken,
            () = shared.reached(Phase::Draining) => return,
        };
        let (stream, peer) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                tracing::debug!(%error, "a connection cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (shared, alive) = (Arc::clone(&shared), alive.clone());
        let (places, newcomer) = (Arc::clone(&places), newcomers.enter());
        tokio::spawn(async move {
            if has_spoken(&stream, newcomer, &shared).await {
                match places.try_acquire() {
                    Ok(_place) => {
                        shared.syslog.connections_taken.fetch_add(1, Ordering::Relaxed);
                        read(stream, peer, &shared).await;
                        shared.syslog.connections_ended.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(_) => {
                        tracing::warn!(%peer, setting = "syslog.connections_max", "too many connections of syslog");
                    }
                }
            }
            drop(alive);
        });
    }
}

/// Waits for a connection's first byte; false if it ended before, or had to go for others that came.
async fn has_spoken(stream: &TcpStream, mut newcomer: PendingConnection, shared: &Shared) -> bool {
    if let Err(error) = prepare(stream) {
        tracing::debug!(%error, "socket options were not set");
    }
    let mut first = [0];
    tokio::select! {
        // A socket may be told to be readable with nothing there.
        peeked = stream.peek(&mut first) => matches!(peeked, Ok(1..)),
        () = newcomer.sent_away() => false,
        () = shared.reached(Phase::Draining) => false,
    }
}

/// Reads a connection to its end, or until the server drains.
async fn read(mut stream: TcpStream, peer: SocketAddr, shared: &Shared) {
    let mut frames = Frames::new(shared.config.syslog.message_bytes_max);
    let mut buffer = vec![0; READ_BYTES];
    let peer = peer.ip().to_canonical();
    loop {
        let read = tokio::select! {
            read = stream.read(&mut buffer) => read,
            () = shared.reached(Phase::Draining) => return,
        };
        let read = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::debug!(%peer, %error, "a connection of syslog ended early");
                0
            }
        };
        let mut events = Events::new(shared);
        let give = |frame: frames::Frame<'_>| events.add(frame.bytes, peer, frame.is_cut);
        match read {
            0 => frames.finish(give),
            _ => frames.push(&buffer[..read], give),
        }
        shared.syslog.tcp_messages.fetch_add(events.count, Ordering::Relaxed);
        events.append(shared).await;
        if read == 0 {
            return;
        }
    }
}

/// A datagram with its room in the queue.
struct Datagram {
    bytes: Bytes,
    peer: IpAddr,
    _room: OwnedSemaphorePermit,
}

/// Reads all the time, so that the system's buffer is empty when more datagrams come.
async fn receive(
    socket: UdpSocket,
    queue: mpsc::Sender<Datagram>,
    shared: Arc<Shared>,
    _alive: mpsc::Sender<()>,
) {
    let room = Arc::new(Semaphore::new(shared.config.syslog.queue_bytes_max));
    let clock = shared.engine.clock();
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    let mut told_nanos = None;
    loop {
        let received = tokio::select! {
            received = socket.recv_from(&mut buffer) => received,
            () = shared.reached(Phase::Draining) => return,
        };
        let (length, peer) = match received {
            Ok(received) => received,
            Err(error) => {
                // The error may be that of an earlier answer that did not arrive, or the like; the next datagram may be
                // good.
                tracing::debug!(%error, "a datagram cannot be read");
                tokio::task::yield_now().await;
                continue;
            }
        };
        shared.syslog.udp_messages.fetch_add(1, Ordering::Relaxed);
        let permits = u32::try_from(length.max(1)).unwrap_or(u32::MAX);
        let queued = Arc::clone(&room).try_acquire_many_owned(permits).ok().and_then(|room| {
            let bytes = Bytes::copy_from_slice(&buffer[..length]);
            queue.try_send(Datagram { bytes, peer: peer.ip().to_canonical(), _room: room }).ok()
        });
        if queued.is_none() {
            let dropped = shared.syslog.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            let now = clock.monotonic_nanos();
            if told_nanos.is_none_or(|told| now.saturating_sub(told) > TELL_INTERVAL_NANOS) {
                told_nanos = Some(now);
                tracing::warn!(
                    dropped,
                    setting = "syslog.queue_bytes_max",
                    "datagrams of syslog are lost: the queue is full"
                );
            }
        }
    }
}

/// Makes events of what waits.
async fn ingest_datagrams(
    mut queue: mpsc::Receiver<Datagram>,
    shared: Arc<Shared>,
    _alive: mpsc::Sender<()>,
) {
    let mut datagrams = Vec::with_capacity(DATAGRAMS_AT_ONCE);
    let most = shared.config.syslog.message_bytes_max;
    while queue.recv_many(&mut datagrams, DATAGRAMS_AT_ONCE).await > 0 {
        let mut events = Events::new(&shared);
        for Datagram { bytes, peer, _room } in datagrams.drain(..) {
            let bytes = without_end(&bytes);
            events.add(&bytes[..bytes.len().min(most)], peer, bytes.len() > most);
        }
        // While nothing can be stored the queue fills up, and then counts what it loses.
        events.append(&shared).await;
    }
}

/// Messages that came together, as lines of JSON.
struct Events {
    lines: Vec<u8>,
    count: u64,
    malformed: u64,
    arrival_micros: i64,
    utc_offset_minutes: i16,
}

impl Events {
    fn new(shared: &Shared) -> Events {
        Events {
            lines: Vec::new(),
            count: 0,
            malformed: 0,
            arrival_micros: shared.engine.clock().now_micros(),
            utc_offset_minutes: shared.config.syslog.utc_offset_minutes,
        }
    }

    fn add(&mut self, bytes: &[u8], peer: IpAddr, is_cut: bool) {
        let peer = peer.to_string();
        let around = MessageContext {
            arrival_micros: self.arrival_micros,
            utc_offset_minutes: self.utc_offset_minutes,
            peer: &peer,
            is_cut,
        };
        self.malformed += u64::from(!write_event(bytes, &around, &mut self.lines));
        self.count += 1;
    }

    /// Appends the events to the engine, and waits until it takes them.
    async fn append(self, shared: &Shared) {
        if self.count == 0 {
            return;
        }
        let stats = &shared.syslog;
        stats.malformed.fetch_add(self.malformed, Ordering::Relaxed);
        let config = &shared.config;
        let limits = CheckLimits {
            event_bytes_max: config.event_bytes_max,
            depth_max: config.event_depth_max,
            rejections_described_max: 1,
            refused_bytes_kept: 0,
        };
        let checked = check_block(self.lines.into(), &limits, 1);
        let meta = EventMeta {
            arrival: self.arrival_micros.div_euclid(1000),
            sent_micros: 0,
            read_micros: self.arrival_micros,
            ..EventMeta::default()
        };
        stats.dropped.fetch_add(checked.rejected, Ordering::Relaxed);
        let batch = checked.batch.with_meta(meta);
        let count = batch.len() as u64;
        let mut waits = false;
        let stream = &config.syslog.stream;
        loop {
            let options = AppendOptions { rejected: checked.rejected, ..AppendOptions::default() };
            let append = async {
                let principal = Principal::anonymous();
                shared.engine.ensure_stored(&principal, stream).await?;
                shared.engine.append(&principal, stream, batch.clone(), options).await
            };
            match append.await {
                Ok(appended) => {
                    if let Some(warning) = not_kept(shared, stream)
                        && stats.unkept.fetch_add(appended.accepted, Ordering::Relaxed) == 0
                        && appended.accepted > 0
                    {
                        // There is no client to answer; one warning is enough.
                        tracing::warn!(%stream, "{warning}");
                    }
                    return;
                }
                Err(error) if may_pass(&error) => {
                    if !std::mem::replace(&mut waits, true) {
                        tracing::warn!(%stream, %error, count, "messages of syslog wait to be accepted");
                    }
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(error) => {
                    stats.dropped.fetch_add(count, Ordering::Relaxed);
                    tracing::warn!(%stream, %error, count, "messages of syslog were lost");
                    return;
                }
            }
        }
    }
}

/// True if the same events may be taken later.
fn may_pass(error: &EngineError) -> bool {
    !is_shutting_down(error) && matches!(error.kind(), ErrorKind::Limit | ErrorKind::Unavailable)
}

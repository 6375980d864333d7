//! Group commit for endpoints: takes in the events of concurrent requests together.
//!
//! To check, decode, pack and log an event alone costs several times as much as to do so in a batch. A request therefore
//! queues its event. The first request of a group starts a task, which takes all queued events after the requests that were
//! ready have run. A single event is taken at once. Each request waits for the result of its own event. Bound: no more
//! events than requests in progress, whose bodies are in memory anyway.

use std::sync::Arc;

use bytes::Bytes;
use swiftwater_event::{EventBatch, EventMeta, StreamName};
use tokio::sync::oneshot;

use super::{Endpoint, EndpointError, EndpointLimits, input::checked, input::checked_all};
use crate::{Ack, AppendOptions, Appended, EngineError, RuntimeError, shared::Shared};
use swiftwater_runtime::lock_order::OrderedMutex;

/// The most bytes of events that are taken in at once, but for one event that is longer.
const BYTES_MAX: usize = 1 << 20;

/// Events of an endpoint's requests that wait to be taken in.
#[derive(Debug, Default)]
pub(super) struct GroupCommit(OrderedMutex<Vec<Group>>);

/// Events that are taken in at once.
#[derive(Debug, Default)]
struct Group {
    /// One a line.
    text: Vec<u8>,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    /// The end of its event in the text.
    end: usize,
    /// Receives the stream's offset after the event.
    reply: oneshot::Sender<Result<u64, EndpointError>>,
}

impl GroupCommit {
    /// Adds an event to the group; returns true if it is the first one, whose caller must append the group.
    fn enqueue(&self, event: &[u8]) -> (oneshot::Receiver<Result<u64, EndpointError>>, bool) {
        let (told, told_later) = oneshot::channel();
        let mut groups = self.0.lock();
        let is_first = groups.is_empty();
        if groups.last().is_none_or(|group| group.text.len() + event.len() > BYTES_MAX) {
            groups.push(Group::default());
        }
        if let Some(group) = groups.last_mut() {
            group.text.extend_from_slice(event);
            group.members.push(Member { end: group.text.len(), reply: told });
            group.text.push(b'\n');
        }
        (told_later, is_first)
    }

    fn drain(&self) -> Vec<Group> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Shared {
    /// Appends an event to the stream of an endpoint, with those that come at the same time; returns the offset after it.
    pub(super) async fn accept_together(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        (together, stream): (&Arc<GroupCommit>, &StreamName),
        event: &[u8],
        limits: &EndpointLimits,
    ) -> Result<u64, EndpointError> {
        let (told, is_first) = together.enqueue(event);
        if is_first {
            let (shared, together, stream) = (Arc::clone(self), Arc::clone(together), stream.clone());
            let ack = endpoint.ack().or(self.ack(&stream)).unwrap_or_default();
            let limits = *limits;
            // A task of its own, which goes on where the first request is given up.
            tokio::spawn(async move {
                // Other ready requests add their events before this continues.
                tokio::task::yield_now().await;
                for group in together.drain() {
                    group.accept(&shared, &stream, ack, &limits).await;
                }
            });
        }
        // The sender is dropped at the end of the server.
        told.await.unwrap_or(Err(EngineError::Runtime(RuntimeError::ShuttingDown).into()))
    }
}

impl Group {
    async fn accept(self, shared: &Shared, stream: &StreamName, ack: Ack, limits: &EndpointLimits) {
        let Group { text, members } = self;
        let text = Bytes::from(text);
        let ends: Vec<usize> = members.iter().map(|member| member.end).collect();
        let (batch, faults) = match checked_all(&text, &ends, limits) {
            Some(batch) => (batch, vec![None; members.len()]),
            None => one_by_one(&text, &ends, limits),
        };
        let appended =
            if batch.is_empty() { Ok(None) } else { append(shared, stream, batch, ack).await.map(Some) };
        let mut offsets = appended.map(|appended| appended.map(Offsets::new));
        for (Member { reply, .. }, fault) in members.into_iter().zip(faults) {
            let answer = match (fault, &mut offsets) {
                (Some(fault), _) => Err(fault),
                (None, Ok(offsets)) => offsets
                    .as_mut()
                    .map_or(Err(EngineError::Runtime(RuntimeError::ShuttingDown).into()), Offsets::next),
                (None, Err(error)) => Err(error.clone().into()),
            };
            // A caller that no longer waits gets no answer.
            let _ = reply.send(answer);
        }
    }
}

/// The fault of each event, and the events without fault.
fn one_by_one(
    text: &Bytes,
    ends: &[usize],
    limits: &EndpointLimits,
) -> (EventBatch, Vec<Option<EndpointError>>) {
    let mut good = Vec::new();
    let mut start = 0;
    let mut faults = Vec::with_capacity(ends.len());
    for &end in ends {
        let checked = checked("event", &text.slice(start..end), limits);
        faults.push(checked.map(|event| good.push(event)).err());
        start = end + 1;
    }
    (EventBatch::concat(&good), faults)
}

async fn append(
    shared: &Shared,
    stream: &StreamName,
    batch: EventBatch,
    ack: Ack,
) -> Result<Appended, EngineError> {
    let micros = shared.clock.now_micros();
    let batch = batch.with_meta(EventMeta {
        arrival: micros.div_euclid(1000),
        read_micros: micros,
        ..EventMeta::default()
    });
    let options = AppendOptions { ack, ..AppendOptions::default() };
    let appended = shared.append(stream, batch, options).await?;
    if let (Some(ticket), Ack::Disk) = (appended.ticket, ack) {
        shared.synced(ticket).await?;
    }
    Ok(appended)
}

/// The outcomes of appended events, one after another.
struct Offsets {
    row: u32,
    /// The offset after the event before.
    offset: u64,
    refusals: std::iter::Peekable<std::vec::IntoIter<crate::Refusal>>,
}

impl Offsets {
    fn new(appended: Appended) -> Offsets {
        let offset = appended.position.offset.0.saturating_sub(appended.accepted);
        Offsets { row: 0, offset, refusals: appended.refusals.into_iter().peekable() }
    }

    fn next(&mut self) -> Result<u64, EndpointError> {
        let row = self.row;
        self.row += 1;
        match self.refusals.next_if(|refusal| refusal.row == row) {
            Some(refusal) => Err(EndpointError::refused(400, refusal.message)),
            None => {
                self.offset += 1;
                Ok(self.offset)
            }
        }
    }
}

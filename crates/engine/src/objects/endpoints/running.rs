//! Runs requests of endpoints, from their input to their answer.

use std::{cell::RefCell, sync::Arc};

use bumpalo::Bump;
use bytes::Bytes;
use swiftwater_catalog::ObjectKind;
use swiftwater_event::EventMeta;
use swiftwater_live::expr::Scratch;

use super::{Endpoint, EndpointInput, compile::Action, event_builder, input::checked, select};
use crate::{
    Ack, AppendOptions, Appended, EngineError, Numbered, ViewReading, Wanted,
    durable::history::{History, run_blocking},
    shared::Shared,
};

/// The limits of a request.
#[derive(Debug, Clone, Copy)]
pub struct EndpointLimits {
    /// The longest body, and the longest event, in bytes.
    pub body_bytes_max: usize,
    /// The greatest nesting of a body.
    pub depth_max: usize,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointAnswer {
    /// The status, of success.
    pub status: u16,
    /// JSON and the end of a line, or nothing.
    pub body: Option<Vec<u8>>,
    /// The position of the view that was read.
    pub reading: Option<ViewReading>,
    /// The position after the last event that changed the row, where the answer says nothing else.
    pub changed: Option<u64>,
    /// The stream's position after the event that was taken.
    pub position: Option<u64>,
    /// The event was taken by an earlier request of this number.
    pub is_repeated: bool,
}

/// The reason why a request is not answered as requested.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EndpointError {
    /// The request violates the declaration.
    #[error("{message}")]
    Refused {
        /// The status, from 400 to 499.
        status: u16,
        /// The message.
        message: String,
        /// The position of the view that was read.
        reading: Option<ViewReading>,
    },
    /// The engine cannot.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl EndpointError {
    pub(super) fn refused(status: u16, message: String) -> EndpointError {
        EndpointError::Refused { status, message, reading: None }
    }

    pub(super) fn with_reading(self, now: Option<ViewReading>) -> EndpointError {
        match self {
            EndpointError::Refused { status, message, .. } => {
                EndpointError::Refused { status, message, reading: now }
            }
            error => error,
        }
    }
}

impl EndpointAnswer {
    pub(super) fn new(status: u16) -> EndpointAnswer {
        let (body, reading, changed, position) = (None, None, None, None);
        EndpointAnswer { status, body, reading, changed, position, is_repeated: false }
    }
}

/// Memory that is used again for the next request.
#[derive(Default)]
struct Work {
    arena: Bump,
    scratch: Scratch,
}

/// Each thread keeps at most this much of it.
const WORK_BYTES_KEPT: usize = 256 << 10;

thread_local! {
    static WORK: RefCell<Work> = RefCell::default();
}

fn with_work<R>(work: impl FnOnce(&mut Scratch, &Bump) -> R) -> R {
    WORK.with_borrow_mut(|Work { arena, scratch }| {
        let result = work(scratch, arena);
        if arena.allocated_bytes() > WORK_BYTES_KEPT {
            *arena = Bump::new();
        } else {
            arena.reset();
        }
        result
    })
}

impl History {
    /// Answers a request of an endpoint that returns rows; `wanted` is the position that its view must reach.
    pub(crate) async fn answer(
        &self,
        endpoint: &Endpoint,
        input: &EndpointInput<'_>,
        wanted: Wanted,
    ) -> Result<EndpointAnswer, EndpointError> {
        let plan = match &endpoint.action {
            Action::Select(plan) => plan,
            Action::Into(_) => {
                return Err(
                    EngineError::not_found(ObjectKind::Endpoint, endpoint.create.name.to_string()).into()
                );
            }
            Action::Broken(why) => return Err(broken(endpoint, why).into()),
        };
        let view = match &plan.source {
            Some(source) => Some(self.view_of_endpoint(&source.view, wanted).await?),
            None => None,
        };
        let now = self.clock.now();
        let answer = || {
            with_work(|scratch, arena| {
                select::answer(endpoint, plan, view.as_deref(), input, now, (scratch, arena))
            })
        };
        if plan.is_point() { answer() } else { run_blocking(usize::MAX, answer) }
    }
}

impl Shared {
    /// Makes an event of a request of an endpoint that takes events in, and lets the stream take it; `numbered`: the number
    /// of the request, by which it is taken once.
    pub(crate) async fn accept_request(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        input: &EndpointInput<'_>,
        (numbered, limits): (Option<Numbered>, &EndpointLimits),
    ) -> Result<EndpointAnswer, EndpointError> {
        let plan = match &endpoint.action {
            Action::Into(plan) => plan,
            Action::Select(_) => {
                return Err(
                    EngineError::not_found(ObjectKind::Endpoint, endpoint.create.name.to_string()).into()
                );
            }
            Action::Broken(why) => return Err(broken(endpoint, why).into()),
        };
        let micros = self.clock.now_micros();
        let now = micros.div_euclid(1000);
        let (event, body) = with_work(|scratch, arena| {
            event_builder::event(endpoint, plan, input, (now, limits), (scratch, arena))
        })?;
        if numbered.is_none() {
            let position =
                Some(self.accept_together(endpoint, (&plan.together, &plan.stream), &event, limits).await?);
            return Ok(EndpointAnswer { body, position, ..EndpointAnswer::new(endpoint.status()) });
        }
        let ack = endpoint.ack().or(self.ack(&plan.stream)).unwrap_or_default();
        let event = checked("event", &Bytes::from(event), limits)?.with_meta(EventMeta {
            arrival: now,
            read_micros: micros,
            ..EventMeta::default()
        });
        let options = AppendOptions { numbered, ack, ..AppendOptions::default() };
        let appended = self.append(&plan.stream, event, options).await?;
        let Appended { position, refusals, is_repeated, ticket, .. } = appended;
        if let Some(refusal) = refusals.into_iter().next() {
            return Err(EndpointError::refused(400, refusal.message));
        }
        if let (Some(ticket), Ack::Disk) = (ticket, ack) {
            self.synced(ticket).await?;
        }
        let position = Some(position.offset.0);
        Ok(EndpointAnswer { body, position, is_repeated, ..EndpointAnswer::new(endpoint.status()) })
    }
}

fn broken(endpoint: &Endpoint, why: &str) -> EngineError {
    EngineError::unavailable(ObjectKind::Endpoint.named(endpoint.create.name.to_string()), why)
}

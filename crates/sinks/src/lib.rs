//! Where results go that leave the engine: files that grow ([`FileSink`]) and webhooks ([`Webhook`]).
//!
//! A delivery is some bytes and where it stands in its sink: the length of a file before it, the key of a request. With
//! that it can be made again after a crash: a file has it once, a webhook is told by the key that it may have it already.
//! Knows nothing of what is delivered, when, and how often it is tried: that is its caller's.

mod file;
mod webhook;

pub use file::{FileSink, FileSinkError};
pub use webhook::{Webhook, WebhookError, WebhookOptions};

//! The targets of results that leave the engine: files that grow ([`FileSink`]) and webhooks ([`Webhook`]). Also the client
//! of schema registries ([`RegistryClient`]), as the HTTP client is here.
//!
//! A delivery consists of bytes and their place in the sink: the length of the file before it, or the key of a request. It
//! can therefore be repeated after a crash. A file has it once; a webhook can deduplicate it by the key.
//! Knows nothing of the contents, times and retries of deliveries, which are its caller's.

mod file;
mod registry;
mod webhook;

pub use file::{FileSink, FileSinkError};
pub use registry::{RegistryClient, RegistryError, RegistryOptions};
pub use webhook::{Webhook, WebhookError, WebhookOptions};

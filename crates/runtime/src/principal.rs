//! The principal: the identity of the caller, which every call into the engine carries.

use std::sync::Arc;

/// The caller. Every call into the engine carries one, so that rights can be checked where things are done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// A name for logs and, later, for rights.
    pub name: Arc<str>,
}

impl Principal {
    /// The caller of a server without authentication.
    pub fn anonymous() -> Principal {
        Principal { name: "anonymous".into() }
    }

    /// The process itself: its demo sources, its own input.
    pub fn local() -> Principal {
        Principal { name: "local".into() }
    }
}

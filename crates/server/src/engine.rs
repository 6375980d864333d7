//! The engine that the server uses: one with history or, in a binary built without that feature, a runtime.

#[cfg(feature = "history")]
pub use swiftwater_engine::{Engine, EngineError};
#[cfg(not(feature = "history"))]
pub use swiftwater_runtime::RuntimeError as EngineError;

#[cfg(not(feature = "history"))]
pub use crate::live_only::Engine;

/// The error of a binary without history for requests that need it.
pub const WITHOUT_HISTORY: &str = "this binary was built without history: make build";

/// True if an error says that the engine shuts down.
pub fn is_shutting_down(error: &EngineError) -> bool {
    use swiftwater_runtime::RuntimeError;
    #[cfg(feature = "history")]
    let is_so = matches!(error, EngineError::Runtime(RuntimeError::ShuttingDown));
    #[cfg(not(feature = "history"))]
    let is_so = matches!(error, RuntimeError::ShuttingDown);
    is_so
}

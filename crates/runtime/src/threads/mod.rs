//! The threads of a runtime: shards, ticker and indexer, each with a loop of its own.
//!
//! [`SystemThreads`] runs each loop in a thread of the system. In tests, `SeededThreads` runs all loops in the thread of the
//! test, step by step, in an order that follows from a seed: a failure repeats with its seed.

#[cfg(test)]
mod seeded;

use std::thread::{Builder, JoinHandle};

use crate::panic_guard::restarted;

/// The loop of a thread.
pub(crate) trait ThreadLoop: Send + 'static {
    /// The name of the thread.
    fn name(&self) -> String;

    /// Runs until the runtime stops, and waits where there is nothing to do. After a panic it is called again.
    fn run(&mut self);

    /// Runs one step of [`ThreadLoop::run`] without a wait. Returns false if there was nothing to do.
    #[cfg(test)]
    fn step(&mut self) -> bool;

    /// The state of the loop between two steps.
    #[cfg(test)]
    fn state(&self) -> LoopState;
}

/// The state of a loop between two steps, as far as it restricts the others.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopState {
    /// The next step needs nothing of the others.
    Free,
    /// A shard has taken a batch and not delivered it: until then nobody passes through the locks of all shards.
    HasBatch,
    /// The next step passes through the locks of all shards.
    NeedsShards,
}

/// Starts the threads of a runtime.
pub(crate) trait Threads {
    /// Starts a thread. Returns its handle; none if no thread of the system runs the loop.
    fn start(&self, work: Box<dyn ThreadLoop>) -> Option<JoinHandle<()>>;
}

/// Threads of the system.
pub(crate) struct SystemThreads;

impl Threads for SystemThreads {
    fn start(&self, mut work: Box<dyn ThreadLoop>) -> Option<JoinHandle<()>> {
        let name = work.name();
        let thread = name.clone();
        Some(spawn(&name, move || restarted(&thread, || work.run())))
    }
}

/// Spawns a thread of the system.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let spawned = Builder::new().name(name.to_owned()).spawn(work);
    spawned.expect("the system starts threads when a process begins")
}

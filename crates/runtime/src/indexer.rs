//! The indexer: a thread that rebuilds large indexes, so that no caller that adds or ends a query waits for it.
//!
//! The ticker finds the indexes that are due. At most one rebuild per stream is in progress, so the number of streams bounds
//! the queue.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use swiftwater_live::{Rebuild, ReplacedLevels};
use tracing::error;

#[cfg(test)]
use crate::threads::LoopState;
use crate::{stream::Stream, threads::ThreadLoop};

/// A stream, and the rebuild of its index.
pub(crate) type IndexErrand = (Arc<Stream>, Rebuild);

/// The interval at which replaced levels are checked, and freed once no shard uses them.
const LATER: Duration = Duration::from_millis(100);

/// The loop of the indexer.
pub(crate) struct IndexerLoop {
    inbox: mpsc::Receiver<IndexErrand>,
    /// Levels that a shard may still read. They are freed here, some time later, as nobody waits for this thread.
    replaced: Vec<ReplacedLevels>,
}

impl IndexerLoop {
    pub(crate) fn new(inbox: mpsc::Receiver<IndexErrand>) -> IndexerLoop {
        IndexerLoop { inbox, replaced: Vec::new() }
    }

    /// Builds an index, and puts it in the place of the stream's.
    fn build(&mut self, (stream, rebuild): IndexErrand) {
        let Ok(built) = catch_unwind(AssertUnwindSafe(|| rebuild.run())) else {
            error!(stream = %stream.name, "an index could not be rebuilt: it remains correct, but slower");
            return;
        };
        self.replaced.push(built.replaced());
        {
            let _change = stream.change.lock();
            let index = stream.index().rebuilt(built);
            stream.set_index(index);
        }
        stream.forget_replaced();
    }
}

impl ThreadLoop for IndexerLoop {
    fn name(&self) -> String {
        "indexer".to_owned()
    }

    /// Builds until nobody sends any more.
    fn run(&mut self) {
        loop {
            let errand = match self.replaced.is_empty() {
                true => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => self.inbox.recv_timeout(LATER),
            };
            self.replaced.retain(|replaced| !replaced.is_unused());
            match errand {
                Ok(errand) => self.build(errand),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    #[cfg(test)]
    fn step(&mut self) -> bool {
        self.replaced.retain(|replaced| !replaced.is_unused());
        let Ok(errand) = self.inbox.try_recv() else { return false };
        self.build(errand);
        true
    }

    #[cfg(test)]
    fn state(&self) -> LoopState {
        LoopState::Free
    }
}

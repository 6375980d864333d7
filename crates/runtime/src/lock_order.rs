//! The order of all locks of this crate and of the crate `engine`, and the locks that check it.
//!
//! Each lock has a [`Level`]. A thread that holds a lock takes only locks of lower levels, so no two threads wait for each
//! other. In debug builds each thread remembers the locks that it holds, and a lock taken out of order panics with both
//! names; a release build has the plain locks of the standard library, without a field or an instruction more.
//! A guard is held over no `.await`, so a thread's list is that of one piece of code.
//!
//! # Locks of tasks
//!
//! The crate `engine` also has locks of `tokio`, which are held over an `.await`. They are the outermost: the guards here are
//! not `Send`, so a task holds none of them while it waits for another task. The locks of `tokio` are not checked, because a
//! guard may move to another thread or task. Their order:
//!
//! 1. `Backups::beginning`: backups start one after another.
//! 2. `History::statement_lock`: statements change the catalog and the tables one after another.
//! 3. `History::backup_lock`: commits and changes of the catalog read it, and a backup that takes its snapshots writes it.
//! 4. `History::checkpoint_lock`: checkpoints are written one after another.
//! 5. `JoinedTable::reading` and `StoredStream::turn`: a joined table has one reader, and one of the waiting senders is next. A
//!    task that holds one of them takes no other.
//!
//! # Calls under a lock
//!
//! The closures of `Stream::append_with`, `start_at` and `between_appends` run under [`level::Intake`]. `query_ended` and
//! `query_forgotten` of [`crate::DurableObjects`] run under [`level::Merge`], the latter also under [`level::Queries`]. Joins
//! of a live query read tables and views under [`level::Shard`]. Locks of the crates below, such as the log's, are taken under
//! any of these and take none of them.

use std::{
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

pub use self::level::Level;

/// The levels.
pub mod level {
    /// A level of the order.
    pub trait Level: 'static {
        /// Its place in the order; the outermost is 0.
        const RANK: u8;

        /// Its name in messages.
        const NAME: &'static str;

        /// True if a thread may hold several locks of the level. It takes them in a fixed order.
        const SEVERAL: bool = false;
    }

    macro_rules! levels {
        ($($(#[doc = $doc:literal])* $name:ident $(($several:ident))?;)*) => {
            #[repr(u8)]
            enum Rank { $($name,)* }

            $(
                $(#[doc = $doc])*
                #[derive(Debug)]
                pub enum $name {}

                impl Level for $name {
                    const RANK: u8 = Rank::$name as u8;
                    const NAME: &'static str = stringify!($name);
                    $(const SEVERAL: bool = stringify!($several).len() > 0;)?
                }
            )*
        };
    }

    // Outermost first.
    levels! {
        /// The jobs that run; under it their tasks are started.
        Jobs;
        /// The tasks of sinks; under it tasks are registered and started.
        SinkTasks;
        /// The readers of topics; under it tasks are registered and started.
        TopicReaders;
        /// The followers of streams with durable queries; under it a follower starts, and its plan is read.
        Followers;
        /// The queries of a follower and its position; under it queries enter, and their stream receives an event.
        FollowerPlan;
        /// The pauses of a follower; under it the follower's feed starts anew from the log.
        FollowerRetry;
        /// The streams by name; under it a stream that nobody uses is removed.
        Streams;
        /// The windows of a stream, closed by one thread at a time, and the ends of its queries.
        Tick;
        /// The set of queries of a stream, changed by one thread at a time.
        QueryChange;
        /// A shard's state of a stream; a thread holds one at a time.
        Shard;
        /// The next idle time of a stream; computed from the state of its merge.
        IdleDue;
        /// The merge of a stream: its outputs in order. No thread holds the merge of two streams.
        Merge;
        /// The intake of a stream: the events that wait, and the next offset. The event is stored under it.
        Intake;
        /// The queries by id, and those that have ended; no thread holds both.
        Queries;
        /// The names of the tables in the store; under it the stored streams are looked up.
        TableNames;
        /// The commit of a view and all views over it, written by one thread at a time.
        ViewCommit;
        /// The position of a view: one for all its parts.
        ViewPosition;
        /// A part of a view's groups. A thread may read all of them, in their order.
        ViewPart(several);
        /// The next version of the catalog, made by one thread at a time.
        CatalogChange;
        /// The resume points of a durable query, those that are confirmed before those that are gone.
        ResumePoints;
        /// The rest of an input that a command reads, before the state of its blocks.
        InputRest;
        /// All locks under which no other is taken: a level for every one of them.
        Leaf;
    }
}

use self::level::Leaf;

/// A mutex of a level; without one, it is a leaf.
pub struct OrderedMutex<T, L = Leaf> {
    level: PhantomData<fn() -> L>,
    mutex: Mutex<T>,
}

/// A lock of a level for many readers or one writer; without a level, it is a leaf.
pub struct OrderedRwLock<T, L = Leaf> {
    level: PhantomData<fn() -> L>,
    lock: RwLock<T>,
}

/// A lock that is held; `G` is the guard of the standard library.
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard<G> {
    // Released before it leaves the list of the thread's locks.
    guard: G,
    #[cfg(debug_assertions)]
    _held: thread_locks::ThreadLock,
}

/// A mutex that is held.
pub type OrderedMutexGuard<'l, T> = Guard<MutexGuard<'l, T>>;

/// A lock that is held for reading.
pub type OrderedReadGuard<'l, T> = Guard<RwLockReadGuard<'l, T>>;

/// A lock that is held for writing.
pub type OrderedWriteGuard<'l, T> = Guard<RwLockWriteGuard<'l, T>>;

const _: () = assert!(size_of::<OrderedMutex<u64>>() == size_of::<Mutex<u64>>());
const _: () = assert!(size_of::<OrderedRwLock<u64>>() == size_of::<RwLock<u64>>());
#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<OrderedMutexGuard<'_, u64>>() == size_of::<MutexGuard<'_, u64>>());

// A lock is taken even if a panic poisoned it: the code that catches a panic ends what the panic left inconsistent.
impl<T, L: Level> OrderedMutex<T, L> {
    /// A mutex that nobody holds.
    pub const fn new(value: T) -> OrderedMutex<T, L> {
        OrderedMutex { level: PhantomData, mutex: Mutex::new(value) }
    }

    /// Waits for the mutex, and takes it.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock(&self) -> OrderedMutexGuard<'_, T> {
        Guard {
            #[cfg(debug_assertions)]
            _held: thread_locks::ThreadLock::enter::<L>(),
            guard: self.mutex.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

impl<T, L: Level> OrderedRwLock<T, L> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> OrderedRwLock<T, L> {
        OrderedRwLock { level: PhantomData, lock: RwLock::new(value) }
    }

    /// Waits for a writer, and takes the lock for reading.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn read(&self) -> OrderedReadGuard<'_, T> {
        Guard {
            #[cfg(debug_assertions)]
            _held: thread_locks::ThreadLock::enter::<L>(),
            guard: self.lock.read().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Waits for all others, and takes the lock for writing.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn write(&self) -> OrderedWriteGuard<'_, T> {
        Guard {
            #[cfg(debug_assertions)]
            _held: thread_locks::ThreadLock::enter::<L>(),
            guard: self.lock.write().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

impl<'l, T> OrderedMutexGuard<'l, T> {
    /// Releases the mutex until the condition is notified.
    #[inline]
    pub fn wait(mut self, condition: &Condvar) -> OrderedMutexGuard<'l, T> {
        self.guard = condition.wait(self.guard).unwrap_or_else(PoisonError::into_inner);
        self
    }

    /// Releases the mutex until it is notified and `waits` is false, or the time is over.
    #[inline]
    pub fn wait_timeout_while(
        mut self,
        condition: &Condvar,
        time: Duration,
        waits: impl FnMut(&mut T) -> bool,
    ) -> OrderedMutexGuard<'l, T> {
        let woken = condition.wait_timeout_while(self.guard, time, waits);
        self.guard = woken.unwrap_or_else(PoisonError::into_inner).0;
        self
    }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

impl<T: Default, L: Level> Default for OrderedMutex<T, L> {
    fn default() -> Self {
        OrderedMutex::new(T::default())
    }
}

impl<T: Default, L: Level> Default for OrderedRwLock<T, L> {
    fn default() -> Self {
        OrderedRwLock::new(T::default())
    }
}

impl<T: fmt::Debug, L> fmt::Debug for OrderedMutex<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mutex.fmt(f)
    }
}

impl<T: fmt::Debug, L> fmt::Debug for OrderedRwLock<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

impl<G: Deref<Target: fmt::Debug>> fmt::Debug for Guard<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The locks that a thread holds.
#[cfg(debug_assertions)]
mod thread_locks {
    use std::{cell::RefCell, panic::Location};

    use super::Level;

    struct Entry {
        rank: u8,
        name: &'static str,
        number: u64,
        place: &'static Location<'static>,
    }

    #[derive(Default)]
    struct Locks {
        next: u64,
        entries: Vec<Entry>,
    }

    thread_local! {
        static LOCKS: RefCell<Locks> = RefCell::default();
    }

    /// An entry of the thread's list, which leaves the list when this is dropped.
    pub(super) struct ThreadLock(u64);

    impl ThreadLock {
        /// Adds a lock to the list, before the thread waits for it.
        #[track_caller]
        pub(super) fn enter<L: Level>() -> ThreadLock {
            let place = Location::caller();
            LOCKS.with_borrow_mut(|locks| {
                if let Some(held) = locks.entries.iter().max_by_key(|held| held.rank) {
                    let is_inner = L::RANK > held.rank || (L::SEVERAL && L::RANK == held.rank);
                    // A thread that unwinds already does not panic again.
                    assert!(
                        is_inner || std::thread::panicking(),
                        "lock `{}` is taken at {place} under lock `{}` of {}; the order is in `lock_order.rs`",
                        L::NAME,
                        held.name,
                        held.place,
                    );
                }
                let number = locks.next;
                locks.next += 1;
                locks.entries.push(Entry { rank: L::RANK, name: L::NAME, number, place });
                ThreadLock(number)
            })
        }
    }

    impl Drop for ThreadLock {
        fn drop(&mut self) {
            LOCKS.with_borrow_mut(|locks| {
                let entry = locks.entries.iter().rposition(|entry| entry.number == self.0);
                locks.entries.remove(entry.expect("a lock stays in the list while it is held"));
            });
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::Arc,
    };

    use super::{
        level::{Intake, Merge, ViewPart},
        *,
    };

    /// The message of the panic of `taken`; none if it returned.
    fn panic_of<T>(taken: impl FnOnce() -> T) -> Option<String> {
        let panic = catch_unwind(AssertUnwindSafe(|| drop(taken()))).err()?;
        Some(panic.downcast::<String>().map_or_else(|_| String::new(), |message| *message))
    }

    #[test]
    fn lock_taken_out_of_order_panics_with_both_names() {
        let merge = OrderedMutex::<_, Merge>::new(1);
        let intake = OrderedRwLock::<_, Intake>::new(2);
        let leaves = [OrderedMutex::<_>::new(3), OrderedMutex::new(4)];

        let outer = merge.lock();
        let inner = intake.read();
        let leaf = leaves[0].lock();
        assert_eq!((*outer, *inner, *leaf), (1, 2, 3));
        let message = panic_of(|| leaves[1].lock()).expect("a leaf is taken under a leaf");
        assert!(
            message.contains("lock `Leaf` is taken at") && message.contains("under lock `Leaf`"),
            "{message}"
        );
        // Released in any order.
        drop(outer);
        drop(leaf);
        let message = panic_of(|| merge.lock()).expect("the merge is taken under the intake");
        assert!(message.contains("`Merge`") && message.contains("under lock `Intake`"), "{message}");
        assert!(panic_of(|| intake.read()).is_some(), "a second reader of one lock may wait for a writer");
        drop(inner);
        assert_eq!(panic_of(|| merge.lock()), None);
        assert_eq!(panic_of(|| intake.write()), None);
    }

    #[test]
    fn several_locks_of_a_level_are_taken_where_the_level_says_so() {
        let parts = [OrderedRwLock::<_, ViewPart>::new(1), OrderedRwLock::new(2)];
        let all: Vec<_> = parts.iter().map(OrderedRwLock::read).collect();
        assert_eq!(all.iter().map(|part| **part).sum::<i32>(), 3);
        drop(all);
        assert_eq!(panic_of(|| parts[0].write()), None);
    }

    #[test]
    fn another_thread_has_a_list_of_its_own() {
        let (merge, intake) =
            (Arc::new(OrderedMutex::<_, Merge>::new(())), OrderedMutex::<_, Intake>::new(()));
        let _held = intake.lock();
        let other = Arc::clone(&merge);
        let taken = std::thread::spawn(move || drop(other.lock())).join();
        assert!(taken.is_ok());
        assert!(panic_of(|| merge.lock()).is_some());
    }

    #[test]
    fn mutex_that_waits_for_a_condition_stays_in_the_list() {
        let (merge, condition) = (OrderedMutex::<_, Merge>::new(0), Condvar::new());
        let held = merge.lock().wait_timeout_while(&condition, Duration::ZERO, |value| *value == 0);
        assert_eq!(*held, 0);
        assert!(panic_of(|| merge.lock()).is_some());
        drop(held);
        assert_eq!(panic_of(|| merge.lock()), None);
    }
}

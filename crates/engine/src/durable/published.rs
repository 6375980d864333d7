//! A value with many readers and few writers: readers take the newest version and never wait for a writer.
//!
//! Writers change the value one at a time. While a reader still uses the newest version, a writer copies it and publishes
//! the copy. Otherwise the writer changes it in place. No lock that readers take is held while a value is copied.

use std::sync::Arc;
use swiftwater_runtime::lock_order::{OrderedMutex, OrderedMutexGuard, OrderedRwLock, level};

/// The newest version of a value.
pub(crate) struct Published<T> {
    changing: OrderedMutex<(), level::CatalogChange>,
    newest: OrderedRwLock<Arc<T>>,
}

/// The right to change the value, which one has at a time.
pub(crate) struct Changing<'p, T> {
    published: &'p Published<T>,
    _one_at_a_time: OrderedMutexGuard<'p, ()>,
}

impl<T: Clone> Published<T> {
    pub(crate) fn new(value: T) -> Published<T> {
        Published { changing: OrderedMutex::default(), newest: OrderedRwLock::new(Arc::new(value)) }
    }

    /// The newest version. It stays as it is, however long it is read.
    pub(crate) fn newest(&self) -> Arc<T> {
        Arc::clone(&self.newest.read())
    }

    /// Waits for others that change the value; readers go on.
    pub(crate) fn changing(&self) -> Changing<'_, T> {
        Changing { published: self, _one_at_a_time: self.changing.lock() }
    }
}

impl<T: Clone> Changing<'_, T> {
    /// The newest version, which stays the newest as long as this is there.
    pub(crate) fn newest(&self) -> Arc<T> {
        self.published.newest()
    }

    pub(crate) fn apply<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut newest = self.published.newest.write();
        if let Some(value) = Arc::get_mut(&mut newest) {
            return change(value);
        }
        let read = Arc::clone(&newest);
        drop(newest);
        let mut next = T::clone(&read);
        let result = change(&mut next);
        let next = Arc::new(next);
        let mut newest = self.published.newest.write();
        let before = std::mem::replace(&mut *newest, next);
        drop(newest);
        // The last reader frees them, without a lock.
        drop((before, read));
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    /// A value that is looked at by somebody else while it is copied.
    struct Watched(i32);

    static PUBLISHED: OnceLock<Published<Watched>> = OnceLock::new();
    static SEEN: OrderedMutex<Vec<i32>> = OrderedMutex::new(Vec::new());

    /// Reads as another thread would.
    fn look() {
        let published = PUBLISHED.get().expect("it was set");
        let newest = published.newest().0;
        SEEN.lock().push(newest);
    }

    impl Clone for Watched {
        fn clone(&self) -> Self {
            look();
            Watched(self.0)
        }
    }

    #[test]
    fn readers_wait_for_nobody_who_changes_the_value() {
        let published = Published::new(1);
        let changing = published.changing();
        assert_eq!(*published.newest(), 1);
        changing.apply(|value| *value = 2);
        // On another thread, as it would be.
        let read = std::thread::scope(|scope| scope.spawn(|| *published.newest()).join());
        assert_eq!(read.expect("it reads"), 2);
        drop(changing);
        published.changing().apply(|value| *value += 1);
        assert_eq!(*published.newest(), 3);
    }

    #[test]
    fn version_that_is_read_stays_as_it_is() {
        let published = Published::new(vec![1]);
        let read = published.newest();
        published.changing().apply(|value| value.push(2));
        assert_eq!((&*read, &*published.newest()), (&vec![1], &vec![1, 2]));
    }

    #[test]
    fn readers_are_answered_while_the_value_is_copied_and_changed() {
        let published = PUBLISHED.get_or_init(|| Published::new(Watched(1)));
        let read = published.newest();
        published.changing().apply(|value| {
            look();
            value.0 = 2;
        });
        assert_eq!((read.0, published.newest().0), (1, 2));
        assert_eq!(*SEEN.lock(), [1, 1], "while it is copied, and while the copy is changed");
    }
}

//! The registry of all objects that tasks maintain. It states what each still needs of the log.

use std::{collections::BTreeMap, sync::Arc};

use swiftwater_catalog::Object;
use swiftwater_log::LogPosition;
use swiftwater_runtime::lock_order::OrderedMutex;

use super::Maintained;
use crate::durable::history::History;

/// A maintained object of any kind.
trait Registered: Send + Sync {
    /// The object, as [`Maintained::object`].
    fn name(&self) -> Object;

    /// The position of [`Maintained::retains`]; none if it was dropped.
    fn retained_from(&self, history: &History) -> Option<LogPosition>;
}

impl<M: Maintained> Registered for M {
    fn name(&self) -> Object {
        self.object()
    }

    fn retained_from(&self, history: &History) -> Option<LogPosition> {
        if self.drop_signal().is_sent() { None } else { self.retains(history) }
    }
}

/// All maintained objects, by the order of their registration.
///
/// An object leaves when it was dropped, or when its work has ended with success. One that has failed, or whose task ended
/// because the engine closes, stays: the next start needs the log from where it was.
#[derive(Default)]
pub(crate) struct Registry(OrderedMutex<RegisteredObjects>);

#[derive(Default)]
struct RegisteredObjects {
    next: u64,
    objects: BTreeMap<u64, Arc<dyn Registered>>,
}

/// The place of an object in the registry.
#[derive(Debug)]
pub(crate) struct Registration(u64);

impl Registry {
    /// Registers an object, so that the log is retained for it from now on.
    pub(crate) fn register<M: Maintained>(&self, object: &Arc<M>) -> Registration {
        let mut registered = self.0.lock();
        let number = registered.next;
        registered.next += 1;
        registered.objects.insert(number, Arc::<M>::clone(object));
        Registration(number)
    }

    pub(super) fn remove(&self, Registration(number): Registration) {
        self.0.lock().objects.remove(&number);
    }

    /// The first position of the log that an object needs, and the object.
    pub(crate) fn retained_from(&self, history: &History) -> Option<(LogPosition, Object)> {
        // Each object has a lock of its own, which is not taken under the one of the registry.
        let objects: Vec<Arc<dyn Registered>> = self.0.lock().objects.values().cloned().collect();
        let position =
            |object: &Arc<dyn Registered>| Some((object.retained_from(history)?, Arc::clone(object)));
        let first = objects.iter().filter_map(position).min_by_key(|(position, _)| *position);
        first.map(|(position, object)| (position, object.name()))
    }
}

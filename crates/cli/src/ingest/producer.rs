//! Numbers requests, so that a stored stream stores each once, however often it is sent.
//!
//! Each input has its own producer, `NAME:HASH`: the name of the run and a hash of the input's path. For the path's n-th use
//! in one run, `:n` follows. Its requests are numbered from 0 and sent one at a time; the next one is cut only when the
//! server has answered. A file is cut at the same places whenever it is read ([`super::edges`]). A second run under the same
//! name therefore sends the same requests again, and the server skips those that it has.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use swiftwater_runtime::hash_of;

use crate::input_file::Place;

/// One request's number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) producer: Arc<str>,
    pub(super) sequence: u64,
}

/// The producers of one run.
#[derive(Debug)]
pub(super) struct Producers {
    name: String,
    /// Number of uses of each path.
    uses: HashMap<String, u64>,
}

impl Producers {
    /// The numbers of a run with this name, or with a random one.
    pub(super) fn new(name: Option<&str>) -> Producers {
        let random = || format!("ingest-{:016x}", RandomState::new().hash_one(0));
        Producers { name: name.map_or_else(random, str::to_owned), uses: HashMap::new() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The first number of an input.
    pub(super) fn first(&mut self, place: &Place) -> Number {
        let path = match place {
            Place::Stdin => "-".to_owned(),
            Place::File(path) => path.canonicalize().unwrap_or_else(|_| path.clone()).display().to_string(),
        };
        let hash = hash_of([path.as_bytes()]);
        let used = self.uses.entry(path).or_insert(0);
        *used += 1;
        let producer = match *used {
            1 => format!("{}:{hash:016x}", self.name),
            nth => format!("{}:{hash:016x}:{nth}", self.name),
        };
        Number { producer: producer.into(), sequence: 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn file_has_the_same_producer_in_each_run_of_a_name() {
        let first = |name: Option<&str>, paths: &[&str]| {
            let mut producers = Producers::new(name);
            let firsts = paths.iter().map(|path| producers.first(&Place::of(Path::new(path))).producer);
            firsts.collect::<Vec<_>>()
        };
        let [a, b, again] = &first(Some("n"), &["/a", "/b", "/a"])[..] else { panic!("three") };
        assert!(a.starts_with("n:") && a != b && *again == format!("{a}:2").into(), "{a} {b} {again}");
        let other_order = first(Some("n"), &["/b", "/a"]);
        assert_eq!([&other_order[0], &other_order[1]], [b, a]);
        assert_ne!(&first(Some("m"), &["/a"])[0], a);
        assert_ne!(first(None, &["/a"]), first(None, &["/a"]), "runs without a name are told apart");
    }
}

//! The queries of the cluster that stand, as this node has read them. A reader asks for what has changed since it asked before, so
//! that a new query costs the same however many stand.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use swiftwater_cluster::QueryNumber;

use super::ClusterQuery;

/// The queries that stand.
#[derive(Debug, Default)]
pub(super) struct Queries {
    streams: HashMap<String, OfStream>,
    /// The stream and the number of each, by its key.
    numbers: HashMap<String, (String, QueryNumber)>,
}

/// The queries over a stream. Numbers ascend as queries come.
#[derive(Debug, Default)]
struct OfStream {
    standing: BTreeMap<QueryNumber, Arc<ClusterQuery>>,
    /// By the number of each reader.
    readers: BTreeMap<usize, OfReader>,
}

/// The queries over a stream as a reader of it knows them.
#[derive(Debug, Default)]
struct OfReader {
    /// All with lower numbers were given to it.
    given: QueryNumber,
    /// Those among them that have ended since.
    ended: Vec<QueryNumber>,
}

/// The changes of a stream's queries.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) new: Vec<(QueryNumber, Arc<ClusterQuery>)>,
    pub(super) ended: Vec<QueryNumber>,
}

impl Queries {
    /// Takes up a query.
    pub(super) fn add(&mut self, number: QueryNumber, query: ClusterQuery) {
        let stream = query.asked.stream.clone();
        self.numbers.insert(query.key.clone(), (stream.clone(), number));
        self.streams.entry(stream).or_default().standing.insert(number, Arc::new(query));
    }

    /// Forgets a query that has ended; answers the stream that it was over.
    pub(super) fn end(&mut self, key: &str) -> Option<String> {
        let (stream, number) = self.numbers.remove(key)?;
        if let Some(of_stream) = self.streams.get_mut(&stream) {
            of_stream.standing.remove(&number);
            for reader in of_stream.readers.values_mut().filter(|reader| number < reader.given) {
                reader.ended.push(number);
            }
        }
        Some(stream)
    }

    /// The query with this key.
    pub(super) fn get(&self, key: &str) -> Option<&ClusterQuery> {
        let (stream, number) = self.numbers.get(key)?;
        self.streams.get(stream)?.standing.get(number).map(|query| &**query)
    }

    /// The number of the query with this key.
    pub(super) fn number_of(&self, key: &str) -> Option<QueryNumber> {
        self.numbers.get(key).map(|(_, number)| *number)
    }

    /// All that stand.
    pub(super) fn all(&self) -> impl Iterator<Item = &ClusterQuery> {
        self.streams.values().flat_map(|of_stream| of_stream.standing.values()).map(|query| &**query)
    }

    /// The changes for a reader of a stream that was given all with lower numbers than `from` before: a new reader, nothing.
    pub(super) fn changes(&mut self, stream: &str, (reader, from): (usize, QueryNumber)) -> Changes {
        let Some(of_stream) = self.streams.get_mut(stream) else { return Changes::default() };
        let of_reader = of_stream.readers.entry(reader).or_default();
        let mut ended = std::mem::take(&mut of_reader.ended);
        if from == 0 {
            ended.clear();
        }
        let new = of_stream.standing.range(from..).map(|(number, query)| (*number, Arc::clone(query)));
        let new: Vec<_> = new.collect();
        of_reader.given = new.last().map_or(from, |(last, _)| last + 1);
        Changes { new, ended }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::cluster::{QueryMessage, TextForm};

    fn query(stream: &str, key: &str) -> ClusterQuery {
        let asked = QueryMessage {
            stream: stream.to_owned(),
            text: String::new(),
            form: TextForm::Native,
            parameters: Vec::new(),
            asked: None,
            duration_ms: None,
            server: String::new(),
            operator: (0, 0),
            is_detached: false,
            waits: false,
            times: false,
        };
        ClusterQuery { key: key.to_owned(), begins: 0, asked }
    }

    fn numbers(changes: Changes) -> (Vec<QueryNumber>, Vec<QueryNumber>) {
        (changes.new.into_iter().map(|(number, _)| number).collect(), changes.ended)
    }

    #[test]
    fn a_reader_is_given_each_change_once() {
        let mut queries = Queries::default();
        queries.add(3, query("s", "a"));
        queries.add(4, query("t", "b"));
        queries.add(7, query("s", "c"));
        assert_eq!(numbers(queries.changes("s", (0, 0))), (vec![3, 7], vec![]));
        assert_eq!(numbers(queries.changes("s", (0, 8))), (vec![], vec![]));
        queries.add(9, query("s", "d"));
        assert_eq!(queries.end("a").as_deref(), Some("s"));
        // It ended before the reader has heard of it.
        queries.end("d");
        queries.add(11, query("s", "e"));
        assert_eq!(numbers(queries.changes("s", (0, 8))), (vec![11], vec![3]));
        assert_eq!(queries.end("a"), None);
        // Another reader of the stream that begins now.
        assert_eq!(numbers(queries.changes("s", (1, 0))), (vec![7, 11], vec![]));
        // A reader that begins anew needs no ends.
        queries.end("c");
        assert_eq!(numbers(queries.changes("s", (0, 0))), (vec![11], vec![]));
        assert_eq!(numbers(queries.changes("s", (1, 12))), (vec![], vec![7]));
        assert_eq!(queries.all().count(), 2);
        assert_eq!(numbers(queries.changes("other", (0, 0))), (vec![], vec![]));
    }
}

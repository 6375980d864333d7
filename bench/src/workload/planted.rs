//! Equality queries whose values are planted in events of the published shape.

use std::ops::Range;

use swiftwater_testkit::{
    Rng,
    published::{PublishedEvents, QUERY_FIELDS, string_len_of},
};

use super::{MATCH_SHARE, Workload, query_text};

const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// So many queries, spread evenly over the first so many of the string fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct Set {
    pub(super) queries: usize,
    pub(super) paths: usize,
}

/// The condition of one query.
struct Query {
    field: usize,
    value: Vec<u8>,
}

/// The way in which queries and events match.
enum Plan {
    /// An event matches a query of one of the sets, or none: each set has its share.
    Exclusive { sets: Vec<Range<usize>> },
    /// An event matches so many queries on average, each on a path of its own.
    Together { paths: usize, matches: f64 },
}

/// Events in which the values of queries are planted.
pub(super) struct Planted {
    base: PublishedEvents,
    queries: Vec<Query>,
    plan: Plan,
    truth: Vec<u64>,
}

impl Planted {
    /// [`MATCH_SHARE`] of the events match a query of the first set, as many others one of the second, and so on.
    pub(super) fn exclusive(seed: u64, sets: &[Set]) -> Planted {
        let mut queries = Vec::new();
        let sets = sets.iter().map(|set| plant(&mut queries, *set)).collect();
        Planted::new(seed, queries, Plan::Exclusive { sets })
    }

    /// Each event matches `matches` queries of the set on average, at most one on each path.
    pub(super) fn together(seed: u64, set: Set, matches: f64) -> Planted {
        assert!(matches <= set.paths as f64, "an event has one value on a path");
        let mut queries = Vec::new();
        plant(&mut queries, set);
        Planted::new(seed, queries, Plan::Together { paths: set.paths, matches })
    }

    fn new(seed: u64, queries: Vec<Query>, plan: Plan) -> Planted {
        let truth = vec![0; queries.len()];
        Planted { base: PublishedEvents::new(seed, 0, 0.0), queries, plan, truth }
    }
}

/// Adds the queries of a set; query `n` of it is on path `n % paths`.
fn plant(queries: &mut Vec<Query>, set: Set) -> Range<usize> {
    assert!(set.paths <= QUERY_FIELDS, "there are {QUERY_FIELDS} paths");
    let first = queries.len();
    let mut numbers = [0; QUERY_FIELDS];
    queries.iter().for_each(|query| numbers[query.field] += 1);
    for query in 0..set.queries {
        let field = query % set.paths;
        queries.push(Query { field, value: value(field, numbers[field]) });
        numbers[field] += 1;
    }
    first..queries.len()
}

/// The value of this number on a path. It begins with a letter that no other value has, so nothing matches by accident.
fn value(field: usize, number: usize) -> Vec<u8> {
    let mut value = vec![b'Q'; string_len_of(field)];
    // Four letters where there is room for more than the three that the shortest values have.
    let coded = if value.len() > 4 { 4 } else { 3 };
    let mut rest = number;
    for byte in &mut value[1..=coded] {
        *byte = LETTERS[rest % 32];
        rest /= 32;
    }
    assert!(rest == 0, "more queries on a path than can be told apart");
    let mut rng = Rng::new((number * QUERY_FIELDS + field) as u64);
    value[coded + 1..].iter_mut().for_each(|byte| *byte = LETTERS[rng.below(32)]);
    value
}

impl Workload for Planted {
    fn queries(&self) -> Vec<String> {
        let text = |query: &Query| {
            let value = String::from_utf8_lossy(&query.value);
            query_text("*", &format!("s{:02} = '{value}'", query.field + 1))
        };
        self.queries.iter().map(text).collect()
    }

    fn write(&mut self, events: usize, out: &mut Vec<u8>) {
        let Planted { base, queries, plan, truth } = self;
        base.write_edited(events, out, |event, rng| {
            let mut put = |place: usize| {
                let Query { field, value } = &queries[place];
                event.string(*field, value.len()).copy_from_slice(value);
                truth[place] += 1;
            };
            match plan {
                Plan::Exclusive { sets } => {
                    let set = (rng.share() / MATCH_SHARE) as usize;
                    if let Some(set) = sets.get(set) {
                        put(set.start + rng.below(set.len()));
                    }
                }
                Plan::Together { paths, matches } => {
                    let count = *matches as usize + usize::from(rng.chance(matches.fract()));
                    let first = rng.below(*paths);
                    for path in (first..first + count).map(|path| path % *paths) {
                        let on_path = (queries.len() + *paths - 1 - path) / *paths;
                        put(path + *paths * rng.below(on_path));
                    }
                }
            }
        });
    }

    fn truth(&self) -> &[u64] {
        &self.truth
    }
}

#[cfg(test)]
mod tests {
    use crate::workload::Spec;

    fn holds(spec: Spec, events: usize) -> f64 {
        let mut workload = spec.begin();
        let mut out = Vec::new();
        workload.write(events, &mut out);
        let conditions: Vec<(String, String)> = workload
            .queries()
            .iter()
            .map(|query| {
                let (_, condition) = query.split_once(" WHERE ").unwrap();
                let (field, value) = condition.split_once(" = ").unwrap();
                (field.to_owned(), value.trim_matches('\'').to_owned())
            })
            .collect();
        let mut places = std::collections::HashMap::new();
        for (place, (field, value)) in conditions.iter().enumerate() {
            assert!(
                places.insert((field.as_str(), value.as_str()), place).is_none(),
                "{field} {value} twice"
            );
        }
        let mut counted = vec![0; conditions.len()];
        for line in out.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let event: serde_json::Value = serde_json::from_slice(line).unwrap();
            for (field, value) in event.as_object().unwrap() {
                if let Some(place) = value.as_str().and_then(|value| places.get(&(field.as_str(), value))) {
                    counted[*place] += 1;
                }
            }
        }
        assert_eq!(counted, workload.truth());
        counted.iter().sum::<u64>() as f64 / events as f64
    }

    #[test]
    fn truth_is_what_the_events_say() {
        let share = holds(Spec::Equality, 4000);
        assert!((0.03..0.07).contains(&share), "{share}");
        for (queries, paths, matches_per_thousand) in
            [(7, 3, 2500), (1000, 1, 10), (100, 50, 10_000), (2, 2, 0)]
        {
            let matches = holds(Spec::Planted { queries, paths, matches_per_thousand }, 2000);
            assert!((matches - matches_per_thousand as f64 / 1000.0).abs() < 0.05, "{matches}");
        }
    }
}

//! A hundred thousand queries of six forms. The forms are:
//!
//! - 40 %: one equality;
//! - 25 %: an equality and a range that keeps half;
//! - 15 %: a range that keeps 30 % of the events, and one that keeps 0.01 %;
//! - 10 %: IN of three values;
//! - 5 %: a prefix or a regular expression;
//! - 5 %: an OR of two of the former.
//!
//! Paths are drawn by Zipf's law with exponent 1.
//!
//! The fifty paths, by rank: every third contains numbers, sixteen in all, the others texts. A text is one of [`VALUES`],
//! which makes ten matches of an event with 100,000 queries.
//!
//! The expected answers are counted here, independently of the engine. In every branch of a query's filter one condition is
//! the key, texts by their value, ranges by coarse bins. The queries that a key finds are tested condition by condition.

use serde::{Deserialize, Serialize};
use swiftwater_testkit::{
    Rng,
    published::{EventText, PublishedEvents, string_len_of},
};

use super::{Workload, query_text};

const PATHS: usize = 50;
/// Different texts of a path.
const VALUES: u64 = 10_600;
/// Into which the numbers of a path are sorted to be counted.
const BINS: u64 = 8192;
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// The first string field that holds such texts: those before hold UUIDs.
const TEXT_FIRST: usize = 4;

/// The kind of a query's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// One field of each event that matches, as it comes.
    Field,
    /// The number of matches, at the end.
    Count,
}

/// The type of a path.
#[derive(Debug, Clone, Copy)]
enum Path {
    /// A string field.
    Text(usize),
    /// A long field.
    Long(usize),
    /// The first value of a map, a whole number.
    MapLong(usize),
    /// The first value of a map, a fraction of four digits.
    MapDouble(usize),
}

/// One condition on one path.
#[derive(Debug, Clone)]
enum Condition {
    Equals {
        path: usize,
        value: u64,
    },
    In {
        path: usize,
        values: [u64; 3],
    },
    /// From the first on, up to before the second.
    Range {
        path: usize,
        from: u64,
        to: u64,
    },
    Prefix {
        path: usize,
        value: u64,
    },
    /// The first three letters are the value's, the next is one of the first sixteen.
    Regex {
        path: usize,
        value: u64,
    },
}

/// Conditions joined by AND; the first is the key.
type Branch = Vec<Condition>;

/// Events and queries.
pub(crate) struct Mixed {
    base: PublishedEvents,
    paths: Vec<Path>,
    answer: Answer,
    /// By query, its branches, joined by OR.
    queries: Vec<Vec<Branch>>,
    /// By path and value, or path and bin: queries and their branches.
    keys: Vec<Vec<Vec<(u32, u32)>>>,
    truth: Vec<u64>,
}

impl Mixed {
    pub(crate) fn new(seed: u64, queries: usize, answer: Answer) -> Mixed {
        let paths = paths();
        let draw = Draw::new(&paths);
        let mut rng = Rng::new(seed);
        let queries: Vec<_> = (0..queries).map(|query| draw.query(query, &mut rng)).collect();
        let keys = keys(&paths, &queries);
        let truth = vec![0; queries.len()];
        Mixed { base: PublishedEvents::new(seed + 1, 0, 0.0), paths, answer, queries, keys, truth }
    }
}

fn paths() -> Vec<Path> {
    let mut numbers = (0..4).map(Path::Long);
    let mut longs = (2..23).step_by(4).map(Path::MapLong);
    let mut doubles = (1..23).step_by(4).map(Path::MapDouble);
    let mut texts = (TEXT_FIRST..).map(Path::Text);
    (0..PATHS)
        .map(|rank| {
            let number = match rank {
                // Longs, and what maps hold, by turns.
                _ if rank % 3 != 2 => None,
                _ if rank % 9 == 2 => longs.next().or_else(|| numbers.next()).or_else(|| doubles.next()),
                _ if rank % 9 == 5 => numbers.next().or_else(|| doubles.next()).or_else(|| longs.next()),
                _ => doubles.next().or_else(|| longs.next()).or_else(|| numbers.next()),
            };
            number.or_else(|| texts.next()).unwrap_or(Path::Text(TEXT_FIRST))
        })
        .collect()
}

impl Path {
    /// Number of distinct values.
    fn values(self) -> u64 {
        match self {
            Path::Text(_) => VALUES,
            Path::Long(long) => 9 * 10_u64.pow(4 * (long as u32 + 1) - 1),
            Path::MapLong(_) => 90_000,
            Path::MapDouble(_) => 10_000,
        }
    }

    /// Its name in a query.
    fn name(self) -> String {
        match self {
            Path::Text(field) => format!("s{:02}", field + 1),
            Path::Long(long) => format!("l{}", long + 1),
            Path::MapLong(map) | Path::MapDouble(map) => format!("m{:02}.a", map + 1),
        }
    }

    /// A number of this path as a query has it.
    fn literal(self, value: u64) -> String {
        match self {
            Path::Text(_) => String::new(),
            Path::Long(long) => format!("{}L", value + 10_u64.pow(4 * (long as u32 + 1) - 1)),
            Path::MapLong(_) => format!("{}", value + 10_000),
            // The end of a range may be beyond all values.
            Path::MapDouble(_) => format!("{}.{:04}", value / 10_000, value % 10_000),
        }
    }

    /// Writes a value into an event.
    fn put(self, event: &mut EventText<'_>, value: u64) {
        match self {
            Path::Text(field) => {
                let text = text(field, value);
                let len = string_len_of(field);
                event.string(field, len).copy_from_slice(&text[..len]);
            }
            Path::Long(long) => digits(event.long(long), value + 10_u64.pow(4 * (long as u32 + 1) - 1)),
            Path::MapLong(map) => digits(event.map(map), value + 10_000),
            Path::MapDouble(map) => digits(event.map(map), value),
        }
    }
}

fn digits(place: &mut [u8], mut value: u64) {
    for byte in place.iter_mut().rev() {
        *byte = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// The text of a value: three letters that tell it, then letters that follow from it.
fn text(field: usize, value: u64) -> [u8; 12] {
    let mut bits = Rng::new(value * PATHS as u64 + field as u64).bits();
    let mut rest = value;
    let mut text = [0; 12];
    for (at, byte) in text.iter_mut().enumerate() {
        let from = if at < 3 { &mut rest } else { &mut bits };
        *byte = LETTERS[(*from & 31) as usize];
        *from >>= 5;
    }
    text
}

fn text_of(field: usize, value: u64, len: usize) -> String {
    String::from_utf8_lossy(&text(field, value)[..len]).into_owned()
}

/// Draws queries.
struct Draw<'p> {
    paths: &'p [Path],
    /// Ranks of the paths that hold texts, with the sums of their weights so far; the same of those that hold numbers.
    texts: Vec<(usize, f64)>,
    numbers: Vec<(usize, f64)>,
}

impl<'p> Draw<'p> {
    fn new(paths: &'p [Path]) -> Draw<'p> {
        let ranked = |wanted: bool| {
            let mut sum = 0.0;
            let of_kind =
                paths.iter().enumerate().filter(|(_, path)| matches!(path, Path::Text(_)) == wanted);
            of_kind
                .map(|(rank, _)| {
                    sum += 1.0 / (rank + 1) as f64;
                    (rank, sum)
                })
                .collect()
        };
        Draw { paths, texts: ranked(true), numbers: ranked(false) }
    }

    fn path(ranked: &[(usize, f64)], rng: &mut Rng) -> usize {
        let total = ranked.last().map_or(0.0, |(_, sum)| *sum);
        let at = rng.share() * total;
        ranked[ranked.partition_point(|(_, sum)| *sum <= at).min(ranked.len() - 1)].0
    }

    fn value(&self, path: usize, rng: &mut Rng) -> u64 {
        rng.below(self.paths[path].values() as usize) as u64
    }

    fn equals(&self, rng: &mut Rng) -> Condition {
        let path = Draw::path(&self.texts, rng);
        Condition::Equals { path, value: self.value(path, rng) }
    }

    /// A range that keeps such a share of the events.
    fn range(&self, share: f64, rng: &mut Rng) -> Condition {
        let path = Draw::path(&self.numbers, rng);
        let values = self.paths[path].values();
        let width = ((values as f64 * share) as u64).max(1);
        let from = rng.below((values - width + 1) as usize) as u64;
        Condition::Range { path, from, to: from + width }
    }

    fn is_in(&self, rng: &mut Rng) -> Condition {
        let path = Draw::path(&self.texts, rng);
        let first = self.value(path, rng);
        // Three different ones, wherever the first is.
        let values = [0, VALUES / 3, VALUES / 3 * 2].map(|further| (first + further) % VALUES);
        Condition::In { path, values }
    }

    /// A branch of one of the first four forms, by its place among twenty.
    fn branch(&self, place: usize, rng: &mut Rng) -> Branch {
        match place {
            0..8 => vec![self.equals(rng)],
            8..13 => vec![self.equals(rng), self.range(0.5, rng)],
            13..16 => vec![self.range(0.0001, rng), self.range(0.3, rng)],
            _ => vec![self.is_in(rng)],
        }
    }

    fn query(&self, query: usize, rng: &mut Rng) -> Vec<Branch> {
        match query % 20 {
            18 => {
                let path = Draw::path(&self.texts, rng);
                let value = self.value(path, rng);
                let is_prefix = (query / 20).is_multiple_of(2);
                let condition = if is_prefix {
                    Condition::Prefix { path, value }
                } else {
                    Condition::Regex { path, value }
                };
                vec![vec![condition]]
            }
            19 => {
                let places = [rng.below(18), rng.below(18)];
                places.map(|place| self.branch(place, rng)).into()
            }
            place => vec![self.branch(place, rng)],
        }
    }
}

fn keys(paths: &[Path], queries: &[Vec<Branch>]) -> Vec<Vec<Vec<(u32, u32)>>> {
    let sizes = paths.iter().map(|path| if matches!(path, Path::Text(_)) { VALUES } else { BINS });
    let mut keys: Vec<Vec<Vec<(u32, u32)>>> = sizes.map(|size| vec![Vec::new(); size as usize]).collect();
    for (query, branches) in queries.iter().enumerate() {
        for (branch, conditions) in branches.iter().enumerate() {
            let entry = (query as u32, branch as u32);
            match &conditions[0] {
                Condition::Equals { path, value }
                | Condition::Prefix { path, value }
                | Condition::Regex { path, value } => keys[*path][*value as usize].push(entry),
                Condition::In { path, values } => {
                    values.iter().for_each(|value| keys[*path][*value as usize].push(entry));
                }
                Condition::Range { path, from, to } => {
                    let values = paths[*path].values();
                    let bins = bin(*from, values)..=bin(*to - 1, values);
                    keys[*path][bins].iter_mut().for_each(|key| key.push(entry));
                }
            }
        }
    }
    keys
}

fn bin(value: u64, values: u64) -> usize {
    (u128::from(value) * u128::from(BINS) / u128::from(values)) as usize
}

impl Condition {
    fn holds(&self, paths: &[Path], event: &[u64; PATHS]) -> bool {
        match self {
            Condition::Equals { path, value } | Condition::Prefix { path, value } => event[*path] == *value,
            Condition::In { path, values } => values.contains(&event[*path]),
            Condition::Range { path, from, to } => (*from..*to).contains(&event[*path]),
            Condition::Regex { path, value } => {
                let Path::Text(field) = paths[*path] else { return false };
                event[*path] == *value && (b'a'..=b'p').contains(&text(field, *value)[3])
            }
        }
    }

    fn written(&self, paths: &[Path]) -> String {
        let quoted = |path: usize, value: u64| match paths[path] {
            Path::Text(field) => format!("'{}'", text_of(field, value, string_len_of(field))),
            number => number.literal(value),
        };
        let start = |path: usize, value: u64| match paths[path] {
            Path::Text(field) => text_of(field, value, 3),
            _ => String::new(),
        };
        match self {
            Condition::Equals { path, value } => {
                format!("{} = {}", paths[*path].name(), quoted(*path, *value))
            }
            Condition::In { path, values: [a, b, c] } => {
                let [a, b, c] = [a, b, c].map(|value| quoted(*path, *value));
                format!("{} IN ({a}, {b}, {c})", paths[*path].name())
            }
            Condition::Range { path, from, to } => {
                let path = paths[*path];
                let (name, from, to) = (path.name(), path.literal(*from), path.literal(*to));
                format!("{name} >= {from} AND {name} < {to}")
            }
            Condition::Prefix { path, value } => {
                format!("{} LIKE '{}%'", paths[*path].name(), start(*path, *value))
            }
            Condition::Regex { path, value } => {
                format!("{} RLIKE '{}[a-p].*'", paths[*path].name(), start(*path, *value))
            }
        }
    }
}

impl Workload for Mixed {
    fn queries(&self) -> Vec<String> {
        let what = match self.answer {
            Answer::Field => "l2",
            Answer::Count => "COUNT(*) AS n",
        };
        let branch = |branch: &Branch| {
            let conditions: Vec<_> = branch.iter().map(|condition| condition.written(&self.paths)).collect();
            conditions.join(" AND ")
        };
        let text = |branches: &Vec<Branch>| match branches.as_slice() {
            [one] => query_text(what, &branch(one)),
            many => {
                let many: Vec<_> = many.iter().map(|one| format!("({})", branch(one))).collect();
                query_text(what, &many.join(" OR "))
            }
        };
        self.queries.iter().map(text).collect()
    }

    fn write(&mut self, events: usize, out: &mut Vec<u8>) {
        let Mixed { base, paths, queries, keys, truth, .. } = self;
        base.write_edited(events, out, |event, rng| {
            let mut values = [0; PATHS];
            for (value, path) in values.iter_mut().zip(paths.iter()) {
                *value = rng.below(path.values() as usize) as u64;
                path.put(event, *value);
            }
            let holds = |branch: &Branch| branch.iter().all(|condition| condition.holds(paths, &values));
            for (rank, path) in paths.iter().enumerate() {
                let key = match path {
                    Path::Text(_) => values[rank] as usize,
                    number => bin(values[rank], number.values()),
                };
                for &(query, branch) in &keys[rank][key] {
                    let branches = &queries[query as usize];
                    // An event that an earlier branch finds is counted there.
                    let (earlier, this) = branches.split_at(branch as usize);
                    if holds(&this[0]) && !earlier.iter().any(holds) {
                        truth[query as usize] += 1;
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
    use super::*;

    #[test]
    fn texts_of_a_path_differ_in_their_first_letters() {
        let mut starts: Vec<String> = (0..VALUES).map(|value| text_of(7, value, 3)).collect();
        starts.sort();
        starts.dedup();
        assert_eq!(starts.len(), VALUES as usize);
    }

    #[test]
    fn paths_are_fifty_different_ones_of_both_kinds() {
        let mut names: Vec<String> = paths().iter().map(|path| path.name()).collect();
        assert_eq!(names.iter().filter(|name| !name.starts_with('s')).count(), 16);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), PATHS);
    }

    /// The engine is held to this truth by every run; here it is held to a loop over the parsed events.
    #[test]
    fn truth_is_what_a_plain_loop_finds() {
        let mut mixed = Mixed::new(5, 2000, Answer::Field);
        let mut out = Vec::new();
        mixed.write(300, &mut out);
        let mut counted = vec![0; 2000];
        for line in out.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let event: serde_json::Value = serde_json::from_slice(line).unwrap();
            let mut values = [0; PATHS];
            for (value, path) in values.iter_mut().zip(&mixed.paths) {
                *value = match *path {
                    Path::Text(field) => {
                        let text = event[path.name()].as_str().unwrap().as_bytes();
                        assert_eq!(text.len(), string_len_of(field));
                        let digit = |at: usize| LETTERS.iter().position(|l| *l == text[at]).unwrap() as u64;
                        digit(0) + 32 * digit(1) + 1024 * digit(2)
                    }
                    Path::Long(long) => {
                        event[path.name()].as_u64().unwrap() - 10_u64.pow(4 * (long as u32 + 1) - 1)
                    }
                    Path::MapLong(map) => event[format!("m{:02}", map + 1)]["a"].as_u64().unwrap() - 10_000,
                    Path::MapDouble(map) => {
                        (event[format!("m{:02}", map + 1)]["a"].as_f64().unwrap() * 10_000.0).round() as u64
                    }
                };
            }
            for (count, branches) in counted.iter_mut().zip(&mixed.queries) {
                let holds =
                    |branch: &Branch| branch.iter().all(|condition| condition.holds(&mixed.paths, &values));
                *count += u64::from(branches.iter().any(holds));
            }
        }
        assert_eq!(counted, mixed.truth());
        let matches = counted.iter().sum::<u64>() as f64 / 300.0;
        assert!(
            (0.1..0.3).contains(&matches),
            "{matches} matches of an event with a fiftieth of the queries"
        );
    }
}

//! Finds queries by regular expressions: as conditions, and as sets of one path's patterns without a literal that every
//! match contains.

use std::{collections::BTreeMap, sync::Arc};

use regex::{Regex, RegexSet, RegexSetBuilder};

use super::{condition::Test, points::Run};

/// A text that matches one of these as a whole.
#[derive(Debug)]
pub struct Pattern {
    /// The texts in the syntax of the `regex` crate.
    sources: Box<[String]>,
    compiled: Box<[Regex]>,
    /// A test that every matching text passes, by which it can be found, if there is one.
    pub(super) required: Option<Test>,
}

/// Patterns of one automaton at most. Each text is run through each automaton, and automata of many patterns have very
/// many states.
const SET_MAX: usize = 64;

/// The most memory that one automaton takes; one that would take more is not made.
const SET_BYTES_MAX: usize = 8 << 20;

impl Pattern {
    /// Compiles the expressions; none if one of them is invalid.
    pub(super) fn new(sources: Vec<String>, required: Option<Test>) -> Option<Pattern> {
        let compiled =
            sources.iter().map(|source| crate::expr::linear_regex(source)).collect::<Option<_>>()?;
        Some(Pattern { sources: sources.into(), compiled, required })
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.compiled.iter().any(|regex| regex.is_match(text))
    }
}

/// Patterns that nothing else finds.
#[derive(Debug)]
pub(super) struct Patterns {
    /// Several at once.
    sets: Vec<(RegexSet, Box<[Run]>)>,
    /// One by one: in parts that are built where a query is added, as an automaton takes long to make.
    single: Vec<(Arc<Pattern>, u32)>,
    postings: Box<[u32]>,
}

impl Patterns {
    /// Makes the patterns with automata, or without.
    pub(super) fn new(filed: &[(&Arc<Pattern>, u32)], with_sets: bool) -> Option<Patterns> {
        if filed.is_empty() {
            return None;
        }
        let mut made = Patterns { sets: Vec::new(), single: Vec::new(), postings: Box::default() };
        if !with_sets {
            made.single = filed.iter().map(|(pattern, way)| (Arc::clone(pattern), *way)).collect();
            return Some(made);
        }
        let mut by_source: BTreeMap<&str, Vec<(&Arc<Pattern>, u32)>> = BTreeMap::new();
        for &(pattern, way) in filed {
            for source in &pattern.sources {
                by_source.entry(source).or_default().push((pattern, way));
            }
        }
        let by_source: Vec<_> = by_source.into_iter().collect();
        let mut postings: Vec<u32> = Vec::new();
        for part in by_source.chunks(SET_MAX) {
            let sources = part.iter().map(|(source, _)| source);
            match RegexSetBuilder::new(sources).size_limit(SET_BYTES_MAX).build() {
                Ok(set) => {
                    let mut run = |(_, ways): &(&str, Vec<(&Arc<Pattern>, u32)>)| {
                        let start = postings.len();
                        postings.extend(ways.iter().map(|(_, way)| *way));
                        Run::new(start, &postings[start..])
                    };
                    let runs = part.iter().map(&mut run).collect();
                    made.sets.push((set, runs));
                }
                Err(_) => {
                    let all = part.iter().flat_map(|(_, ways)| ways);
                    made.single.extend(all.map(|(pattern, way)| (Arc::clone(pattern), *way)));
                }
            }
        }
        made.postings = postings.into();
        Some(made)
    }

    /// Passes the postings of all patterns that a text matches to `found`; a pattern may be repeated.
    pub(super) fn find(&self, text: &str, mut found: impl FnMut(&[u32])) {
        for (set, runs) in &self.sets {
            for place in &set.matches(text) {
                found(runs[place].of(&self.postings));
            }
        }
        for (pattern, way) in &self.single {
            if pattern.matches(text) {
                found(std::slice::from_ref(way));
            }
        }
    }

    /// Bytes held, about, without the compiled patterns.
    pub(super) fn bytes(&self) -> usize {
        let runs = self.sets.iter().map(|(_, runs)| runs.len() * size_of::<Run>());
        runs.sum::<usize>() + self.single.len() * 16 + self.postings.len() * 4
    }
}

//! Reusable buffers that outlive one evaluation.

use std::collections::HashMap;

use swiftwater_event::Value;
use swiftwater_text::MatcherScratch;

use super::pattern::{self, JavaPattern};
use super::predicate::Truth;

/// Patterns of one scratch's cache; when it is full it is emptied.
const PATTERNS_MAX: usize = 64;

/// Buffers, and compiled patterns that are not constant, kept from one evaluation to the next: one per thread that
/// evaluates, for all its programs.
#[derive(Debug, Default)]
pub struct Scratch {
    values: Vec<Vec<Value<'static>>>,
    truths: Vec<Vec<Truth>>,
    rows: Vec<Vec<u32>>,
    patterns: HashMap<Box<str>, Option<JavaPattern>>,
    search: MatcherScratch,
}

impl Scratch {
    /// No buffers yet.
    pub fn new() -> Scratch {
        Scratch::default()
    }

    /// An empty buffer of values.
    pub(crate) fn take_values<'a>(&mut self) -> Vec<Value<'a>> {
        self.values.pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub(crate) fn emit_values(&mut self, mut buffer: Vec<Value<'_>>) {
        buffer.clear();
        // The buffer is empty, so no value is ever converted: collecting in place only changes the lifetime in the
        // type, and keeps the allocation.
        self.values.push(buffer.into_iter().map(|_| Value::Null).collect());
    }

    /// An empty buffer of truths.
    pub(super) fn take_truths(&mut self) -> Vec<Truth> {
        self.truths.pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub(super) fn emit_truths(&mut self, mut buffer: Vec<Truth>) {
        buffer.clear();
        self.truths.push(buffer);
    }

    /// An empty buffer of row numbers.
    pub(super) fn take_rows(&mut self) -> Vec<u32> {
        self.rows.pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub(super) fn emit_rows(&mut self, mut buffer: Vec<u32>) {
        buffer.clear();
        self.rows.push(buffer);
    }

    /// Memory for the tokens of texts that are searched.
    pub(super) fn search(&mut self) -> &mut MatcherScratch {
        &mut self.search
    }

    /// The compiled form of a pattern that came from data; `None`: it is not one.
    pub(super) fn pattern(
        &mut self,
        text: &str,
        compile: fn(&str) -> Result<JavaPattern, pattern::PatternError>,
    ) -> Option<&JavaPattern> {
        if !self.patterns.contains_key(text) {
            if self.patterns.len() >= PATTERNS_MAX {
                self.patterns.clear();
            }
            self.patterns.insert(text.into(), compile(text).ok());
        }
        self.patterns.get(text).and_then(Option::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_keeps_its_allocation() {
        let mut scratch = Scratch::new();
        let mut buffer = scratch.take_values();
        buffer.extend([Value::Null; 100]);
        let (at, capacity) = (buffer.as_ptr() as usize, buffer.capacity());
        scratch.emit_values(buffer);
        let again = scratch.take_values();
        assert_eq!((again.as_ptr() as usize, again.capacity()), (at, capacity));
        assert!(again.is_empty());
    }
}

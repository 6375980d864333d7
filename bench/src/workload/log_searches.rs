//! Generated log lines of 350 bytes, and standing searches over their words ([`swiftwater_testkit::log_searches`]).

use std::collections::HashMap;

use swiftwater_generate::Events;
use swiftwater_testkit::log_searches::{LogSearch, LogWords, log_lines, log_searches};

use super::{Workload, query_text};

/// Lines, and the searches that they match, found by plain comparison of words.
pub(super) struct SearchedLogs {
    lines: Box<dyn Events>,
    searches: Vec<LogSearch>,
    /// By word: searches that a line matches only if it has one of theirs.
    by_word: HashMap<String, Vec<usize>>,
    truth: Vec<u64>,
}

impl SearchedLogs {
    pub(super) fn new(queries: usize) -> SearchedLogs {
        let searches = log_searches(queries);
        let mut by_word: HashMap<String, Vec<usize>> = HashMap::new();
        for (number, search) in searches.iter().enumerate() {
            for word in search.required() {
                by_word.entry(word.clone()).or_default().push(number);
            }
        }
        SearchedLogs { lines: log_lines(), truth: vec![0; searches.len()], searches, by_word }
    }

    fn count(&mut self, line: &str) {
        let line = LogWords::of(line);
        let mut candidates: Vec<usize> =
            line.iter().filter_map(|word| self.by_word.get(word)).flatten().copied().collect();
        candidates.sort_unstable();
        candidates.dedup();
        for search in candidates {
            self.truth[search] += u64::from(self.searches[search].matches(&line));
        }
    }
}

impl Workload for SearchedLogs {
    fn queries(&self) -> Vec<String> {
        let condition = |search: &LogSearch| format!("SEARCH('{}')", search.text());
        self.searches.iter().map(|search| query_text("level", &condition(search))).collect()
    }

    fn write(&mut self, events: usize, out: &mut Vec<u8>) {
        for _ in 0..events {
            let start = out.len();
            self.lines.push(out);
            let line = String::from_utf8_lossy(&out[start..]).into_owned();
            self.count(&line);
        }
    }

    fn truth(&self) -> &[u64] {
        &self.truth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_is_what_a_plain_loop_finds() {
        let mut logs = SearchedLogs::new(300);
        let mut out = Vec::new();
        logs.write(2000, &mut out);
        let lines: Vec<LogWords> = std::str::from_utf8(&out).unwrap().lines().map(LogWords::of).collect();
        let count = |search: &LogSearch| lines.iter().filter(|line| search.matches(line)).count() as u64;
        let counted: Vec<u64> = logs.searches.iter().map(count).collect();
        assert_eq!(logs.truth, counted);
        assert!(counted.iter().sum::<u64>() > 10, "so few matches show little");
    }
}

//! Searches over generated log lines, and which lines they find, by plain comparison of words.
//!
//! The searches have one to four words, OR, NOT and phrases. Words are taken from lines, so frequent words (Zipf's law) are in
//! many searches. A search that finds more than [`SHARE_MAX`] of the lines is left out; with 10,000 searches a line matches
//! about one.

use std::collections::HashMap;

use swiftwater_generate::{Events, LogsSettings, Rng, Workload};

/// Lines from which words are taken.
const SAMPLE_LINES: usize = 20_000;
/// The most of these that a search finds.
const SHARE_MAX: f64 = 0.001;

/// A search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogSearch {
    /// Lines with all of these words.
    All(Vec<String>),
    /// Lines with one of them.
    Any(Vec<String>),
    /// Lines with the first word, without the second.
    Except(String, String),
    /// Lines with these words one after the other.
    Phrase(Vec<String>),
}

/// The words of a line, by value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogWords(Vec<Vec<String>>);

/// Log lines, always the same.
pub fn log_lines() -> Box<dyn Events> {
    let begun = Workload::Logs(LogsSettings::default()).begin(1);
    begun.expect("the settings are the default ones")
}

impl LogWords {
    /// Of a line as it is generated: an object whose values are no containers.
    pub fn of(line: &str) -> LogWords {
        let event: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(line).expect("a generated line is JSON");
        LogWords(event.values().filter_map(|value| value.as_str()).map(words).collect())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flatten().map(String::as_str)
    }

    fn has(&self, word: &str) -> bool {
        self.iter().any(|other| other == word)
    }

    /// The words of the longest value.
    fn longest(&self) -> &[String] {
        self.0.iter().max_by_key(|words| words.len()).map_or(&[], Vec::as_slice)
    }
}

/// Words of ASCII in small letters. Other letters of European scripts are parts of words; those of others end them.
fn words(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() && (c < '\u{E00}' || ('\u{AC00}'..='\u{D7A3}').contains(&c));
    let words = text.split(|c: char| !is_part(c)).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).filter(|word| word.is_ascii()).collect()
}

impl LogSearch {
    /// As a user writes it.
    pub fn text(&self) -> String {
        match self {
            LogSearch::All(words) => words.join(" "),
            LogSearch::Any(words) => words.join(" OR "),
            LogSearch::Except(word, not) => format!("{word} -{not}"),
            LogSearch::Phrase(words) => format!("\"{}\"", words.join(" ")),
        }
    }

    /// True if it finds a line.
    pub fn matches(&self, line: &LogWords) -> bool {
        match self {
            LogSearch::All(words) => words.iter().all(|word| line.has(word)),
            LogSearch::Any(words) => words.iter().any(|word| line.has(word)),
            LogSearch::Except(word, not) => line.has(word) && !line.has(not),
            LogSearch::Phrase(words) => {
                let is_there = |value: &Vec<String>| value.windows(words.len()).any(|part| part == words);
                line.0.iter().any(is_there)
            }
        }
    }

    /// Words of which a line that it finds has one: the longest ones, as these are rare.
    pub fn required(&self) -> &[String] {
        match self {
            LogSearch::Any(words) => words,
            LogSearch::All(words) | LogSearch::Phrase(words) => {
                let longest = (0..words.len()).max_by_key(|&place| words[place].len()).unwrap_or(0);
                &words[longest..=longest]
            }
            LogSearch::Except(word, _) => std::slice::from_ref(word),
        }
    }
}

/// So many searches, always the same.
pub fn log_searches(count: usize) -> Vec<LogSearch> {
    let mut events = log_lines();
    let mut bytes = Vec::new();
    (0..SAMPLE_LINES).for_each(|_| events.push(&mut bytes));
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<LogWords> = text.lines().map(LogWords::of).collect();
    let mut lines_by_word: HashMap<&str, Vec<u32>> = HashMap::new();
    for (number, line) in (0..).zip(&lines) {
        for word in line.iter() {
            let places = lines_by_word.entry(word).or_default();
            if places.last() != Some(&number) {
                places.push(number);
            }
        }
    }
    let matches_max = (SAMPLE_LINES as f64 * SHARE_MAX) as usize;
    let mut rng = Rng::new(7);
    let mut searches = Vec::with_capacity(count);
    while searches.len() < count {
        let search = draw(&lines, &mut rng);
        let mut places: Vec<u32> = search
            .required()
            .iter()
            .flat_map(|word| lines_by_word.get(word.as_str()).into_iter().flatten())
            .copied()
            .collect();
        places.sort_unstable();
        places.dedup();
        let found =
            places.iter().filter(|&&place| search.matches(&lines[place as usize])).take(matches_max + 1);
        if found.count() <= matches_max {
            searches.push(search);
        }
    }
    searches
}

fn draw(lines: &[LogWords], rng: &mut Rng) -> LogSearch {
    let line = &lines[rng.below(lines.len())];
    let words: Vec<&str> = line.iter().collect();
    let one = |rng: &mut Rng| words[rng.below(words.len())].to_owned();
    match rng.below(20) {
        0..11 => {
            let count = 1 + rng.below(4);
            let mut all: Vec<String> = (0..count).map(|_| one(rng)).collect();
            all.dedup();
            LogSearch::All(all)
        }
        11..14 => {
            let other = lines[rng.below(lines.len())].iter().last().unwrap_or("nothing").to_owned();
            LogSearch::Any(vec![one(rng), other])
        }
        14..17 => {
            let not = &lines[rng.below(lines.len())];
            let not: Vec<&str> = not.iter().collect();
            LogSearch::Except(one(rng), not[rng.below(not.len())].to_owned())
        }
        _ => {
            let words = line.longest();
            let length = (2 + rng.below(2)).min(words.len());
            let from = rng.below(words.len() - length + 1);
            LogSearch::Phrase(words[from..from + length].to_vec())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_find_lines_by_their_words() {
        let line = LogWords::of(r#"{"message":"Read timeout of user-7 東京 5x","status":500,"host":"eu-1"}"#);
        let words: Vec<&str> = line.iter().collect();
        assert_eq!(words, ["read", "timeout", "of", "user", "7", "5x", "eu", "1"]);
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        for (search, expected) in [
            (LogSearch::All(owned(&["read", "eu"])), true),
            (LogSearch::All(owned(&["read", "us"])), false),
            (LogSearch::Any(owned(&["us", "timeout"])), true),
            (LogSearch::Except("read".to_owned(), "eu".to_owned()), false),
            (LogSearch::Except("read".to_owned(), "us".to_owned()), true),
            (LogSearch::Phrase(owned(&["read", "timeout"])), true),
            (LogSearch::Phrase(owned(&["timeout", "read"])), false),
        ] {
            assert_eq!(search.matches(&line), expected, "{}", search.text());
        }
    }

    #[test]
    fn searches_are_always_the_same_and_of_every_form() {
        let searches = log_searches(200);
        assert_eq!(searches, log_searches(200));
        let count =
            |is_it: &dyn Fn(&LogSearch) -> bool| searches.iter().filter(|search| is_it(search)).count();
        assert!(count(&|search| matches!(search, LogSearch::All(_))) > 50);
        assert!(count(&|search| matches!(search, LogSearch::Any(_))) > 5);
        assert!(count(&|search| matches!(search, LogSearch::Except(..))) > 5);
        assert!(count(&|search| matches!(search, LogSearch::Phrase(_))) > 5);
    }
}

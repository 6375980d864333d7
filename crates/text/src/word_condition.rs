//! Reduces a search of events to a condition on the set of their words, by which an index finds the searches that an event
//! concerns.
//!
//! The condition is necessary: every event that matches the search satisfies it. It is *exact* if the converse holds, too:
//! for words and phrases with AND, OR and NOT. A phrase whose words may be displaced requires each of them. A wildcard, a
//! fuzzy word, a range and a word that a number or a truth value can equal require nothing; nor does a negation of such a
//! condition.
//!
//! ```text
//! refused -retry             refused AND NOT retry      exact
//! "read timeout"~2 conn*     read AND timeout           necessary
//! message:refused            refused                    necessary: the word may be elsewhere
//! status:500 OR refused      nothing
//! ```
//!
//! Words are those of the default analyzer, whole, of any length. Those of an event are the words of all its strings at any
//! depth ([`EventWords`]), whichever column a condition names, as the strings of a column are among them.

use std::collections::HashMap;

use swiftwater_event::Value as EventValue;

use crate::{
    analyzer::{Analyzer, AnalyzerScratch},
    columns::Value,
    event_search::for_each_value,
    leaf::{LeafTest, ValueTest},
    phrase::Phrase,
    term::{Pattern, Term},
};

/// A condition on the words of an event or a value. See the head of this module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordCondition {
    /// The words that it names, each once.
    pub words: Box<[Box<str>]>,
    /// How they are joined.
    pub node: WordNode,
    /// True if each event that satisfies it matches the search.
    pub is_exact: bool,
}

/// A part of a [`WordCondition`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordNode {
    /// The word of this number is there.
    Word(u16),
    /// Words are there, in one text: each so many words behind the first, which is 0 behind itself.
    Phrase(Box<[(u32, u16)]>),
    /// All of them.
    All(Box<[WordNode]>),
    /// One of them.
    Any(Box<[WordNode]>),
    /// Not this one.
    Not(Box<WordNode>),
}

/// The words of a row, as a condition asks for them by number.
pub trait RowWordSet {
    /// True if a word is there.
    fn has_word(&self, word: u16) -> bool;
    /// True if words are in one text, each so many words behind the first.
    fn has_phrase(&self, words: &[(u32, u16)]) -> bool;
}

impl WordNode {
    /// True if a row with these words satisfies it.
    pub fn is_satisfied(&self, words: &impl RowWordSet) -> bool {
        match self {
            WordNode::Word(word) => words.has_word(*word),
            WordNode::Phrase(phrase) => words.has_phrase(phrase),
            WordNode::All(all) => all.iter().all(|node| node.is_satisfied(words)),
            WordNode::Any(any) => any.iter().any(|node| node.is_satisfied(words)),
            WordNode::Not(not) => !not.is_satisfied(words),
        }
    }
}

/// What a part of a search requires of the words; `None`: nothing.
type Required = Option<(WordNode, bool)>;

/// Makes a condition, and numbers its words.
#[derive(Debug, Default)]
pub(crate) struct WordConditionBuilder {
    words: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u16>,
    /// Whether each value that the search sees is a text.
    has_texts_only: bool,
}

impl WordConditionBuilder {
    /// `has_texts_only`: values without a column are texts.
    pub(crate) fn new(has_texts_only: bool) -> WordConditionBuilder {
        WordConditionBuilder { has_texts_only, ..WordConditionBuilder::default() }
    }

    pub(crate) fn finish(self, required: Required) -> Option<WordCondition> {
        let (node, is_exact) = required?;
        Some(WordCondition { words: self.words.into(), node, is_exact })
    }

    /// All of several: what is not known of one leaves what is known of the others.
    pub(crate) fn all(parts: Vec<Required>) -> Required {
        let is_exact = parts.iter().all(|part| part.as_ref().is_some_and(|(_, is_exact)| *is_exact));
        let mut nodes: Vec<WordNode> = parts.into_iter().flatten().map(|(node, _)| node).collect();
        match nodes.len() {
            0 if !is_exact => None,
            1 => nodes.pop().map(|node| (node, is_exact)),
            _ => Some((WordNode::All(nodes.into()), is_exact)),
        }
    }

    /// One of several: known only if something is known of each.
    pub(crate) fn any(parts: Vec<Required>) -> Required {
        let parts = parts.into_iter().collect::<Option<Vec<_>>>()?;
        let is_exact = parts.iter().all(|(_, is_exact)| *is_exact);
        let mut nodes: Vec<WordNode> = parts.into_iter().map(|(node, _)| node).collect();
        match nodes.len() {
            1 => nodes.pop().map(|node| (node, is_exact)),
            _ => Some((WordNode::Any(nodes.into()), is_exact)),
        }
    }

    /// The negation of a condition that is only necessary says nothing.
    pub(crate) fn not(part: Required) -> Required {
        part.filter(|(_, is_exact)| *is_exact).map(|(node, _)| (WordNode::Not(Box::new(node)), true))
    }

    /// A condition on one column; `is_default`: on all values, not on those of a path.
    pub(crate) fn test(&mut self, test: &LeafTest, is_default: bool) -> Required {
        let LeafTest::Value(ValueTest {
            phrase: Some(phrase),
            whole: None,
            number,
            number_text,
            boolean,
            period,
        }) = test
        else {
            return None;
        };
        let is_of_texts_only = is_default && self.has_texts_only
            || number.is_none() && number_text.is_none() && boolean.is_none() && period.is_none();
        if !is_of_texts_only {
            return None;
        }
        let (node, is_exact) = self.phrase(phrase)?;
        Some((node, is_exact && is_default))
    }

    fn phrase(&mut self, phrase: &Phrase) -> Required {
        let term = |(offset, term): &(u32, Term)| match &term.pattern {
            Pattern::Exact(word) if !term.is_stem => Some((*offset, self.number(word)?)),
            _ => None,
        };
        let terms: Vec<Option<(u32, u16)>> = phrase.terms.iter().map(term).collect();
        if phrase.slop == 0
            && terms.len() > 1
            && let Some(words) = terms.iter().copied().collect::<Option<Box<[_]>>>()
        {
            return Some((WordNode::Phrase(words), true));
        }
        let is_one_word = terms.len() == 1;
        let word = |term: Option<(u32, u16)>| term.map(|(_, word)| (WordNode::Word(word), true));
        let (node, is_exact) = WordConditionBuilder::all(terms.into_iter().map(word).collect())?;
        Some((node, is_exact && is_one_word))
    }

    /// The number of a word; none for more words than there are numbers.
    fn number(&mut self, word: &str) -> Option<u16> {
        if let Some(number) = self.numbers.get(word) {
            return Some(*number);
        }
        let number = u16::try_from(self.words.len()).ok()?;
        self.words.push(word.into());
        self.numbers.insert(word.into(), number);
        Some(number)
    }
}

/// Reads the words of events and values, as searches of them see these: of all strings at any depth, but no keys.
///
/// ```
/// use swiftwater_event::Value;
/// use swiftwater_text::EventWords;
///
/// let mut words = Vec::new();
/// let list = [Value::String("Read Timeout"), Value::Long(5)];
/// EventWords::default().for_each_word(&Value::List(&list), |word| words.push(word.unwrap_or(".").to_owned()));
/// assert_eq!(words, ["read", "timeout", "."]);
/// ```
#[derive(Debug, Default)]
pub struct EventWords {
    analyzer: Analyzer,
    scratch: AnalyzerScratch,
}

impl EventWords {
    /// Visits each word, as often as it is there, in the order of its text; none behind the last word of each text.
    pub fn for_each_word(&mut self, value: &EventValue<'_>, mut visit: impl FnMut(Option<&str>)) {
        let EventWords { analyzer, scratch } = self;
        for_each_value(value, &mut |value| {
            if let Value::Text(text) = value {
                analyzer.for_each_token(text, scratch, |token| visit(Some(token.text)));
                visit(None);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use super::*;
    use crate::{EventSearch, query::Operator};

    fn written(condition: &WordCondition, node: &WordNode) -> String {
        let all = |nodes: &[WordNode], by: &str| {
            let nodes: Vec<String> = nodes.iter().map(|node| written(condition, node)).collect();
            format!("({})", nodes.join(by))
        };
        match node {
            WordNode::Word(word) => condition.words[*word as usize].to_string(),
            WordNode::Phrase(phrase) => {
                let word =
                    |(offset, word): &(u32, u16)| format!("{offset}{}", condition.words[*word as usize]);
                format!("\"{}\"", phrase.iter().map(word).collect::<Vec<_>>().join(" "))
            }
            WordNode::All(nodes) => all(nodes, " "),
            WordNode::Any(nodes) => all(nodes, "|"),
            WordNode::Not(node) => format!("-{}", written(condition, node)),
        }
    }

    fn of(condition: Option<WordCondition>) -> String {
        condition.map_or("?".to_owned(), |condition| {
            let mark = if condition.is_exact { "" } else { "…" };
            written(&condition, &condition.node) + mark
        })
    }

    #[test]
    fn searches_are_reduced_to_words() {
        for (query, expected) in [
            ("Timeout", "timeout"),
            ("read timeout", "(read timeout)"),
            ("read OR timeout", "(read|timeout)"),
            ("read (timeout OR refused)", "(read (timeout|refused))"),
            ("refused -retry", "(refused -retry)"),
            ("-timeout", "-timeout"),
            ("-\"read timeout\"", "-\"0read 1timeout\""),
            ("-\"read timeout\"~1", "?"),
            ("refused -\"read timeout\"~1", "refused…"),
            ("refused -ret*", "refused…"),
            ("a OR time*", "?"),
            ("a time*", "a…"),
            ("\"connection refused\"~2", "(connection refused)…"),
            ("\"read read\"", "\"0read 1read\""),
            ("\"conn refus\"*", "conn…"),
            ("foo.barbaz", "\"0foo 1barbaz\""),
            ("message:foo.barbaz", "\"0foo 1barbaz\"…"),
            ("foo.bar*", "foo…"),
            ("refuzed~1", "?"),
            ("500", "500"),
            ("true", "true"),
            ("status:500", "?"),
            ("status:ok", "ok…"),
            ("status:true", "?"),
            ("seen:2026-01-01", "?"),
            ("status:>5", "?"),
            ("*", "()"),
            ("* timeout", "(() timeout)"),
            ("message:=\"GET /a\"", "?"),
            ("message:/timeout/", "?"),
            ("東京", "東京"),
            ("東京都", "\"0東京 1京都\""),
            ("東京abc", "\"0東京 2abc\""),
            ("都", "?"),
            ("ＡＢＣ", "abc"),
            ("straße", "strasse"),
        ] {
            let search = EventSearch::of_event(query, Operator::And, None).unwrap();
            assert_eq!(of(search.word_condition(false)), expected, "{query}");
        }
    }

    #[test]
    fn numbers_of_values_have_no_words() {
        for (query, has_texts_only, expected) in [
            ("500", false, "?"),
            ("500", true, "500"),
            ("refused OR true", false, "?"),
            ("refused OR true", true, "(refused|true)"),
            ("refused", false, "refused"),
        ] {
            let search = EventSearch::of_value(query, Operator::And, None).unwrap();
            assert_eq!(of(search.word_condition(has_texts_only)), expected, "{query}");
        }
    }
}

//! Any text as a search query and any text as a value: nothing panics, faults lie within the query, and tokens and highlights
//! are whole characters of the value.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use swiftwater_text::{
    Analyzer, AnalyzerOptions, AnalyzerScratch, Language, Matcher, MatcherScratch, SearchColumn, SearchColumns, SearchRow,
    TextKind, UnknownColumn, Value, query::Operator,
};

struct Columns(AnalyzerOptions);

impl SearchColumns for Columns {
    fn defaults(&self) -> Vec<SearchColumn> {
        vec![SearchColumn { id: 0, kind: TextKind::Words, analyzer: Arc::new(Analyzer::new(self.0)), boost: 1.0 }]
    }

    fn column(&self, _: &[Box<str>]) -> Result<SearchColumn, UnknownColumn> {
        Ok(self.defaults().remove(0))
    }
}

struct Row<'v>(&'v str);

impl SearchRow for Row<'_> {
    fn for_each_value(&self, _: u32, visit: &mut dyn FnMut(Value<'_>)) {
        visit(Value::Text(self.0));
    }
}

fuzz_target!(|input: (&str, &str, u8)| {
    let (query, value, options) = input;
    let options = AnalyzerOptions {
        stem: (options & 1 > 0).then_some(Language::English),
        fold_accents: options & 2 > 0,
        split_code: options & 4 > 0,
    };
    let mut position = 0;
    Analyzer::new(options).for_each_token(value, &mut AnalyzerScratch::default(), |token| {
        assert!(!value[token.start..token.end].is_empty() && token.position >= position);
        position = token.position;
    });
    for operator in [Operator::And, Operator::Or] {
        match Matcher::new(query, operator, &Columns(options), Some(0)) {
            Ok(matcher) => {
                let mut scratch = MatcherScratch::default();
                matcher.matches(&Row(value), &mut scratch);
                for place in matcher.highlights(0, value, &mut scratch) {
                    assert!(!value[place].is_empty());
                }
            }
            Err(faults) => {
                let characters = query.chars().count();
                assert!(!faults.0.is_empty() && faults.0.iter().all(|fault| (1..=characters + 1).contains(&fault.column)));
            }
        }
    }
});

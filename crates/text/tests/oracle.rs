//! The evaluation of queries agrees with an oracle that is written from their definition alone, on random rows and queries.

use std::sync::Arc;

use swiftwater_testkit::{
    Rng,
    search::{SEARCH_COLUMNS, SearchOracle, SearchValue, SearchedRow, random_row, random_text},
};
use swiftwater_text::{
    Analyzer, Matcher, MatcherScratch, SearchColumn, SearchColumns, SearchRow, TextKind, UnknownColumn,
    Value,
    query::{Number, Operator},
};

struct Columns(Arc<Analyzer>);

impl Columns {
    fn of(&self, id: u32) -> SearchColumn {
        SearchColumn { id, kind: TextKind::Words, analyzer: Arc::clone(&self.0), boost: 1.0 }
    }
}

impl SearchColumns for Columns {
    fn defaults(&self) -> Vec<SearchColumn> {
        vec![self.of(0), self.of(1)]
    }

    fn column(&self, path: &[Box<str>]) -> Result<SearchColumn, UnknownColumn> {
        let found = SEARCH_COLUMNS.iter().position(|column| path.len() == 1 && *path[0] == **column);
        let unknown = || UnknownColumn { message: format!("no column `{}`", path.join(".")), hint: None };
        found.map(|id| self.of(id as u32)).ok_or_else(unknown)
    }
}

struct Row<'r>(&'r SearchedRow);

impl SearchRow for Row<'_> {
    fn for_each_value(&self, column: u32, visit: &mut dyn FnMut(Value<'_>)) {
        for value in self.0.get(SEARCH_COLUMNS[column as usize]).into_iter().flatten() {
            match value {
                SearchValue::Text(text) => visit(Value::Text(text)),
                SearchValue::Number(number) => visit(Value::Number(Number::Float(*number))),
            }
        }
    }
}

fn cases() -> usize {
    std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1000)
}

#[test]
fn matcher_agrees_with_the_oracle() {
    let (columns, oracle) = (Columns(Arc::default()), SearchOracle::default());
    let mut scratch = MatcherScratch::default();
    let (mut matched, mut asked) = (0, 0);
    for seed in 0..cases() as u64 {
        let mut rng = Rng::new(seed);
        let rows: Vec<SearchedRow> = (0..20).map(|_| random_row(&mut rng)).collect();
        for _ in 0..5 {
            let query = oracle.random_query(&mut rng, 3);
            let text = query.text();
            let matcher = Matcher::new(&text, Operator::And, &columns, None);
            let matcher = matcher.unwrap_or_else(|faults| panic!("seed {seed}: {text}: {faults}"));
            for row in &rows {
                let expected = oracle.matches(&query, row);
                assert_eq!(
                    matcher.matches(&Row(row), &mut scratch),
                    expected,
                    "seed {seed}: {text} on {row:?}"
                );
                matched += usize::from(expected);
                asked += 1;
            }
        }
    }
    assert!(matched * 10 > asked && matched * 10 < asked * 9, "{matched} of {asked} rows match");
}

#[test]
fn every_part_of_a_run_without_spaces_finds_its_row() {
    let columns = Columns(Arc::default());
    let mut scratch = MatcherScratch::default();
    for run in ["東京都庁舎", "ひらがなカタカナー", "ภาษาไทย", "ພາສາລາວ", "မြန်မာ", "ភាសាខ្មែរ"]
    {
        for (from, _) in run.char_indices() {
            for to in run.char_indices().map(|(at, _)| at).filter(|to| *to > from).chain([run.len()]) {
                // A part begins with a character of its own, not with the mark of another, and ends before a letter.
                let part = &run[from..to];
                let row = SearchedRow::from([("a", vec![SearchValue::Text(format!("vor {run}, nach"))])]);
                let matcher = Matcher::new(part, Operator::And, &columns, None).expect("it is a query");
                let is_mark_first = Analyzer::default();
                let mut begins_with_letter = true;
                is_mark_first.for_each_token(part, &mut Default::default(), |token| {
                    begins_with_letter &= token.kind != swiftwater_text::TokenKind::Word;
                });
                if begins_with_letter {
                    assert!(matcher.matches(&Row(&row), &mut scratch), "{part} in {run}");
                }
            }
        }
    }
}

#[test]
fn highlights_are_whole_characters_in_order() {
    let columns = Columns(Arc::default());
    let oracle = SearchOracle::default();
    let mut scratch = MatcherScratch::default();
    for seed in 0..cases() as u64 {
        let mut rng = Rng::new(seed);
        let query = oracle.random_query(&mut rng, 2).text();
        let matcher = Matcher::new(&query, Operator::And, &columns, None).expect("it is a query");
        let text = random_text(&mut rng, 10);
        let mut end = 0;
        for place in matcher.highlights(0, &text, &mut scratch) {
            assert!(place.start >= end && place.start < place.end && place.end <= text.len(), "{place:?}");
            assert!(text.is_char_boundary(place.start) && text.is_char_boundary(place.end), "{place:?}");
            end = place.end;
        }
    }
}

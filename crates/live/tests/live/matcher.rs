//! Compares the matcher with a loop over all queries, through additions, ends and rebuilds.
//!
//! The events have fields whose types change. There are two references, in both dialects. The oracle shares no code with
//! the matcher. Each query's filter, evaluated as one expression, knows nothing of indexes.

use bumpalo::Bump;
use bytes::Bytes;
use std::{collections::BTreeMap, sync::Arc};
use swiftwater_event::{CheckLimits, Clock, DecodePlan, Decoded, Decoder, EventBatch, WantId, check_block};
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_live::{
    Index, Matching, Shard, SourcePosition, StandingQuery, StepInput,
    expr::{EvalCounts, Program, Rows, Scratch, Wants},
};
use swiftwater_testkit::{MixedEvents, QueryTexts, Rng, TestClock, oracle};

struct Standing {
    text: String,
    query: Arc<StandingQuery>,
}

fn standing(text: String, dialect: Dialect) -> Option<Standing> {
    // A random pattern may be none.
    let plan = parse(&text, &ParseOptions::new(dialect, 0)).ok()?;
    let query = StandingQuery::compile(plan.query).ok()?;
    Some(Standing { text, query: Arc::new(query) })
}

const PATHS: [&str; 9] = ["a", "b", "n", "s", "t", "m.k", "o.p.q", "m", "l"];
const NUMBERS: [&str; 22] = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "10",
    "100",
    "0.0",
    "-0.0",
    "1.0",
    "1.5",
    "0.1",
    "0.3",
    "100.0",
    "1e2",
    "1e15",
    "9007199254740992L",
    "9007199254740993L",
    "9007199254740992.0",
    "9223372036854775807L",
    "-9223372036854775808L",
    "9223372036854775808.0",
];
const TEXTS: [&str; 14] =
    ["", "a", "b", "ab", "abc", "A", "1", "true", "é", "É", "😀", "～", "line\nend", "100%"];
const LIKES: [&str; 12] = ["a%", "ab%", "%b%", "%bc", "a_c", "é%", "%😀%", "%", "_%", "%\n%", "abc", "%a%b%"];
/// Patterns without a prefix or literal that every match has.
const OPEN_PATTERNS: [&str; 8] =
    ["[a-c]+", "(a|b|é)?.?", ".?[bc]?", "[^a].*", "(?i)[ab]{1,3}", "..", "[a-z0-9]*", "(a.*|.*c)"];
const PATTERNS: [&str; 14] = [
    "a.*", "ab.*", ".*b.*", "(a|b).*", "a", "[ab]+", "(?i)a.*", ".*", "é.*", "a?b", ".*n.*d", "1|true",
    "(ab)+c?", "x{0}",
];

/// A condition that an index can serve, as a rule.
fn indexed(rng: &mut Rng, dialect: Dialect, depth: usize) -> String {
    let path = rng.pick(&PATHS);
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let constant = |rng: &mut Rng| match rng.below(5) {
        0 | 1 => rng.pick(&NUMBERS).to_owned(),
        2 => rng.pick(&["TRUE", "FALSE"]).to_owned(),
        _ => quoted(rng.pick(&TEXTS)),
    };
    let several = |rng: &mut Rng, one: &dyn Fn(&mut Rng) -> String| {
        let all: Vec<String> = (0..1 + rng.below(4)).map(|_| one(rng)).collect();
        all.join(", ")
    };
    let native = dialect == Dialect::Native;
    match rng.below(if depth > 0 { 18 } else { 15 }) {
        0 | 1 => format!("{path} = {}", constant(rng)),
        2 => {
            let comparison = rng.pick(&["<", "<=", ">", ">=", "!="]);
            format!("{path} {comparison} {}", constant(rng))
        }
        3 => format!("{} {} {path}", constant(rng), rng.pick(&["<", "<=", ">", ">=", "="])),
        4 => {
            let one = |rng: &mut Rng| if rng.chance(0.5) { rng.pick(&NUMBERS) } else { "2" }.to_owned();
            format!("{path} > {} AND {path} <= {}", one(rng), one(rng))
        }
        5 => match rng.chance(0.6) {
            true => format!("{path} BETWEEN ({}, {})", rng.pick(&NUMBERS), rng.pick(&NUMBERS)),
            false => format!("{path} BETWEEN ({}, {})", quoted(rng.pick(&TEXTS)), quoted(rng.pick(&TEXTS))),
        },
        6 => match rng.below(3) {
            0 => format!("{path} IN [{}]", several(rng, &|rng| rng.pick(&NUMBERS).to_owned())),
            1 => format!("{path} IN [{}]", several(rng, &|rng| quoted(rng.pick(&TEXTS)))),
            _ => format!("{path} IN [{}]", several(rng, &constant)),
        },
        7 if native => format!("{path} LIKE {}", quoted(rng.pick(&LIKES))),
        7 | 8 => format!("{path} RLIKE {}", quoted(rng.pick(&PATTERNS))),
        9 => format!("{path} RLIKE ANY [{}]", several(rng, &|rng| quoted(rng.pick(&PATTERNS)))),
        10 => format!("{path} IS {}NULL", rng.pick(&["", "NOT "])),
        11 => match native {
            true => {
                let comparison = rng.pick(&["=", "<", "<=", ">", ">=", "!="]);
                format!("SIZEOF({path}) {comparison} {}", rng.pick(&["0", "1", "2", "3", "2.0", "1.5"]))
            }
            false => format!("SIZEOF({path}) = {}", rng.below(4)),
        },
        12 => format!("SIZEIS({path}, {})", rng.below(4)),
        13 => format!("CONTAINSKEY({path}, {})", quoted(rng.pick(&["k", "a", "b", "p", "q", "nothing"]))),
        14 => format!("{path} RLIKE {}", quoted(rng.pick(&OPEN_PATTERNS))),
        15 | 16 => {
            format!("({} OR {})", indexed(rng, dialect, depth - 1), indexed(rng, dialect, depth - 1))
        }
        _ => format!("({} AND {})", indexed(rng, dialect, depth - 1), indexed(rng, dialect, depth - 1)),
    }
}

/// A query with a condition that an index can serve, alone or beside others.
fn query_text(texts: &mut QueryTexts, rng: &mut Rng, dialect: Dialect) -> String {
    let indexed = indexed(rng, dialect, 2);
    let condition = match rng.below(4) {
        0 if dialect == Dialect::Native => texts.condition(),
        0 | 1 => indexed,
        2 if dialect == Dialect::Native => format!("({indexed}) AND ({})", texts.condition()),
        2 => format!("({indexed}) AND (n + 1 > 2)"),
        _ if dialect == Dialect::Native => {
            format!("({}) AND {} AND ({indexed})", texts.condition(), texts.condition())
        }
        _ => format!("SIZEOF(s) = 1 AND ({indexed})"),
    };
    format!("SELECT a FROM STREAM() WHERE {condition}")
}

fn batch_of(events: &[String]) -> EventBatch {
    let batch = check_block(Bytes::from(events.join("\n").into_bytes()), &CheckLimits::default(), 1).batch;
    assert_eq!(batch.len(), events.len());
    batch
}

/// Each query's filter as one expression, run over all rows of a batch.
#[derive(Default)]
pub(crate) struct NaiveMatcher {
    filters: BTreeMap<u64, (Program, Vec<WantId>)>,
    wants: Wants,
}

impl NaiveMatcher {
    pub(crate) fn add(&mut self, number: u64, query: &StandingQuery) {
        let filter = query.plan.filter.as_ref().expect("every query has a filter");
        let mut wants = Wants::new();
        let program = Program::compile(filter, query.dialect(), &mut wants).expect("it was compiled before");
        let bindings =
            wants.as_slice().iter().map(|want| WantId(self.wants.intern(want.clone()) as u32)).collect();
        self.filters.insert(number, (program, bindings));
    }

    pub(crate) fn decode(&self, batch: &EventBatch) -> Decoded {
        Decoder::default().decode(batch, &DecodePlan::new(self.wants.as_slice().iter().cloned()))
    }

    pub(crate) fn matches(&self, number: u64, decoded: &Decoded) -> Vec<u32> {
        let (program, bindings) = &self.filters[&number];
        let rows: Vec<u32> = (0..decoded.rows as u32).collect();
        let input = Rows::Events { decoded, bindings, rows: &rows, now: 0 };
        let mut kept = Vec::new();
        program.filter_rows(
            &input,
            &mut Scratch::default(),
            &Bump::new(),
            &mut EvalCounts::default(),
            &mut kept,
        );
        kept
    }
}

#[test]
fn matcher_agrees_with_a_loop_over_all_queries() {
    let clock = TestClock::at(0);
    let mut matched = 0;
    for seed in 0..30 {
        let dialect = if seed % 3 == 2 { Dialect::Bullet } else { Dialect::Native };
        let mut rng = Rng::new(seed);
        let mut texts = QueryTexts::new(seed);
        let mut index = Index::default();
        let mut queries: BTreeMap<u64, Standing> = BTreeMap::new();
        let mut shard = Shard::default();
        let mut by_expression = NaiveMatcher::default();
        let mut next = 0;
        for round in 0..12 {
            let mut rebuild = None;
            for _ in 0..rng.below(60) {
                if rng.chance(0.05) && rebuild.is_none() {
                    rebuild = index.rebuild_now();
                }
                if rng.chance(0.05)
                    && let Some(rebuild) = rebuild.take()
                {
                    index = index.rebuilt(rebuild.run());
                }
                if rng.chance(0.3)
                    && let Some(&number) = queries.keys().nth(rng.below(queries.len().max(1)))
                {
                    index = index.without(number);
                    queries.remove(&number);
                }
                if let Some(query) = standing(query_text(&mut texts, &mut rng, dialect), dialect) {
                    index = index.with(next, &query.query);
                    by_expression.add(next, &query.query);
                    queries.insert(next, query);
                    next += 1;
                }
            }
            let ending: Vec<u64> = queries.keys().copied().filter(|_| rng.chance(0.2)).collect();
            for number in ending {
                index = index.without(number);
                queries.remove(&number);
            }
            if let Some(rebuild) = rebuild {
                index = index.rebuilt(rebuild.run());
            }
            assert_eq!(index.len(), queries.len());
            let events = MixedEvents::new(seed * 100 + round).events(1 + rng.below(30));
            let batch = batch_of(&events);
            let nanos = || clock.monotonic_nanos();
            let input = StepInput {
                batch: &batch,
                arrivals: &[],
                before: None,
                place: SourcePosition::Number(0),
                now_micros: 0,
                record_bytes_max: usize::MAX,
                nanos: &nanos,
            };
            let mut steps = Vec::new();
            shard.step(&index, &input, &mut steps);
            let matches: BTreeMap<u64, usize> =
                steps.iter().map(|step| (step.number, step.matches as usize)).collect();
            let mut found: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
            let decoded = Decoder::default().decode(&batch, index.plan());
            Matching::default().matches(&index, &decoded, |number, rows| {
                assert!(found.insert(number, rows.to_vec()).is_none(), "a query was told of twice");
            });
            assert!(matches.keys().all(|number| queries.contains_key(number)), "an ended query was matched");
            let read = oracle::read(&events);
            let all = by_expression.decode(&batch);
            for (number, query) in &queries {
                let message = || format!("seed {seed}, round {round}: {}\n{}", query.text, events.join("\n"));
                let rows = found.get(number).cloned().unwrap_or_default();
                assert_eq!(matches.get(number).copied().unwrap_or(0), rows.len(), "{}", message());
                assert_eq!(rows, by_expression.matches(*number, &all), "{}", message());
                matched += rows.len();
                if dialect == Dialect::Native
                    && let Ok(expected) = oracle::matching(&query.query.plan, &read)
                {
                    assert_eq!(rows.len(), expected.len(), "{}", message());
                }
            }
        }
    }
    assert!(matched > 10_000, "so few matches show little: {matched}");
}

#[test]
fn what_was_counted_does_not_depend_on_what_finds_a_query() {
    // The same query among few and among many others, before and after samples of events were taken.
    let text = "SELECT a FROM STREAM() WHERE n >= 0 AND s = 'a' AND t = TRUE AND n + SIZEOF(s) > 1";
    let query = standing(text.to_owned(), Dialect::Native).expect("it can be compiled");
    let mut seen = Vec::new();
    for trained_on in
        [None, Some("{\"s\":\"a\",\"n\":-5,\"t\":false}"), Some("{\"s\":\"b\",\"n\":5,\"t\":true}")]
    {
        let mut shard = Shard::default();
        let first = standing(
            "SELECT a FROM STREAM() WHERE s = 'x' AND n > 1 AND t = TRUE".to_owned(),
            Dialect::Native,
        );
        let mut index = Index::default().with(1, &first.expect("it can be compiled").query);
        let mut step = |index: &Index, batch: &EventBatch| {
            let input = StepInput {
                batch,
                arrivals: &[],
                before: None,
                place: SourcePosition::Number(0),
                now_micros: 0,
                record_bytes_max: usize::MAX,
                nanos: &|| 0,
            };
            let mut steps = Vec::new();
            shard.step(index, &input, &mut steps);
            steps
                .into_iter()
                .find(|step| step.number == 2)
                .map(|step| (step.matches, step.expression_errors, step.mistyped))
        };
        if let Some(event) = trained_on {
            step(&index, &batch_of(&vec![event.to_owned(); 100]));
        }
        index = index.with(2, &query.query);
        seen.push(step(&index, &batch_of(&MixedEvents::new(7).events(400))));
    }
    assert!(seen[0].is_some_and(|(matches, _, _)| matches > 0), "{seen:?}");
    assert!(seen.iter().all(|other| *other == seen[0]), "{seen:?}");
}

#[test]
fn many_queries_come_and_go_through_all_levels() {
    let query = |value: u64| {
        standing(format!("SELECT a FROM STREAM() WHERE n = {value}"), Dialect::Native)
            .expect("it can be compiled")
            .query
    };
    let queries: Vec<_> = (0..50).map(query).collect();
    let mut index = Index::default();
    for number in 0..20_000_u64 {
        index = index.with(number, &queries[number as usize % 50]);
        if number >= 3000 {
            index = index.without(number - 3000);
        }
        if number % 1000 == 0
            && let Some(rebuild) = index.rebuild()
        {
            index = index.rebuilt(rebuild.run());
        }
    }
    assert_eq!(index.len(), 3000);
    let batch = batch_of(&["{\"n\":7}".to_owned(), "{\"n\":7.0}".to_owned(), "{\"n\":50}".to_owned()]);
    let decoded = Decoder::default().decode(&batch, index.plan());
    let mut found = Vec::new();
    Matching::default().matches(&index, &decoded, |number, rows| {
        assert_eq!(rows, [0, 1]);
        found.push(number);
    });
    found.sort_unstable();
    let expected: Vec<u64> = (17_000..20_000).filter(|number| number % 50 == 7).collect();
    assert_eq!(found, expected);
    for number in 17_000..20_000 {
        index = index.without(number);
    }
    assert!(index.is_empty() && index.wants().is_empty());
}

//! The matcher against each query's filter run as one expression: queries are made of the input's bytes, come and go, and
//! meet events made of the rest.

#![no_main]

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use bumpalo::Bump;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use swiftwater_event::{CheckLimits, DecodePlan, Decoder, check_block};
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_live::{
    Index, Matching, StandingQuery,
    expr::{EvalCounts, Program, Rows, Scratch, Wants},
};

const PATHS: [&str; 5] = ["a", "b", "n", "s", "m.k"];
const CONSTANTS: [&str; 24] = [
    "0", "1", "2", "-1", "0.0", "-0.0", "1.0", "1.5", "0.1", "100", "9007199254740992L", "9007199254740993L",
    "9007199254740992.0", "9223372036854775807L", "-9223372036854775808L", "9223372036854775808.0", "TRUE", "FALSE",
    "''", "'a'", "'ab'", "'abc'", "'é'", "'😀～'",
];
const VALUES: [&str; 26] = [
    "0", "1", "2", "-1", "0.0", "-0.0", "1.0", "1.5", "0.1", "1e2", "9007199254740992", "9007199254740993",
    "9007199254740992.0", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "true", "false",
    "\"\"", "\"a\"", "\"ab\"", "\"abcdefghijklmnop\"", "\"é\"", "\"😀～\"", "null", "[1]",
];
const COMPARISONS: [&str; 6] = ["=", "!=", "<", "<=", ">", ">="];
const PATTERNS: [&str; 8] = ["a%", "%b%", "abc", "%", "a_%", "%é", "😀%", "abcdefghijklm%"];
const REGEXES: [&str; 8] = ["a.*", ".*b.*", "(a|b).*", "[ab]+", "(?i)A.*", ".*", "é|a", "abcdefghijkl.*p"];

struct Bits<'b>(std::slice::Iter<'b, u8>);

impl Bits<'_> {
    fn below(&mut self, most: usize) -> usize {
        self.0.next().map_or(0, |&byte| usize::from(byte)) % most
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    fn condition(&mut self, dialect: Dialect, depth: usize) -> String {
        let path = self.of(&PATHS);
        match self.below(if depth > 0 { 13 } else { 11 }) {
            0..3 => format!("{path} {} {}", self.of(&COMPARISONS), self.of(&CONSTANTS)),
            3 => format!("{path} BETWEEN ({}, {})", self.of(&CONSTANTS), self.of(&CONSTANTS)),
            4 => format!("{path} IN [{}, {}]", self.of(&CONSTANTS), self.of(&CONSTANTS)),
            5 if dialect == Dialect::Native => format!("{path} LIKE '{}'", self.of(&PATTERNS)),
            5 | 6 => format!("{path} RLIKE '{}'", self.of(&REGEXES)),
            7 => format!("{path} IS {}NULL", self.of(&["", "NOT "])),
            8 => format!("SIZEOF({path}) {} {}", self.of(&COMPARISONS), self.of(&["0", "1", "2", "1.5"])),
            9 => format!("CONTAINSKEY({path}, '{}')", self.of(&["k", "a", "x"])),
            10 => format!("{path} RLIKE '{}'", self.of(&["[a-c]+", "..?", "[^a].*", "(a.*|.*c)"])),
            11 => format!("({} OR {})", self.condition(dialect, depth - 1), self.condition(dialect, depth - 1)),
            _ => format!("({} AND {})", self.condition(dialect, depth - 1), self.condition(dialect, depth - 1)),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut bits = Bits(bytes.iter());
    let dialect = if bits.below(3) == 0 { Dialect::Bullet } else { Dialect::Native };
    let mut index = Index::default();
    let mut queries: BTreeMap<u64, Arc<StandingQuery>> = BTreeMap::new();
    let mut rebuild = None;
    for number in 0..1 + bits.below(60) as u64 {
        let text = format!("SELECT a FROM STREAM() WHERE {}", bits.condition(dialect, 2));
        let Ok(statement) = parse(&text, &ParseOptions::new(dialect, 0)) else { continue };
        let Ok(query) = StandingQuery::compile(statement.query) else { continue };
        let query = Arc::new(query);
        index = index.with(number, &query);
        queries.insert(number, query);
        match bits.below(16) {
            0 | 1 => {
                let ending = queries.keys().nth(bits.below(queries.len())).copied().unwrap_or(number);
                index = index.without(ending);
                queries.remove(&ending);
            }
            2 if rebuild.is_none() => rebuild = index.rebuild_now(),
            3 => {
                if let Some(rebuild) = rebuild.take() {
                    index = index.rebuilt(rebuild.run());
                }
            }
            _ => {}
        }
    }
    assert_eq!(index.len(), queries.len());
    let mut events = String::new();
    for _ in 0..1 + bits.below(12) {
        let [a, b, n, s, k] = std::array::from_fn(|_| bits.of(&VALUES));
        let _ = match bits.below(4) {
            0 => writeln!(events, "{{\"s\":{s},\"n\":{n}}}"),
            _ => writeln!(events, "{{\"a\":{a},\"b\":{b},\"n\":{n},\"s\":{s},\"m\":{{\"k\":{k}}}}}"),
        };
    }
    let batch = check_block(Bytes::from(events.clone().into_bytes()), &CheckLimits::default(), 1).batch;
    let decoded = Decoder::default().decode(&batch, index.plan());
    let mut found: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    Matching::default().matches(&index, &decoded, |number, rows| {
        assert!(found.insert(number, rows.to_vec()).is_none(), "a query was told of twice");
    });
    assert!(found.keys().all(|number| queries.contains_key(number)), "an ended query was matched");
    let rows: Vec<u32> = (0..batch.len() as u32).collect();
    for (number, query) in &queries {
        let Some(filter) = &query.plan.filter else { continue };
        let mut wants = Wants::new();
        let Ok(program) = Program::compile(filter, dialect, &mut wants) else { continue };
        let plan = DecodePlan::new(wants.as_slice().iter().cloned());
        let decoded = Decoder::default().decode(&batch, &plan);
        let bindings: Vec<_> = wants.as_slice().iter().filter_map(|want| plan.find(want)).collect();
        let input = Rows::Events { decoded: &decoded, bindings: &bindings, rows: &rows, now: 0 };
        let mut expected = Vec::new();
        program.filter_rows(&input, &mut Scratch::default(), &Bump::new(), &mut EvalCounts::default(), &mut expected);
        assert_eq!(found.get(number).cloned().unwrap_or_default(), expected, "{filter}\n{events}");
    }
});

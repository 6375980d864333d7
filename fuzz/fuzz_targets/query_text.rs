//! Any text as a query, in both dialects: nothing panics, faults lie within the text, and an expression's printed plan
//! reads as the same plan.

#![no_main]

use libfuzzer_sys::fuzz_target;
use swiftwater_lang::{
    Dialect, ParseOptions, parse,
    plan::{Body, Expr, Query},
};

const NOW: i64 = 1_700_000_000_123;

fn columns(query: &Query) -> Vec<&Expr> {
    match &query.body {
        Body::Raw(raw) => raw.columns.iter().map(|column| &column.expr).collect(),
        Body::Group(_) => Vec::new(),
    }
}

fuzz_target!(|text: &str| {
    for dialect in [Dialect::Native, Dialect::Bullet] {
        let options = ParseOptions::new(dialect, NOW);
        let query = match parse(text, &options) {
            Ok(statement) => statement.query,
            Err(errors) => {
                assert!(!errors.0.is_empty() && !errors.to_string().is_empty());
                let lines = text.lines().count() + text.matches('\r').count() + 1;
                assert!(errors.0.iter().all(|error| error.line.is_none_or(|line| line as usize <= lines)));
                continue;
            }
        };
        assert!(!query.to_string().is_empty() && query.paths().len() <= text.len());
        if dialect == Dialect::Native {
            for expr in columns(&query) {
                let again = parse(&format!("SELECT {expr} AS x FROM STREAM()"), &options);
                let again = again.unwrap_or_else(|errors| panic!("{expr}\n{errors}")).query;
                assert_eq!(columns(&again), [expr]);
            }
        }
    }
});

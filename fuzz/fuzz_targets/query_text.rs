//! Any text as a query, in both dialects, with and without parameters: nothing panics, faults lie within the text, an
//! expression's printed plan reads as the same plan, and Bullet's normal form of a query is its own normal form.

#![no_main]

use libfuzzer_sys::fuzz_target;
use swiftwater_lang::{
    Dialect, ParseOptions, parse,
    plan::{Body, Expr, Literal, Query},
};

const NOW: i64 = 1_700_000_000_123;

/// The columns that a text can be made of: over the event alone.
fn columns(query: &Query) -> Vec<&Expr> {
    match &query.body {
        Body::Raw(raw) if query.views.is_empty() => raw.columns.iter().map(|column| &column.expr).collect(),
        _ => Vec::new(),
    }
}

/// Returns true if all numbers of a plan are finite: others have no text.
fn is_finite(expr: &Expr) -> bool {
    let mut finite = true;
    expr.visit(&mut |expr| match expr {
        Expr::Literal(Literal::Double(value)) => finite &= value.is_finite(),
        Expr::Literal(Literal::Float(value)) => finite &= value.is_finite(),
        _ => {}
    });
    finite
}

fn check(text: &str, dialect: Dialect, parameters: &[Literal]) {
    let options = ParseOptions::new(dialect, NOW);
    let query = match parse(text, &ParseOptions { parameters, ..options }) {
        Ok(statement) => statement.query,
        Err(errors) => {
            assert!(!errors.0.is_empty() && !errors.to_string().is_empty());
            let lines = text.lines().count() + text.matches('\r').count() + 1;
            assert!(errors.0.iter().all(|error| error.line.is_none_or(|line| line as usize <= lines)));
            return;
        }
    };
    assert!(!query.to_string().is_empty() && query.paths().len() <= text.len());
    for expr in query.event_exprs() {
        assert!(expr.depth() <= 512);
    }
    match dialect {
        Dialect::Native => {
            for expr in columns(&query).into_iter().filter(|expr| is_finite(expr)) {
                let again = parse(&format!("SELECT {expr} AS x FROM STREAM()"), &options);
                let again = again.unwrap_or_else(|errors| panic!("{expr}\n{errors}")).query;
                assert_eq!(columns(&again), [expr]);
            }
        }
        // A text without some of its parentheses may be another query, or none, or one with too large numbers.
        Dialect::Bullet => {
            if let Ok(again) = parse(&query.printed, &options) {
                assert_eq!(again.query.printed, query.printed);
            }
        }
    }
}

fuzz_target!(|text: &str| {
    let parameters = [Literal::Integer(-7), Literal::String("it's".into()), Literal::Double(0.5)];
    for dialect in [Dialect::Native, Dialect::Bullet] {
        for count in [0, 1, 3] {
            check(text, dialect, &parameters[..count]);
        }
    }
});

//! Any text as a query in the JSON form: nothing panics, faults lie within the text, and a plan stays within bounds.

#![no_main]

use libfuzzer_sys::fuzz_target;
use swiftwater_lang::{Dialect, ParseOptions, parse_json};

fuzz_target!(|text: &str| {
    match parse_json(text, &ParseOptions::new(Dialect::Native, 0)) {
        Ok(statement) => {
            let query = statement.query;
            assert!(!query.to_string().is_empty());
            assert!(query.event_exprs().iter().all(|expr| expr.depth() <= 512));
        }
        Err(errors) => {
            assert!(!errors.0.is_empty() && !errors.to_string().is_empty());
            let lines = text.lines().count() + text.matches('\r').count() + 1;
            assert!(errors.0.iter().all(|error| error.line.is_none_or(|line| line as usize <= lines)));
        }
    }
});

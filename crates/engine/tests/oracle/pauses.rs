//! Tests an input that pauses.

use std::{ops::ControlFlow, sync::Arc};

use swiftwater_engine::{InputSource, run_input};
use swiftwater_event::SystemClock;

use crate::input::options;

/// A reader that gives some text, and then nothing for as long as somebody holds the other end.
struct Waiting {
    text: Option<Vec<u8>>,
    end: std::sync::mpsc::Receiver<()>,
}

impl std::io::Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let Some(text) = self.text.take() else {
            let _ = self.end.recv();
            return Ok(0);
        };
        buffer[..text.len()].copy_from_slice(&text);
        Ok(text.len())
    }
}

#[test]
fn an_input_that_pauses_is_answered_so_far_and_limit_ends_it() {
    let (end, pause) = std::sync::mpsc::channel();
    let text = b"{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n".to_vec();
    let source = InputSource::Reader(Box::new(Waiting { text: Some(text), end: pause }));
    let mut records = 0;
    let mut take = |emit: swiftwater_engine::Emit| {
        records += emit.records.count;
        ControlFlow::Continue(())
    };
    let (query, clock) = ("SELECT a FROM STREAM() LIMIT 2", Arc::new(SystemClock::new()));
    run_input(source, query, &options(2, None), clock, &mut |_| {}, &mut take).expect("it is answered");
    assert_eq!(records, 2);
    drop(end);
}

//! `CREATE SINK`.

use super::super::{Parsed, Parser};
use crate::{
    ddl::{CreateSink, SinkOption, SinkOptions, SinkTarget},
    lexer::Symbol,
    source::Fault,
};

impl Parser<'_> {
    /// The name of a sink, by the rules of streams' names.
    pub(super) fn sink_name(&mut self) -> Parsed<Box<str>> {
        let name = self.name("a sink's name")?;
        self.no_dot("sink")?;
        match swiftwater_event::StreamName::new(&name.text) {
            Ok(_) => Ok(name.text),
            Err(error) => {
                Err(Fault::at(name.span, format!("`{}` cannot be a sink's name: {}", error.name, error.why)))
            }
        }
    }

    pub(super) fn create_sink(&mut self) -> Parsed<CreateSink> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.sink_name()?;
        self.expect_word("FROM")?;
        if self.symbol_at(0) == Some(Symbol::LeftParen) {
            return Err(Fault::not_yet(self.span(), "a query as the source of a sink")
                .hint("Keep the query as a view: CREATE MATERIALIZED VIEW v AS SELECT …, and name that."));
        }
        let view = self.view_name()?;
        self.expect_word("INTO")?;
        let target = self.sink_target()?;
        let (mut options, mut spans) = (SinkOptions::default(), Vec::new());
        if self.take_word("WITH") {
            let names = (SinkOption::of as fn(&str) -> _, SinkOption::text as fn(_) -> _);
            self.options(names, |option, value| options.set(option, value), &mut spans)?;
        }
        let span_of = |option| spans.iter().find(|(other, _)| *other == option).map(|(_, span)| *span);
        if let Some((option, span)) =
            options.unused(&target).and_then(|option| Some((option, span_of(option)?)))
        {
            return Err(Fault::at(span, format!("a {} has no `{}`", target.kind(), option.text())));
        }
        if let (Some(span), None) = (span_of(SinkOption::Retries), &options.dead_letter) {
            let message = "what is given up after `retries` must go somewhere: set `dead_letter`, too";
            return Err(
                Fault::at(span, message).hint("Without `retries` it is tried for as long as it takes.")
            );
        }
        Ok(CreateSink { name, if_not_exists, view, target, options })
    }

    fn sink_target(&mut self) -> Parsed<SinkTarget> {
        if self.take_word("STREAM") {
            return Ok(SinkTarget::Stream(self.stream_named("a stream's name")?.as_str().into()));
        }
        if self.take_word("TABLE") {
            return Ok(SinkTarget::Table(self.name("a table's name")?.text));
        }
        if self.take_word("FILE") {
            return Ok(SinkTarget::File(self.text("a path in quotes")?.0));
        }
        if self.take_word("WEBHOOK") {
            let (address, span) = self.text("an address in quotes")?;
            let is_http =
                |start: &str| address.len() > start.len() && address.to_ascii_lowercase().starts_with(start);
            if !is_http("http://") && !is_http("https://") {
                let message = "a webhook is at an address that begins with http:// or https://";
                return Err(Fault::at(span, message));
            }
            return Ok(SinkTarget::Webhook(address));
        }
        Err(self.expected_one_of(&["STREAM", "TABLE", "FILE", "WEBHOOK"]))
    }
}

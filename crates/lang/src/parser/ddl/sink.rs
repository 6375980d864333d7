//! Parses `CREATE SINK`.

use super::super::{Parsed, Parser};
use crate::{
    ddl::{CreateSink, SinkOption, SinkOptions, SinkTarget},
    lexer::Symbol,
    source::{Fault, Span},
};

impl Parser<'_> {
    pub(super) fn create_sink(&mut self) -> Parsed<CreateSink> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name_of("sink")?;
        self.expect_word("FROM")?;
        let of_changes = self.accept_words(&["CHANGES", "OF"]);
        if self.symbol_at(0) == Some(Symbol::LeftParen) {
            return Err(Fault::not_yet(self.span(), "a query as the source of a sink").hint(
                "Create a view of the query, CREATE MATERIALIZED VIEW v AS SELECT …, and name the view.",
            ));
        }
        let view = self.name_of("view")?;
        self.expect_word("INTO")?;
        let target = self.sink_target()?;
        let (mut options, mut spans) = (SinkOptions::default(), Vec::new());
        if self.accept_word("WITH") {
            let names = (SinkOption::of as fn(&str) -> _, SinkOption::text as fn(_) -> _);
            self.options(names, |option, value| options.set(option, value), &mut spans)?;
        }
        let span_of = |option| spans.iter().find(|(other, _)| *other == option).map(|(_, span)| *span);
        if let Some((option, span)) =
            options.unused(&target).and_then(|option| Some((option, span_of(option)?)))
        {
            return Err(match target {
                SinkTarget::Kafka(_) => {
                    let fault = Fault::at(span, format!("a topic has no option `{}` in WITH", option.text()));
                    fault.hint("Options of messages are in KAFKA (…): topic, connection, key, headers.")
                }
                _ => Fault::at(span, format!("a {} has no option `{}`", target.kind(), option.text())),
            });
        }
        options.check_retries(span_of(SinkOption::Retries))?;
        if of_changes {
            self.check_changes(&target, options.format.and(span_of(SinkOption::Format)))?;
        }
        Ok(CreateSink { name, if_not_exists, view, of_changes, target, options })
    }

    /// Refuses targets that changes cannot have. The position is after the target.
    fn check_changes(&self, target: &SinkTarget, format: Option<Span>) -> Parsed<()> {
        if let SinkTarget::Table(_) = target {
            return Err(Fault::not_yet(self.last_span(), "a table as the target of changes").hint(
                "The target of changes is a stream, whose events are a table in SQL, a file, or a webhook.",
            ));
        }
        match format {
            Some(span) => Err(Fault::at(span, "changes are written as lines of JSON: they have no `format`")),
            None => Ok(()),
        }
    }

    fn sink_target(&mut self) -> Parsed<SinkTarget> {
        if self.accept_word("STREAM") {
            return Ok(SinkTarget::Stream(self.stream_named("a stream's name")?.as_str().into()));
        }
        if self.accept_word("TABLE") {
            return Ok(SinkTarget::Table(self.name("a table's name")?.text));
        }
        if self.accept_word("FILE") {
            return Ok(SinkTarget::File(self.text("a path in quotes")?.0));
        }
        if self.accept_word("WEBHOOK") {
            return self.webhook_address().map(SinkTarget::Webhook);
        }
        if self.at_word(0, "KAFKA") {
            return self.kafka_target().map(|target| SinkTarget::Kafka(Box::new(target)));
        }
        Err(self.expected_one_of(&["STREAM", "TABLE", "FILE", "WEBHOOK", "KAFKA"]))
    }

    pub(super) fn webhook_address(&mut self) -> Parsed<Box<str>> {
        let (address, span) = self.text("an address in quotes")?;
        let is_http =
            |start: &str| address.len() > start.len() && address.to_ascii_lowercase().starts_with(start);
        if is_http("http://") || is_http("https://") {
            return Ok(address);
        }
        Err(Fault::at(span, "a webhook's address must begin with http:// or https://"))
    }
}

impl SinkOptions {
    /// Rows that are not delivered in the end must go somewhere. `retries` is where the option of that name stands, if
    /// it does.
    pub(super) fn check_retries(&self, retries: Option<Span>) -> Parsed<()> {
        match (retries, &self.dead_letter) {
            (Some(span), None) => {
                let message = "`retries` needs `dead_letter`, the stream for rows that cannot be delivered";
                Err(Fault::at(span, message).hint("Without `retries`, the server retries without limit."))
            }
            _ => Ok(()),
        }
    }
}

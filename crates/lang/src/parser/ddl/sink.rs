//! Parses `CREATE SINK`.

use swiftwater_event::StreamName;

use super::super::{Parsed, Parser};
use crate::{
    ast::{Node, Query, Source},
    ddl::{CreateSink, SinkOption, SinkOptions, SinkQuery, SinkSource, SinkTarget},
    lexer::Symbol,
    source::{Fault, Span},
};

impl Parser<'_> {
    pub(super) fn create_sink(&mut self) -> Parsed<CreateSink> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name_of("sink")?;
        self.expect_word("FROM")?;
        let source = self.sink_source()?;
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
        if let SinkSource::Changes(_) = source {
            self.check_changes(&target, options.format.and(span_of(SinkOption::Format)))?;
        }
        Ok(CreateSink { name, if_not_exists, source, target, options })
    }

    fn sink_source(&mut self) -> Parsed<SinkSource> {
        let of_changes = self.accept_words(&["CHANGES", "OF"]);
        if !self.is_symbol(Symbol::LeftParen) {
            let view = self.name_of("view")?;
            return Ok(if of_changes { SinkSource::Changes(view) } else { SinkSource::Windows(view) });
        }
        if of_changes {
            return Err(Fault::at(self.span(), "the events of a stream have no changes")
                .hint("Write FROM (SELECT …) for a row of each event, or CHANGES OF and a view."));
        }
        self.advance();
        let start = self.span();
        let query = self.query(0)?;
        let span = start.to(self.last_span());
        self.expect_symbol(Symbol::RightParen)?;
        let stream = query_over_events(&query, start)?;
        Ok(SinkSource::Events(Box::new(SinkQuery { stream, text: self.word(span).into() })))
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

/// The stream of a query that has a row for each event that it selects, and that needs nothing but the event for it. `start` is
/// where the query begins.
fn query_over_events(query: &Query, start: Span) -> Parsed<StreamName> {
    let Source::Stream(stream) = &query.source else {
        return Err(Fault::at(start, "a sink delivers one query over a stream")
            .hint("Write it as one query: SELECT … FROM STREAM(name) WHERE …."));
    };
    let aggregate = query.item_nodes().find_map(Node::aggregate).map(|node| node.span);
    let pattern = query.recognize.as_ref().map(|recognize| recognize.span);
    let of_several = [
        (query.distinct, "DISTINCT"),
        (query.group_by.as_ref().map(|group_by| group_by.span), "GROUP BY"),
        (query.having.as_ref().map(|having| having.span), "HAVING"),
        (query.window.as_ref().map(|window| window.span), "WINDOWING"),
        (pattern, "MATCH_RECOGNIZE"),
        (aggregate, "an aggregate"),
    ];
    for (span, clause) in of_several {
        if let Some(span) = span {
            return Err(Fault::at(span, format!("{clause} does not have a row for each event")).hint(
                "Create a view of the query, CREATE MATERIALIZED VIEW v AS SELECT …, and a sink FROM v or FROM \
                 CHANGES OF v.",
            ));
        }
    }
    if let Some(order) = query.order_by.first() {
        return Err(Fault::at(order.node.span, "the rows of a sink are in the order of the events")
            .hint("Leave ORDER BY out."));
    }
    if query.limit.is_some() {
        return Err(Fault::at(start, "a sink has no end, so its query has no LIMIT"));
    }
    if query.sample.is_some() {
        return Err(Fault::not_yet(start, "a sink with SAMPLE"));
    }
    if let Some(join) = query.joins.first() {
        return Err(Fault::not_yet(join.span, "a join in the query of a sink")
            .hint("Join into a stream with CREATE JOIN, and create the sink over that."));
    }
    if let Some(view) = query.explodes().chain(&query.views).next() {
        return Err(Fault::not_yet(view.span, "EXPLODE in the query of a sink"));
    }
    if stream.duration.is_some() {
        return Err(Fault::at(start, "a sink has no end, so its stream has no duration")
            .hint("Write `STREAM(name)`."));
    }
    stream.name.clone().ok_or_else(|| {
        Fault::at(start, "a sink needs the name of its stream").hint("Write `FROM STREAM(name)`.")
    })
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

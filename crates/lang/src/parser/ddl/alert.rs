//! Parses `CREATE ALERT`.

use super::super::{Parsed, Parser};
use crate::{
    ddl::{AlertOption, AlertOptions, AlertSource, AlertTarget, CreateAlert, SinkOption},
    lexer::{Symbol, TokenKind},
    source::Fault,
};

impl Parser<'_> {
    pub(super) fn create_alert(&mut self) -> Parsed<CreateAlert> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name_of("alert")?;
        if !self.accept_word("ON") {
            let hint = "Write ON and a view, or ON and a query in parentheses.";
            return Err(self.expected_one_of(&["ON"]).hint(hint));
        }
        let source = self.alert_source()?;
        if !self.accept_word("WHEN") {
            let hint = match source {
                AlertSource::View(_) => "Write WHEN and a condition on a row of the view.",
                AlertSource::Query(_) => "Write WHEN and a condition on a row of the query.",
            };
            return Err(self.expected_one_of(&["WHEN"]).hint(hint));
        }
        let from = self.span();
        self.expression()?;
        let condition = self.word(from.to(self.last_span())).into();
        if !self.accept_word("INTO") {
            let hint = "Write INTO and the target stream, or INTO WEBHOOK and an address.";
            return Err(self.expected_one_of(&["INTO"]).hint(hint));
        }
        let target = self.alert_target()?;
        let options = self.alert_options(&target)?;
        Ok(CreateAlert { name, if_not_exists, source, condition, target, options })
    }

    fn alert_source(&mut self) -> Parsed<AlertSource> {
        if self.symbol_at(0) == Some(Symbol::LeftParen) {
            return self.query_in_parentheses().map(AlertSource::Query);
        }
        if self.at_word(0, "STREAM") && self.symbol_at(1) == Some(Symbol::LeftParen) {
            let hint = "State the rows and their key: ON (SELECT device, LAST(*) AS event FROM STREAM(readings) GROUP BY \
                        device) WHEN event.temperature > 40.";
            return Err(Fault::at(
                self.span(),
                "an alert needs rows with a key, and the events of a stream have none",
            )
            .hint(hint));
        }
        self.name_of("view").map(AlertSource::View)
    }

    /// A query between parentheses, as it is written; what is wrong in it is told by who plans it.
    fn query_in_parentheses(&mut self) -> Parsed<Box<str>> {
        let open = self.span();
        self.advance();
        let from = self.span();
        let mut depth = 1;
        loop {
            match self.kind() {
                TokenKind::Symbol(Symbol::LeftParen) => depth += 1,
                TokenKind::Symbol(Symbol::RightParen) => depth -= 1,
                TokenKind::End => return Err(Fault::at(open, "this `(` is not closed")),
                _ => {}
            }
            if depth == 0 {
                break;
            }
            self.advance();
        }
        let until = self.last_span();
        let is_empty = until.end <= from.start;
        self.advance();
        if is_empty {
            return Err(Fault::at(open.to(self.last_span()), "the parentheses contain no query")
                .hint("Write ON (SELECT … FROM STREAM(…) GROUP BY …), or ON and the name of a view."));
        }
        Ok(self.word(from.to(until)).into())
    }

    fn alert_target(&mut self) -> Parsed<AlertTarget> {
        let is_text = matches!(self.kind_at(1), TokenKind::String(_));
        for word in ["TABLE", "FILE"] {
            if self.at_word(0, word) && (is_text || self.has_name_at(1)) {
                let message =
                    format!("the target of an alert is a stream or a webhook, not a {}", word.to_lowercase());
                return Err(Fault::at(self.span(), message)
                    .hint("Use a stream as the target; a job or a sink can read it."));
            }
        }
        if self.at_word(0, "WEBHOOK") && is_text {
            self.advance();
            return self.webhook_address().map(AlertTarget::Webhook);
        }
        if self.at_word(0, "STREAM") && self.has_name_at(1) {
            self.advance();
        }
        self.stream_named("the name of the target stream").map(AlertTarget::Stream)
    }

    /// True if a name stands there, and no WITH.
    fn has_name_at(&self, ahead: usize) -> bool {
        match self.kind_at(ahead) {
            TokenKind::Quoted(_) => true,
            TokenKind::Word(_) => !self.at_word(ahead, "WITH"),
            _ => false,
        }
    }

    fn alert_options(&mut self, target: &AlertTarget) -> Parsed<AlertOptions> {
        let (mut options, mut spans) = (AlertOptions::default(), Vec::new());
        if self.accept_word("WITH") {
            let names = (AlertOption::of as fn(&str) -> _, AlertOption::text as fn(_) -> _);
            self.options(names, |option, value| options.set(option, value), &mut spans)?;
        }
        let of_stream = |(option, _): &&(AlertOption, _)| *option != AlertOption::Resolve;
        if let (AlertTarget::Stream(_), Some((option, span))) = (target, spans.iter().find(of_stream)) {
            return Err(Fault::at(*span, format!("option `{}` is for webhooks only", option.text()))
                .hint("Write INTO WEBHOOK 'https://…', or leave the option out."));
        }
        let retries = AlertOption::Delivery(SinkOption::Retries);
        let retries = spans.iter().find(|(option, _)| *option == retries).map(|(_, span)| *span);
        options.delivery.check_retries(retries)?;
        Ok(options)
    }
}

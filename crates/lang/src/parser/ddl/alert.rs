//! `CREATE ALERT`.

use swiftwater_event::StreamName;

use super::super::{Parsed, Parser};
use crate::{
    ddl::{AlertOption, AlertOptions, CreateAlert},
    source::Fault,
};

impl Parser<'_> {
    /// The name of an alert, by the rules of streams' names.
    pub(super) fn alert_name(&mut self) -> Parsed<Box<str>> {
        let name = self.name("an alert's name")?;
        self.no_dot("alert")?;
        match StreamName::new(&name.text) {
            Ok(_) => Ok(name.text),
            Err(error) => {
                let message = format!("`{}` cannot be an alert's name: {}", error.name, error.why);
                Err(Fault::at(name.span, message))
            }
        }
    }

    pub(super) fn create_alert(&mut self) -> Parsed<CreateAlert> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.alert_name()?;
        if !self.take_word("ON") {
            return Err(self.expected_one_of(&["ON"]).hint("Behind ON stands the view that is watched."));
        }
        let view = self.view_name()?;
        if !self.take_word("WHEN") {
            let hint = "Behind WHEN stands the condition on a row of the view.";
            return Err(self.expected_one_of(&["WHEN"]).hint(hint));
        }
        let from = self.span();
        self.expression()?;
        let condition = self.word(from.to(self.last_span())).into();
        if !self.take_word("INTO") {
            return Err(self.expected_one_of(&["INTO"]).hint("Behind INTO stands the stream that is told."));
        }
        let stream = self.stream_named("the name of the stream that is told")?;
        let mut options = AlertOptions::default();
        if self.take_word("WITH") {
            let names = (AlertOption::of as fn(&str) -> _, AlertOption::text as fn(_) -> _);
            self.options(names, |option, value| options.set(option, value), &mut Vec::new())?;
        }
        Ok(CreateAlert { name, if_not_exists, view, condition, stream, options })
    }
}

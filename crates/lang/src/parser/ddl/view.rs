//! `CREATE MATERIALIZED VIEW`.

use swiftwater_event::StreamName;

use super::super::{Parsed, Parser};
use crate::{
    ddl::{CreateView, ViewOption, ViewOptions, split_statements},
    source::{Fault, Span},
};

impl Parser<'_> {
    /// The name of a view, by the rules of streams' names.
    pub(super) fn view_name(&mut self) -> Parsed<Box<str>> {
        let name = self.name("a view's name")?;
        self.no_dot("view")?;
        match StreamName::new(&name.text) {
            Ok(_) => Ok(name.text),
            Err(error) => {
                Err(Fault::at(name.span, format!("`{}` cannot be a view's name: {}", error.name, error.why)))
            }
        }
    }

    pub(super) fn create_view(&mut self) -> Parsed<CreateView> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.view_name()?;
        let mut expected = vec!["DELETE", "WITH", "AS"];
        let mut delete_when = None;
        if self.take_word("DELETE") {
            self.expect_word("WHEN")?;
            let from = self.span();
            self.expression()?;
            delete_when = Some(self.word(from.to(self.last_span())).into());
            expected.remove(0);
        }
        let mut options = ViewOptions::default();
        if self.take_word("WITH") {
            let names = (ViewOption::of as fn(&str) -> _, ViewOption::text as fn(_) -> _);
            self.options(names, |option, value| options.set(option, value), &mut Vec::new())?;
            expected = vec!["AS"];
        }
        if !self.take_word("AS") {
            return Err(self
                .expected_one_of(&expected)
                .hint("Behind AS stands the query that the view keeps."));
        }
        let start = self.last_span().end as usize;
        let body = &self.text[start..];
        match &split_statements(body)[..] {
            [] => Err(Fault::at(Span::new(start, self.text.len()), "a view is of a query")),
            [one] => Ok(CreateView { name, if_not_exists, delete_when, options, query: one.text.into() }),
            [_, second, ..] => Err(Fault::at(
                Span::new(start + second.start, self.text.len()),
                "only one query can stand here",
            )),
        }
    }
}

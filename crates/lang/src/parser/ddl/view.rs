//! Parses `CREATE MATERIALIZED VIEW`.

use super::super::{Parsed, Parser};
use crate::{
    ddl::{CreateView, ViewOption, ViewOptions, split_statements},
    source::{Fault, Span},
};

impl Parser<'_> {
    pub(super) fn create_view(&mut self) -> Parsed<CreateView> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name_of("view")?;
        let mut expected = vec!["DELETE", "WITH", "AS"];
        let mut delete_when = None;
        if self.accept_word("DELETE") {
            self.expect_word("WHEN")?;
            let from = self.span();
            self.expression()?;
            delete_when = Some(self.word(from.to(self.last_span())).into());
            expected.remove(0);
        }
        let mut options = ViewOptions::default();
        if self.accept_word("WITH") {
            let names = (ViewOption::of as fn(&str) -> _, ViewOption::text as fn(_) -> _);
            self.options(names, |option, value| options.set(option, value), &mut Vec::new())?;
            expected = vec!["AS"];
        }
        if !self.accept_word("AS") {
            return Err(self.expected_one_of(&expected).hint("Write AS and the query of the view."));
        }
        let start = self.last_span().end as usize;
        let body = &self.text[start..];
        match &split_statements(body)[..] {
            [] => Err(Fault::at(Span::new(start, self.text.len()), "a view needs a query")),
            [one] => Ok(CreateView { name, if_not_exists, delete_when, options, query: one.text.into() }),
            [_, second, ..] => Err(Fault::at(
                Span::new(start + second.start, self.text.len()),
                "only one query is allowed here",
            )),
        }
    }
}

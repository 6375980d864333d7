//! Parses `CREATE JOB`, `ALTER JOB` and `RUN JOB`.

use super::super::{Parsed, Parser};
use crate::{
    ddl::{CreateJob, Ddl, JobChange, JobOption, JobOptions, split_statements},
    lexer::Symbol,
    source::{Fault, Span},
};

impl Parser<'_> {
    pub(super) fn run_job(&mut self) -> Parsed<Ddl> {
        self.advance();
        self.advance();
        Ok(Ddl::RunJob { name: self.name_of("job")? })
    }

    pub(super) fn create_job(&mut self) -> Parsed<CreateJob> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name_of("job")?;
        self.expect_word("SCHEDULE")?;
        let schedule = self.schedule()?;
        let options = if self.accept_word("WITH") { self.job_options()? } else { JobOptions::default() };
        let expected: &[&str] = if options == JobOptions::default() { &["WITH", "AS"] } else { &["AS"] };
        if !self.accept_word("AS") {
            return Err(self.expected_one_of(expected).hint("Write AS and the SQL of the job."));
        }
        let sql = self.job_sql()?;
        Ok(CreateJob { name, if_not_exists, schedule, options, sql })
    }

    pub(super) fn alter_job(&mut self) -> Parsed<Ddl> {
        let name = self.name_of("job")?;
        let change = if self.accept_word("ENABLE") {
            JobChange::Enable
        } else if self.accept_word("DISABLE") {
            JobChange::Disable
        } else if self.accept_word("SET") {
            if self.symbol_at(0) == Some(Symbol::LeftParen) {
                JobChange::Set(self.job_options()?)
            } else if self.accept_word("SCHEDULE") {
                JobChange::Schedule(self.schedule()?)
            } else {
                return Err(self.expected_one_of(&["SCHEDULE", "options in parentheses"]));
            }
        } else if self.accept_word("RESET") {
            self.expect_symbol(Symbol::LeftParen)?;
            let options = self.list(|parser| parser.option_name(JobOption::of))?;
            self.expect_symbol(Symbol::RightParen)?;
            JobChange::Reset(options)
        } else {
            return Err(self.expected_one_of(&["ENABLE", "DISABLE", "SET", "RESET"]));
        };
        Ok(Ddl::AlterJob { name, change })
    }

    /// `(name = value, …)`.
    fn job_options(&mut self) -> Parsed<JobOptions> {
        let mut options = JobOptions::default();
        let names = (JobOption::of as fn(&str) -> _, JobOption::text as fn(_) -> _);
        self.options(names, |option, value| options.set(option, value), &mut Vec::new())?;
        Ok(options)
    }

    fn schedule(&mut self) -> Parsed<Box<str>> {
        let (schedule, span) = self.text("a schedule in single quotes, like '0 * * * *'")?;
        if schedule.trim().is_empty() {
            return Err(
                Fault::at(span, "a schedule cannot be empty").hint("Write it as for cron: '0 * * * *'.")
            );
        }
        Ok(schedule)
    }

    /// The text after AS, as written.
    fn job_sql(&self) -> Parsed<Box<str>> {
        let start = self.last_span().end as usize;
        let body = &self.text[start..];
        let place = |at: usize| Span::new(start + at, self.text.len());
        let trimmed = body.trim_start();
        let indent = body.len() - trimmed.len();
        if let Some(quoted) = trimmed.strip_prefix("$$") {
            let Some(end) = quoted.find("$$") else {
                return Err(Fault::at(
                    Span::new(start + indent, start + indent + 2),
                    "this `$$` is not closed",
                )
                .hint("Close it with `$$`."));
            };
            let behind = indent + 2 + end + 2;
            if let Some(more) = split_statements(&body[behind..]).first() {
                let message = "nothing is allowed after the closing `$$`";
                return Err(Fault::at(place(behind + more.start), message));
            }
            let sql = quoted[..end].trim();
            return match split_statements(sql).is_empty() {
                true => Err(Fault::at(place(indent), "a job runs at least one statement")),
                false => Ok(sql.trim_end_matches([';', ' ', '\t', '\r', '\n']).into()),
            };
        }
        match &split_statements(body)[..] {
            [] => Err(Fault::at(place(0), "a job runs at least one statement")),
            [one] if one.text.starts_with("$$") => {
                Err(Fault::at(place(0), "nothing is allowed between AS and `$$`"))
            }
            [one] => Ok(one.text.into()),
            [_, second, ..] => Err(Fault::at(place(second.start), "only one statement is allowed here")
                .hint("Write several between `$$` and `$$`.")),
        }
    }
}

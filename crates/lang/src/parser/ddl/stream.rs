//! Parses `CREATE STREAM` and `ALTER STREAM`.

use std::collections::HashSet;

use super::{
    super::{ITEMS_MAX, Parsed, Parser, parens},
    check::{Declaration, DeclaredColumn, DeclaredWatermark},
};
use crate::{
    ddl::{
        AlterStream, CreateStream, Ddl, IDLE_AFTER_MS_MIN, MAX_AHEAD_MS_DEFAULT, PartitionBy, SkipPartition,
        StreamChange, StreamOption, StreamOptions,
    },
    keyword::Keyword,
    lexer::{Symbol, TokenKind, short},
    source::{Fault, Span},
};

impl Parser<'_> {
    pub(super) fn create_stream(&mut self) -> Parsed<CreateStream> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.stream_named("a stream's name")?;
        let mut declaration = Declaration::default();
        if self.accept_symbol(Symbol::LeftParen) {
            loop {
                self.clause_start = self.at;
                if let Err(fault) = self.stream_item(&mut declaration) {
                    self.faults.push(fault);
                    self.skip_item();
                }
                if declaration.columns.len() + declaration.checks.len() > ITEMS_MAX {
                    return Err(Fault::at(self.span(), format!("a list has at most {ITEMS_MAX} items here")));
                }
                if !self.accept_symbol(Symbol::Comma) {
                    break;
                }
            }
            if !self.accept_symbol(Symbol::RightParen) {
                // An item that ends with the text has said so already.
                let said = self.faults.pop();
                return Err(said.unwrap_or_else(|| self.expected("`,` or `)`")));
            }
        }
        let source_span = self.span();
        let source = match self.accept_word("FROM") {
            true => Some(self.kafka_source()?),
            false => None,
        };
        let mut option_spans = Vec::new();
        let mut options = StreamOptions::default();
        if self.accept_word("WITH") {
            options = self.stream_options(&mut option_spans)?;
        }
        if self.faults.is_empty() {
            let has_columns = !declaration.columns.is_empty();
            self.check_produce(source.as_ref(), &options, (has_columns, &option_spans));
            declaration.check(&options, &option_spans, &mut self.faults);
        }
        if let Some(source) = &source
            && self.faults.is_empty()
        {
            self.check_event_time(source, source_span, &mut declaration);
        }
        let DeclaredParts { columns, checks, watermark } = declaration.into();
        Ok(CreateStream { name, if_not_exists, columns, checks, watermark, source, options })
    }

    /// Skips to the end of an item that has a fault.
    pub(super) fn skip_item(&mut self) {
        self.nesting = 0;
        let mut open: i64 =
            self.tokens[self.clause_start..self.at].iter().map(|token| parens(&token.kind)).sum();
        loop {
            match self.kind() {
                TokenKind::End => return,
                TokenKind::Symbol(Symbol::Comma | Symbol::RightParen) if open <= 0 => return,
                kind => open += parens(kind),
            }
            self.advance();
        }
    }

    fn stream_item(&mut self, declaration: &mut Declaration) -> Parsed<()> {
        if self.at_word(0, "WATERMARK") && self.at_word(1, "FOR") {
            let span = self.span();
            if declaration.watermark.is_some() {
                return Err(Fault::at(span, "a stream has one watermark"));
            }
            declaration.watermark = Some(self.watermark()?);
            return Ok(());
        }
        if self.at_check() {
            declaration.checks.push(self.check()?);
            return Ok(());
        }
        let is_key = ["PRIMARY", "UNIQUE", "FOREIGN"].iter().any(|word| self.at_word(0, word))
            && (self.at_word(1, "KEY") || self.symbol_at(1) == Some(Symbol::LeftParen));
        if is_key {
            return Err(Fault::at(self.span(), "a stream has no keys")
                .hint("The position of an event identifies it; views have keys."));
        }
        let column = self.column()?;
        declaration.columns.push(column);
        if !matches!(self.symbol_at(0), Some(Symbol::Comma | Symbol::RightParen)) {
            return Err(self.expected_one_of(&["NOT NULL", "DEFAULT", "CHECK", "PATH", "`,`", "`)`"]));
        }
        Ok(())
    }

    /// `WATERMARK FOR column AS column [- INTERVAL …] [MAX AHEAD INTERVAL … | MAX AHEAD NONE] [IDLE AFTER INTERVAL …]`.
    fn watermark(&mut self) -> Parsed<DeclaredWatermark> {
        self.advance();
        self.advance();
        let column = self.name("a column")?;
        self.expect_word("AS")?;
        let hint = format!("Write `WATERMARK FOR {0} AS {0} - INTERVAL '5 seconds'`.", short(&column.text));
        let again = self.name("the same column").map_err(|fault| fault.hint(hint.clone()))?;
        if again.text != column.text {
            return Err(Fault::at(again.span, "a watermark follows the column that it is for").hint(hint));
        }
        let mut lateness_ms = 0;
        if self.accept_symbol(Symbol::Minus) {
            if !self.is_keyword(Keyword::Interval) {
                return Err(self.expected("INTERVAL").hint(hint));
            }
            lateness_ms = self.duration("the lateness")?;
        }
        // Streams that were declared before there was MAX AHEAD have no bound.
        let mut max_ahead_ms = (!self.is_kept).then_some(MAX_AHEAD_MS_DEFAULT);
        if self.accept_words(&["MAX", "AHEAD"]) {
            max_ahead_ms = match self.accept_word("NONE") {
                true => None,
                false if self.is_keyword(Keyword::Interval) => {
                    Some(self.duration("how far ahead of its arrival an event's time may be")?)
                }
                false => {
                    let hint = "Write `MAX AHEAD INTERVAL '1 hour'`, or `MAX AHEAD NONE`.";
                    return Err(self.expected("INTERVAL or NONE").hint(hint));
                }
            };
        }
        let mut idle_after_ms = None;
        if self.accept_words(&["IDLE", "AFTER"]) {
            if !self.is_keyword(Keyword::Interval) {
                return Err(self.expected("INTERVAL").hint("Write `IDLE AFTER INTERVAL '30 seconds'`."));
            }
            let span = self.span();
            let idle = self.duration("the time without an event after which event time advances")?;
            if idle < IDLE_AFTER_MS_MIN {
                return Err(Fault::at(span, "IDLE AFTER is at least 1 second"));
            }
            idle_after_ms = Some(idle);
        }
        Ok(DeclaredWatermark { column, lateness_ms, max_ahead_ms, idle_after_ms })
    }

    /// `(name = value, …)`.
    fn stream_options(&mut self, spans: &mut Vec<(StreamOption, Span)>) -> Parsed<StreamOptions> {
        let mut options = StreamOptions::default();
        let names = (StreamOption::of as fn(&str) -> _, StreamOption::text as fn(_) -> _);
        self.options(names, |option, value| options.set(option, value), spans)?;
        if let Some(PartitionBy::Columns(columns)) = &options.partition_by
            && !self.is_kept
            && let Some(column) = named_twice(columns)
        {
            let message = format!("`partition_by` names `{}` twice", short(column));
            let place = spans.iter().find(|(option, _)| *option == StreamOption::PartitionBy);
            self.faults
                .extend(place.map(|(_, span)| Fault::at(*span, message).hint("Name each column once.")));
        }
        Ok(options)
    }

    // ---- ALTER

    pub(super) fn alter_stream(&mut self) -> Parsed<Ddl> {
        let if_exists = self.if_exists()?;
        let name = self.stream_named("a stream's name")?;
        if self.accept_word("SKIP") {
            let (partition, to) = self.skip_partition()?;
            return Ok(Ddl::SkipPartition(SkipPartition { name, if_exists, partition, to }));
        }
        let changes = self.list(Self::stream_change)?;
        Ok(Ddl::AlterStream(AlterStream { name, if_exists, changes }))
    }

    fn stream_change(&mut self) -> Parsed<StreamChange> {
        let start = self.span();
        if self.accept_word("ADD") {
            if self.at_check() {
                return Err(Fault::at(self.span(), "a condition can be added only with a column")
                    .hint("Write CHECK after the column: ADD COLUMN c LONG CHECK (c > 0)."));
            }
            self.accept_word("COLUMN");
            let if_not_exists = self.if_not_exists()?;
            let column: DeclaredColumn = self.column()?;
            let mut declaration = Declaration::default();
            declaration.columns.push(column);
            declaration.check(&StreamOptions::default(), &[], &mut self.faults);
            let mut parts: DeclaredParts = declaration.into();
            return match parts.columns.pop() {
                Some(column) => Ok(StreamChange::AddColumn { column, if_not_exists }),
                None => Err(self.expected("a column")),
            };
        }
        if self.accept_word("ALTER") {
            self.accept_word("COLUMN");
            let column = self.name("a column")?.text;
            let drops = self.accept_word("DROP");
            if drops && self.accept_words(&["NOT", "NULL"]) {
                return Ok(StreamChange::DropNotNull { column });
            }
            if drops {
                return match self.accept_word("DEFAULT") {
                    true => Ok(StreamChange::ColumnDefault { column, default: None }),
                    false => Err(self.expected_one_of(&["DEFAULT", "NOT NULL"])),
                };
            }
            if self.accept_words(&["SET", "DEFAULT"]) {
                let default = self.default_value()?;
                return Ok(StreamChange::ColumnDefault { column, default: Some(default.value) });
            }
            let _ = self.accept_words(&["SET", "DATA"]);
            if self.accept_word("TYPE") {
                return Ok(StreamChange::ColumnType { column, ty: self.column_type()? });
            }
            return Err(self.expected_one_of(&["TYPE", "SET DEFAULT", "DROP DEFAULT", "DROP NOT NULL"]));
        }
        if self.accept_word("PAUSE") {
            return Ok(StreamChange::Pause(true));
        }
        if self.accept_word("RESUME") {
            return Ok(StreamChange::Pause(false));
        }
        if self.accept_words(&["SET", "KAFKA"]) {
            return self.kafka_changes();
        }
        if self.accept_word("SET") {
            let mut spans = Vec::new();
            let options = self.stream_options(&mut spans)?;
            self.check_can_change(start, spans.iter().map(|(option, _)| *option))?;
            return Ok(StreamChange::Set(options));
        }
        if self.accept_word("RESET") {
            self.expect_symbol(Symbol::LeftParen)?;
            let options = self.list(|parser| parser.option_name(StreamOption::of))?;
            self.expect_symbol(Symbol::RightParen)?;
            self.check_can_change(start, options.iter().copied())?;
            return Ok(StreamChange::Reset(options));
        }
        if self.at_word(0, "DROP") || self.at_word(0, "RENAME") {
            return Err(Fault::at(self.span(), "columns of a stream are neither dropped nor renamed")
                .hint("Leave it out of your queries; its stored values remain readable."));
        }
        if self.at_word(0, "SKIP") {
            return Err(self.skips_alone());
        }
        Err(self.expected_one_of(&["ADD", "ALTER", "SET", "RESET", "PAUSE", "RESUME", "SKIP"]))
    }

    fn check_can_change(&self, span: Span, options: impl IntoIterator<Item = StreamOption>) -> Parsed<()> {
        match options.into_iter().find(|option| !option.can_change()) {
            Some(option) => {
                let fault = Fault::at(span, format!("`{}` of a stream cannot be changed", option.text()));
                Err(fault.hint("DROP the stream and create it again."))
            }
            None => Ok(()),
        }
    }
}

/// The first name that is there before, in any letter case.
fn named_twice(names: &[Box<str>]) -> Option<&str> {
    let mut seen = HashSet::new();
    names.iter().find(|name| !seen.insert(name.to_lowercase())).map(|name| &**name)
}

/// The parts of a declaration after it was checked.
pub(super) struct DeclaredParts {
    pub(super) columns: Vec<crate::ddl::ColumnDef>,
    pub(super) checks: Vec<crate::ddl::Check>,
    pub(super) watermark: Option<crate::ddl::Watermark>,
}

//! Parses the statements of search indexes. [`crate::ddl::search_index`] has the grammar.

use swiftwater_event::{did_you_mean, from_rfc3339};
use swiftwater_text::{
    BOOST_MAX, ColumnIndex, FacetIndex, IdIndex, IndexKind, LANGUAGES, SEPARATOR_BYTES_MAX, SearchDefinition,
    TextIndex, language,
};

use super::{
    super::{ITEMS_MAX, Parsed, Parser},
    DdlSubject,
};
use crate::{
    ddl::{
        AlterSearchIndex, CreateSearchIndex, Ddl, DefinitionError, RebuildBound, RebuildSearchIndex,
        SearchIndexChange, Value, named_option,
        search_index::{check_defaults, check_definition},
    },
    lexer::{Symbol, TokenKind, short},
    source::{Fault, Span},
};

/// The options of `TEXT`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum TextOption {
    Stem,
    Fold,
    Split,
    Positions,
}

/// The option of an index.
#[derive(Debug, Clone, Copy, PartialEq)]
struct DefaultOption;

impl TextOption {
    const ALL: [TextOption; 4] =
        [TextOption::Stem, TextOption::Fold, TextOption::Split, TextOption::Positions];

    fn text(self) -> &'static str {
        match self {
            TextOption::Stem => "stem",
            TextOption::Fold => "fold",
            TextOption::Split => "split",
            TextOption::Positions => "positions",
        }
    }

    fn of(name: &str) -> Result<TextOption, String> {
        named_option(&Self::ALL, Self::text, name)
    }
}

impl DefaultOption {
    fn text(self) -> &'static str {
        "default"
    }

    fn of(name: &str) -> Result<DefaultOption, String> {
        named_option(&[DefaultOption], Self::text, name)
    }
}

impl From<DefinitionError> for Fault {
    fn from(error: DefinitionError) -> Fault {
        let fault = Fault::whole(error.to_string());
        match error.hint() {
            Some(hint) => fault.hint(hint),
            None => fault,
        }
    }
}

fn at(span: Span, error: DefinitionError) -> Fault {
    Fault { span: Some(span), ..Fault::from(error) }
}

impl Parser<'_> {
    /// Parses the part after the verb and SEARCH.
    pub(super) fn search_index(&mut self, DdlSubject { verb, .. }: DdlSubject) -> Parsed<Ddl> {
        self.expect_word("INDEX")?;
        match verb {
            "CREATE" => self.create_search_index().map(Ddl::CreateSearchIndex),
            "ALTER" => self.alter_search_index(),
            _ => {
                let if_exists = self.if_exists()?;
                Ok(Ddl::DropSearchIndex { table: self.indexed_table()?, if_exists })
            }
        }
    }

    /// `ON table`.
    pub(super) fn indexed_table(&mut self) -> Parsed<Box<str>> {
        if !self.at_word(0, "ON") {
            let hint = "A search index has the name of its stream or table: write ON and that name.";
            return Err(self.expected_one_of(&["ON"]).hint(hint));
        }
        self.advance();
        let name = self.name("the name of a stream or table")?;
        self.no_dot("stream")?;
        Ok(name.text)
    }

    fn create_search_index(&mut self) -> Parsed<CreateSearchIndex> {
        let if_not_exists = self.if_not_exists()?;
        let table = self.indexed_table()?;
        let mut definition = SearchDefinition::default();
        let start = self.span();
        if !self.accept_symbol(Symbol::LeftParen) {
            let hint = "List the columns in parentheses, (message TEXT, host ID), or (*) for all with text.";
            return Err(self.expected("`(`").hint(hint));
        }
        let mut items = 0;
        loop {
            self.clause_start = self.at;
            if let Err(fault) = self.index_item(&mut definition) {
                self.faults.push(fault);
                self.skip_item();
            }
            items += 1;
            if items > ITEMS_MAX {
                return Err(Fault::at(self.span(), format!("a list has at most {ITEMS_MAX} items here")));
            }
            if !self.accept_symbol(Symbol::Comma) {
                break;
            }
        }
        if !self.accept_symbol(Symbol::RightParen) {
            // An item that ends with the text has reported it already.
            let reported = self.faults.pop();
            return Err(reported.unwrap_or_else(|| self.expected("`,` or `)`")));
        }
        let columns = start.to(self.last_span());
        let mut defaults = None;
        if self.accept_word("WITH") {
            let mut columns = Vec::new();
            defaults = Some(self.default_option(&mut columns)?);
            definition.set_defaults(&columns);
        }
        if self.faults.is_empty() {
            let checked = match defaults {
                Some(span) => check_defaults(&definition).map_err(|error| at(span, error)),
                None => Ok(()),
            };
            checked?;
            check_definition(&definition).map_err(|error| at(columns, error))?;
        }
        Ok(CreateSearchIndex { table, if_not_exists, definition })
    }

    /// `column kind`, or `*`.
    fn index_item(&mut self, definition: &mut SearchDefinition) -> Parsed<()> {
        let span = self.span();
        if self.accept_symbol(Symbol::Star) {
            if definition.covers_all {
                return Err(Fault::at(span, "`*` is listed twice"));
            }
            definition.covers_all = true;
        } else {
            let (column, index) = self.indexed_column()?;
            let span = span.to(self.last_span());
            let twice = |kind| at(span, DefinitionError::KindTwice { column: column.clone(), kind });
            definition.add(&column, index).map_err(twice)?;
        }
        match self.symbol_at(0) {
            Some(Symbol::Comma | Symbol::RightParen) => Ok(()),
            _ => Err(self.expected_one_of(&["`,`", "`)`"])),
        }
    }

    /// A column and one of its kinds.
    fn indexed_column(&mut self) -> Parsed<(Box<str>, ColumnIndex)> {
        let column = self.name("a column, or `*`")?.text;
        if matches!(self.symbol_at(0), Some(Symbol::Dot | Symbol::LeftBracket)) {
            let hint = format!(
                "An index covers whole columns: write `{} TEXT`; searches name paths into it.",
                crate::ddl::print::name_text(&column)
            );
            return Err(self.expected("TEXT, ID or FACET").hint(hint));
        }
        let mut index = ColumnIndex::default();
        match self.index_kind() {
            Some(IndexKind::Text) => index.text = Some(self.text_index()?),
            Some(IndexKind::Id) => {
                index.id = Some(IdIndex { is_correlation: self.accept_word("CORRELATION") });
            }
            Some(IndexKind::Facet) => {
                let separator = match self.kind() {
                    TokenKind::String(_) => Some(self.separator()?),
                    _ => None,
                };
                index.facet = Some(FacetIndex { separator });
            }
            None => {
                let fault = self.expected_one_of(&IndexKind::ALL.map(IndexKind::text));
                let hint = format!("State the kind of column `{}`: TEXT, ID or FACET.", short(&column));
                return Err(if fault.hint.is_some() { fault } else { fault.hint(hint) });
            }
        }
        Ok((column, index))
    }

    fn index_kind(&mut self) -> Option<IndexKind> {
        IndexKind::ALL.into_iter().find(|kind| self.accept_word(kind.text()))
    }

    /// Parses the part after `TEXT`.
    fn text_index(&mut self) -> Parsed<TextIndex> {
        let mut index = TextIndex::default();
        if self.symbol_at(0) == Some(Symbol::LeftParen) {
            let (mut values, mut spans) = (Vec::new(), Vec::new());
            let names = (TextOption::of as fn(&str) -> _, TextOption::text as fn(_) -> _);
            let read = |option, value: &Value| {
                values.push((option, value.clone()));
                Ok(())
            };
            self.options(names, read, &mut spans)?;
            for ((option, value), (_, span)) in values.iter().zip(spans) {
                if let Err(fault) = set(&mut index, *option, value, span) {
                    self.faults.push(fault);
                }
            }
        }
        if self.accept_word("BOOST") {
            let span = self.span();
            let is_number =
                matches!(self.kind(), TokenKind::Whole { .. } | TokenKind::Double(_) | TokenKind::Float(_));
            let boost = is_number.then(|| self.word(span).parse::<f32>().ok()).flatten();
            let boost = boost.filter(|boost| *boost > 0.0 && *boost <= BOOST_MAX);
            let wrong = || self.expected(&format!("a number above 0 and at most {BOOST_MAX}"));
            index.boost = boost.ok_or_else(wrong)?;
            self.advance();
        }
        Ok(index)
    }

    fn separator(&mut self) -> Parsed<Box<str>> {
        let (separator, span) = self.text("a separator in single quotes")?;
        if separator.is_empty() || separator.len() > SEPARATOR_BYTES_MAX {
            let message = format!("the separator of a FACET has 1 to {SEPARATOR_BYTES_MAX} bytes");
            return Err(Fault::at(span, message).hint("Write FACET '/', or FACET for values without paths."));
        }
        Ok(separator)
    }

    /// `(default = …)`: sets the columns, and returns the place of the value.
    fn default_option(&mut self, columns: &mut Vec<Box<str>>) -> Parsed<Span> {
        let mut spans = Vec::new();
        let names = (DefaultOption::of as fn(&str) -> _, DefaultOption::text as fn(_) -> _);
        let read = |_, value: &Value| {
            *columns = match value {
                Value::Names(names) => names.clone(),
                Value::Text(name) => vec![name.clone()],
                Value::Number(_) | Value::OtherNumber => {
                    return Err("`default` must be columns in parentheses".to_owned());
                }
            };
            Ok(())
        };
        self.options(names, read, &mut spans)?;
        Ok(spans.first().map_or(self.last_span(), |(_, span)| *span))
    }

    fn alter_search_index(&mut self) -> Parsed<Ddl> {
        let table = self.indexed_table()?;
        if self.accept_word("REBUILD") {
            return self.rebuild(table).map(Ddl::RebuildSearchIndex);
        }
        let changes = self.list(Self::search_index_change)?;
        Ok(Ddl::AlterSearchIndex(AlterSearchIndex { table, changes }))
    }

    fn search_index_change(&mut self) -> Parsed<SearchIndexChange> {
        if self.accept_word("ADD") {
            if self.accept_symbol(Symbol::Star) {
                return Ok(SearchIndexChange::AddAll);
            }
            let (column, index) = self.indexed_column()?;
            return Ok(SearchIndexChange::Add { column, index });
        }
        if self.accept_word("DROP") {
            if self.accept_symbol(Symbol::Star) {
                return Ok(SearchIndexChange::DropAll);
            }
            let column = self.name("a column, or `*`")?.text;
            return Ok(SearchIndexChange::Drop { column, kind: self.index_kind() });
        }
        if self.accept_word("SET") {
            let mut columns = Vec::new();
            self.default_option(&mut columns)?;
            return Ok(SearchIndexChange::SetDefaults(columns));
        }
        if self.accept_word("RESET") {
            self.expect_symbol(Symbol::LeftParen)?;
            self.option_name(DefaultOption::of)?;
            self.expect_symbol(Symbol::RightParen)?;
            return Ok(SearchIndexChange::ResetDefaults);
        }
        Err(self.expected_one_of(&["ADD", "DROP", "SET", "RESET", "REBUILD"]))
    }

    /// `[FROM 'time'] [TO 'time']`.
    fn rebuild(&mut self, table: Box<str>) -> Parsed<RebuildSearchIndex> {
        let start = self.span();
        let from = if self.accept_word("FROM") { Some(self.rebuild_bound()?) } else { None };
        let to = if self.accept_word("TO") { Some(self.rebuild_bound()?) } else { None };
        if let (Some(from), Some(to)) = (&from, &to)
            && from.micros >= to.micros
        {
            let hint = "The range includes FROM and ends before TO.";
            let message = "the end of the range is not behind its start";
            return Err(Fault::at(start.to(self.last_span()), message).hint(hint));
        }
        if !matches!(self.kind(), TokenKind::End | TokenKind::Symbol(Symbol::Semicolon)) && to.is_none() {
            return Err(self.expected_one_of(if from.is_none() { &["FROM", "TO"] } else { &["TO"] }));
        }
        Ok(RebuildSearchIndex { table, from, to })
    }

    fn rebuild_bound(&mut self) -> Parsed<RebuildBound> {
        const HINT: &str = "Write a day, '2026-01-31', or a time, '2026-01-31T12:00:00Z'.";
        let (text, span) = self.text("a time in single quotes").map_err(|fault| fault.hint(HINT))?;
        let micros = match text.len() {
            10 => from_rfc3339(format!("{text}T00:00:00Z").as_bytes()),
            _ => from_rfc3339(text.as_bytes()),
        };
        match micros {
            Some(micros) => Ok(RebuildBound { text, micros }),
            None => Err(Fault::at(span, format!("`{}` is not a time", short(&text))).hint(HINT)),
        }
    }
}

/// Sets an option of `TEXT`.
fn set(index: &mut TextIndex, option: TextOption, value: &Value, span: Span) -> Result<(), Fault> {
    let text = match value {
        Value::Text(text) => text.trim().to_ascii_lowercase(),
        _ => String::new(),
    };
    let wrong = |accepted: &str| {
        let fault = Fault::at(span, format!("`{}` must be {accepted}", option.text()));
        let accepted = accepted.split(" or ");
        match did_you_mean(&text, accepted) {
            Some(near) => fault.hint(format!("Did you mean {near}?")),
            None => fault,
        }
    };
    match (option, text.as_str()) {
        (TextOption::Stem, "none") => index.analyzer.stem = None,
        (TextOption::Stem, name) => match language(name) {
            Some(language) => index.analyzer.stem = Some(language),
            None if name.is_empty() => return Err(wrong("a language such as 'english', or none")),
            None => {
                let names = || LANGUAGES.iter().map(|(name, _)| *name);
                let fault = Fault::at(span, format!("no language `{}`", short(name)));
                return Err(match did_you_mean(name, names()) {
                    Some(near) => fault.hint(format!("Did you mean '{near}'?")),
                    None => fault.hint(format!("Languages are {}.", names().collect::<Vec<_>>().join(", "))),
                });
            }
        },
        (TextOption::Fold, "accents") => index.analyzer.fold_accents = true,
        (TextOption::Fold, "none") => index.analyzer.fold_accents = false,
        (TextOption::Fold, _) => return Err(wrong("accents or none")),
        (TextOption::Split, "code") => index.analyzer.split_code = true,
        (TextOption::Split, "none") => index.analyzer.split_code = false,
        (TextOption::Split, _) => return Err(wrong("code or none")),
        (TextOption::Positions, "true") => index.has_positions = true,
        (TextOption::Positions, "false") => index.has_positions = false,
        (TextOption::Positions, _) => return Err(wrong("true or false")),
    }
    Ok(())
}

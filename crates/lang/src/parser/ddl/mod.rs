//! Parses DDL statements: dispatches by the first words, and parses the statements without columns.
//!
//! Streams are in [`stream`], their columns in [`column`], views in [`view`], jobs in [`job`], endpoints in [`endpoint`],
//! search indexes in [`search_index`], saved objects in [`saved`], checks of a whole declaration in [`check`]. The head of [`crate::ddl`] has the grammar.
//!
//! The words of DDL are not keywords of the query language. They are compared as text, so fields may have these names.

mod alert;
mod check;
mod column;
mod endpoint;
mod job;
mod join;
mod kafka;
mod option;
mod saved;
mod search_index;
mod sink;
mod stream;
mod view;

use swiftwater_event::{StreamName, did_you_mean};

pub(crate) use join::parse_join;

use super::{Parsed, Parser};
use crate::{
    Dialect,
    ast::Name,
    ddl::{Ddl, DdlObjectKind, Show},
    lexer::{Symbol, TokenKind, Tokens, short, tokenize, tokenize_named},
    source::{Fault, Span},
};

/// The words after CREATE, ALTER and DROP in statements of this language.
const THINGS: [&str; 9] =
    ["STREAM", "MATERIALIZED VIEW", "ALERT", "SINK", "JOIN", "JOB", "ENDPOINT", "SEARCH", "SAVED"];

/// The words that SQL has there, so that none of them is reported as misspelt.
const OF_SQL: [&str; 16] = [
    "TABLE",
    "VIEW",
    "EXTERNAL",
    "UNBOUNDED",
    "SCHEMA",
    "DATABASE",
    "FUNCTION",
    "INDEX",
    "TEMPORARY",
    "TEMP",
    "ROLE",
    "USER",
    "TRIGGER",
    "CATALOG",
    "AGGREGATE",
    "STAGE",
];

/// Parses one statement, which may be one that was taken once; `None`: it is none of ours.
pub(crate) fn parse(text: &str, is_kept: bool) -> Result<Option<Ddl>, Vec<Fault>> {
    let Tokens { tokens, mut faults, .. } = tokenize(text, Dialect::Native, &[]);
    let mut parser = Parser::new(text, Dialect::Native, tokens);
    parser.is_kept = is_kept;
    if parser.at_word(0, "CREATE") && parser.at_word(1, "ENDPOINT") {
        let named = tokenize_named(text);
        (parser.tokens, faults) = (named.tokens, named.faults);
    }
    let is_saved = parser.at_word(1, "SAVED") || parser.at_word(1, "OR") && parser.at_word(3, "SAVED");
    let has_query = is_saved && parser.at_word(0, "ALTER")
        || parser.at_word(0, "CREATE") && (is_saved || parser.at_any_word_at(1, &["JOB", "MATERIALIZED"]));
    let parsed = if parser.at_any_word(&["CREATE", "ALTER", "DROP"]) {
        match parser.saved() {
            Some(parsed) => parsed,
            None => match parser.thing()? {
                None => return Ok(None),
                Some(thing) => parser.declaration(thing),
            },
        }
    } else if parser.at_word(0, "RUN") && parser.at_word(1, "JOB") {
        parser.run_job()
    } else if parser.at_word(0, "SHOW") {
        match parser.show() {
            Some(parsed) => parsed,
            None => return Ok(None),
        }
    } else if parser.at_any_word(&["DESCRIBE", "DESC"]) {
        match parser.describe() {
            Some(parsed) => parsed,
            None => return Ok(None),
        }
    } else {
        return Ok(None);
    };
    // The query of a job or a view and the text of a saved object are not parsed here: nothing in them is misspelt.
    if has_query {
        let read_up_to = parser.last_span().end;
        faults.retain(|fault| fault.span.is_some_and(|span| span.start < read_up_to));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let parsed = parsed.and_then(|ddl| if has_query { Ok(ddl) } else { parser.end().map(|()| ddl) });
    match parsed {
        Ok(ddl) if parser.faults.is_empty() => Ok(Some(ddl)),
        Ok(_) => Err(parser.faults),
        Err(fault) => {
            parser.faults.push(fault);
            Err(parser.faults)
        }
    }
}

/// CREATE, ALTER or DROP, of what.
#[derive(Clone, Copy, PartialEq)]
struct DdlSubject {
    verb: &'static str,
    thing: DdlObjectKind,
}

impl Parser<'_> {
    // ---- words

    /// True if the token `ahead` is this word, in any letter case and without quotes.
    pub(super) fn at_word(&self, ahead: usize, word: &str) -> bool {
        if ahead == 0 && self.at_cursor() {
            self.cursor.words.borrow_mut().push(word.to_owned());
        }
        let at = (self.at + ahead).min(self.tokens.len() - 1);
        let token = &self.tokens[at];
        matches!(token.kind, TokenKind::Word(_)) && self.word(token.span).eq_ignore_ascii_case(word)
    }

    /// True if the token here is one of these words.
    fn at_any_word(&self, words: &[&str]) -> bool {
        self.at_any_word_at(0, words)
    }

    fn at_any_word_at(&self, ahead: usize, words: &[&str]) -> bool {
        words.iter().any(|word| self.at_word(ahead, word))
    }

    pub(super) fn accept_word(&mut self, word: &str) -> bool {
        let found = self.at_word(0, word);
        if found {
            self.advance();
        }
        found
    }

    /// Accepts all of these words, or none.
    pub(super) fn accept_words(&mut self, words: &[&str]) -> bool {
        if self.at_cursor() {
            self.cursor.words.borrow_mut().push(words.join(" "));
        }
        let found = words.iter().enumerate().all(|(ahead, word)| self.at_word(ahead, word));
        if found {
            words.iter().for_each(|_| self.advance());
        }
        found
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.accept_word(word) { Ok(()) } else { Err(self.expected_one_of(&[word])) }
    }

    /// One of these words was expected.
    pub(super) fn expected_one_of(&self, words: &[&str]) -> Fault {
        let what = match words {
            [one] => (*one).to_owned(),
            [most @ .., last] => format!("{} or {last}", most.join(", ")),
            [] => "nothing more".to_owned(),
        };
        let fault = self.expected(&what);
        let near = match self.kind() {
            TokenKind::Word(_) => did_you_mean(self.word(self.span()), words.iter().copied()),
            _ => None,
        };
        match near {
            Some(near) => fault.hint(format!("Did you mean {near}?")),
            None => fault,
        }
    }

    fn if_exists(&mut self) -> Parsed<bool> {
        if !self.at_word(0, "IF") {
            return Ok(false);
        }
        self.advance();
        self.expect_word("EXISTS")?;
        Ok(true)
    }

    fn if_not_exists(&mut self) -> Parsed<bool> {
        if !(self.at_word(0, "IF") && (self.at_word(1, "NOT") || self.at_word(1, "EXISTS"))) {
            return Ok(false);
        }
        self.advance();
        self.expect_word("NOT")?;
        self.expect_word("EXISTS")?;
        Ok(true)
    }

    fn end(&mut self) -> Parsed<()> {
        self.accept_symbol(Symbol::Semicolon);
        match self.kind() {
            TokenKind::End => Ok(()),
            _ if !self.faults.is_empty() => Ok(()),
            _ => Err(self.expected("the end of the statement")),
        }
    }

    fn stream_named(&mut self, what: &str) -> Parsed<StreamName> {
        let name = self.name(what)?;
        self.no_dot("stream")?;
        StreamName::new(&name.text).map_err(|error| Fault::at(name.span, error.to_string()))
    }

    /// The name of an alert, a job, a sink or a view, by the rules of streams' names.
    fn name_of(&mut self, thing: &str) -> Parsed<Box<str>> {
        let article = if thing.starts_with('a') { "an" } else { "a" };
        let name = self.name(&format!("{article} {thing}'s name"))?;
        self.no_dot(thing)?;
        match StreamName::new(&name.text) {
            Ok(_) => Ok(name.text),
            Err(error) => {
                let message = format!("`{}` cannot be {article} {thing}'s name: {}", error.name, error.why);
                Err(Fault::at(name.span, message))
            }
        }
    }

    fn no_dot(&self, what: &str) -> Parsed<()> {
        if !matches!(self.symbol_at(0), Some(Symbol::Dot | Symbol::Minus)) {
            return Ok(());
        }
        let hint = format!("Write a {what}'s name with `-` or `.` in double quotes.");
        Err(self.expected("the end of the name").hint(hint))
    }

    fn text(&mut self, what: &str) -> Parsed<(Box<str>, Span)> {
        let span = self.span();
        match self.kind() {
            TokenKind::String(text) => {
                let text = text.clone();
                self.advance();
                Ok((text, span))
            }
            _ => Err(self.expected(what)),
        }
    }

    // ---- statements

    /// Parses the kind of object to create, alter or drop, if it belongs to this language; the position is after both
    /// words then.
    fn thing(&mut self) -> Result<Option<DdlSubject>, Vec<Fault>> {
        let verb =
            ["CREATE", "ALTER", "DROP"].into_iter().find(|verb| self.at_word(0, verb)).unwrap_or("CREATE");
        if self.at_word(1, "OR")
            && self.at_word(2, "REPLACE")
            && self.at_any_word_at(3, &["STREAM", "MATERIALIZED", "JOB", "ENDPOINT", "SEARCH"])
        {
            let span = self.tokens[self.at + 1].span.to(self.tokens[self.at + 2].span);
            return Err(vec![
                Fault::at(span, "an object with data cannot be replaced")
                    .hint("Write CREATE … IF NOT EXISTS, or ALTER the existing object."),
            ]);
        }
        let TokenKind::Word(_) = self.kind_at(1) else { return Ok(None) };
        let span = self.tokens[self.at + 1].span;
        let word = self.word(span);
        let is = |words: &[&str]| words.iter().any(|thing| thing.eq_ignore_ascii_case(word));
        // A view that is not kept is SQL's; one is dropped in either spelling.
        let is_view = is(&["MATERIALIZED"]) && self.at_word(2, "VIEW") || verb == "DROP" && is(&["VIEW"]);
        let thing = match () {
            () if is_view => Some(DdlObjectKind::View),
            () if is(&["STREAM"]) => Some(DdlObjectKind::Stream),
            () if is(&["ALERT"]) => Some(DdlObjectKind::Alert),
            () if is(&["JOB"]) => Some(DdlObjectKind::Job),
            () if is(&["ENDPOINT"]) => Some(DdlObjectKind::Endpoint),
            () if is(&["SINK"]) => Some(DdlObjectKind::Sink),
            () if is(&["JOIN"]) => Some(DdlObjectKind::Join),
            () if is(&["SEARCH"]) => Some(DdlObjectKind::SearchIndex),
            () => None,
        };
        let Some(thing) = thing else {
            // A word that SQL has not either, but is nearly one of ours, is one of ours misspelt.
            let near = did_you_mean(word, THINGS).filter(|_| !is(&OF_SQL));
            let Some(near) = near else { return Ok(None) };
            let message = format!("there is no {verb} {}", short(&word.to_uppercase()));
            let near = match near {
                "SEARCH" => "SEARCH INDEX",
                "SAVED" => "SAVED QUERY",
                near => near,
            };
            return Err(vec![Fault::at(span, message).hint(format!("Did you mean {verb} {near}?"))]);
        };
        if is(&["MATERIALIZED"]) {
            self.advance();
        }
        self.advance();
        self.advance();
        Ok(Some(DdlSubject { verb, thing }))
    }

    fn declaration(&mut self, declared: DdlSubject) -> Parsed<Ddl> {
        match (declared.verb, declared.thing) {
            ("CREATE", DdlObjectKind::View) => self.create_view().map(Ddl::CreateView),
            ("ALTER", DdlObjectKind::View) => Err(Fault::at(self.last_span(), "a view cannot be altered")
                .hint("Drop it, and create it with another query.")),
            (_, DdlObjectKind::View) => {
                let if_exists = self.if_exists()?;
                Ok(Ddl::DropView { name: self.name_of("view")?, if_exists })
            }
            ("CREATE", DdlObjectKind::Alert) => self.create_alert().map(Ddl::CreateAlert),
            ("ALTER", DdlObjectKind::Alert) => Err(Fault::at(self.last_span(), "an alert cannot be altered")
                .hint("Drop it, and create it with another condition.")),
            (_, DdlObjectKind::Alert) => {
                let if_exists = self.if_exists()?;
                Ok(Ddl::DropAlert { name: self.name_of("alert")?, if_exists })
            }
            ("CREATE", DdlObjectKind::Endpoint) => self.create_endpoint().map(Ddl::CreateEndpoint),
            ("ALTER", DdlObjectKind::Endpoint) => {
                Err(Fault::at(self.last_span(), "an endpoint cannot be altered")
                    .hint("Drop it, and create it again."))
            }
            (_, DdlObjectKind::Endpoint) => {
                let if_exists = self.if_exists()?;
                Ok(Ddl::DropEndpoint { name: self.endpoint_name()?, if_exists })
            }
            ("CREATE", DdlObjectKind::Stream) => self.create_stream().map(Ddl::CreateStream),
            ("ALTER", DdlObjectKind::Stream) => self.alter_stream(),
            (_, DdlObjectKind::Stream) => {
                let if_exists = self.if_exists()?;
                Ok(Ddl::DropStream { name: self.stream_named("a stream's name")?, if_exists })
            }
            ("CREATE", DdlObjectKind::Sink) => self.create_sink().map(Ddl::CreateSink),
            ("ALTER", DdlObjectKind::Sink) => Err(Fault::at(self.last_span(), "a sink cannot be altered")
                .hint("Drop it, and create another, which begins with the windows that close later.")),
            (_, DdlObjectKind::Sink) => {
                let if_exists = self.if_exists()?;
                Ok(Ddl::DropSink { name: self.name_of("sink")?, if_exists })
            }
            ("CREATE", DdlObjectKind::Join) => self.create_join().map(Ddl::CreateJoin),
            ("ALTER", DdlObjectKind::Join) => Err(Fault::at(self.last_span(), "a join cannot be altered")
                .hint("Drop it, and create another, which begins with later events.")),
            (_, DdlObjectKind::Join) => {
                let if_exists = self.if_exists()?;
                Ok(Ddl::DropJoin { name: self.join_name()?, if_exists })
            }
            (_, DdlObjectKind::SearchIndex) => self.search_index(declared),
            ("CREATE", _) => self.create_job().map(Ddl::CreateJob),
            ("ALTER", _) => self.alter_job(),
            _ => {
                let if_exists = self.if_exists()?;
                Ok(Ddl::DropJob { name: self.name_of("job")?, if_exists })
            }
        }
    }

    /// `None`: it is SQL's.
    fn show(&mut self) -> Option<Parsed<Ddl>> {
        let all = [
            ("STREAMS", Show::Streams),
            ("PARTITIONS", Show::Partitions),
            ("NODES", Show::Nodes),
            ("VIEWS", Show::Views),
            ("ALERTS", Show::Alerts),
            ("SINKS", Show::Sinks),
            ("JOINS", Show::Joins),
            ("TABLES", Show::Tables),
            ("JOBS", Show::Jobs),
            ("ENDPOINTS", Show::Endpoints),
        ];
        if self.at_word(1, "CREATE") && self.at_word(2, "ENDPOINT") {
            (0..3).for_each(|_| self.advance());
            return Some(self.endpoint_name().map(|name| Ddl::Show(Show::CreateEndpoint(name))));
        }
        if self.at_word(1, "CREATE") && self.at_word(2, "VIEW") {
            (0..3).for_each(|_| self.advance());
            return Some(self.name_of("view").map(|name| Ddl::Show(Show::CreateView(name))));
        }
        if self.at_word(1, "CREATE") && self.at_word(2, "ALERT") {
            (0..3).for_each(|_| self.advance());
            return Some(self.name_of("alert").map(|name| Ddl::Show(Show::CreateAlert(name))));
        }
        if self.at_word(1, "CREATE") && self.at_word(2, "SINK") {
            (0..3).for_each(|_| self.advance());
            return Some(self.name_of("sink").map(|name| Ddl::Show(Show::CreateSink(name))));
        }
        if self.at_word(1, "CREATE") && self.at_word(2, "JOIN") {
            (0..3).for_each(|_| self.advance());
            return Some(self.join_name().map(|name| Ddl::Show(Show::CreateJoin(name))));
        }
        if self.at_word(1, "CREATE") && self.at_word(2, "STREAM") {
            (0..3).for_each(|_| self.advance());
            return Some(
                self.stream_named("a stream's name").map(|name| Ddl::Show(Show::CreateStream(name))),
            );
        }
        if self.at_word(1, "CREATE") && self.at_word(2, "SEARCH") && self.at_word(3, "INDEX") {
            (0..4).for_each(|_| self.advance());
            return Some(self.indexed_table().map(|table| Ddl::Show(Show::CreateSearchIndex(table))));
        }
        if self.at_word(1, "CREATE") && self.at_word(2, "SAVED") {
            (0..3).for_each(|_| self.advance());
            return Some(self.show_create_saved());
        }
        if self.at_word(1, "SAVED") {
            (0..2).for_each(|_| self.advance());
            return Some(self.show_saved());
        }
        let is_end = |kind: &TokenKind| matches!(kind, TokenKind::End | TokenKind::Symbol(Symbol::Semicolon));
        if self.at_word(1, "SEARCH") && !is_end(self.kind_at(2)) {
            (0..2).for_each(|_| self.advance());
            return Some(self.expect_word("INDEXES").map(|()| Ddl::Show(Show::SearchIndexes)));
        }
        for (word, show) in &all {
            if self.at_word(1, word) && is_end(self.kind_at(2)) {
                self.advance();
                self.advance();
                return Some(Ok(Ddl::Show(show.clone())));
            }
        }
        let TokenKind::Word(_) = self.kind_at(1) else { return None };
        let span = self.tokens[self.at + 1].span;
        let near = did_you_mean(self.word(span), all.iter().map(|(word, _)| *word))?;
        let is_right = near.eq_ignore_ascii_case(self.word(span));
        let message = format!("there is no SHOW {}", short(&self.word(span).to_uppercase()));
        (!is_right).then(|| Err(Fault::at(span, message).hint(format!("Did you mean SHOW {near}?"))))
    }

    /// `None`: it is SQL's.
    fn describe(&mut self) -> Option<Parsed<Ddl>> {
        let kinds = [
            ("STREAM", DdlObjectKind::Stream),
            ("VIEW", DdlObjectKind::View),
            ("ALERT", DdlObjectKind::Alert),
            ("TABLE", DdlObjectKind::Table),
            ("JOB", DdlObjectKind::Job),
            ("SINK", DdlObjectKind::Sink),
            ("JOIN", DdlObjectKind::Join),
        ];
        let is_end = |kind: &TokenKind| matches!(kind, TokenKind::End | TokenKind::Symbol(Symbol::Semicolon));
        if self.at_word(1, "ENDPOINT") && !is_end(self.kind_at(2)) {
            (0..2).for_each(|_| self.advance());
            return Some(self.endpoint_name().map(|name| Ddl::DescribeEndpoint { name }));
        }
        if self.at_word(1, "SEARCH") && self.at_word(2, "INDEX") {
            (0..3).for_each(|_| self.advance());
            return Some(self.indexed_table().map(|table| Ddl::DescribeSearchIndex { table }));
        }
        let kind = kinds.into_iter().find(|(word, _)| self.at_word(1, word) && !is_end(self.kind_at(2)));
        let name_at = 1 + usize::from(kind.is_some());
        if !is_end(self.kind_at(name_at + 1)) && kind.is_none_or(|(_, kind)| kind == DdlObjectKind::Table) {
            return None;
        }
        (0..name_at).for_each(|_| self.advance());
        let described = self.name("an object to describe");
        Some(
            described.map(|Name { text, .. }| Ddl::Describe { kind: kind.map(|(_, kind)| kind), name: text }),
        )
    }
}

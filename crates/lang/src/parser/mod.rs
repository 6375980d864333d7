//! Tokens to syntax tree: the clauses of a statement. Expressions are in [`expr`], calls in [`call`],
//! types in [`types`], windows in [`window`].
//!
//! Recursive descent. A fault in one clause is noted and parsing goes on with the next clause, so faults of several
//! clauses are reported together.
//!
//! ```text
//! [EXPLAIN] SELECT [DISTINCT] item, … FROM STREAM(…) [SAMPLE p] [WHERE e] [GROUP BY e, …] [HAVING e]
//!           [ORDER BY e [ASC|DESC], …] [WINDOWING w] [LIMIT n] [;]
//! item = * | expression [[AS] name]
//! ```

mod call;
mod expr;
mod types;
mod window;

pub(crate) use expr::level;

use swiftwater_event::StreamName;

use crate::{
    Dialect,
    ast::{GroupBy, Having, Item, Name, Order, Statement, Stream, Windowing},
    keyword::{Keyword, did_you_mean},
    lexer::{Symbol, Token, TokenKind, short, tokenize},
    source::{Fault, Span},
};

/// The most levels of an expression's tree: of parentheses within parentheses, and of operands within operators.
/// (`a AND b AND c …` and `a OR b OR c …` are one level however long.)
pub(crate) const DEPTH_MAX: usize = 128;

/// The most items in a select list, GROUP BY or ORDER BY.
pub(crate) const ITEMS_MAX: usize = 4096;

type Parsed<T> = Result<T, Fault>;

/// Parses one statement.
pub(crate) fn parse(text: &str, dialect: Dialect) -> Result<Statement, Vec<Fault>> {
    let tokens = tokenize(text, dialect)?;
    if tokens.len() == 1 {
        return Err(vec![
            Fault::whole("the query is empty").hint("A query begins like `SELECT * FROM STREAM()`."),
        ]);
    }
    let mut parser = Parser { text, dialect, tokens, at: 0, clause_start: 0, nesting: 0, faults: Vec::new() };
    match parser.statement() {
        Ok(statement) if parser.faults.is_empty() => Ok(statement),
        Ok(_) => Err(parser.faults),
        Err(fault) => {
            parser.faults.push(fault);
            Err(parser.faults)
        }
    }
}

/// Clauses after FROM, in the order they must stand in.
const CLAUSES: [Keyword; 7] = [
    Keyword::Sample,
    Keyword::Where,
    Keyword::Group,
    Keyword::Having,
    Keyword::Order,
    Keyword::Windowing,
    Keyword::Limit,
];

struct Parser<'a> {
    text: &'a str,
    dialect: Dialect,
    tokens: Vec<Token>,
    at: usize,
    /// The first token of the clause that is being read.
    clause_start: usize,
    /// Calls of `expression` within each other, at most `DEPTH_MAX`.
    nesting: usize,
    faults: Vec<Fault>,
}

impl Parser<'_> {
    // ---- tokens

    fn kind(&self) -> &TokenKind {
        &self.tokens[self.at].kind
    }

    /// The kind of the token `ahead` of this one.
    fn kind_at(&self, ahead: usize) -> &TokenKind {
        &self.tokens[(self.at + ahead).min(self.tokens.len() - 1)].kind
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    /// The span of the token before this one.
    fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    fn word(&self, span: Span) -> &str {
        &self.text[span.start as usize..span.end as usize]
    }

    fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    fn is_symbol(&self, symbol: Symbol) -> bool {
        *self.kind() == TokenKind::Symbol(symbol)
    }

    fn is_keyword(&self, keyword: Keyword) -> bool {
        *self.kind() == TokenKind::Word(Some(keyword))
    }

    fn keyword_at(&self, ahead: usize) -> Option<Keyword> {
        match self.kind_at(ahead) {
            TokenKind::Word(keyword) => *keyword,
            _ => None,
        }
    }

    fn symbol_at(&self, ahead: usize) -> Option<Symbol> {
        match self.kind_at(ahead) {
            TokenKind::Symbol(symbol) => Some(*symbol),
            _ => None,
        }
    }

    fn take_symbol(&mut self, symbol: Symbol) -> bool {
        let found = self.is_symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn take_keyword(&mut self, keyword: Keyword) -> bool {
        let found = self.is_keyword(keyword);
        if found {
            self.advance();
        }
        found
    }

    fn expect_symbol(&mut self, symbol: Symbol) -> Parsed<()> {
        if self.take_symbol(symbol) { Ok(()) } else { Err(self.expected(&format!("`{}`", symbol.text()))) }
    }

    fn expect_keyword(&mut self, keyword: Keyword) -> Parsed<()> {
        if self.take_keyword(keyword) { Ok(()) } else { Err(self.expected_word(&[keyword])) }
    }

    // ---- faults

    /// The token here, as messages name it.
    fn found(&self) -> String {
        match self.kind() {
            TokenKind::End => "the end of the query".to_owned(),
            _ => format!("`{}`", short(self.word(self.span()))),
        }
    }

    fn expected(&self, what: &str) -> Fault {
        Fault::at(self.span(), format!("expected {what}, found {}", self.found()))
    }

    /// One of these words was expected; a word that is nearly one of them is named in the hint.
    fn expected_word(&self, keywords: &[Keyword]) -> Fault {
        let what = keywords.iter().map(|keyword| keyword.text()).collect::<Vec<_>>().join(" or ");
        self.suggesting(self.expected(&what), keywords)
    }

    fn suggesting(&self, fault: Fault, keywords: &[Keyword]) -> Fault {
        // A misspelt word may have been taken for an alias or a name, and the one after it be the surprise.
        let words = [self.at, self.at.saturating_sub(1)];
        let near = words.iter().find_map(|&at| match self.tokens[at].kind {
            TokenKind::Word(None) => {
                let word = self.word(self.tokens[at].span);
                let near = did_you_mean(word, keywords.iter().map(|keyword| keyword.text()))?;
                Some(format!("Did you mean {near} rather than `{}`?", short(word)))
            }
            _ => None,
        });
        match near {
            Some(hint) => fault.hint(hint),
            None => fault,
        }
    }

    /// Notes the fault, if any, and skips to the next clause.
    fn recover<T>(&mut self, parsed: Parsed<T>) -> Option<T> {
        match parsed {
            Ok(value) => {
                self.clause_start = self.at;
                Some(value)
            }
            Err(fault) => {
                self.faults.push(fault);
                self.nesting = 0;
                // What stands in parentheses that the clause opened belongs to it.
                let mut open = 0_i64;
                for token in &self.tokens[self.clause_start..self.at] {
                    open += parens(&token.kind);
                }
                while *self.kind() != TokenKind::End {
                    if open <= 0 && (self.at_clause() || self.is_keyword(Keyword::From)) {
                        break;
                    }
                    open += parens(self.kind());
                    self.advance();
                }
                self.clause_start = self.at;
                None
            }
        }
    }

    // ---- the statement

    fn statement(&mut self) -> Parsed<Statement> {
        let explain = self.take_keyword(Keyword::Explain);
        self.expect_keyword(Keyword::Select)?;
        let distinct = self.is_keyword(Keyword::Distinct).then(|| self.span());
        if distinct.is_some() {
            self.advance();
        }
        let items = self.items();
        let items = self.recover(items).unwrap_or_default();
        if !self.is_keyword(Keyword::From) && !self.faults.is_empty() {
            return Err(self.faults.remove(self.faults.len() - 1));
        }
        if !self.is_keyword(Keyword::From) {
            let fault = if self.is_keyword(Keyword::As) {
                self.expected("FROM")
            } else {
                self.expected(if items.is_empty() { "FROM" } else { "`,` or FROM" })
            };
            return Err(self.suggesting(fault, &[Keyword::From]));
        }
        self.advance();
        let stream = self.stream();
        let stream = self.recover(stream).unwrap_or_default();
        let mut statement = Statement {
            explain,
            distinct,
            items,
            stream,
            sample: None,
            filter: None,
            group_by: None,
            having: None,
            order_by: Vec::new(),
            window: None,
            limit: None,
        };
        self.clauses(&mut statement);
        self.take_symbol(Symbol::Semicolon);
        if *self.kind() != TokenKind::End {
            let fault = self.expected("the end of the query");
            return Err(if self.faults.is_empty() { self.suggesting(fault, &CLAUSES) } else { fault });
        }
        Ok(statement)
    }

    fn items(&mut self) -> Parsed<Vec<Item>> {
        self.list(|parser| {
            if parser.is_symbol(Symbol::Star) {
                let span = parser.span();
                parser.advance();
                return Ok(Item::Star(span));
            }
            if parser.is_keyword(Keyword::From) {
                return Err(parser.expected("what to select").hint("Write `*` for the whole event."));
            }
            let node = parser.expression()?;
            let alias = parser.alias()?;
            Ok(Item::Expr { node, alias })
        })
    }

    /// `[AS] name`, or nothing.
    fn alias(&mut self) -> Parsed<Option<Name>> {
        if self.take_keyword(Keyword::As) {
            return self.name("a name").map(Some);
        }
        match self.kind() {
            TokenKind::Quoted(_) => self.name("a name").map(Some),
            TokenKind::Word(keyword) if !keyword.is_some_and(|keyword| keyword.is_reserved(self.dialect)) => {
                self.name("a name").map(Some)
            }
            _ => Ok(None),
        }
    }

    /// A name, quoted or not; reserved words must be quoted.
    fn name(&mut self, what: &str) -> Parsed<Name> {
        let span = self.span();
        let name = match self.kind() {
            TokenKind::Quoted(text) => Name { text: text.clone(), quoted: true, span },
            TokenKind::Word(keyword) => {
                if keyword.is_some_and(|keyword| keyword.is_reserved(self.dialect)) {
                    let word = self.word(span);
                    let hint =
                        format!("`{word}` is a word of the language; as a name it is written `\"{word}\"`.");
                    return Err(self.expected(what).hint(hint));
                }
                Name { text: self.word(span).into(), quoted: false, span }
            }
            TokenKind::String(_) => {
                return Err(self
                    .expected(what)
                    .hint("Names go into double quotes, text into single quotes."));
            }
            _ => return Err(self.expected(what)),
        };
        self.advance();
        Ok(name)
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.take_symbol(Symbol::Comma) {
            if items.len() == ITEMS_MAX {
                return Err(Fault::at(self.span(), format!("a list has at most {ITEMS_MAX} items here")));
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    // ---- clauses

    fn at_clause(&self) -> bool {
        let next_is_name = matches!(self.kind_at(1), TokenKind::Symbol(_) | TokenKind::End);
        match self.keyword_at(0) {
            Some(Keyword::Limit) => !next_is_name || self.symbol_at(1) == Some(Symbol::Minus),
            Some(Keyword::Windowing) => !next_is_name,
            Some(Keyword::Sample) => self.dialect == Dialect::Native && !next_is_name,
            Some(keyword) => CLAUSES.contains(&keyword),
            None => false,
        }
    }

    fn clauses(&mut self, statement: &mut Statement) {
        let mut seen: Vec<Keyword> = Vec::new();
        loop {
            let start = self.span();
            if self.is_keyword(Keyword::Lateral) {
                let fault = Fault::not_yet(start, "LATERAL VIEW");
                self.advance();
                self.recover::<()>(Err(fault));
                continue;
            }
            let Some(keyword) = self.keyword_at(0).filter(|keyword| CLAUSES.contains(keyword)) else {
                return;
            };
            if keyword == Keyword::Sample && self.dialect == Dialect::Bullet {
                return;
            }
            if let Some(fault) = self.misplaced(keyword, &seen) {
                self.faults.push(fault);
            }
            seen.push(keyword);
            self.advance();
            let parsed = self.clause(keyword, start, statement);
            self.recover(parsed);
        }
    }

    /// Whether a clause stands twice, or behind one that it must stand before.
    fn misplaced(&self, keyword: Keyword, seen: &[Keyword]) -> Option<Fault> {
        let place = |keyword: &Keyword| CLAUSES.iter().position(|clause| clause == keyword);
        if seen.contains(&keyword) {
            return Some(Fault::at(
                self.span(),
                format!("{} stands here a second time", clause_name(keyword)),
            ));
        }
        let windowing_after_limit = keyword == Keyword::Windowing && self.dialect == Dialect::Native;
        let after = seen.iter().find(|other| {
            place(other) > place(&keyword) && !(windowing_after_limit && **other == Keyword::Limit)
        })?;
        let message = format!("{} must stand before {}", clause_name(keyword), clause_name(*after));
        Some(Fault::at(self.span(), message))
    }

    fn clause(&mut self, keyword: Keyword, start: Span, statement: &mut Statement) -> Parsed<()> {
        match keyword {
            Keyword::Sample => statement.sample = Some(self.sample()?),
            Keyword::Where => statement.filter = Some(self.expression()?),
            Keyword::Group => {
                self.expect_keyword(Keyword::By)?;
                let keys = self.list(|parser| {
                    for unsupported in ["ROLLUP", "CUBE", "GROUPING"] {
                        if parser.word(parser.span()).eq_ignore_ascii_case(unsupported)
                            && (parser.symbol_at(1) == Some(Symbol::LeftParen) || unsupported == "GROUPING")
                        {
                            return Err(Fault::not_yet(parser.span(), unsupported));
                        }
                    }
                    parser.expression()
                })?;
                statement.group_by = Some(GroupBy { span: start, keys });
            }
            Keyword::Having => statement.having = Some(Having { span: start, node: self.expression()? }),
            Keyword::Order => {
                self.expect_keyword(Keyword::By)?;
                statement.order_by = self.list(|parser| {
                    let node = parser.expression()?;
                    let descending = parser.take_keyword(Keyword::Desc);
                    if !descending {
                        parser.take_keyword(Keyword::Asc);
                    }
                    Ok(Order { node, descending })
                })?;
            }
            Keyword::Windowing => {
                let window = self.windowing()?;
                statement.window = Some(Windowing { span: start.to(self.last_span()), window });
            }
            _ => statement.limit = Some(self.limit()?),
        }
        Ok(())
    }

    fn limit(&mut self) -> Parsed<u64> {
        let n = self.positive_number("LIMIT")?;
        if self.dialect == Dialect::Bullet && n > i32::MAX as u64 {
            return Err(Fault::at(self.last_span(), format!("LIMIT can be at most {}", i32::MAX)));
        }
        Ok(n)
    }

    fn sample(&mut self) -> Parsed<f64> {
        let span = self.span();
        let share = match *self.kind() {
            TokenKind::Double(value) => value,
            TokenKind::Whole { value, long: false } => value as f64,
            _ => {
                return Err(self
                    .expected("a share of the events")
                    .hint("Write `SAMPLE 0.1` or `SAMPLE 10%`."));
            }
        };
        self.advance();
        let share = if self.take_symbol(Symbol::Percent) { share / 100.0 } else { share };
        if share > 0.0 && share <= 1.0 {
            return Ok(share);
        }
        let message = "the share of SAMPLE must be above 0 and at most 1, or 100%";
        Err(Fault::at(span.to(self.last_span()), message))
    }

    // ---- the stream

    fn stream(&mut self) -> Parsed<Stream> {
        if self.is_symbol(Symbol::LeftParen) && self.keyword_at(1) == Some(Keyword::Select) {
            return Err(Fault::not_yet(self.span(), "a query over a query"));
        }
        let start = self.span();
        if !(self.is_keyword(Keyword::Stream) && self.symbol_at(1) == Some(Symbol::LeftParen)) {
            let fault = self.expected("STREAM(…)");
            return Err(match self.kind() {
                TokenKind::Word(_) | TokenKind::Quoted(_) if self.dialect == Dialect::Native => {
                    fault.hint(format!("A stream is named like this: `STREAM({})`.", self.word(start)))
                }
                _ => fault.hint("Write `FROM STREAM()`."),
            });
        }
        self.advance();
        self.advance();
        let mut stream = Stream::default();
        if self.take_symbol(Symbol::RightParen) {
            return Ok(stream);
        }
        let is_word = matches!(self.kind(), TokenKind::Word(_));
        let duration_first = self.is_keyword(Keyword::Max)
            || (self.is_keyword(Keyword::Interval) && self.symbol_at(1).is_none())
            || !(is_word || matches!(self.kind(), TokenKind::Quoted(_) | TokenKind::String(_)));
        if !duration_first {
            stream.name = Some(self.stream_name()?);
            if self.take_symbol(Symbol::RightParen) {
                return Ok(stream);
            }
            if !self.is_symbol(Symbol::Comma) {
                let fault = self.expected("`,` or `)`");
                return Err(fault.hint("A stream's name with `-` or `.` in it goes into double quotes."));
            }
            self.advance();
        }
        if !self.take_keyword(Keyword::Max) {
            stream.duration_ms = Some(self.duration("how long the query stands")?);
        }
        self.expect_symbol(Symbol::Comma)?;
        if self.is_keyword(Keyword::Record) {
            return Err(Fault::at(self.span(), "a query's duration is a time, not a number of records")
                .hint("Write `TIME`; use LIMIT or WINDOWING to count records."));
        }
        self.expect_keyword(Keyword::Time)?;
        self.expect_symbol(Symbol::RightParen)?;
        Ok(stream)
    }

    fn stream_name(&mut self) -> Parsed<StreamName> {
        let name = self.name("a stream's name, a duration in milliseconds, or MAX")?;
        if self.dialect == Dialect::Bullet {
            return Err(Fault::at(name.span, "a stream cannot be named in Bullet's dialect")
                .hint("Write `STREAM()` for the server's default stream."));
        }
        StreamName::new(&name.text).map_err(|error| Fault::at(name.span, error.to_string()))
    }
}

fn parens(token: &TokenKind) -> i64 {
    match token {
        TokenKind::Symbol(Symbol::LeftParen) => 1,
        TokenKind::Symbol(Symbol::RightParen) => -1,
        _ => 0,
    }
}

fn clause_name(keyword: Keyword) -> &'static str {
    match keyword {
        Keyword::Group => "GROUP BY",
        Keyword::Order => "ORDER BY",
        _ => keyword.text(),
    }
}

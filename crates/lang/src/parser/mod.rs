//! Parses tokens into a syntax tree: the clauses of a statement.
//!
//! [`expr`] parses expressions, [`call`] calls, [`types`] types, and [`window`] windows.
//!
//! The parser is a recursive-descent parser. After an error in one clause it continues with the next clause, so it
//! reports the errors of several clauses together. In Bullet's dialect it reports the first error only, as Bullet does.
//!
//! ```text
//! [EXPLAIN] SELECT [DISTINCT] item, … FROM source [SAMPLE p] [join | LATERAL VIEW explode]… [WHERE e] [GROUP BY e, …]
//!           [HAVING e] [ORDER BY e [ASC|DESC], …] [WINDOWING w] [LIMIT n] [;]
//! source  = STREAM(…) [[AS] name] [MATCH_RECOGNIZE (…)] | (SELECT … FROM STREAM(…) …)
//!           (over a query: no SAMPLE, no WINDOWING, no join)
//! join    = [INNER | LEFT [OUTER]] JOIN name [[AS] name] ON e
//! item    = * | expression [[AS] name] | explode
//! explode = [OUTER] EXPLODE(expression) AS name | [OUTER] EXPLODE(expression) AS (name, name)
//! ```

mod aggregate;
mod call;
mod clauses;
mod ddl;
mod expr;
mod grouping;
mod join;
mod pattern;
mod stream;
mod types;
mod window;

pub(crate) use ddl::{parse as parse_ddl, parse_join};
pub(crate) use expr::level;
pub(crate) use types::TYPES;
pub(crate) use window::UNIT_NAMES;

use self::clauses::CLAUSES;
use swiftwater_event::did_you_mean;

use crate::{
    Dialect,
    ast::{Item, Name, Node, Query, Source, Statement, View},
    complete::{Cursor, Expected},
    keyword::Keyword,
    lexer::{Symbol, Token, TokenKind, Tokens, short, tokenize, tokenize_named},
    plan::{Explain, Literal},
    source::{Fault, Span},
};

/// The most levels of an expression's tree: of parentheses within parentheses, and of operands within operators.
/// (`a AND b AND c …` and `a OR b OR c …` are one level however long.)
pub(crate) const DEPTH_MAX: usize = 128;

/// The most items in a select list, GROUP BY or ORDER BY.
pub(crate) const ITEMS_MAX: usize = 4096;

type Parsed<T> = Result<T, Fault>;

/// Parses one statement.
pub(crate) fn parse(text: &str, dialect: Dialect, parameters: &[Literal]) -> Result<Statement, Vec<Fault>> {
    let Tokens { tokens, faults: misspelt, no_names } = tokenize(text, dialect, parameters);
    let bullet = dialect == Dialect::Bullet;
    if tokens.len() == 1 && misspelt.is_empty() && (!bullet || text.is_empty()) {
        return Err(vec![
            Fault::whole("the query is empty").hint("A query begins like `SELECT * FROM STREAM()`."),
        ]);
    }
    if !bullet && !misspelt.is_empty() {
        return Err(misspelt);
    }
    let mut parser = Parser::new(text, dialect, tokens);
    let parsed = parser.statement();
    let mut faults = parser.faults;
    let statement = match parsed {
        Ok(statement) => Some(statement),
        Err(fault) => {
            faults.push(fault);
            None
        }
    };
    if bullet {
        // For the parser, a part that is no token ends the text: the parser's own fault there is only that the text
        // ends.
        let misspelt_at = misspelt.first().and_then(|fault| fault.span);
        faults.retain(|fault| {
            misspelt_at.is_none_or(|at| fault.span.is_some_and(|span| span.start < at.start))
        });
        let first = faults.into_iter().min_by_key(|fault| fault.span.map_or(0, |span| span.start));
        let first = first.or(misspelt.into_iter().next());
        let no_name = no_names.into_iter().next().filter(|no_name| {
            let span = first.as_ref().and_then(|fault| fault.span);
            span.is_none_or(|span| is_told_first(no_name, span.start as usize, &parser.tokens))
        });
        faults = no_name.or(first).or(parser.too_large).into_iter().collect();
    }
    match statement {
        Some(statement) if faults.is_empty() => Ok(statement),
        _ => Err(faults),
    }
}

/// Reads a text of which one token is at the cursor, for [`crate::complete`]: its faults, and the notes on that token.
pub(crate) fn parse_at_cursor(
    text: &str,
    dialect: Dialect,
    tokens: Vec<Token>,
    token: Option<usize>,
) -> (Vec<Fault>, Cursor) {
    let mut parser = Parser::new(text, dialect, tokens);
    parser.cursor.token = token;
    let parsed = parser.statement();
    parser.faults.extend(parsed.err());
    (parser.faults, parser.cursor)
}

/// The names of functions that are keywords.
#[cfg(test)]
pub(crate) fn function_names() -> Vec<&'static str> {
    let builtins = call::BUILTINS.iter().map(|(name, _)| name);
    builtins.chain(aggregate::AGGREGATES.iter().map(|(name, _)| name)).map(|name| name.text()).collect()
}

/// Parses an expression that stands alone.
pub(crate) fn parse_expression(
    text: &str,
    dialect: Dialect,
    parameters: &[Literal],
) -> Result<Node, Vec<Fault>> {
    expression_of(text, dialect, tokenize(text, dialect, parameters))
}

/// The same of an expression of the native dialect in which `$name` is a name.
pub(crate) fn parse_expression_named(text: &str) -> Result<Node, Vec<Fault>> {
    expression_of(text, Dialect::Native, tokenize_named(text))
}

fn expression_of(text: &str, dialect: Dialect, tokens: Tokens) -> Result<Node, Vec<Fault>> {
    let Tokens { tokens, faults, .. } = tokens;
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut parser = Parser::new(text, dialect, tokens);
    let node = parser.expression().map_err(|fault| vec![fault])?;
    if *parser.kind() != TokenKind::End {
        return Err(vec![parser.expected("the end of the expression")]);
    }
    Ok(node)
}

/// True if Bullet tells of what is no name before it tells of a fault of grammar: its parser looks ahead, in the select
/// list up to what follows FROM, and else through the clause, before it looks at names.
fn is_told_first(no_name: &Fault, fault_at: usize, tokens: &[Token]) -> bool {
    let start = no_name.span.map_or(0, |span| span.start);
    let keyword = |token: &Token| match token.kind {
        TokenKind::Word(keyword) => keyword,
        _ => None,
    };
    let from = tokens.iter().position(|token| keyword(token) == Some(Keyword::From));
    let in_items = from.is_none_or(|from| start < tokens[from].span.start);
    let ahead = if in_items {
        from.map(|from| (from + 1).min(tokens.len() - 1))
    } else {
        tokens.iter().position(|token| {
            token.span.start > start && keyword(token).is_some_and(|keyword| CLAUSES.contains(&keyword))
        })
    };
    ahead.is_some_and(|ahead| fault_at > tokens[ahead].span.start as usize)
}

struct Parser<'a> {
    text: &'a str,
    dialect: Dialect,
    tokens: Vec<Token>,
    at: usize,
    /// The first token of the clause that is being read.
    clause_start: usize,
    /// Calls of `expression` within each other, at most `DEPTH_MAX`.
    nesting: usize,
    /// FIRST, LAST and `COUNT(A.*)` are those of patterns here.
    is_in_pattern: bool,
    faults: Vec<Fault>,
    /// The fault of a number that is too large, in Bullet's dialect: reported only if there is no other.
    too_large: Option<Fault>,
    /// The text was taken once: what is refused only since then is let through.
    is_kept: bool,
    /// The notes on the token at the cursor, if the text is completed.
    cursor: Cursor,
    /// The path with which the operand that is being read is compared.
    compared: Option<Span>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, dialect: Dialect, tokens: Vec<Token>) -> Parser<'a> {
        Parser {
            text,
            dialect,
            tokens,
            at: 0,
            clause_start: 0,
            nesting: 0,
            is_in_pattern: false,
            faults: Vec::new(),
            too_large: None,
            is_kept: false,
            cursor: Cursor::default(),
            compared: None,
        }
    }

    /// True if the token here is the one at the cursor.
    fn at_cursor(&self) -> bool {
        self.cursor.token == Some(self.at)
    }

    /// Notes the name or value for which the token here is taken, if it is the one at the cursor.
    fn note(&mut self, expected: Expected) {
        if self.at_cursor() {
            self.cursor.is_name = true;
            self.cursor.expected.get_or_insert(expected);
        }
    }
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
        self.cursor.is_read |= self.at_cursor();
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

    fn accept_symbol(&mut self, symbol: Symbol) -> bool {
        let found = self.is_symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn accept_keyword(&mut self, keyword: Keyword) -> bool {
        let found = self.is_keyword(keyword);
        if found {
            self.advance();
        }
        found
    }

    fn expect_symbol(&mut self, symbol: Symbol) -> Parsed<()> {
        if self.accept_symbol(symbol) { Ok(()) } else { Err(self.expected(&format!("`{}`", symbol.text()))) }
    }

    fn expect_keyword(&mut self, keyword: Keyword) -> Parsed<()> {
        if self.accept_keyword(keyword) { Ok(()) } else { Err(self.expected_word(&[keyword])) }
    }

    // ---- faults

    /// The token here, as messages name it.
    fn describe_token(&self) -> String {
        match self.kind() {
            TokenKind::End => "the end of the query".to_owned(),
            _ => format!("`{}`", short(self.word(self.span()))),
        }
    }

    fn expected(&self, what: &str) -> Fault {
        Fault::at(self.span(), format!("expected {what}, found {}", self.describe_token()))
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

    /// Records the fault, if any, and skips to the next clause.
    fn recover<T>(&mut self, parsed: Parsed<T>) -> Option<T> {
        match parsed {
            Ok(value) => {
                self.clause_start = self.at;
                Some(value)
            }
            Err(fault) => {
                self.faults.push(fault);
                self.nesting = 0;
                self.compared = None;
                let fault_at = self.at;
                // The rest of parentheses that the clause opened belongs to it.
                let mut open = 0_i64;
                for token in &self.tokens[self.clause_start..self.at] {
                    open += parens(&token.kind);
                }
                while *self.kind() != TokenKind::End {
                    if open <= 0 && (self.at_clause() || self.is_keyword(Keyword::From)) {
                        break;
                    }
                    open += parens(self.kind());
                    self.cursor.is_skipped |= self.at_cursor() && self.at > fault_at;
                    self.advance();
                }
                self.clause_start = self.at;
                None
            }
        }
    }

    // ---- the statement

    fn statement(&mut self) -> Parsed<Statement> {
        let explain = (self.dialect == Dialect::Native && self.accept_keyword(Keyword::Explain))
            .then(|| if self.accept_keyword(Keyword::Analyze) { Explain::Analyze } else { Explain::Plan });
        let query = self.query(0)?;
        self.accept_symbol(Symbol::Semicolon);
        if *self.kind() != TokenKind::End {
            let fault = self.expected("the end of the query");
            let is_native = self.dialect == Dialect::Native;
            if is_native && self.at_word(0, "WITH") && self.symbol_at(1) == Some(Symbol::LeftParen) {
                return Err(fault.hint("Write the options of a view, WITH (…), before AS."));
            }
            return Err(if self.faults.is_empty() { self.suggesting(fault, &CLAUSES) } else { fault });
        }
        Ok(Statement { explain, query })
    }

    /// A query; `outer` queries are around it.
    fn query(&mut self, outer: usize) -> Parsed<Query> {
        self.expect_keyword(Keyword::Select)?;
        self.clause_start = self.at;
        let distinct = self.is_keyword(Keyword::Distinct).then(|| self.span());
        if distinct.is_some() {
            self.advance();
        }
        let mut query = Query { distinct, ..Query::default() };
        let items = self.items();
        query.items = self.recover(items).unwrap_or_default();
        if !self.is_keyword(Keyword::From) && !self.faults.is_empty() {
            return Err(self.faults.remove(self.faults.len() - 1));
        }
        if !self.is_keyword(Keyword::From) {
            let fault = if self.is_keyword(Keyword::As) {
                self.expected("FROM")
            } else {
                self.expected(if query.items.is_empty() { "FROM" } else { "`,` or FROM" })
            };
            return Err(self.suggesting(fault, &[Keyword::From]));
        }
        self.advance();
        self.clause_start = self.at;
        let is_query = self.keyword_at(1) == Some(Keyword::Select) || self.dialect == Dialect::Bullet;
        query.source = if self.is_symbol(Symbol::LeftParen) && is_query {
            if outer > 0 {
                return Err(Fault::at(self.span(), "queries can be nested only once")
                    .hint("Write one query over STREAM(…) inside another."));
            }
            self.advance();
            let inner = self.query(outer + 1)?;
            self.expect_symbol(Symbol::RightParen)?;
            self.clause_start = self.at;
            Source::Query(Box::new(inner))
        } else {
            let stream = self.stream();
            let source = Source::Stream(self.recover(stream).unwrap_or_default());
            let alias = self.no_join().and_then(|()| self.stream_alias());
            query.alias = self.recover(alias).flatten();
            let recognize = self.recognize();
            self.is_in_pattern = false;
            query.recognize = self.recover(recognize).flatten();
            source
        };
        self.clauses(&mut query);
        Ok(query)
    }

    fn items(&mut self) -> Parsed<Vec<Item>> {
        self.list(|parser| {
            if parser.is_symbol(Symbol::Star) {
                let span = parser.span();
                parser.advance();
                return Ok(Item::Star(span));
            }
            if parser.is_keyword(Keyword::From) {
                return Err(parser.expected("a select list").hint("Write `*` for the whole event."));
            }
            let is_word = parser.is_keyword(Keyword::Explode) || parser.is_keyword(Keyword::Outer);
            if parser.at_explode() || (is_word && parser.dialect == Dialect::Bullet) {
                return parser.explode().map(Item::Explode);
            }
            let node = parser.expression()?;
            let alias = parser.alias()?;
            Ok(Item::Expr { node, alias })
        })
    }

    /// `[AS] name`, or nothing.
    fn alias(&mut self) -> Parsed<Option<Name>> {
        if self.accept_keyword(Keyword::As) {
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

    /// True if EXPLODE is called here, with or without OUTER.
    fn at_explode(&self) -> bool {
        let outer = usize::from(self.is_keyword(Keyword::Outer));
        self.keyword_at(outer) == Some(Keyword::Explode)
            && self.symbol_at(outer + 1) == Some(Symbol::LeftParen)
    }

    /// `[OUTER] EXPLODE(expression) AS name`, or `AS (name, name)`.
    fn explode(&mut self) -> Parsed<View> {
        let start = self.span();
        let is_outer = self.accept_keyword(Keyword::Outer);
        self.expect_keyword(Keyword::Explode)?;
        self.expect_symbol(Symbol::LeftParen)?;
        let argument = self.expression()?;
        self.expect_symbol(Symbol::RightParen)?;
        if !self.accept_keyword(Keyword::As) {
            let hint = "Write `EXPLODE(list) AS x`, or `EXPLODE(map) AS (k, v)`.";
            return Err(self.expected_word(&[Keyword::As]).hint(hint));
        }
        let mut columns = Vec::new();
        if self.accept_symbol(Symbol::LeftParen) {
            columns.push(self.name("a name for the map's keys")?);
            self.expect_symbol(Symbol::Comma)?;
            columns.push(self.name("a name for the map's values")?);
            self.expect_symbol(Symbol::RightParen)?;
        } else {
            columns.push(self.name("a name, or two in parentheses")?);
        }
        Ok(View { span: start.to(self.last_span()), is_outer, argument, columns })
    }

    /// A name, quoted or not; reserved words must be quoted.
    fn name(&mut self, what: &str) -> Parsed<Name> {
        let span = self.span();
        let name = match self.kind() {
            TokenKind::Quoted(text) => Name { text: text.clone(), quoted: true, span },
            TokenKind::Word(keyword) => {
                if keyword.is_some_and(|keyword| keyword.is_reserved(self.dialect)) {
                    let word = self.word(span);
                    let hint = format!("`{word}` is a keyword; as a name, write it `\"{word}\"`.");
                    return Err(self.expected(what).hint(hint));
                }
                Name { text: self.word(span).into(), quoted: false, span }
            }
            TokenKind::String(_) => {
                return Err(self
                    .expected(what)
                    .hint("Write names in double quotes, and text in single quotes."));
            }
            _ => return Err(self.expected(what)),
        };
        self.note(Expected::Nothing);
        self.advance();
        Ok(name)
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept_symbol(Symbol::Comma) {
            if items.len() == ITEMS_MAX {
                return Err(Fault::at(self.span(), format!("a list has at most {ITEMS_MAX} items here")));
            }
            items.push(item(self)?);
        }
        Ok(items)
    }
}

fn parens(token: &TokenKind) -> i64 {
    match token {
        TokenKind::Symbol(Symbol::LeftParen) => 1,
        TokenKind::Symbol(Symbol::RightParen) => -1,
        _ => 0,
    }
}

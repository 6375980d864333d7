//! Parses `CREATE JOIN`. The head of [`crate::ddl`]'s `join` has the grammar.

use swiftwater_event::StreamName;

use super::super::{Parsed, Parser, level};
use crate::{
    Dialect,
    ast::{JoinBound, JoinCondition, JoinSource, Name, Node, StreamJoin},
    ddl::CreateJoin,
    keyword::Keyword,
    lexer::{Symbol, TokenKind, Tokens, tokenize},
    source::Fault,
};

/// Joins that are none of ours, with what to do instead.
const OTHER_JOINS: [(&str, &str); 5] = [
    (
        "LEFT",
        "A join returns only pairs. To find events without a counterpart, use MATCH_RECOGNIZE with `!B` over one \
         stream.",
    ),
    ("RIGHT", "A join returns only pairs; write JOIN."),
    ("FULL", "A join returns only pairs; write JOIN."),
    ("CROSS", "A join needs an equality; write JOIN … ON."),
    ("NATURAL", "Write JOIN … ON x.a = y.a."),
];

/// Parses the query of a join, which stands alone.
pub(crate) fn parse_join(text: &str) -> Result<StreamJoin, Vec<Fault>> {
    let Tokens { tokens, faults, .. } = tokenize(text, Dialect::Native, &[]);
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut parser = Parser::new(text, Dialect::Native, tokens);
    parser.join_query().and_then(|join| parser.end().map(|()| join)).map_err(|fault| vec![fault])
}

impl Parser<'_> {
    /// The name of a join, by the rules of streams' names.
    pub(super) fn join_name(&mut self) -> Parsed<Box<str>> {
        let name = self.name("a join's name")?;
        self.no_dot("join")?;
        match StreamName::new(&name.text) {
            Ok(_) => Ok(name.text),
            Err(error) => {
                Err(Fault::at(name.span, format!("`{}` cannot be a join's name: {}", error.name, error.why)))
            }
        }
    }

    pub(super) fn create_join(&mut self) -> Parsed<CreateJoin> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.join_name()?;
        if !self.accept_word("INTO") {
            let hint = "Write INTO and the stream that receives the pairs.";
            return Err(self.expected_one_of(&["INTO"]).hint(hint));
        }
        let target = self.stream_named("the name of the stream that receives the pairs")?;
        if !self.accept_word("AS") {
            let hint = "Write AS SELECT … FROM STREAM(a) AS x JOIN STREAM(b) AS y ON ….";
            return Err(self.expected_one_of(&["AS"]).hint(hint));
        }
        let from = self.span();
        let join = self.join_query()?;
        let query = self.word(from.to(self.last_span())).into();
        let sides = join.sources.map(|source| source.stream);
        Ok(CreateJoin { name, if_not_exists, target, sides, query })
    }

    fn join_query(&mut self) -> Parsed<StreamJoin> {
        self.expect_keyword(Keyword::Select)?;
        if self.is_keyword(Keyword::Distinct) {
            return Err(Fault::at(self.span(), "a join returns every pair, and has no DISTINCT"));
        }
        let items = self.list(Self::join_item)?;
        self.expect_keyword(Keyword::From)?;
        let left = self.join_source()?;
        if let Some((word, hint)) = OTHER_JOINS.iter().find(|(word, _)| self.at_word(0, word)) {
            return Err(Fault::not_yet(self.span(), &format!("a {word} JOIN")).hint(*hint));
        }
        self.accept_word("INNER");
        self.expect_word("JOIN")?;
        let right = self.join_source()?;
        if !self.accept_word("ON") {
            let hint = "Write ON with an equality and the maximum distance in time: ON x.id = y.id AND \
                        y.ts BETWEEN x.ts AND x.ts + INTERVAL '10 minutes'.";
            return Err(self.expected_one_of(&["ON"]).hint(hint));
        }
        let mut on = vec![self.join_condition()?];
        while self.accept_keyword(Keyword::And) {
            on.push(self.join_condition()?);
        }
        if self.is_keyword(Keyword::Or) {
            let message = "OR is not allowed between the conditions of ON";
            return Err(Fault::at(self.span(), message).hint("Write `(a OR b)`, or move it into WHERE."));
        }
        let filter = if self.accept_keyword(Keyword::Where) { Some(self.expression()?) } else { None };
        if self.at_word(0, "JOIN") || self.at_word(1, "JOIN") {
            let hint = "Write the pairs of one join into a stream, and join that stream in another.";
            return Err(Fault::not_yet(self.span(), "a join of more than two streams").hint(hint));
        }
        if matches!(self.kind(), TokenKind::Word(_)) {
            let hint = "Use groups, windows and order in a view or query over the stream of the pairs.";
            return Err(self.expected("the end of the join").hint(hint));
        }
        Ok(StreamJoin { items, sources: [left, right], on, filter })
    }

    fn join_item(&mut self) -> Parsed<(Node, Option<Name>)> {
        if self.is_symbol(Symbol::Star) {
            let hint = "Name the columns: SELECT x.id, y.amount.";
            return Err(Fault::at(self.span(), "a join has no `*`").hint(hint));
        }
        let node = self.expression()?;
        let is_alias = matches!(self.kind(), TokenKind::Word(None) | TokenKind::Quoted(_));
        let alias =
            if self.accept_keyword(Keyword::As) || is_alias { Some(self.name("a name")?) } else { None };
        Ok((node, alias))
    }

    fn join_source(&mut self) -> Parsed<JoinSource> {
        let start = self.span();
        let source = self.stream()?;
        let span = start.to(self.last_span());
        if source.duration.is_some() {
            let hint = "Write STREAM(name): a join runs until it is dropped.";
            return Err(Fault::at(span, "a join has no duration").hint(hint));
        }
        let Some(stream) = source.name else {
            return Err(Fault::at(span, "a join needs named streams").hint("Write STREAM(name)."));
        };
        self.accept_keyword(Keyword::As);
        if self.at_word(0, "JOIN")
            || self.at_word(0, "ON")
            || !matches!(self.kind(), TokenKind::Word(_) | TokenKind::Quoted(_))
        {
            let hint = format!("Name both streams: STREAM({stream}) AS x.");
            return Err(self.expected("a name for the stream's events").hint(hint));
        }
        let alias = self.name("a name for the stream's events")?;
        Ok(JoinSource { stream, alias })
    }

    fn join_condition(&mut self) -> Parsed<JoinCondition> {
        let (start, nesting) = (self.at, self.nesting);
        let has_interval = |parser: &Self| {
            let read = &parser.tokens[start..=parser.at];
            read.iter().any(|token| token.kind == TokenKind::Word(Some(Keyword::Interval)))
        };
        match self.join_bound() {
            Ok(Some(bound)) => return Ok(JoinCondition::Bound(bound)),
            Err(fault) if has_interval(self) => return Err(fault),
            // It is an expression as any other, or what is wrong with it is said of one.
            Ok(None) | Err(_) => {}
        }
        (self.at, self.nesting) = (start, nesting);
        self.expression_at(level::AND + 1).map(JoinCondition::Expression)
    }

    /// A bound in time, if one stands here: a BETWEEN with an INTERVAL at either of its ends.
    fn join_bound(&mut self) -> Parsed<Option<JoinBound>> {
        let value = self.expression_at(level::BETWEEN + 1)?;
        if !self.accept_keyword(Keyword::Between) {
            return Ok(None);
        }
        let (low, low_ms) = self.join_bound_end()?;
        if !self.accept_keyword(Keyword::And) {
            return Ok(None);
        }
        let (high, high_ms) = self.join_bound_end()?;
        if low_ms.is_none() && high_ms.is_none() {
            return Ok(None);
        }
        let (low, high) = ((low, low_ms.unwrap_or(0)), (high, high_ms.unwrap_or(0)));
        Ok(Some(JoinBound { value, low, high }))
    }

    /// A time, and the milliseconds that are added to it, where an INTERVAL stands behind it.
    fn join_bound_end(&mut self) -> Parsed<(Node, Option<i64>)> {
        let node = self.expression_at(level::PRODUCT)?;
        let sign = match self.symbol_at(0) {
            Some(Symbol::Plus) => 1,
            Some(Symbol::Minus) => -1,
            _ => return Ok((node, None)),
        };
        if self.keyword_at(1) != Some(Keyword::Interval) {
            return Ok((node, None));
        }
        self.advance();
        let ms = self.duration("an interval")?;
        Ok((node, Some(i64::try_from(ms).unwrap_or(i64::MAX) * sign)))
    }
}

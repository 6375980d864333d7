//! Parses `MATCH_RECOGNIZE (…)` (native).
//!
//! ```text
//! MATCH_RECOGNIZE ( [PARTITION BY e [AS name], …] [ORDER BY EVENT[(time[, lateness])] | name]
//!                   [MEASURES e AS name, …] [ONE ROW PER MATCH]
//!                   [AFTER MATCH SKIP PAST LAST ROW | AFTER MATCH SKIP TO NEXT ROW]
//!                   PATTERN ( step … ) WITHIN n [DEFINE name AS e, …] )
//! step = name [quantifier [?]] | !name
//! quantifier = * | + | ? | {n} | {n,} | {n,m} | {,m}
//! n    = milliseconds | INTERVAL 'digits name'
//! ```
//!
//! Its words are not keywords elsewhere in the language.

use super::{Parsed, Parser};
use crate::{
    Dialect,
    ast::{PatternOrder, PatternStep, Recognize},
    keyword::Keyword,
    lexer::{Symbol, TokenKind},
    plan::Skip,
    source::Fault,
};

/// The most steps of a pattern.
const STEPS_MAX: usize = 64;

/// The most events that a quantifier may name.
const REPEATS_MAX: u64 = 1_000_000;

impl Parser<'_> {
    /// `MATCH_RECOGNIZE (…)`, where it stands here.
    pub(super) fn recognize(&mut self) -> Parsed<Option<Box<Recognize>>> {
        if self.dialect == Dialect::Bullet || !self.at_word(0, "MATCH_RECOGNIZE") {
            return Ok(None);
        }
        let start = self.span();
        self.advance();
        self.expect_symbol(Symbol::LeftParen)?;
        let mut keys = Vec::new();
        if self.accept_words(&["PARTITION", "BY"]) {
            keys = self.list(|parser| {
                let node = parser.expression()?;
                let name =
                    if parser.accept_keyword(Keyword::As) { Some(parser.name("a name")?) } else { None };
                Ok((node, name))
            })?;
        }
        let order = if self.accept_words(&["ORDER", "BY"]) { Some(self.pattern_order()?) } else { None };
        self.is_in_pattern = true;
        let mut measures = Vec::new();
        if self.accept_word("MEASURES") {
            measures = self.list(|parser| {
                let node = parser.expression()?;
                if !parser.accept_keyword(Keyword::As) {
                    let hint = "Name every measure: `LAST(A.x) AS x`.";
                    return Err(parser.expected_word(&[Keyword::As]).hint(hint));
                }
                Ok((node, parser.name("a name")?))
            })?;
        }
        if self.at_word(0, "ALL") {
            return Err(Fault::not_yet(self.span(), "ALL ROWS PER MATCH")
                .hint("Write `ONE ROW PER MATCH`, or leave it out."));
        }
        if self.accept_word("ONE") {
            for word in ["ROW", "PER", "MATCH"] {
                self.expect_word(word)?;
            }
        }
        let skip = if self.accept_word("AFTER") { self.skip()? } else { Skip::PastLastRow };
        if !self.at_word(0, "PATTERN") {
            return Err(self.out_of_order(self.expected_one_of(&["PATTERN"])));
        }
        let pattern_start = self.span();
        self.advance();
        let steps = self.pattern_steps()?;
        let pattern = (pattern_start.to(self.last_span()), steps);
        if !self.accept_word("WITHIN") {
            let hint = "An incomplete match must end at some time: write `WITHIN INTERVAL '10 minutes'`.";
            return Err(self.expected_one_of(&["WITHIN"]).hint(hint));
        }
        let within_ms = self.duration("the time of a match")?;
        if self.at_word(0, "SUBSET") {
            return Err(Fault::not_yet(self.span(), "SUBSET"));
        }
        let mut defines = Vec::new();
        if self.accept_word("DEFINE") {
            defines = self.list(|parser| {
                let name = parser.name("the name of a variable")?;
                parser.expect_keyword(Keyword::As)?;
                Ok((name, parser.expression()?))
            })?;
        }
        self.is_in_pattern = false;
        if !self.accept_symbol(Symbol::RightParen) {
            return Err(self.out_of_order(self.expected("`)`")));
        }
        let span = start.to(self.last_span());
        if self.is_keyword(Keyword::As) {
            return Err(Fault::at(self.span(), "the result of MATCH_RECOGNIZE has no name")
                .hint("Leave it out: the keys and measures have their own names."));
        }
        Ok(Some(Box::new(Recognize { span, keys, order, measures, skip, pattern, within_ms, defines })))
    }

    /// The fault, with the order of the parts where one of them stands here.
    fn out_of_order(&self, fault: Fault) -> Fault {
        let words = ["PARTITION", "ORDER", "MEASURES", "ONE", "AFTER", "WITHIN", "DEFINE"];
        if words.iter().any(|word| self.at_word(0, word)) {
            return fault.hint(
                "Its clauses have this order: PARTITION BY, ORDER BY, MEASURES, ONE ROW PER MATCH, \
                               AFTER MATCH, PATTERN, WITHIN, DEFINE.",
            );
        }
        fault
    }

    fn pattern_order(&mut self) -> Parsed<PatternOrder> {
        let start = self.span();
        let order = if self.is_keyword(Keyword::Event) {
            let time = self.event_time()?;
            PatternOrder::Event(start.to(self.last_span()), time)
        } else {
            PatternOrder::Field(self.expression()?)
        };
        if self.is_keyword(Keyword::Desc) {
            return Err(Fault::at(self.span(), "a pattern is matched in ascending order of time only"));
        }
        self.accept_keyword(Keyword::Asc);
        if self.is_symbol(Symbol::Comma) {
            return Err(Fault::at(self.span(), "a pattern is ordered by one time")
                .hint("Events of equal time are in the order of the stream."));
        }
        Ok(order)
    }

    /// Parses the part after AFTER.
    fn skip(&mut self) -> Parsed<Skip> {
        self.expect_word("MATCH")?;
        self.expect_word("SKIP")?;
        let start = self.span();
        if self.accept_words(&["PAST", "LAST", "ROW"]) {
            return Ok(Skip::PastLastRow);
        }
        if self.accept_words(&["TO", "NEXT", "ROW"]) {
            return Ok(Skip::ToNextRow);
        }
        if self.at_word(0, "TO") {
            return Err(Fault::not_yet(start, "SKIP TO a variable")
                .hint("Write `SKIP PAST LAST ROW` or `SKIP TO NEXT ROW`."));
        }
        Err(self.expected_one_of(&["PAST LAST ROW", "TO NEXT ROW"]))
    }

    /// `( step … )`.
    fn pattern_steps(&mut self) -> Parsed<Vec<PatternStep>> {
        self.expect_symbol(Symbol::LeftParen)?;
        let mut steps = Vec::new();
        loop {
            let span = self.span();
            if self.is_symbol(Symbol::RightParen) && !steps.is_empty() {
                self.advance();
                return Ok(steps);
            }
            if steps.len() == STEPS_MAX {
                return Err(Fault::at(span, format!("a pattern has at most {STEPS_MAX} steps")));
            }
            if self.is_symbol(Symbol::LeftParen) {
                return Err(Fault::not_yet(span, "a group within PATTERN")
                    .hint("Write variables one after another, each with its quantifier."));
            }
            if self.is_symbol(Symbol::Bar) || self.is_symbol(Symbol::Concat) {
                return Err(Fault::not_yet(span, "a choice within PATTERN")
                    .hint("Write one variable, with OR in its DEFINE."));
            }
            let is_absent = self.accept_symbol(Symbol::Bang);
            let name = self.name("a variable")?;
            let quantified = self.span();
            let (least, most) = self.repetition()?;
            if is_absent && quantified != self.span() {
                return Err(Fault::at(quantified, "an absent variable has no quantifier")
                    .hint("`!A` means that no event of A occurs there."));
            }
            steps.push(PatternStep { name, span: span.to(self.last_span()), is_absent, least, most });
        }
    }

    /// Parses the number of events; it is one by default.
    fn repetition(&mut self) -> Parsed<(u32, Option<u32>)> {
        let start = self.span();
        let quantifier = match self.kind() {
            TokenKind::Symbol(Symbol::Star) => (0, None),
            TokenKind::Symbol(Symbol::Plus) => (1, None),
            TokenKind::Symbol(Symbol::Question) => (0, Some(1)),
            TokenKind::Symbol(Symbol::LeftBrace) => {
                self.advance();
                let least = if self.is_symbol(Symbol::Comma) { 0 } else { self.repeats()? };
                let most = match self.accept_symbol(Symbol::Comma) {
                    false => Some(least),
                    true if self.is_symbol(Symbol::RightBrace) => None,
                    true => Some(self.repeats()?),
                };
                if !self.is_symbol(Symbol::RightBrace) {
                    return Err(self.expected("`}`"));
                }
                if most.is_some_and(|most| most < least.max(1)) {
                    return Err(Fault::at(
                        start.to(self.span()),
                        "a quantifier's most must be its least or more, and at least 1",
                    ));
                }
                (least, most)
            }
            _ => return Ok((1, Some(1))),
        };
        self.advance();
        // In the standard, the mark after a quantifier says that as few events as possible are taken; here that is
        // always so.
        self.accept_symbol(Symbol::Question);
        Ok(quantifier)
    }

    fn repeats(&mut self) -> Parsed<u32> {
        let span = self.span();
        let number = match self.kind() {
            TokenKind::Whole { value: 0, long: false } => {
                self.advance();
                0
            }
            _ => self.positive_number("how often")?,
        };
        if number > REPEATS_MAX {
            return Err(Fault::at(span, format!("a quantifier can be at most {REPEATS_MAX}")));
        }
        Ok(number as u32)
    }
}

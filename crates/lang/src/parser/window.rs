//! `WINDOWING …`, durations and counts.
//!
//! ```text
//! w    = TUMBLING(n, unit) | EVERY(n, unit, FIRST, n, unit) | EVERY(n, TIME, ALL)
//! unit = TIME | RECORD
//! n    = digits | INTERVAL 'digits name' | INTERVAL digits name        (intervals: native)
//! ```

use super::{Parsed, Parser};
use crate::{
    Dialect,
    keyword::{Keyword, did_you_mean},
    lexer::{Symbol, TokenKind, short},
    plan::{Take, Window, WindowClock},
    source::{Fault, Span},
};

/// A size as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Time(u64),
    Records(u64),
}

fn tumbling(size: Extent) -> Window {
    match size {
        Extent::Time(every_ms) => Window::tumbling_ms(every_ms),
        Extent::Records(every) => Window::tumbling_records(every),
    }
}

impl Parser<'_> {
    pub(super) fn windowing(&mut self) -> Parsed<Window> {
        let span = self.span();
        if self.is_keyword(Keyword::Session) && self.symbol_at(1) == Some(Symbol::LeftParen) {
            return Err(Fault::not_yet(span, "SESSION"));
        }
        if self.take_keyword(Keyword::Tumbling) {
            self.expect_symbol(Symbol::LeftParen)?;
            let size = self.extent()?;
            self.expect_symbol(Symbol::RightParen)?;
            return Ok(tumbling(size));
        }
        if !self.take_keyword(Keyword::Every) {
            return Err(self.expected_word(&[Keyword::Tumbling, Keyword::Every]));
        }
        self.expect_symbol(Symbol::LeftParen)?;
        let emit_start = self.span();
        let emit = self.extent()?;
        let emit_span = emit_start.to(self.last_span());
        self.expect_symbol(Symbol::Comma)?;
        let window = match self.keyword_at(0) {
            Some(Keyword::All) => {
                self.advance();
                match emit {
                    Extent::Time(every_ms) => {
                        Window::Time { every_ms, take: Take::All, clock: WindowClock::Arrival }
                    }
                    Extent::Records(_) => {
                        return Err(Fault::at(emit_span, "a window over ALL cannot be counted in records")
                            .hint("Write `EVERY(n, TIME, ALL)`, with n in milliseconds."));
                    }
                }
            }
            Some(Keyword::First) => {
                self.advance();
                self.expect_symbol(Symbol::Comma)?;
                let include_start = self.span();
                let include = self.extent()?;
                if include != emit {
                    let span = include_start.to(self.last_span());
                    return Err(Fault::at(span, "a window must hold exactly what comes between two emits")
                        .hint("Write the same number and unit before and after FIRST."));
                }
                tumbling(emit)
            }
            Some(Keyword::Last) if self.dialect == Dialect::Native => {
                return Err(Fault::not_yet(self.span(), "LAST"));
            }
            _ => return Err(self.expected_word(&[Keyword::All, Keyword::First])),
        };
        self.expect_symbol(Symbol::RightParen)?;
        Ok(window)
    }

    /// `n, unit`.
    fn extent(&mut self) -> Parsed<Extent> {
        let span = self.span();
        let is_interval = self.is_keyword(Keyword::Interval);
        let size = self.duration("a window's size")?;
        let size_span = span.to(self.last_span());
        self.expect_symbol(Symbol::Comma)?;
        match self.keyword_at(0) {
            Some(Keyword::Time) => {
                self.advance();
                Ok(Extent::Time(size))
            }
            Some(Keyword::Record) if is_interval => {
                Err(Fault::at(size_span, "a number of records cannot be an INTERVAL"))
            }
            Some(Keyword::Record) => {
                self.advance();
                Ok(Extent::Records(size))
            }
            Some(Keyword::Event) if self.dialect == Dialect::Native => {
                Err(Fault::not_yet(self.span(), "a window by EVENT time"))
            }
            _ => Err(self.expected_word(&[Keyword::Time, Keyword::Record])),
        }
    }

    /// A number above 0 (milliseconds, where it is a time), or an INTERVAL.
    pub(super) fn duration(&mut self, what: &str) -> Parsed<u64> {
        if self.is_keyword(Keyword::Interval) && self.dialect == Dialect::Native {
            self.advance();
            return self.interval();
        }
        self.positive_number(what)
    }

    pub(super) fn positive_number(&mut self, what: &str) -> Parsed<u64> {
        let span = self.span();
        let negative = self.take_symbol(Symbol::Minus);
        let TokenKind::Whole { value, long: false } = *self.kind() else {
            return Err(self.expected("a whole number"));
        };
        let span = span.to(self.span());
        self.advance();
        if negative || value == 0 {
            return Err(Fault::at(span, format!("{what} must be above 0")));
        }
        // All numbers of a plan fit a signed 64-bit integer, so sums of times and counts are easy to check.
        i64::try_from(value)
            .map(|value| value as u64)
            .map_err(|_| Fault::at(span, format!("{what} can be at most {}", i64::MAX)))
    }

    /// After INTERVAL: `'10 seconds'` or `10 SECONDS`; in milliseconds.
    fn interval(&mut self) -> Parsed<u64> {
        let span = self.span();
        let hint = "Write `INTERVAL '10 seconds'` or `INTERVAL 10 SECONDS`.";
        let (number, unit, span) = match self.kind() {
            TokenKind::String(text) => {
                let text = text.trim();
                let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
                let number = text[..digits].parse::<u64>().ok();
                (number, text[digits..].trim().to_owned(), span)
            }
            TokenKind::Whole { value, long: false } => {
                let number = u64::try_from(*value).ok();
                self.advance();
                let TokenKind::Word(_) = self.kind() else {
                    return Err(self.expected("a unit of time").hint(hint));
                };
                (number, self.word(self.span()).to_owned(), span.to(self.span()))
            }
            _ => return Err(self.expected("the length of an interval").hint(hint)),
        };
        self.advance();
        let Some(number) = number else {
            return Err(Fault::at(span, "an interval begins with a whole number").hint(hint));
        };
        let ms = number.checked_mul(unit_ms(&unit, span)?).filter(|ms| i64::try_from(*ms).is_ok());
        match ms {
            Some(0) => Err(Fault::at(span, "an interval must be above 0")),
            Some(ms) => Ok(ms),
            None => Err(Fault::at(span, "this interval is too long")),
        }
    }
}

const UNITS: [(&str, u64); 12] = [
    ("millisecond", 1),
    ("ms", 1),
    ("second", 1000),
    ("sec", 1000),
    ("s", 1000),
    ("minute", 60_000),
    ("min", 60_000),
    ("m", 60_000),
    ("hour", 3_600_000),
    ("h", 3_600_000),
    ("day", 86_400_000),
    ("d", 86_400_000),
];

fn unit_ms(unit: &str, span: Span) -> Parsed<u64> {
    let lower = unit.to_lowercase();
    let singular = lower.strip_suffix('s').unwrap_or(&lower);
    if let Some((_, ms)) = UNITS.iter().find(|(name, _)| *name == lower || *name == singular) {
        return Ok(*ms);
    }
    let near = did_you_mean(singular, UNITS.iter().map(|(name, _)| *name));
    let hint = match near {
        Some(near) => format!("Did you mean `{near}s`?"),
        None => "Units are milliseconds, seconds, minutes, hours and days.".to_owned(),
    };
    Err(Fault::at(span, format!("no unit of time `{}`", short(unit))).hint(hint))
}

//! Parses `WINDOWING …`, durations and counts.
//!
//! ```text
//! w    = TUMBLING(n, unit) | EVERY(n, unit, FIRST|LAST, n, unit) | EVERY(n, unit, ALL) | SESSION(n, unit)
//! unit = TIME | RECORD | EVENT[(time[, lateness])]
//! n    = digits | INTERVAL 'digits name' | INTERVAL digits name
//! ```
//!
//! LAST, SESSION, EVENT and intervals are native. In the second unit of EVERY, a bare EVENT is the first one's; elsewhere
//! it is the watermark that the stream declares.

use super::{Parsed, Parser};
use swiftwater_event::did_you_mean;

use crate::{
    Dialect,
    ast::{EventTime, Include, Unit, WindowShape, WindowSize},
    complete::Expected,
    keyword::Keyword,
    lexer::{Symbol, TokenKind, short},
    plan::Literal,
    source::{Fault, Span},
};

impl Parser<'_> {
    pub(super) fn windowing(&mut self) -> Parsed<WindowShape> {
        let native = self.dialect == Dialect::Native;
        if native && self.accept_keyword(Keyword::Session) {
            self.expect_symbol(Symbol::LeftParen)?;
            let gap = self.extent()?;
            self.expect_symbol(Symbol::RightParen)?;
            return Ok(WindowShape::Session(gap));
        }
        if self.accept_keyword(Keyword::Tumbling) {
            self.expect_symbol(Symbol::LeftParen)?;
            let size = self.extent()?;
            self.expect_symbol(Symbol::RightParen)?;
            return Ok(WindowShape::Tumbling(size));
        }
        if !self.accept_keyword(Keyword::Every) {
            return Err(match native {
                true => self.expected_word(&[Keyword::Tumbling, Keyword::Every, Keyword::Session]),
                false => self.expected_word(&[Keyword::Tumbling, Keyword::Every]),
            });
        }
        self.expect_symbol(Symbol::LeftParen)?;
        let emit = self.extent()?;
        self.expect_symbol(Symbol::Comma)?;
        let include = match self.keyword_at(0) {
            Some(Keyword::All) => {
                self.advance();
                Include::All
            }
            Some(Keyword::First) => {
                self.advance();
                self.expect_symbol(Symbol::Comma)?;
                Include::First(self.extent()?)
            }
            Some(Keyword::Last) if native => {
                self.advance();
                self.expect_symbol(Symbol::Comma)?;
                Include::Last(self.extent()?)
            }
            _ if native => return Err(self.expected_word(&[Keyword::First, Keyword::Last, Keyword::All])),
            _ => return Err(self.expected_word(&[Keyword::All, Keyword::First])),
        };
        self.expect_symbol(Symbol::RightParen)?;
        Ok(WindowShape::Every(emit, include))
    }

    /// `n, unit`.
    fn extent(&mut self) -> Parsed<WindowSize> {
        let start = self.span();
        let is_interval = self.is_keyword(Keyword::Interval);
        let size = match self.dialect {
            Dialect::Native => self.duration("a window's size")?,
            Dialect::Bullet => self.bullet_number(i32::MAX as u64, "a window's size")?,
        };
        let size_span = start.to(self.last_span());
        self.expect_symbol(Symbol::Comma)?;
        let unit_start = self.span();
        let unit = match self.keyword_at(0) {
            Some(Keyword::Time) => {
                self.advance();
                Unit::Time
            }
            Some(Keyword::Record) if is_interval => {
                return Err(Fault::at(size_span, "a number of records cannot be an INTERVAL"));
            }
            Some(Keyword::Record) => {
                self.advance();
                Unit::Record
            }
            Some(Keyword::Event) if self.dialect == Dialect::Native => Unit::Event(self.event_time()?),
            _ if self.dialect == Dialect::Native => {
                return Err(self.expected_word(&[Keyword::Time, Keyword::Record, Keyword::Event]));
            }
            _ => return Err(self.expected_word(&[Keyword::Time, Keyword::Record])),
        };
        let unit_span = unit_start.to(self.last_span());
        Ok(WindowSize { span: start.to(self.last_span()), size, unit, unit_span })
    }

    /// `EVENT(time[, lateness])`, or only EVENT.
    pub(super) fn event_time(&mut self) -> Parsed<Option<Box<EventTime>>> {
        self.advance();
        if !self.is_symbol(Symbol::LeftParen) {
            return Ok(None);
        }
        self.advance();
        let time = self.expression()?;
        let lateness_ms = match self.accept_symbol(Symbol::Comma) {
            true if self.is_zero() => {
                self.advance();
                0
            }
            true => self.duration("the lateness")?,
            false => 0,
        };
        self.expect_symbol(Symbol::RightParen)?;
        Ok(Some(Box::new(EventTime { time, lateness_ms })))
    }

    fn is_zero(&self) -> bool {
        matches!(
            self.kind(),
            TokenKind::Whole { value: 0, long: false }
                | TokenKind::Parameter(Literal::Integer(0) | Literal::Long(0))
        )
    }

    /// A number above 0 (milliseconds, where it is a time), or an INTERVAL.
    pub(super) fn duration(&mut self, what: &str) -> Parsed<u64> {
        if self.is_keyword(Keyword::Interval) && self.dialect == Dialect::Native {
            self.advance();
            return self.interval();
        }
        self.positive_number(what)
    }

    /// The whole number here; `None` where there is none. A minus before it is looked at by the caller.
    fn whole_number(&self) -> Option<i128> {
        match self.kind() {
            TokenKind::Whole { value, long: false } => Some(i128::try_from(*value).unwrap_or(i128::MAX)),
            TokenKind::Parameter(Literal::Integer(value)) => Some(i128::from(*value)),
            TokenKind::Parameter(Literal::Long(value)) => Some(i128::from(*value)),
            _ => None,
        }
    }

    pub(super) fn positive_number(&mut self, what: &str) -> Parsed<u64> {
        let span = self.span();
        let negative = self.accept_symbol(Symbol::Minus);
        let Some(value) = self.whole_number() else {
            return Err(self.expected("a whole number"));
        };
        let span = span.to(self.span());
        self.advance();
        if negative || value <= 0 {
            return Err(Fault::at(span, format!("{what} must be above 0")));
        }
        // All numbers of a plan fit a signed 64-bit integer, so sums of times and counts are easy to check.
        i64::try_from(value)
            .map(|value| value as u64)
            .map_err(|_| Fault::at(span, format!("{what} can be at most {}", i64::MAX)))
    }

    /// A whole number as Bullet takes it: 0 is for the planner to refuse, and one that is too large is a fault of the
    /// query as a whole.
    pub(super) fn bullet_number(&mut self, max: u64, what: &str) -> Parsed<u64> {
        let Some(value) = self.whole_number() else {
            return Err(self.expected("a whole number"));
        };
        let span = self.span();
        self.advance();
        match u64::try_from(value) {
            Ok(value) if value <= max => Ok(value),
            Ok(_) => {
                self.number_too_large(format!("{what} can be at most {max}"));
                Ok(1)
            }
            Err(_) if value < 0 => Err(Fault::at(span, format!("{what} cannot be negative"))),
            Err(_) => {
                self.number_too_large(format!("{what} can be at most {max}"));
                Ok(1)
            }
        }
    }

    /// Records that a number is too large, in Bullet's dialect.
    pub(super) fn number_too_large(&mut self, message: String) {
        self.too_large.get_or_insert(Fault::whole(message));
    }

    /// Parses the part after INTERVAL: `'10 seconds'` or `10 SECONDS`; in milliseconds.
    fn interval(&mut self) -> Parsed<u64> {
        let span = self.span();
        let hint = "Write `INTERVAL '10 seconds'` or `INTERVAL 10 SECONDS`.";
        let (number, unit, span) = match self.kind() {
            TokenKind::String(text) | TokenKind::Parameter(Literal::String(text)) => {
                let text = text.trim();
                let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
                let number = text[..digits].parse::<u64>().ok();
                (number, text[digits..].trim().to_owned(), span)
            }
            TokenKind::Whole { .. } | TokenKind::Parameter(Literal::Integer(_) | Literal::Long(_)) => {
                let number = self.whole_number().and_then(|value| u64::try_from(value).ok());
                self.advance();
                self.note(Expected::Unit);
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

/// The units of time as they are offered.
pub(crate) const UNIT_NAMES: [&str; 5] = ["MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS"];

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

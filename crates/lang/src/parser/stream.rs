//! Parses `STREAM(…)`.
//!
//! ```text
//! STREAM() | STREAM(n|MAX, TIME) | STREAM(name) | STREAM(name, n|MAX, TIME)        (names: native)
//! ```

use swiftwater_event::StreamName;

use super::{Parsed, Parser};
use crate::{
    Dialect,
    ast::{Duration, Stream},
    complete::Expected,
    keyword::Keyword,
    lexer::{Symbol, TokenKind},
    source::Fault,
};

impl Parser<'_> {
    pub(super) fn stream(&mut self) -> Parsed<Stream> {
        let start = self.span();
        if self.dialect == Dialect::Bullet
            && self.is_keyword(Keyword::Stream)
            && self.symbol_at(1) != Some(Symbol::LeftParen)
        {
            self.advance();
            return Err(self.expected("`(`").hint("Write `FROM STREAM()`."));
        }
        if !(self.is_keyword(Keyword::Stream) && self.symbol_at(1) == Some(Symbol::LeftParen)) {
            let fault = self.expected("STREAM(…)");
            return Err(match self.kind() {
                TokenKind::Word(_) | TokenKind::Quoted(_) if self.dialect == Dialect::Native => {
                    fault.hint(format!("Name a stream with `STREAM({})`.", self.word(start)))
                }
                _ => fault.hint("Write `FROM STREAM()`."),
            });
        }
        self.advance();
        self.advance();
        let mut stream = Stream::default();
        if self.accept_symbol(Symbol::RightParen) {
            return Ok(stream);
        }
        let is_word = matches!(self.kind(), TokenKind::Word(_));
        let duration_first = self.is_keyword(Keyword::Max)
            || (self.is_keyword(Keyword::Interval) && self.symbol_at(1).is_none())
            || !(is_word || matches!(self.kind(), TokenKind::Quoted(_) | TokenKind::String(_)));
        if !duration_first {
            stream.name = Some(self.stream_name()?);
            if self.accept_symbol(Symbol::RightParen) {
                return Ok(stream);
            }
            if !self.is_symbol(Symbol::Comma) {
                let fault = self.expected("`,` or `)`");
                return Err(fault.hint("Write a stream's name with `-` or `.` in double quotes."));
            }
            self.advance();
        }
        stream.duration = Some(match self.accept_keyword(Keyword::Max) {
            true => Duration::Max,
            false if self.dialect == Dialect::Bullet => {
                Duration::Ms(self.bullet_number(i64::MAX as u64, "a duration")?)
            }
            false => Duration::Ms(self.duration("the duration of the query")?),
        });
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
        self.note(Expected::Stream);
        let name = self.name("a stream's name, a duration in milliseconds, or MAX")?;
        if self.dialect == Dialect::Bullet {
            return Err(Fault::at(name.span, "a stream cannot be named in Bullet's dialect")
                .hint("Write `STREAM()` for the server's default stream."));
        }
        StreamName::new(&name.text).map_err(|error| Fault::at(name.span, error.to_string()))
    }
}

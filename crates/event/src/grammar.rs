//! The grammar of JSON (RFC 8259), checked byte by byte, one value at a time.
//!
//! [`object`] reports where an object ends, or its error and the error's position, or that the text ends first. It reads
//! strictly forward: a verdict other than [`Verdict::Incomplete`] stays the same however the text goes on. Therefore a
//! stream can be cut anywhere.

use std::fmt;

use crate::scan::{skip_space, string_stop};

/// The deepest nesting that can be allowed at all, whatever the limits say.
pub(crate) const DEPTH_MAX: usize = 512;

/// A fault is found by what stands in fewer bytes than this from its place on.
pub(crate) const LOOK_AHEAD_MAX: usize = 16;

/// The result of a check of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Good up to here (exclusive).
    End(usize),
    /// The byte at this place cannot occur there in any JSON text.
    Fault(usize, Fault),
    /// Good as far as it goes.
    Incomplete,
}

/// The fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Key,
    Colon,
    Value,
    CommaOrBrace,
    CommaOrBracket,
    Control(u8),
    Escape,
    Surrogate,
    Utf8,
    Number,
    Literal,
    Depth(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Key => "expected a key in double quotes",
            Fault::Colon => "expected `:` after a key",
            Fault::Value => "expected a value",
            Fault::CommaOrBrace => "expected `,` or `}`",
            Fault::CommaOrBracket => "expected `,` or `]`",
            Fault::Control(byte) => {
                return write!(f, "control character 0x{byte:02x} in a string, write it as \\u{byte:04x}");
            }
            Fault::Escape => "no such escape in a string",
            Fault::Surrogate => "half of a surrogate pair in a string",
            Fault::Utf8 => "not UTF-8",
            Fault::Number => "malformed number",
            Fault::Literal => "expected `true`, `false` or `null`",
            Fault::Depth(most) => return write!(f, "nested deeper than {most} levels"),
        })
    }
}

type Step = Result<usize, Verdict>;

/// Checks the object that begins at `at` (a `{`).
pub(crate) fn object(bytes: &[u8], at: usize, depth_max: usize) -> Verdict {
    debug_assert_eq!(bytes.get(at), Some(&b'{'));
    value(bytes, at, depth_max)
}

/// Checks the value that begins at `at`. A number at the very end of the text is `Incomplete`.
pub(crate) fn value(bytes: &[u8], at: usize, depth_max: usize) -> Verdict {
    match nested(bytes, at, depth_max.min(DEPTH_MAX)) {
        Ok(end) => Verdict::End(end),
        Err(verdict) => verdict,
    }
}

/// One bit a level: whether it is an object.
struct Levels {
    bits: [u64; DEPTH_MAX / 64],
    depth: usize,
}

impl Levels {
    #[inline(always)]
    fn push(&mut self, is_object: bool) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        self.bits[word] = (self.bits[word] & !(1 << bit)) | (u64::from(is_object) << bit);
        self.depth += 1;
    }

    #[inline(always)]
    fn top_is_object(&self) -> bool {
        let top = self.depth - 1;
        (self.bits[top / 64] >> (top % 64)) & 1 == 1
    }
}

fn nested(bytes: &[u8], mut at: usize, depth_max: usize) -> Step {
    let mut levels = Levels { bits: [0; DEPTH_MAX / 64], depth: 0 };
    'value: loop {
        // A value begins at `at`.
        match byte(bytes, at)? {
            b'"' => at = string(bytes, at + 1)?,
            open @ (b'{' | b'[') => {
                if levels.depth >= depth_max {
                    return Err(Verdict::Fault(at, Fault::Depth(depth_max)));
                }
                levels.push(open == b'{');
                let first = skip_space(bytes, at + 1);
                if open == b'{' {
                    if byte(bytes, first)? != b'}' {
                        at = key(bytes, first)?;
                        continue 'value;
                    }
                } else if byte(bytes, first)? != b']' {
                    at = first;
                    continue 'value;
                }
                levels.depth -= 1;
                at = first + 1;
            }
            b'-' | b'0'..=b'9' => at = number(bytes, at)?,
            b't' => at = literal(bytes, at, b"true")?,
            b'f' => at = literal(bytes, at, b"false")?,
            b'n' => at = literal(bytes, at, b"null")?,
            _ => return Err(Verdict::Fault(at, Fault::Value)),
        }
        // A value has ended at `at`: close what closes, then on to the next.
        loop {
            if levels.depth == 0 {
                return Ok(at);
            }
            at = skip_space(bytes, at);
            let next = byte(bytes, at)?;
            if levels.top_is_object() {
                if next == b',' {
                    at = key(bytes, skip_space(bytes, at + 1))?;
                    continue 'value;
                }
                if next != b'}' {
                    return Err(Verdict::Fault(at, Fault::CommaOrBrace));
                }
            } else {
                if next == b',' {
                    at = skip_space(bytes, at + 1);
                    continue 'value;
                }
                if next != b']' {
                    return Err(Verdict::Fault(at, Fault::CommaOrBracket));
                }
            }
            levels.depth -= 1;
            at += 1;
        }
    }
}

#[inline(always)]
fn byte(bytes: &[u8], at: usize) -> Result<u8, Verdict> {
    bytes.get(at).copied().ok_or(Verdict::Incomplete)
}

/// A key at `at` and its colon; gives where the value begins.
#[inline(always)]
fn key(bytes: &[u8], at: usize) -> Step {
    if byte(bytes, at)? != b'"' {
        return Err(Verdict::Fault(at, Fault::Key));
    }
    let at = skip_space(bytes, string(bytes, at + 1)?);
    if byte(bytes, at)? != b':' {
        return Err(Verdict::Fault(at, Fault::Colon));
    }
    Ok(skip_space(bytes, at + 1))
}

/// The rest of a string after its opening quote; gives the place after the closing one.
#[inline(always)]
fn string(bytes: &[u8], mut at: usize) -> Step {
    loop {
        at = string_stop::<true>(bytes, at);
        match byte(bytes, at)? {
            b'"' => return Ok(at + 1),
            b'\\' => at = escape(bytes, at)?,
            control @ 0..0x20 => return Err(Verdict::Fault(at, Fault::Control(control))),
            _ => at = character(bytes, at)?,
        }
    }
}

/// The escape that begins at `at`: where it ends, both halves of a surrogate pair taken together.
#[cold]
pub(crate) fn escape(bytes: &[u8], at: usize) -> Step {
    match byte(bytes, at + 1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(at + 2),
        b'u' => match hex4(bytes, at)? {
            0xdc00..=0xdfff => Err(Verdict::Fault(at, Fault::Surrogate)),
            0xd800..=0xdbff => {
                for (place, wanted) in [(at + 6, b'\\'), (at + 7, b'u')] {
                    if byte(bytes, place)? != wanted {
                        return Err(Verdict::Fault(at, Fault::Surrogate));
                    }
                }
                match hex4(bytes, at + 6)? {
                    0xdc00..=0xdfff => Ok(at + 12),
                    _ => Err(Verdict::Fault(at, Fault::Surrogate)),
                }
            }
            _ => Ok(at + 6),
        },
        _ => Err(Verdict::Fault(at, Fault::Escape)),
    }
}

/// The four hexadecimal digits of the escape `\u` at `at`.
fn hex4(bytes: &[u8], at: usize) -> Result<u32, Verdict> {
    let mut code = 0;
    for place in at + 2..at + 6 {
        let digit = (byte(bytes, place)? as char).to_digit(16);
        code = code * 16 + digit.ok_or(Verdict::Fault(at, Fault::Escape))?;
    }
    Ok(code)
}

/// One character beyond ASCII.
fn character(bytes: &[u8], at: usize) -> Step {
    let len = match bytes[at] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Err(Verdict::Fault(at, Fault::Utf8)),
    };
    let have = &bytes[at..bytes.len().min(at + len)];
    match std::str::from_utf8(have) {
        Ok(_) => Ok(at + len),
        Err(error) if error.error_len().is_none() => Err(Verdict::Incomplete),
        Err(_) => Err(Verdict::Fault(at, Fault::Utf8)),
    }
}

#[inline(always)]
fn number(bytes: &[u8], mut at: usize) -> Step {
    if bytes[at] == b'-' {
        at += 1;
    }
    match byte(bytes, at)? {
        b'0' => at += 1,
        b'1'..=b'9' => at = digits(bytes, at),
        _ => return Err(Verdict::Fault(at, Fault::Number)),
    }
    let mut next = byte(bytes, at)?;
    if next == b'.' {
        at = some_digits(bytes, at + 1)?;
        next = byte(bytes, at)?;
    }
    if matches!(next, b'e' | b'E') {
        at += 1;
        if matches!(byte(bytes, at)?, b'+' | b'-') {
            at += 1;
        }
        at = some_digits(bytes, at)?;
        next = byte(bytes, at)?;
    }
    // Said here rather than as a missing comma, so that `012`, `1.2.3` and `1x` are called what they are.
    if matches!(next, b'0'..=b'9' | b'.' | b'+' | b'-' | b'a'..=b'z' | b'A'..=b'Z') {
        return Err(Verdict::Fault(at, Fault::Number));
    }
    Ok(at)
}

#[inline(always)]
fn digits(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at].is_ascii_digit() {
        at += 1;
    }
    at
}

fn some_digits(bytes: &[u8], at: usize) -> Step {
    if byte(bytes, at)?.is_ascii_digit() {
        Ok(digits(bytes, at))
    } else {
        Err(Verdict::Fault(at, Fault::Number))
    }
}

#[inline(always)]
fn literal(bytes: &[u8], at: usize, word: &[u8]) -> Step {
    let have = &bytes[at..bytes.len().min(at + word.len())];
    if have == word {
        return Ok(at + word.len());
    }
    if word.starts_with(have) { Err(Verdict::Incomplete) } else { Err(Verdict::Fault(at, Fault::Literal)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Verdict) {
        let bytes = text.as_bytes();
        assert_eq!(object(bytes, 0, 4), expected, "{text}");
        for cut in 1..bytes.len() {
            let early = object(&bytes[..cut], 0, 4);
            assert!(early == Verdict::Incomplete || early == expected, "{text} cut at {cut}");
        }
    }

    #[test]
    fn good_objects_end_where_they_end() {
        for text in [
            "{}",
            "{ }",
            r#"{"a":1}"#,
            r#"{"a":[1,-0,0.5,1e9,1E+9,2.5e-3,"x",true,false,null,{},[]]}"#,
            r#"{ "a" : [ 1 , 2 ] , "b" : { "c" : { "d" : 1 } } }"#,
            r#"{"a":"\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00 ä€😀"}"#,
            "{\r\n\t\"a\"\r\n:\t1\n}",
        ] {
            check(text, Verdict::End(text.len()));
            check(&format!("{text} {{\"b\":2}}"), Verdict::End(text.len()));
        }
    }

    #[test]
    fn faults_are_named_where_they_are() {
        for (text, at, fault) in [
            ("{1:2}", 1, Fault::Key),
            (r#"{"a" 1}"#, 5, Fault::Colon),
            (r#"{"a":}"#, 5, Fault::Value),
            (r#"{"a":1,}"#, 7, Fault::Key),
            (r#"{"a":[1,]}"#, 8, Fault::Value),
            (r#"{"a":1]"#, 6, Fault::CommaOrBrace),
            (r#"{"a":[1}"#, 7, Fault::CommaOrBracket),
            ("{\"a\":\"\n\"}", 6, Fault::Control(b'\n')),
            ("{\"a\0\":1}", 3, Fault::Control(0)),
            (r#"{"a":"\x"}"#, 6, Fault::Escape),
            (r#"{"a":"\u12g4"}"#, 6, Fault::Escape),
            (r#"{"a":"\ud800"}"#, 6, Fault::Surrogate),
            (r#"{"a":"\ud800\n"}"#, 6, Fault::Surrogate),
            (r#"{"a":"\ud800\u0041"}"#, 6, Fault::Surrogate),
            (r#"{"a":"\udc00"}"#, 6, Fault::Surrogate),
            (r#"{"a":01}"#, 6, Fault::Number),
            (r#"{"a":-}"#, 6, Fault::Number),
            (r#"{"a":1.}"#, 7, Fault::Number),
            (r#"{"a":1e+}"#, 8, Fault::Number),
            (r#"{"a":1.2.3}"#, 8, Fault::Number),
            (r#"{"a":tru}"#, 5, Fault::Literal),
            (r#"{"a":True}"#, 5, Fault::Value),
            (r#"{"a":[[[[1]]]]}"#, 8, Fault::Depth(4)),
        ] {
            check(text, Verdict::Fault(at, fault));
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_found() {
        for bad in
            [&b"\xff"[..], b"\xc0\x80", b"\xe2\x28\xa1", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc3\""]
        {
            let text = [b"{\"a\":\"xy", bad, b"\"}"].concat();
            assert_eq!(object(&text, 0, 4), Verdict::Fault(8, Fault::Utf8), "{bad:?}");
        }
        assert_eq!(object(b"{\"a\":\"\xe2\x82", 0, 4), Verdict::Incomplete);
    }
}

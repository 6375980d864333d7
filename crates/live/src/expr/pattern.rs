//! Java's regular expressions, compiled for the `regex` crate and for `fancy-regex`.
//!
//! A pattern of RLIKE matches the whole text. Java's own syntax is translated:
//!
//! - `\Q…\E`, the ASCII classes `\d \w \s`, and `.` that stops at every line end;
//! - `\h`, `\v`, `\R`, `\e`, `\uXXXX`, `\0oo`, `\cX`;
//! - POSIX and `java…` classes, and escapes of characters that need none.
//!
//! A pattern takes time linear in the text, unless it has look-around, backreferences, atomic groups or possessive
//! quantifiers. Such a pattern backtracks as in Java. After [`STEPS_BACK_MAX`] steps back it fails, which is an error of
//! the row.
//!
//! Known differences:
//!
//! - `(?x)` is refused, and so is a repeated look-around.
//! - `(?i)` folds all of Unicode; Java without `(?u)` folds ASCII only.
//! - `$` does not match before a closing line end.

use regex::{Regex, RegexBuilder};

use super::predicate::Truth;

/// The most memory that one compiled pattern takes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// The deepest nesting of groups and classes.
const NEST_MAX: u32 = 100;

/// The most steps back in one text of a pattern that backtracks.
const STEPS_BACK_MAX: usize = 100_000;

/// A compiled pattern.
#[derive(Debug)]
pub(super) enum JavaPattern {
    /// The pattern is matched in time linear in the text.
    Linear(Regex),
    /// The pattern is matched with steps back.
    Backtracking(Box<fancy_regex::Regex>),
}

impl JavaPattern {
    /// Returns true if the whole text matches; an error if that took too many steps back.
    pub(super) fn matches(&self, text: &str) -> Truth {
        match self {
            JavaPattern::Linear(regex) => Truth::of(regex.is_match(text)),
            JavaPattern::Backtracking(regex) => regex.is_match(text).map_or(Truth::Error, Truth::of),
        }
    }
}

/// A pattern that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct PatternError {
    message: String,
}

impl PatternError {
    fn new(message: impl Into<String>) -> PatternError {
        PatternError { message: message.into() }
    }
}

/// Compiles a pattern written for Java, to match whole texts.
pub(super) fn compile_java(pattern: &str) -> Result<JavaPattern, PatternError> {
    let Translation { out, backtracks, .. } = Translation::of(pattern)?;
    let whole = format!(r"\A(?:{out})\z");
    let last_line = |text: &str| {
        let last = text.lines().last().unwrap_or("it cannot be read");
        PatternError::new(last.strip_prefix("error: ").unwrap_or(last))
    };
    if backtracks {
        let compiled = fancy_regex::RegexBuilder::new(&whole)
            .backtrack_limit(STEPS_BACK_MAX)
            .delegate_size_limit(PATTERN_BYTES_MAX)
            .delegate_dfa_size_limit(PATTERN_BYTES_MAX)
            .build();
        let compiled = compiled.map_err(|error| last_line(&error.to_string()))?;
        return Ok(JavaPattern::Backtracking(Box::new(compiled)));
    }
    linear(&whole).map(JavaPattern::Linear).map_err(|error| last_line(&error.to_string()))
}

fn linear(regex: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(regex)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .nest_limit(NEST_MAX)
        .build()
}

/// Compiles the result of [`java_pattern_as_regex`]; none if it is too large.
pub(crate) fn linear_regex(regex: &str) -> Option<Regex> {
    linear(regex).ok()
}

/// A pattern written for Java as one of the `regex` crate that matches whole texts; none where it cannot be had.
pub(crate) fn java_pattern_as_regex(pattern: &str) -> Option<String> {
    let translation = Translation::of(pattern).ok().filter(|translation| !translation.backtracks)?;
    Some(format!(r"\A(?:{})\z", translation.out))
}

/// The walk over a Java pattern that writes the same for the crates that match it.
struct Translation<'p> {
    rest: std::iter::Peekable<std::str::Chars<'p>>,
    out: String,
    /// True if `.` matches line ends in the rest, for the pattern itself and each open group.
    dot_all: Vec<bool>,
    /// Groups so far that backreferences can name.
    groups: u32,
    /// It has what only a pattern has that backtracks.
    backtracks: bool,
}

/// The characters that Java's `.` matches: all but line ends.
const NOT_LINE_END: &str = r"[^\n\r\x{85}\x{2028}\x{2029}]";

impl Translation<'_> {
    fn of(pattern: &str) -> Result<Translation<'_>, PatternError> {
        let mut walk = Translation {
            rest: pattern.chars().peekable(),
            out: String::new(),
            dot_all: vec![false],
            groups: 0,
            backtracks: false,
        };
        while let Some(c) = walk.rest.next() {
            walk.one(c)?;
        }
        Ok(walk)
    }

    fn takes_line_ends(&self) -> bool {
        self.dot_all.last() == Some(&true)
    }

    fn one(&mut self, c: char) -> Result<(), PatternError> {
        match c {
            '\\' => self.escape(false)?,
            '[' => self.class(0)?,
            '(' => self.group()?,
            ')' => {
                if self.dot_all.len() > 1 {
                    self.dot_all.pop();
                }
                self.out.push(')');
            }
            '.' if self.takes_line_ends() => self.out.push_str(r"(?s:.)"),
            '.' => self.out.push_str(NOT_LINE_END),
            '*' | '+' | '?' | '}' => {
                self.out.push(c);
                match self.rest.peek() {
                    Some('+') => {
                        self.rest.next();
                        self.out.push('+');
                        self.backtracks = true;
                    }
                    Some('?') => {
                        self.rest.next();
                        self.out.push('?');
                    }
                    _ => {}
                }
            }
            _ => self.out.push(c),
        }
        Ok(())
    }

    /// Parses the kind of a group after `(`; flags take effect.
    fn group(&mut self) -> Result<(), PatternError> {
        let inherited = self.takes_line_ends();
        if self.rest.peek() != Some(&'?') {
            self.groups += 1;
            self.dot_all.push(inherited);
            self.out.push('(');
            return Ok(());
        }
        self.rest.next();
        match self.rest.peek() {
            Some(&kind @ ('=' | '!' | '>')) => {
                self.rest.next();
                self.backtracks = true;
                self.dot_all.push(inherited);
                self.out.push_str("(?");
                self.out.push(kind);
                return Ok(());
            }
            Some('<') => {
                self.rest.next();
                if let Some(kind) = self.rest.next_if(|c| matches!(c, '=' | '!')) {
                    self.backtracks = true;
                    self.dot_all.push(inherited);
                    self.out.push_str("(?<");
                    self.out.push(kind);
                    return Ok(());
                }
                self.groups += 1;
                self.dot_all.push(inherited);
                self.out.push_str("(?P<");
                return Ok(());
            }
            _ => {}
        }
        // Flags: those that mean the same are handed on. `u` and `d` set what is so here anyhow.
        let mut dot_all = inherited;
        let mut is_on = true;
        self.out.push_str("(?");
        let mut pending_off = false;
        for flag in self.rest.by_ref() {
            match flag {
                '-' => {
                    is_on = false;
                    pending_off = true;
                }
                's' => dot_all = is_on,
                'i' | 'm' => {
                    if std::mem::take(&mut pending_off) {
                        self.out.push('-');
                    }
                    self.out.push(flag);
                }
                'u' | 'd' => {}
                ')' => {
                    // Flags for the rest of the group that is open.
                    if self.out.ends_with("(?") {
                        self.out.truncate(self.out.len() - "(?".len());
                    } else {
                        self.out.push(')');
                    }
                    if let Some(last) = self.dot_all.last_mut() {
                        *last = dot_all;
                    }
                    return Ok(());
                }
                ':' => {
                    self.out.push(':');
                    self.dot_all.push(dot_all);
                    return Ok(());
                }
                _ => return Err(PatternError::new(format!("flag `{flag}` is not supported"))),
            }
        }
        Err(PatternError::new("a group is not closed"))
    }

    /// Parses a class after `[`, including its `]`.
    fn class(&mut self, depth: u32) -> Result<(), PatternError> {
        if depth > NEST_MAX {
            return Err(PatternError::new("classes nest too deeply"));
        }
        self.out.push('[');
        if self.rest.peek() == Some(&'^') {
            self.rest.next();
            self.out.push('^');
        }
        let mut is_first = true;
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => self.escape(true)?,
                '[' => self.class(depth + 1)?,
                ']' if !is_first => {
                    self.out.push(']');
                    return Ok(());
                }
                ']' => self.out.push_str(r"\]"),
                // Operators of classes here, plain characters in Java.
                '~' => self.out.push_str(r"\~"),
                '-' if self.rest.peek() == Some(&'-') => self.out.push_str(r"\-"),
                _ => self.out.push(c),
            }
            is_first = false;
        }
        Err(PatternError::new("a class is not closed"))
    }

    /// Parses the part after `\`.
    fn escape(&mut self, in_class: bool) -> Result<(), PatternError> {
        let Some(c) = self.rest.next() else {
            return Err(PatternError::new(r"a pattern cannot end in `\`"));
        };
        let set = |inner: &str, negated: bool| match (negated, in_class) {
            (true, _) => format!("[^{inner}]"),
            (false, true) => inner.to_owned(),
            (false, false) => format!("[{inner}]"),
        };
        let horizontal = r"\t \x{A0}\x{1680}\x{180e}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}";
        let vertical = r"\n\x0B\f\r\x{85}\x{2028}\x{2029}";
        let text = match c {
            'd' | 'D' => set("0-9", c == 'D'),
            'w' | 'W' => set("a-zA-Z0-9_", c == 'W'),
            's' | 'S' => set(r"\t\n\x0B\f\r\x20", c == 'S'),
            'h' | 'H' => set(&horizontal.replace(' ', r"\x20"), c == 'H'),
            'v' | 'V' => set(vertical, c == 'V'),
            'R' if !in_class => format!(r"(?:\r\n|[{vertical}])"),
            't' | 'n' | 'r' | 'f' | 'a' => format!(r"\{c}"),
            'e' => r"\x1B".to_owned(),
            'b' | 'B' | 'A' | 'z' if !in_class => {
                if self.rest.peek() == Some(&'{') {
                    return Err(PatternError::new(format!(r"`\{c}{{…}}` is not supported")));
                }
                format!(r"\{c}")
            }
            'Z' if !in_class => r"\z".to_owned(),
            'Q' => return self.quoted(),
            'E' => String::new(),
            'x' | 'u' | '0' | 'c' => self.code(c)?,
            'p' | 'P' => self.property(c == 'P')?,
            '1'..='9' if !in_class => self.backreference(c),
            'k' if !in_class => self.named_backreference()?,
            'a'..='z' | 'A'..='Z' | '1'..='9' => {
                return Err(PatternError::new(format!(r"there is no escape `\{c}` here")));
            }
            _ => escaped(c),
        };
        self.out.push_str(&text);
        Ok(())
    }

    /// Parses the part after `\1` to `\9`: further digits are part of the number if there are so many groups so far.
    fn backreference(&mut self, first: char) -> String {
        self.backtracks = true;
        let mut number = first.to_digit(10).unwrap_or(0);
        while let Some(digit) = self.rest.peek().and_then(|c| c.to_digit(10)) {
            let longer = number.saturating_mul(10).saturating_add(digit);
            if longer > self.groups {
                break;
            }
            number = longer;
            self.rest.next();
        }
        // One to a group that there is not (yet) never matches.
        if number > self.groups { "(?!)".to_owned() } else { format!(r"(?:\{number})") }
    }

    /// Parses the part after `\k`: `<name>`.
    fn named_backreference(&mut self) -> Result<String, PatternError> {
        self.backtracks = true;
        let is_opened = self.rest.next() == Some('<');
        let name: String = self.rest.by_ref().take_while(|c| *c != '>').collect();
        if !is_opened || !self.out.contains(&format!("(?P<{name}>")) {
            return Err(PatternError::new(r"`\k` is not followed by the name of a group before it"));
        }
        Ok(format!(r"(?:\k<{name}>)"))
    }

    /// `\Q…\E`, both inside and outside classes.
    fn quoted(&mut self) -> Result<(), PatternError> {
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.peek() == Some(&'E') {
                self.rest.next();
                return Ok(());
            }
            self.out.push_str(&escaped(c));
        }
        Ok(())
    }

    /// `\xhh`, `\x{h…}`, `\uhhhh` (two of them for a pair), `\0ooo`, `\cX`.
    fn code(&mut self, kind: char) -> Result<String, PatternError> {
        let bad = || PatternError::new(format!(r"`\{kind}` is not followed by a code"));
        if kind == 'c' {
            let control = self.rest.next().filter(char::is_ascii).ok_or_else(bad)?;
            return Ok(format!(r"\x{{{:x}}}", control as u32 ^ 0x40));
        }
        let code = match (kind, self.rest.peek()) {
            ('x', Some('{')) => {
                self.rest.next();
                let digits: String = self.rest.by_ref().take_while(|c| *c != '}').collect();
                u32::from_str_radix(&digits, 16).map_err(|_| bad())?
            }
            ('x', _) => self.digits(16, 2).ok_or_else(bad)?,
            ('0', _) => {
                let mut code =
                    self.rest.next_if(|c| c.is_digit(8)).and_then(|c| c.to_digit(8)).ok_or_else(bad)?;
                for _ in 0..2 {
                    match self.rest.next_if(|c| c.is_digit(8)).and_then(|c| c.to_digit(8)) {
                        Some(digit) if code * 8 + digit <= 0o377 => code = code * 8 + digit,
                        Some(_) => return Err(bad()),
                        None => break,
                    }
                }
                code
            }
            _ => {
                let code = self.digits(16, 4).ok_or_else(bad)?;
                if (0xD800..0xDC00).contains(&code) {
                    let follows = self.rest.next() == Some('\\') && self.rest.next() == Some('u');
                    let low = self.digits(16, 4).filter(|low| follows && (0xDC00..0xE000).contains(low));
                    0x10000 + ((code - 0xD800) << 10) + (low.ok_or_else(bad)? - 0xDC00)
                } else {
                    code
                }
            }
        };
        char::from_u32(code).map(|c| format!(r"\x{{{:x}}}", c as u32)).ok_or_else(bad)
    }

    fn digits(&mut self, radix: u32, count: usize) -> Option<u32> {
        let mut code = 0;
        for _ in 0..count {
            code = code * radix + self.rest.next()?.to_digit(radix)?;
        }
        Some(code)
    }

    /// `\p{…}`: POSIX names are of ASCII only; `java…`, `Is…` and general categories are Unicode's.
    fn property(&mut self, negated: bool) -> Result<String, PatternError> {
        let name: String = match self.rest.next() {
            Some('{') => self.rest.by_ref().take_while(|c| *c != '}').collect(),
            Some(c) => c.to_string(),
            None => return Err(PatternError::new(r"`\p` is not followed by a name")),
        };
        let posix = match name.as_str() {
            "Lower" => "[:lower:]",
            "Upper" => "[:upper:]",
            "ASCII" => "[:ascii:]",
            "Alpha" => "[:alpha:]",
            "Digit" => "[:digit:]",
            "Alnum" => "[:alnum:]",
            "Punct" => "[:punct:]",
            "Graph" => "[:graph:]",
            "Print" => "[:print:]",
            "Blank" => "[:blank:]",
            "Cntrl" => "[:cntrl:]",
            "XDigit" => "[:xdigit:]",
            "Space" => "[:space:]",
            _ => {
                let unicode = match name.as_str() {
                    "javaLowerCase" => "Lowercase",
                    "javaUpperCase" => "Uppercase",
                    "javaWhitespace" | "IsWhite_Space" | "IsWhiteSpace" => "White_Space",
                    "javaLetter" => "L",
                    "javaDigit" | "IsDigit" => "Nd",
                    "L1" => return Err(PatternError::new(r"`\p{L1}` is not supported")),
                    other => match other.split_once('=') {
                        Some(("script" | "sc" | "general_category" | "gc", value)) => value,
                        Some(_) => {
                            return Err(PatternError::new(format!(r"`\p{{{other}}}` is not supported")));
                        }
                        None => other.strip_prefix("Is").unwrap_or(other),
                    },
                };
                return Ok(format!(r"\{}{{{unicode}}}", if negated { 'P' } else { 'p' }));
            }
        };
        Ok(if negated { format!("[^{posix}]") } else { format!("[{posix}]") })
    }
}

/// A character that stands for itself.
fn escaped(c: char) -> String {
    if c.is_ascii_alphanumeric() || !c.is_ascii() { c.to_string() } else { format!(r"\x{{{:x}}}", c as u32) }
}

/// The constant patterns of one RLIKE; `None` for one that is none, which is an error of the rows that reach it.
#[derive(Debug)]
pub(super) struct Patterns {
    compiled: Vec<Option<JavaPattern>>,
    null: bool,
}

impl Patterns {
    pub(super) fn new(compiled: Vec<Option<JavaPattern>>, null: bool) -> Patterns {
        Patterns { compiled, null }
    }

    /// Returns true if a pattern matches; they are tried in order.
    pub(super) fn matches(&self, text: &str) -> Truth {
        for pattern in &self.compiled {
            match pattern.as_ref().map_or(Truth::Error, |pattern| pattern.matches(text)) {
                Truth::False => {}
                decided => return decided,
            }
        }
        if self.null { Truth::Null } else { Truth::False }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn java_patterns_match_whole_texts() {
        let cases = [
            ("a.*", "abc", true),
            ("b", "abc", false),
            ("a|abc", "abc", true),
            ("a.c", "a\nc", false),
            ("a.c", "a\u{2028}c", false),
            ("(?s)a.c", "a\nc", true),
            ("(?s:a.)(.)", "a\n\n", false),
            ("(?i)ABC", "abc", true),
            ("(?-i:a)(?i:B)", "ab", true),
            (r"\d+", "١", false),
            (r"\w+", "é", false),
            (r"[\w.]+@\w+\.com", "a.b@x.com", true),
            (r"[^\s]+", "a b", false),
            (r"\S+\s\S+", "a b", true),
            (r"\Qa.b\E+", "a.bb", true),
            (r"\Qa.b", "axb", false),
            (r"[\Q]^\E]+", "]^", true),
            (r"\u0041\x42\x{43}\0104", "ABCD", true),
            (r"\uD83D\uDE00", "😀", true),
            (r"\p{Alpha}+", "é", false),
            (r"\p{L}+", "é", true),
            (r"\p{IsAlphabetic}+", "é", true),
            (r"\p{javaUpperCase}\P{Upper}", "Aé", true),
            (r"\-\/\<\!\é", "-/<!é", true),
            (r"[a-z&&[^bc]]+", "ad", true),
            (r"[a-z&&[^bc]]+", "ab", false),
            (r"[~a~]+", "~a", true),
            (r"(?<year>\d{4})", "2021", true),
            (r"\R", "\r\n", true),
            (r"\h\v", "\u{3000}\u{85}", true),
            ("", "", true),
            (".", "😀", true),
            (r"^abc$", "abc", true),
        ];
        for (pattern, text, matches) in cases {
            let regex = compile_java(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(regex.matches(text), Truth::of(matches), "{pattern} on {text:?}: {regex:?}");
        }
    }

    #[test]
    fn patterns_look_around_and_back_as_in_java() {
        let cases = [
            ("(?=.*\\d)(?=.*[a-z]).{4,}", "ab1c", true),
            ("(?=.*\\d)(?=.*[a-z]).{4,}", "abcc", false),
            ("(?!ab).*", "abc", false),
            ("(?!ab).*", "bab", true),
            ("(?=ab)", "ab", false),
            ("a(?<=a)b(?<!a)", "ab", true),
            ("ab(?<!b)", "ab", false),
            ("x(?<=a|xy?)y", "xy", true),
            (".*(?<!ba{1,3})b", "acb", true),
            (".*(?<!ba+)b", "baab", false),
            ("(?s)(?!x).+", "a\n", true),
            ("(?!x).+", "a\n", false),
            (r"(\w+) \1", "the the", true),
            (r"(\w+) \1", "the then", false),
            (r"(a)(b)?\2", "a", false),
            (r"(?i)(a)\1", "aA", true),
            (r"(?<q>['x]).*\k<q>", "'it'", true),
            (r"(?<q>['x]).*\k<q>", "'itx", false),
            // The eleventh group where there is one, else the first and a 1.
            (r"(a)\11", "aa1", true),
            (r"(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)(k)\11", "abcdefghijkk", true),
            (r"(a)\2", "aa", false),
            (r"\1(a)", "aa", false),
            ("a++b", "aab", true),
            ("a++ab", "aab", false),
            ("a?+a", "a", false),
            ("a*+a", "aa", false),
            ("(?:ab){1,2}+ab", "abab", false),
            ("(?>a|ab)c", "abc", false),
            ("(?>ab|a)c", "abc", true),
            (r"[a-z&&[^b]]++\p{Alpha}(?!.)", "acb", true),
            (r"\Q(?=\E(?=x).", "(?=x", true),
        ];
        for (pattern, text, matches) in cases {
            let regex = compile_java(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(regex.matches(text), Truth::of(matches), "{pattern} on {text:?}: {regex:?}");
        }
    }

    #[test]
    fn a_pattern_that_steps_back_without_end_is_given_up() {
        // There is a way to cut the first half for every row of ones and twos.
        let endless = compile_java(r"((?:a|aa)+)\1(?=b)bc").unwrap();
        let text = |count| "a".repeat(count) + "bc";
        assert_eq!(endless.matches(&text(61)), Truth::Error);
        assert_eq!(endless.matches(&text(4)), Truth::True);
        assert_eq!(endless.matches(&text(5)), Truth::False);
        assert_eq!(java_pattern_as_regex("abc(?=d)d"), None, "literals are not read off it");
    }

    #[test]
    fn what_cannot_be_had_is_said() {
        for (pattern, message) in [
            (r"(?<n>a)\k<m>", r"`\k` is not followed by the name of a group before it"),
            ("[a", "a class is not closed"),
            ("(a", "unclosed group"),
            ("*", "repetition operator missing expression"),
            (r"\", r"a pattern cannot end in `\`"),
            (r"\y", r"there is no escape `\y` here"),
        ] {
            let error = compile_java(pattern).unwrap_err();
            assert_eq!(error.to_string(), message, "{pattern}");
        }
        assert!(compile_java(&"(a{100}){100}{100}".repeat(2)).is_err());
        assert!(compile_java(&"(".repeat(1000)).is_err());
        assert!(compile_java(&"[".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn any_pattern_is_read(pattern in r"[\[\]()\\a-zA-Z0-9{}?*+^$.|&~<>=!:é,-]{0,16}") {
            let _ = compile_java(&pattern);
        }
    }
}

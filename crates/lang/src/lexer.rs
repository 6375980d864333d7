//! Splits text into tokens.
//!
//! It reports all lexical errors (an unclosed quote, an impossible number) together; the parser sees only valid tokens.
//!
//! ```text
//! word    = letter (letter | digit | "_")*          letters are Unicode's (Bullet: ASCII's) and "_"
//! quoted  = '"' (any | '""')+ '"'                   a name
//! string  = "'" (any | "''")* "'"
//! number  = digits ["L"]                            INTEGER; LONG with L, or if it is beyond INTEGER
//!         | (digits "." digits? | digits) [("e"|"E") ["+"|"-"] digits] ["f"]      DOUBLE; FLOAT with f
//! parameter = "$" digits                            from $1 on
//! named   = "$" word                                in an endpoint only: a name, its `$` included
//! ```

use crate::{
    Dialect,
    keyword::Keyword,
    plan::Literal,
    source::{Fault, Span},
};

/// One token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

/// The kind of a token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TokenKind {
    /// A name or keyword without quotes; its text is the span's.
    Word(Option<Keyword>),
    /// A name in double quotes.
    Quoted(Box<str>),
    /// Text in single quotes.
    String(Box<str>),
    /// A whole number, and whether it ends in `L`. A sign before it is the parser's.
    Whole { value: u128, long: bool },
    /// A number with a point or an exponent.
    Double(f64),
    /// The same, ending in `f`.
    Float(f32),
    /// `$1`, as what it stands for.
    Parameter(Literal),
    /// An operator or a mark.
    Symbol(Symbol),
    /// The end of the text; always the last token, and only there.
    End,
}

/// Operators and marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[rustfmt::skip]
pub(crate) enum Symbol {
    LeftParen, RightParen, LeftBracket, RightBracket, Comma, Dot, Colon, Semicolon,
    Plus, Minus, Star, Slash, Percent, Concat,
    Eq, Ne, Lt, Le, Gt, Ge,
    /// These, within PATTERN only.
    Bang, Question, LeftBrace, RightBrace, Bar,
}

impl Symbol {
    #[rustfmt::skip]
    pub(crate) fn text(self) -> &'static str {
        match self {
            Symbol::LeftParen => "(", Symbol::RightParen => ")", Symbol::LeftBracket => "[", Symbol::RightBracket => "]",
            Symbol::Comma => ",", Symbol::Dot => ".", Symbol::Colon => ":", Symbol::Semicolon => ";",
            Symbol::Plus => "+", Symbol::Minus => "-", Symbol::Star => "*", Symbol::Slash => "/", Symbol::Percent => "%",
            Symbol::Concat => "||", Symbol::Eq => "=", Symbol::Ne => "!=", Symbol::Lt => "<", Symbol::Le => "<=",
            Symbol::Gt => ">", Symbol::Ge => ">=", Symbol::Bang => "!", Symbol::Question => "?",
            Symbol::LeftBrace => "{", Symbol::RightBrace => "}", Symbol::Bar => "|",
        }
    }
}

/// Tokens, the last of them [`TokenKind::End`], and what could not be made into any.
pub(crate) struct Tokens {
    /// Words in the place of names that cannot be names: they are faults if no fault of grammar precedes them (Bullet).
    pub(crate) no_names: Vec<Fault>,
    pub(crate) tokens: Vec<Token>,
    pub(crate) faults: Vec<Fault>,
}

/// Cuts the text into tokens. In Bullet's dialect it stops at the first fault, as if the text ended there: what Bullet
/// says of a text is the first thing wrong in it. Linear in the text.
pub(crate) fn tokenize(text: &str, dialect: Dialect, parameters: &[Literal]) -> Tokens {
    tokenize_as(text, dialect, parameters, false)
}

/// The same of a text of the native dialect in which `$name` is a name.
pub(crate) fn tokenize_named(text: &str) -> Tokens {
    tokenize_as(text, Dialect::Native, &[], true)
}

fn tokenize_as(text: &str, dialect: Dialect, parameters: &[Literal], has_named: bool) -> Tokens {
    let used = vec![false; parameters.len()];
    let (tokens, faults, no_names) = (Vec::new(), Vec::new(), Vec::new());
    let mut lexer = Lexer {
        text,
        dialect,
        parameters,
        has_named,
        used,
        at: 0,
        tokens,
        faults,
        no_names,
        pattern_parens: 0,
    };
    let mut end = Span::new(text.len(), text.len());
    while lexer.at < text.len() {
        let at = lexer.at;
        lexer.next();
        if dialect == Dialect::Bullet && !lexer.faults.is_empty() {
            end = Span::new(at, at);
            break;
        }
    }
    lexer.tokens.push(Token { kind: TokenKind::End, span: end });
    if lexer.faults.is_empty() {
        let unused = lexer.used.iter().position(|used| !used);
        lexer.faults.extend(unused.map(|place| {
            Fault::whole(format!("parameter ${} is bound, but the query does not use it", place + 1))
        }));
    }
    Tokens { tokens: lexer.tokens, faults: lexer.faults, no_names: lexer.no_names }
}

struct Lexer<'a> {
    text: &'a str,
    dialect: Dialect,
    parameters: &'a [Literal],
    /// Parameters have names.
    has_named: bool,
    /// True for each parameter that the text names.
    used: Vec<bool>,
    at: usize,
    tokens: Vec<Token>,
    faults: Vec<Fault>,
    no_names: Vec<Fault>,
    /// Open parentheses from that of `PATTERN (` on.
    pattern_parens: usize,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn byte(&self, offset: usize) -> u8 {
        self.text.as_bytes().get(self.at + offset).copied().unwrap_or(0)
    }

    fn push(&mut self, kind: TokenKind, bytes: usize) {
        let span = Span::new(self.at, self.at + bytes);
        self.tokens.push(Token { kind, span });
        self.at += bytes;
    }

    fn fault(&mut self, bytes: usize, message: impl Into<String>, hint: Option<&str>) {
        let fault = Fault::at(Span::new(self.at, self.at + bytes), message);
        self.faults.push(match hint {
            Some(hint) => fault.hint(hint),
            None => fault,
        });
        self.at += bytes;
    }

    /// Takes for a name what cannot be one.
    fn no_name(&mut self, kind: TokenKind, bytes: usize, message: String, hint: &str) {
        self.no_names.push(Fault::at(Span::new(self.at, self.at + bytes), message).hint(hint));
        self.push(kind, bytes);
    }

    fn next(&mut self) {
        let Some(c) = self.rest().chars().next() else { return };
        let dialect = self.dialect;
        let is_mark = c == '\u{feff}' && self.at == 0 && dialect == Dialect::Native;
        if is_space(c, dialect) || is_mark {
            self.at += c.len_utf8();
        } else if self.dialect == Dialect::Native && self.rest().starts_with("--") {
            self.at += self.rest().find(['\n', '\r']).unwrap_or(self.rest().len());
        } else if self.dialect == Dialect::Native && self.rest().starts_with("/*") {
            match self.rest()[2..].find("*/") {
                Some(end) => self.at += end + 4,
                None => {
                    self.fault(self.rest().len(), "this comment is not closed", Some("Close it with `*/`."))
                }
            }
        } else if is_name_start(c) && (c.is_ascii() || dialect == Dialect::Native) {
            let ends = |c: char| !is_name_part(c) || (dialect == Dialect::Bullet && !c.is_ascii());
            let bytes = self.rest().find(ends).unwrap_or(self.rest().len());
            let keyword = Keyword::of(&self.rest()[..bytes]);
            self.push(TokenKind::Word(keyword), bytes);
        } else if c.is_ascii_digit() || self.starts_with_point(c) {
            self.number();
        } else if c == '\'' || c == '"' {
            self.quoted(c);
        } else if c == '$' && self.byte(1).is_ascii_digit() {
            self.parameter();
        } else if c == '$' && self.has_named && self.rest()[1..].starts_with(is_name_start) {
            let bytes = 1 + self.rest()[1..].find(|c| !is_name_part(c)).unwrap_or(self.rest().len() - 1);
            self.push(TokenKind::Quoted(self.rest()[..bytes].into()), bytes);
        } else {
            self.symbol(c);
        }
    }

    fn parameter(&mut self) {
        let bytes = 1 + self.rest()[1..].find(|c| !is_name_part(c)).unwrap_or(self.rest().len() - 1);
        let name = short(&self.rest()[..bytes]);
        let count = self.parameters.len();
        let given = match count {
            0 => "no parameter is given".to_owned(),
            1 => "one is given, $1".to_owned(),
            _ => format!("{count} are given, $1 to ${count}"),
        };
        match self.rest()[1..bytes].parse::<usize>() {
            Ok(0) => self.fault(bytes, "there is no parameter $0", Some("Parameters are counted from $1.")),
            Ok(number) if number <= count => {
                self.used[number - 1] = true;
                self.push(TokenKind::Parameter(self.parameters[number - 1].clone()), bytes);
            }
            Ok(_) => self.fault(bytes, format!("there is no parameter {name}: {given}"), None),
            Err(_) => {
                self.fault(bytes, format!("`{name}` is not a parameter: parameters are $1, $2, …"), None)
            }
        }
    }

    /// True if a number begins here with its point; in Bullet none does.
    fn starts_with_point(&self, c: char) -> bool {
        self.dialect == Dialect::Native
            && c == '.'
            && self.byte(1).is_ascii_digit()
            && !self.follows_operand()
    }

    /// True if a dot here leads into what stands before it, rather than beginning a number.
    fn follows_operand(&self) -> bool {
        use Symbol::{RightBracket, RightParen};
        self.tokens.last().is_some_and(|last| {
            last.span.end as usize == self.at
                && matches!(
                    last.kind,
                    TokenKind::Word(_) | TokenKind::Quoted(_) | TokenKind::Symbol(RightBracket | RightParen)
                )
        })
    }

    fn quoted(&mut self, quote: char) {
        let mut value = String::new();
        let mut from = 1;
        loop {
            let Some(found) = self.rest()[from..].find(quote) else {
                let what = if quote == '\'' { "string" } else { "quoted name" };
                let hint = format!("Close it with `{quote}`; write a `{quote}` inside it twice.");
                return self.fault(self.rest().len(), format!("this {what} is not closed"), Some(&hint));
            };
            value.push_str(&self.rest()[from..from + found]);
            from += found + 1;
            if self.byte(from) != quote as u8 {
                break;
            }
            value.push(quote);
            from += 1;
        }
        if quote == '\'' {
            self.push(TokenKind::String(value.into()), from);
        } else if value.is_empty() && self.dialect == Dialect::Bullet {
            let hint = "Write text in single quotes: `''`.";
            self.no_name(TokenKind::Quoted(value.into()), from, "a name cannot be empty".to_owned(), hint);
        } else if value.is_empty() {
            self.fault(from, "a name cannot be empty", Some("Write text in single quotes: `''`."));
        } else {
            self.push(TokenKind::Quoted(value.into()), from);
        }
    }

    fn number(&mut self) {
        let bytes = self.rest().as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let mut length = digits(0);
        let mut whole = true;
        if bytes.get(length) == Some(&b'.') {
            whole = false;
            length += 1 + digits(length + 1);
        }
        if matches!(bytes.get(length), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
            let exponent = digits(length + 1 + sign);
            if exponent > 0 {
                whole = false;
                length += 1 + sign + exponent;
            }
        }
        let suffix = bytes.get(length).map(u8::to_ascii_uppercase);
        let has_suffix = matches!((whole, suffix), (true, Some(b'L')) | (false, Some(b'F')));
        let total = length + usize::from(has_suffix);
        let run_on = self.rest()[total..].find(|c| !is_name_part(c)).unwrap_or(self.rest().len() - total);
        // In Bullet a name may begin right behind a number with a point or a sign.
        let bullet = self.dialect == Dialect::Bullet;
        let may_run_on = bullet && !self.rest()[..length].bytes().all(|byte| byte.is_ascii_alphanumeric());
        if run_on > 0 && !may_run_on {
            let what = &self.rest()[..total + run_on];
            let message = format!("`{}` is neither a number nor a name", short(what));
            let hint = "Write a name that begins with a digit in double quotes, and a FLOAT as `5.0f`.";
            if bullet {
                return self.no_name(TokenKind::Word(None), total + run_on, message, hint);
            }
            return self.fault(total + run_on, message, Some(hint));
        }
        let text = &self.rest()[..length];
        // As Java has it, a number with a point is infinite in Bullet where it is too large; a whole one is a fault of
        // another kind, which the parser finds.
        let kind = if whole {
            let value = text.parse().ok().or(bullet.then_some(u128::MAX));
            value.map(|value| TokenKind::Whole { value, long: has_suffix })
        } else if has_suffix {
            text.parse().ok().filter(|value: &f32| bullet || value.is_finite()).map(TokenKind::Float)
        } else {
            text.parse().ok().filter(|value: &f64| bullet || value.is_finite()).map(TokenKind::Double)
        };
        match kind {
            Some(kind) => self.push(kind, total),
            None => self.fault(
                total,
                "this number is too large",
                Some("Whole numbers have at most 64 bits; DOUBLEs reach up to 1.7E308, FLOATs to 3.4E38."),
            ),
        }
    }

    /// Counts the parentheses within those of `PATTERN (…)`.
    fn count_parens(&mut self, symbol: Symbol) {
        match symbol {
            Symbol::LeftParen => {
                let is_pattern = |last: &Token| {
                    let word = &self.text[last.span.start as usize..last.span.end as usize];
                    matches!(last.kind, TokenKind::Word(_)) && word.eq_ignore_ascii_case("PATTERN")
                };
                let begins = self.dialect == Dialect::Native && self.tokens.last().is_some_and(is_pattern);
                self.pattern_parens += usize::from(begins || self.pattern_parens > 0);
            }
            Symbol::RightParen => self.pattern_parens = self.pattern_parens.saturating_sub(1),
            _ => {}
        }
    }

    fn symbol(&mut self, c: char) {
        let symbol = match (c, self.byte(c.len_utf8())) {
            ('=', b'=') => Some((Symbol::Eq, 2)),
            ('!', b'=') => Some((Symbol::Ne, 2)),
            ('<', b'>') => Some((Symbol::Ne, 2)),
            ('<', b'=') => Some((Symbol::Le, 2)),
            ('>', b'=') => Some((Symbol::Ge, 2)),
            ('|', b'|') => Some((Symbol::Concat, 2)),
            ('(', _) => Some((Symbol::LeftParen, 1)),
            (')', _) => Some((Symbol::RightParen, 1)),
            ('[', _) => Some((Symbol::LeftBracket, 1)),
            (']', _) => Some((Symbol::RightBracket, 1)),
            (',', _) => Some((Symbol::Comma, 1)),
            ('.', _) => Some((Symbol::Dot, 1)),
            (':', _) => Some((Symbol::Colon, 1)),
            (';', _) => Some((Symbol::Semicolon, 1)),
            ('+', _) => Some((Symbol::Plus, 1)),
            ('-', _) => Some((Symbol::Minus, 1)),
            ('*', _) => Some((Symbol::Star, 1)),
            ('/', _) => Some((Symbol::Slash, 1)),
            ('%', _) => Some((Symbol::Percent, 1)),
            ('=', _) => Some((Symbol::Eq, 1)),
            ('<', _) => Some((Symbol::Lt, 1)),
            ('>', _) => Some((Symbol::Gt, 1)),
            ('!', _) if self.pattern_parens > 0 => Some((Symbol::Bang, 1)),
            ('?', _) if self.pattern_parens > 0 => Some((Symbol::Question, 1)),
            ('{', _) if self.pattern_parens > 0 => Some((Symbol::LeftBrace, 1)),
            ('}', _) if self.pattern_parens > 0 => Some((Symbol::RightBrace, 1)),
            ('|', _) if self.pattern_parens > 0 => Some((Symbol::Bar, 1)),
            _ => None,
        };
        if let Some((symbol, bytes)) = symbol {
            self.count_parens(symbol);
            return self.push(TokenKind::Symbol(symbol), bytes);
        }
        let hint = match c {
            '!' => Some("Write `NOT`, or `!=`."),
            '&' => Some("Write `AND`."),
            '|' => Some("Write `OR`."),
            '`' => Some("Write names in double quotes."),
            '‘' | '’' | '“' | '”' | '„' => {
                Some("Write text in straight single quotes, and names in straight double quotes.")
            }
            '{' | '}' => Some("Write a list as `[1, 2]`; there are no map literals."),
            '?' | '$' => {
                Some("Write parameters as $1, $2, …, and a name with this character in double quotes.")
            }
            '@' => Some("Write a name with this character in double quotes."),
            _ => None,
        };
        let width = c.len_utf8() + usize::from(matches!(c, '&' | '|') && self.byte(1) == c as u8);
        self.fault(width, format!("unexpected `{}`", c.escape_debug()), hint);
    }
}

/// Text cut to a length fit for a message.
pub(crate) fn short(text: &str) -> String {
    const CHARS: usize = 60;
    match text.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn is_space(c: char, dialect: Dialect) -> bool {
    match dialect {
        Dialect::Native => c.is_whitespace(),
        Dialect::Bullet => matches!(c, ' ' | '\t' | '\r' | '\n'),
    }
}

pub(crate) fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

pub(crate) fn is_name_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// True if this would be read as one word, of the language or not.
pub(crate) fn is_word(text: &str) -> bool {
    text.chars().next().is_some_and(is_name_start) && text.chars().all(is_name_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let Tokens { tokens, faults, .. } = tokenize(text, Dialect::Native, &[Literal::Integer(-5)]);
        // A parameter that is not used is no concern of these.
        let faults: Vec<_> = faults.into_iter().filter(|fault| fault.span.is_some()).collect();
        let shown = match faults.is_empty() {
            true => {
                let show = |token: &Token| match &token.kind {
                    TokenKind::Word(Some(keyword)) => keyword.text().to_owned(),
                    TokenKind::Word(None) => {
                        text[token.span.start as usize..token.span.end as usize].to_owned()
                    }
                    TokenKind::Quoted(name) => format!("\"{name}\""),
                    TokenKind::String(value) => format!("'{value}'"),
                    TokenKind::Whole { value, long } => format!("{value}{}", if *long { "L" } else { "" }),
                    TokenKind::Double(value) => format!("{value:?}"),
                    TokenKind::Float(value) => format!("{value:?}f"),
                    TokenKind::Parameter(literal) => format!("${literal}"),
                    TokenKind::Symbol(symbol) => symbol.text().to_owned(),
                    TokenKind::End => ".".to_owned(),
                };
                tokens.iter().map(show).collect::<Vec<_>>().join(" ")
            }
            false => faults.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("; "),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn tokens() {
        check("select a_1, ünder", "SELECT a_1 , ünder .");
        check("5 5L 5l 5. 5.0 .5 1e3 1.5E-2 5.0f 1e2F", "5 5L 5L 5.0 5.0 0.5 1000.0 0.015 5.0f 100.0f .");
        check("a.b a[0].c 1.0", "a . b a [ 0 ] . c 1.0 .");
        check("'it''s' \"a \"\"b\"\"\" ''", "'it's' \"a \"b\"\" '' .");
        check("a==b a<>b a!=b <= >= < > ||", "a = b a != b a != b <= >= < > || .");
        check("a -- b\n - /* c\n */ d", "a - d .");
        check("'名前'", "'名前' .");
        check("$1+$01", "$-5 + $-5 .");
    }

    #[test]
    fn faults_are_reported_together() {
        check("'abc", "this string is not closed");
        check("\"abc", "this quoted name is not closed");
        check("\"\"", "a name cannot be empty");
        check("/* abc", "this comment is not closed");
        check(
            "5f 1x ! ?",
            "`5f` is neither a number nor a name; `1x` is neither a number nor a name; unexpected `!`; unexpected `?`",
        );
        check("9999999999999999999999999999999999999999999", "this number is too large");
        check("a && b", "unexpected `&`");
        check("$0", "there is no parameter $0");
        check(
            "$2 $x $1x",
            "there is no parameter $2: one is given, $1; unexpected `$`; `$1x` is not a parameter: parameters are \
             $1, $2, …",
        );
        check("a | b", "unexpected `|`");
    }
}

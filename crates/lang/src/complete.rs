//! Completion: the words and names that may stand at a place of a text, whether or not the text is a query.
//!
//! The parser itself is asked. It reads the text up to the cursor and, behind it, each word of the language in turn; a word
//! may stand there if the parser takes it, and not for a name. So there is no second grammar. The parser also notes which
//! name it would take there ([`Cursor`]). Cost: one reading of the text before the cursor for each word, about 2 ms for a
//! query of ten lines; a longer text than [`TEXT_BYTES_MAX`] has no words.

use std::{borrow::Cow, cell::RefCell};

use crate::{
    Dialect,
    functions::{Function, function},
    keyword::Keyword,
    lexer::{Symbol, Token, TokenKind, is_name_part, is_name_start, tokenize},
    parser,
    plan::Literal,
};

/// The most bytes before the cursor for which words are found.
const TEXT_BYTES_MAX: usize = 32 << 10;

/// Parameters that a text may have; their values do not matter here.
const PARAMETERS_MAX: usize = 64;

/// The most streams, views and tables of a text.
const SOURCES_MAX: usize = 32;

/// Phrases that are offered whole; their first words alone are not.
const PHRASES: [&str; 12] = [
    "GROUP BY",
    "ORDER BY",
    "IS NULL",
    "IS NOT NULL",
    "NOT IN",
    "NOT BETWEEN",
    "NOT LIKE",
    "NOT RLIKE",
    "LATERAL VIEW EXPLODE",
    "GROUPING SETS",
    "LEFT JOIN",
    "INNER JOIN",
];

/// A word that is none of the language.
const UNKNOWN: &str = "zq_unknown_zq";

/// Words that the parser compares as text, beside those that it looks for at the cursor.
const OTHER_WORDS: [&str; 3] = ["ROLLUP", "CUBE", "JOIN"];

/// The place of a text at which something may be completed. Places in the text are bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Completion {
    /// The beginning of what is replaced; it ends at the cursor.
    pub from: usize,
    /// The text between `from` and the cursor, without its quote.
    pub typed: String,
    /// The words that may stand here, in the order of the language.
    pub words: Vec<Word>,
    /// The name or value that may stand here.
    pub expected: Expected,
    /// Names that the query gives to its columns, where they may stand.
    pub column_aliases: Vec<String>,
    /// The streams, views and tables that the whole text names, in the order of the text.
    pub sources: Vec<SourceName>,
}

/// A word that may stand at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// A word, or several.
    Keyword {
        /// In capitals.
        text: String,
        /// True if a parenthesis must follow.
        opens: bool,
    },
    /// The name of a function, before its parenthesis.
    Function(&'static Function),
    /// The name of a type.
    Type(&'static str),
    /// A unit of time.
    Unit(&'static str),
}

/// The name or value that may stand at a place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Expected {
    /// None that is known: a number, a new name, or nothing.
    #[default]
    Nothing,
    /// A stream.
    Stream,
    /// A view or table that is joined.
    Joined,
    /// A value; it is compared with this path, if any.
    Value {
        /// The path's text.
        compared: Option<String>,
    },
    /// Text within quotes, from the quote on; it is compared with this path, if any.
    Text {
        /// The path's text.
        compared: Option<String>,
    },
    /// The end of a path that begins at `from`.
    Path,
    /// A type.
    Type,
    /// A unit of time.
    Unit,
}

/// A stream, view or table that a query names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceName {
    /// Its name; none for the default stream.
    pub name: Option<String>,
    /// The name that the query gives to it.
    pub alias: Option<String>,
    /// True for a view or table that is joined.
    pub is_joined: bool,
}

/// The parser's notes about the token at the cursor.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// The token's place; none unless a text is completed.
    pub(crate) token: Option<usize>,
    /// The name or value for which the parser took the token.
    pub(crate) expected: Option<Expected>,
    /// True if the token was taken for a name of its own.
    pub(crate) is_name: bool,
    /// True if the parser stepped over the token.
    pub(crate) is_read: bool,
    /// True if it did so after a fault.
    pub(crate) is_skipped: bool,
    /// Words, or several at once, that the parser looked for at the token.
    pub(crate) words: RefCell<Vec<String>>,
}

/// The words and names that may stand at the cursor, a byte of the text.
pub fn complete(text: &str, cursor: usize, dialect: Dialect) -> Completion {
    let cursor = (0..=cursor.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let before = &text[..cursor];
    let mut found = Completion { from: cursor, sources: sources(text, dialect), ..Completion::default() };
    if text.trim_start().starts_with('{') {
        return found;
    }
    match tokens(before, dialect).1 {
        Some(Open::Comment) => return found,
        Some(Open::String(from)) => {
            found.from = from;
            found.typed = before[from + 1..].replace("''", "'");
            let (_, probe) = Probe::beginning(&before[..from], "''", dialect);
            if let Some(Expected::Value { compared }) = probe.expected {
                found.expected = Expected::Text { compared };
            }
            return found;
        }
        Some(Open::Name(from)) => {
            found.from = from;
            found.typed = before[from + 1..].replace("\"\"", "\"");
        }
        None => {
            let run =
                before.chars().rev().take_while(|c| is_name_part(*c)).map(char::len_utf8).sum::<usize>();
            found.from = cursor - run;
            found.typed = before[found.from..].to_owned();
            // A number, whose digits go on.
            if found.typed.starts_with(|c| !is_name_start(c)) {
                return found;
            }
        }
    }
    let (head, unknown) = Probe::beginning(&before[..found.from], UNKNOWN, dialect);
    if unknown.expected == Some(Expected::Path) {
        // The members of what a function returns are not known.
        if let Some(from) = path_start(&tokens(&before[..found.from], dialect).0) {
            found.from = from;
            found.typed = before[found.from..].to_owned();
            found.expected = Expected::Path;
        }
        return found;
    }
    let is_quoted = before[found.from..].starts_with('"');
    if !is_quoted && found.from <= TEXT_BYTES_MAX {
        found.words = words(&head, &unknown, dialect);
    }
    found.expected = unknown.expected.unwrap_or_default();
    if matches!(found.expected, Expected::Value { .. }) {
        found.column_aliases = column_aliases(&before[..found.from], dialect);
    }
    found
}

/// The words that the parser takes behind a text, which it read with [`UNKNOWN`] behind it.
fn words(head: &str, unknown: &Probe, dialect: Dialect) -> Vec<Word> {
    match unknown.expected {
        Some(Expected::Type) => {
            let types =
                parser::TYPES.iter().filter(|name| dialect == Dialect::Native || **name != "TIMESTAMP");
            return types.map(|name| Word::Type(name)).collect();
        }
        Some(Expected::Unit) => return parser::UNIT_NAMES.iter().map(|name| Word::Unit(name)).collect(),
        _ => {}
    }
    let is_operand = matches!(unknown.expected, Some(Expected::Value { .. }));
    // A phrase comes where its first word would.
    let keywords = Keyword::ALL.iter().flat_map(|keyword| {
        let phrases =
            PHRASES.iter().copied().filter(|phrase| phrase.split(' ').next() == Some(keyword.text()));
        phrases.chain([keyword.text()])
    });
    let functions = crate::functions(dialect).map(|function| function.name);
    let asked = unknown.words.iter().map(String::as_str);
    let mut found: Vec<Word> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for word in keywords.chain(PHRASES).chain(OTHER_WORDS).chain(functions).chain(asked) {
        if seen.contains(&word) {
            continue;
        }
        seen.push(word);
        match function(dialect, word) {
            // Called: the parser takes the parenthesis, too.
            Some(function) if is_operand && Probe::of(head, &format!("{word}("), "", dialect).is_taken => {
                found.push(Word::Function(function));
            }
            _ => found.extend(keyword(head, word, dialect)),
        }
    }
    let begins_phrase = |word: &str| {
        let goes_on = |text: &str| text.strip_prefix(word).is_some_and(|rest| rest.starts_with(' '));
        found.iter().any(|other| matches!(other, Word::Keyword { text, .. } if goes_on(text)))
    };
    let is_kept = |word: &&Word| !matches!(word, Word::Keyword { text, .. } if begins_phrase(text));
    found.iter().filter(is_kept).cloned().collect()
}

/// The word, if the parser takes it there and not for a name.
fn keyword(head: &str, word: &str, dialect: Dialect) -> Option<Word> {
    let text = word.to_owned();
    // `NOT BETWEEN (` would be the function behind NOT.
    let may_open = !word.starts_with("NOT ");
    let alone = Probe::of(head, word, "", dialect);
    if alone.is_taken {
        return Some(Word::Keyword { text, opens: alone.needs_parenthesis })
            .filter(|_| may_open || !alone.needs_parenthesis);
    }
    if may_open && Probe::of(head, word, " (", dialect).is_taken {
        return Some(Word::Keyword { text, opens: true });
    }
    // The next clause, behind one with a fault.
    Probe::of(head, word, " x", dialect).is_taken.then_some(Word::Keyword { text, opens: false })
}

/// One reading of the text with something at the cursor.
struct Probe {
    expected: Option<Expected>,
    /// True if the parser takes it, and not for a name.
    is_taken: bool,
    /// True if the parser came to it, in a clause with a fault or without.
    is_reached: bool,
    /// True if the parser wants a parenthesis behind it.
    needs_parenthesis: bool,
    /// Words that the parser looked for at the cursor.
    words: Vec<String>,
}

impl Probe {
    /// Reads a text, then what is tried. A parser that gives up before reads the last clause alone, which is returned then.
    fn beginning<'h>(head: &'h str, tried: &str, dialect: Dialect) -> (Cow<'h, str>, Probe) {
        let probe = Probe::of(head, tried, "", dialect);
        if !probe.is_reached
            && let Some(clause) = last_clause(head, dialect)
        {
            let probe = Probe::of(&clause, tried, "", dialect);
            return (Cow::Owned(clause), probe);
        }
        (Cow::Borrowed(head), probe)
    }

    /// Reads a text, then what is tried, then what follows it.
    fn of(head: &str, tried: &str, behind: &str, dialect: Dialect) -> Probe {
        let text = format!("{head}{tried}{behind}");
        let (tokens, _) = tokens(&text, dialect);
        let end = head.len() + tried.len();
        let place = |at: usize| at >= head.len() && at < end;
        let token = tokens.iter().position(|token| place(token.span.start as usize));
        let (faults, cursor) = parser::parse_at_cursor(&text, dialect, tokens, token);
        let spans = || faults.iter().filter_map(|fault| Some((fault, fault.span?)));
        let is_refused =
            spans().any(|(_, span)| (span.start as usize) < end && span.end as usize > head.len());
        let is_behind = |at: u32| at as usize >= end;
        Probe {
            is_reached: cursor.is_read
                || cursor.is_skipped
                || cursor.expected.is_some()
                || !cursor.words.borrow().is_empty()
                || spans().any(|(_, span)| place(span.start as usize)),
            is_taken: cursor.is_read && !cursor.is_skipped && !cursor.is_name && !is_refused,
            needs_parenthesis: spans()
                .any(|(fault, span)| is_behind(span.start) && fault.message.starts_with("expected `(`")),
            expected: match cursor.expected {
                // The clause has a fault before the cursor: most clauses are of values.
                None if cursor.is_skipped => Some(Expected::Value { compared: None }),
                expected => expected,
            },
            words: cursor.words.into_inner(),
        }
    }
}

/// The quote or comment that is open at the end of a text.
enum Open {
    Comment,
    /// A text in single quotes, from this byte on.
    String(usize),
    /// A name in double quotes, from this byte on.
    Name(usize),
}

/// The tokens of a text, and what is open at its end.
fn tokens(text: &str, dialect: Dialect) -> (Vec<Token>, Option<Open>) {
    let parameters = vec![Literal::Integer(1); PARAMETERS_MAX];
    let tokens = tokenize(text, dialect, &parameters).tokens;
    // The last token ends before whatever is open, as that is no token.
    let last = tokens.iter().rev().find(|token| token.kind != TokenKind::End);
    let mut at = last.map_or(0, |last| last.span.end as usize);
    let open = loop {
        let rest = &text[at..];
        let Some(c) = rest.chars().next() else { break None };
        let is_native = dialect == Dialect::Native;
        match c {
            '-' if is_native && rest.starts_with("--") => match rest.find(['\n', '\r']) {
                Some(end) => at += end,
                None => break Some(Open::Comment),
            },
            '/' if is_native && rest.starts_with("/*") => match rest[2..].find("*/") {
                Some(end) => at += end + 4,
                None => break Some(Open::Comment),
            },
            '\'' => break Some(Open::String(at)),
            '"' => break Some(Open::Name(at)),
            c => at += c.len_utf8(),
        }
    };
    (tokens, open)
}

/// The first byte of the path whose last step follows these tokens: of `a` in `x = a[0].b.`.
fn path_start(tokens: &[Token]) -> Option<usize> {
    let mut at = tokens.iter().rposition(|token| token.kind != TokenKind::End)?;
    let mut is_dot_next = true;
    loop {
        match &tokens[at].kind {
            TokenKind::Symbol(Symbol::Dot) if is_dot_next => is_dot_next = false,
            TokenKind::Symbol(Symbol::RightBracket) => {
                let close = at;
                while tokens[at].kind != TokenKind::Symbol(Symbol::LeftBracket) {
                    at = at.checked_sub(1)?;
                }
                if close == at + 1 {
                    return None;
                }
            }
            TokenKind::Word(_) | TokenKind::Quoted(_) if !is_dot_next => {
                let is_step = at > 0 && tokens[at - 1].kind == TokenKind::Symbol(Symbol::Dot);
                if !is_step {
                    return Some(tokens[at].span.start as usize);
                }
                is_dot_next = true;
            }
            _ => return None,
        }
        at = at.checked_sub(1)?;
    }
}

/// A query of the last clause of a text.
fn last_clause(head: &str, dialect: Dialect) -> Option<String> {
    use Keyword::{From, Group, Having, Limit, Order, Where, Windowing};
    let (tokens, _) = tokens(head, dialect);
    let keyword = |token: &Token| match token.kind {
        TokenKind::Word(keyword) => keyword,
        _ => None,
    };
    let begins = [From, Where, Group, Having, Order, Windowing, Limit];
    let last = tokens.iter().rev().find(|token| keyword(token).is_some_and(|word| begins.contains(&word)))?;
    let before = if keyword(last) == Some(From) { "SELECT x " } else { "SELECT x FROM STREAM() " };
    Some(format!("{before}{}", &head[last.span.start as usize..]))
}

/// The names behind AS in the select list of a text.
fn column_aliases(head: &str, dialect: Dialect) -> Vec<String> {
    let (tokens, _) = tokens(head, dialect);
    let is_from = |token: &Token| token.kind == TokenKind::Word(Some(Keyword::From));
    let Some(from) = tokens.iter().position(is_from) else { return Vec::new() };
    let mut depth = 0_i64;
    let mut names = Vec::new();
    for pair in tokens[..from].windows(2) {
        match pair[0].kind {
            TokenKind::Symbol(Symbol::LeftParen) => depth += 1,
            TokenKind::Symbol(Symbol::RightParen) => depth -= 1,
            TokenKind::Word(Some(Keyword::As)) if depth == 0 => names.extend(name_of(head, &pair[1])),
            _ => {}
        }
    }
    names
}

/// The streams, views and tables of a text.
fn sources(text: &str, dialect: Dialect) -> Vec<SourceName> {
    let (tokens, _) = tokens(text, dialect);
    let word = |at: usize| tokens.get(at).and_then(|token| bare_word(text, token));
    let is_word = |at: usize, wanted: &str| word(at).is_some_and(|word| word.eq_ignore_ascii_case(wanted));
    let symbol = |at: usize| match tokens.get(at).map(|token| &token.kind) {
        Some(TokenKind::Symbol(symbol)) => Some(*symbol),
        _ => None,
    };
    let name = |at: usize| tokens.get(at).and_then(|token| name_of(text, token));
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        if found.len() == SOURCES_MAX {
            break;
        }
        if is_word(at, "STREAM") && symbol(at + 1) == Some(Symbol::LeftParen) {
            let is_duration = is_word(at + 2, "MAX") || is_word(at + 2, "INTERVAL");
            let close = (at..tokens.len()).find(|&at| symbol(at) == Some(Symbol::RightParen));
            let alias = close.filter(|close| is_word(close + 1, "AS")).and_then(|close| name(close + 2));
            found.push(SourceName { name: name(at + 2).filter(|_| !is_duration), alias, is_joined: false });
        } else if is_word(at, "JOIN")
            && let Some(joined) = name(at + 1)
        {
            let alias = match is_word(at + 2, "AS") {
                true => name(at + 3),
                false => name(at + 2).filter(|_| !is_word(at + 2, "ON")),
            };
            found.push(SourceName { name: Some(joined), alias, is_joined: true });
        }
    }
    found
}

fn bare_word<'t>(text: &'t str, token: &Token) -> Option<&'t str> {
    matches!(token.kind, TokenKind::Word(_))
        .then(|| &text[token.span.start as usize..token.span.end as usize])
}

fn name_of(text: &str, token: &Token) -> Option<String> {
    match &token.kind {
        TokenKind::Quoted(name) => Some(name.to_string()),
        _ => bare_word(text, token).map(str::to_owned),
    }
}

//! Parses a query by recursive descent; goes on after a fault, so that all are found.

use super::{
    CLAUSES_MAX, Clause, Column, DEPTH_MAX, Node, Operator, QUERY_BYTES_MAX, SLOP_MAX, Scalar, Test,
};
use crate::{faults::Faults, term::Piece};

const QUOTE_HINT: &str = "Write it in quotes, as in \"a:b\", or put \\ before the character.";

struct Parser<'q> {
    text: &'q str,
    at: usize,
    operator: Operator,
    depth: usize,
    clauses: usize,
    /// True if a part was nested too deep and was skipped.
    is_cut: bool,
    faults: Faults<'q>,
}

/// The role of a clause among those side by side with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occurs {
    Must,
    MustNot,
    Should,
}

/// The query as far as it can be read, and all its faults.
pub(crate) fn parse(text: &str, operator: Operator) -> (Clause, Faults<'_>) {
    let everything = Clause { node: Node::Everything, boost: 1.0, span: 0..text.len() };
    if text.len() > QUERY_BYTES_MAX {
        let mut faults = Faults::of(text);
        faults.add(0, format!("the query has {} bytes, limit is {QUERY_BYTES_MAX}", text.len()), None);
        return (everything, faults);
    }
    let mut parser =
        Parser { text, at: 0, operator, depth: 0, clauses: 0, is_cut: false, faults: Faults::of(text) };
    parser.skip_space();
    let query = match parser.at == text.len() {
        true => everything.clone(),
        false => parser.any(None),
    };
    while parser.at < text.len() {
        // Only a parenthesis ends a query before its text does.
        parser.faults.add_with_hint(parser.at, "`)` closes nothing", QUOTE_HINT);
        parser.at += 1;
        parser.skip_space();
        if parser.at < text.len() {
            parser.any(None);
        }
    }
    if parser.clauses > CLAUSES_MAX {
        let message = format!("the query has {} conditions, limit is {CLAUSES_MAX}", parser.clauses);
        parser.faults.add(0, message, None);
        return (everything, parser.faults);
    }
    (query, parser.faults)
}

impl<'q> Parser<'q> {
    fn rest(&self) -> &'q str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, c: char) -> bool {
        let is_next = self.peek() == Some(c);
        self.at += if is_next { c.len_utf8() } else { 0 };
        is_next
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Takes an operator in capitals, which is a word of its own.
    fn take_operator(&mut self, word: &str) -> bool {
        let Some(rest) = self.rest().strip_prefix(word) else { return false };
        let is_whole = rest.chars().next().is_none_or(|c| c.is_whitespace() || matches!(c, '(' | ')' | '"'));
        if is_whole {
            self.at += word.len();
        }
        is_whole
    }

    fn is_at_operator(&self, word: &str) -> bool {
        let rest = self.rest().strip_prefix(word);
        rest.is_some_and(|rest| {
            rest.chars().next().is_none_or(|c| c.is_whitespace() || matches!(c, '(' | ')' | '"'))
        })
    }

    fn is_at_end(&self) -> bool {
        matches!(self.peek(), None | Some(')'))
    }

    fn clause(&self, node: Node, start: usize) -> Clause {
        Clause { node, boost: 1.0, span: start..self.at }
    }

    fn any(&mut self, column: Option<&Column>) -> Clause {
        let start = self.at;
        let mut all = vec![self.side_by_side(column)];
        loop {
            self.skip_space();
            let operator_at = self.at;
            if !self.take_operator("OR") {
                break;
            }
            self.skip_space();
            if self.is_at_end() {
                self.faults.add(self.at, "`OR` has nothing after it", None);
                break;
            }
            if self.is_at_operator("OR") {
                self.faults.add(operator_at, "`OR` has nothing after it", None);
                continue;
            }
            all.push(self.side_by_side(column));
        }
        match all.len() {
            1 => all.remove(0),
            _ => self.clause(Node::Any(all), start),
        }
    }

    fn side_by_side(&mut self, column: Option<&Column>) -> Clause {
        let start = self.at;
        let (mut required, mut optional, mut is_any_must) = (Vec::new(), Vec::new(), false);
        loop {
            self.skip_space();
            if self.is_at_end() || self.is_at_operator("OR") {
                break;
            }
            let (occurs, clause) = self.chain(column);
            is_any_must |= occurs == Occurs::Must;
            if occurs == Occurs::Should && self.operator == Operator::Or {
                optional.push(clause);
            } else {
                required.push(clause);
            }
        }
        if required.is_empty() && optional.is_empty() {
            let what =
                self.peek().map_or("the query ends", |c| if c == ')' { "`)` comes" } else { "`OR` comes" });
            self.faults.add(self.at, format!("{what} where a condition is expected"), None);
        }
        // Unless a clause is required by `+`, one of those that may be satisfied must be.
        if !is_any_must && !optional.is_empty() {
            let place = self.clause(Node::Everything, start).span;
            let one = match optional.len() {
                1 => optional.remove(0),
                _ => Clause { node: Node::Any(std::mem::take(&mut optional)), boost: 1.0, span: place },
            };
            required.insert(0, one);
        }
        match required.len() {
            1 if optional.is_empty() => required.remove(0),
            _ => self.clause(Node::All { required, optional }, start),
        }
    }

    /// Clauses with `AND` between them.
    fn chain(&mut self, column: Option<&Column>) -> (Occurs, Clause) {
        let start = self.at;
        if self.take_operator("AND") {
            self.faults.add(start, "`AND` has nothing before it", None);
            self.skip_space();
        }
        let (occurs, first) = self.signed(column);
        let mut all = vec![first];
        loop {
            self.skip_space();
            if !self.take_operator("AND") {
                break;
            }
            self.skip_space();
            if self.is_at_end() || self.is_at_operator("OR") {
                self.faults.add(self.at, "`AND` has nothing after it", None);
                break;
            }
            all.push(self.signed(column).1);
        }
        match all.len() {
            1 => (occurs, all.remove(0)),
            _ => (Occurs::Should, self.clause(Node::All { required: all, optional: Vec::new() }, start)),
        }
    }

    fn signed(&mut self, column: Option<&Column>) -> (Occurs, Clause) {
        let (start, mut is_not, mut occurs) = (self.at, false, Occurs::Should);
        loop {
            let operator_at = self.at;
            let (is_negative, name) = if self.take_operator("NOT") {
                (true, "NOT")
            } else if self.take('-') {
                (true, "-")
            } else if self.take('+') {
                (false, "+")
            } else {
                break;
            };
            self.skip_space_after(name);
            if self.is_at_end() || self.peek().is_some_and(char::is_whitespace) {
                self.faults.add(
                    operator_at,
                    format!("`{name}` has nothing after it"),
                    Some(QUOTE_HINT.to_owned()),
                );
                return (Occurs::Should, self.clause(Node::Everything, start));
            }
            occurs = Occurs::Must;
            is_not ^= is_negative;
        }
        let clause = self.boosted(column);
        if is_not {
            return (Occurs::MustNot, self.clause(Node::Not(Box::new(clause)), start));
        }
        (occurs, clause)
    }

    /// A sign stands directly before its clause.
    fn skip_space_after(&mut self, operator: &str) {
        if operator == "NOT" {
            self.skip_space();
        }
    }

    fn boosted(&mut self, column: Option<&Column>) -> Clause {
        let mut clause = self.operand(column);
        if self.peek() == Some('^') {
            let at = self.at;
            self.at += 1;
            let number = self.take_while(|c| c.is_ascii_digit() || c == '.');
            match number.parse::<f32>() {
                Ok(boost) if boost.is_finite() && boost > 0.0 => clause.boost = boost,
                _ => self.faults.add(at, "`^` needs a positive number", Some(QUOTE_HINT.to_owned())),
            }
            clause.span.end = self.at;
        }
        self.expect_boundary();
        clause
    }

    /// A clause ends at a space, a parenthesis, a quotation mark or the end.
    fn expect_boundary(&mut self) {
        if self.peek().is_none_or(|c| c.is_whitespace() || matches!(c, ')' | '(' | '"')) {
            return;
        }
        let at = self.at;
        let rest = self.take_while(|c| !c.is_whitespace() && !matches!(c, '(' | ')' | '"')).to_owned();
        self.faults.add(at, format!("`{rest}` follows directly"), Some("Put a space before it.".to_owned()));
    }

    fn take_while(&mut self, mut is_of: impl FnMut(char) -> bool) -> &'q str {
        let rest = self.rest();
        let end = rest.find(|c| !is_of(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn operand(&mut self, column: Option<&Column>) -> Clause {
        let start = self.at;
        if self.peek() == Some('(') {
            return self.group(column);
        }
        if self.peek() == Some('"') {
            let test = self.phrase();
            return self.condition(column, test, start);
        }
        let word = self.word(column.is_none());
        if column.is_none() && self.peek() == Some(':') {
            return self.of_column(&word, start);
        }
        if let [Piece::Any] = &word[..] {
            return match column {
                // `column:(*)`
                Some(_) => self.condition(column, Test::Exists, start),
                None => self.clause(Node::Everything, start),
            };
        }
        let test = self.word_test(word);
        self.condition(column, test, start)
    }

    fn condition(&mut self, column: Option<&Column>, test: Test, start: usize) -> Clause {
        self.clauses += 1;
        self.clause(Node::Condition { column: column.cloned(), test }, start)
    }

    fn group(&mut self, column: Option<&Column>) -> Clause {
        let start = self.at;
        self.at += 1;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            self.faults.add(start, format!("parentheses are nested more than {DEPTH_MAX} deep"), None);
            (self.at, self.is_cut) = (self.text.len(), true);
            self.depth -= 1;
            return self.clause(Node::Everything, start);
        }
        self.skip_space();
        let inner = self.any(column);
        self.depth -= 1;
        self.skip_space();
        if !self.take(')') && !self.is_cut {
            self.faults.add(start, "`(` is not closed", None);
        }
        Clause { span: start..self.at, ..inner }
    }

    /// The text in quotation marks; `\` makes the next character an ordinary one.
    fn quoted(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.peek() {
                None => {
                    self.faults.add(start, "`\"` is not closed", None);
                    return text;
                }
                Some('"') => {
                    self.at += 1;
                    return text;
                }
                Some(c) => {
                    self.at += c.len_utf8();
                    if c == '\\'
                        && let Some(next @ ('"' | '\\')) = self.peek()
                    {
                        self.at += 1;
                        text.push(next);
                    } else {
                        text.push(c);
                    }
                }
            }
        }
    }

    fn phrase(&mut self) -> Test {
        let text = self.quoted();
        let mut slop = 0;
        if self.peek() == Some('~') {
            let at = self.at;
            self.at += 1;
            match self.take_while(|c| c.is_ascii_digit()).parse::<u32>() {
                Ok(number) if number <= SLOP_MAX => slop = number,
                Ok(_) => self.faults.add(at, format!("the slop of a phrase is at most {SLOP_MAX}"), None),
                Err(_) => self.faults.add_with_hint(
                    at,
                    "`~` after a phrase needs a number",
                    "Write \"a b\"~3 where up to 3 positions may be between.",
                ),
            }
        }
        let is_open = self.take('*');
        Test::Phrase { text, slop, is_open }
    }

    /// A word and its wildcards. A column's name ends at `:`.
    fn word(&mut self, ends_at_colon: bool) -> Vec<Piece> {
        let (mut pieces, mut text) = (Vec::new(), String::new());
        while let Some(c) = self.peek() {
            let wildcard = match c {
                '*' => Some(Piece::Any),
                '?' => Some(Piece::One),
                _ => None,
            };
            if c.is_whitespace() || matches!(c, '(' | ')' | '"' | '^' | '~') || (c == ':' && ends_at_colon) {
                break;
            }
            self.at += c.len_utf8();
            if let Some(wildcard) = wildcard {
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text).into()));
                }
                pieces.push(wildcard);
            } else if c == '\\'
                && let Some(next) = self.peek()
            {
                self.at += next.len_utf8();
                text.push(next);
            } else {
                text.push(c);
            }
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text.into()));
        }
        pieces
    }

    fn word_test(&mut self, pieces: Vec<Piece>) -> Test {
        let mut distance = 0;
        if self.peek() == Some('~') {
            let at = self.at;
            self.at += 1;
            match self.take_while(|c| c.is_ascii_digit()) {
                "1" => distance = 1,
                "2" => distance = 2,
                _ => self.faults.add_with_hint(
                    at,
                    "`~` after a word needs the number of differing characters, 1 or 2",
                    "Write refuzed~1, or put \\ before `~`.",
                ),
            }
        }
        Test::Word { pieces, distance }
    }

    /// Parses the clause after a column's name.
    fn of_column(&mut self, name: &[Piece], start: usize) -> Clause {
        let span = start..self.at;
        self.at += 1;
        let column = match name {
            [Piece::Text(name)] => Column { path: path(&self.text[span.clone()], name), span },
            // `*:*`
            [Piece::Any] if self.rest().starts_with('*') => {
                self.at += 1;
                return self.clause(Node::Everything, start);
            }
            _ => {
                self.faults.add_with_hint(start, "a column's name is expected before `:`", QUOTE_HINT);
                Column { path: Vec::new(), span }
            }
        };
        let value_at = self.at;
        let test = match self.peek() {
            None => None,
            Some(c) if c.is_whitespace() || c == ')' => None,
            Some('(') => return self.group(Some(&column)),
            Some('"') => Some(self.phrase()),
            Some('=') => Some(self.literal()),
            Some('/') => self.expression(),
            Some('<' | '>') => self.comparison(),
            Some('[' | '{') => self.range(),
            Some(_) => {
                let word = self.word(false);
                match &word[..] {
                    [] => None,
                    [Piece::Any] => Some(Test::Exists),
                    _ => Some(self.word_test(word)),
                }
            }
        };
        let Some(test) = test else {
            if self.faults.is_empty() || self.at == value_at {
                let message = format!("a value is expected after `{}`", &self.text[start..value_at]);
                self.faults.add_with_hint(value_at, message, QUOTE_HINT);
            }
            return self.clause(Node::Everything, start);
        };
        self.condition(Some(&column), test, start)
    }

    fn literal(&mut self) -> Test {
        let at = self.at;
        self.at += 1;
        let text = match self.peek() {
            Some('"') => self.quoted(),
            _ => self.take_while(|c| !c.is_whitespace() && !matches!(c, '(' | ')' | '"')).to_owned(),
        };
        if text.is_empty() {
            self.faults.add_with_hint(at, "a text is expected after `:=`", "Write message:=\"GET /a.b\".");
        }
        Test::Literal(text)
    }

    fn expression(&mut self) -> Option<Test> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(c) = self.peek() else {
                let hint = "Close it with `/`, or write the value in quotes.";
                self.faults.add_with_hint(start, "the expression after `/` is not closed", hint);
                return None;
            };
            self.at += c.len_utf8();
            match c {
                '/' => return Some(Test::Expression(text)),
                '\\' if self.peek() == Some('/') => {
                    self.at += 1;
                    text.push('/');
                }
                // Other escapes belong to the expression.
                '\\' => {
                    text.push(c);
                    if let Some(next) = self.peek() {
                        self.at += next.len_utf8();
                        text.push(next);
                    }
                }
                c => text.push(c),
            }
        }
    }

    fn comparison(&mut self) -> Option<Test> {
        let (at, is_less) = (self.at, self.peek() == Some('<'));
        self.at += 1;
        let is_included = self.take('=');
        let Some(bound) = self.scalar("") else {
            self.faults.add(
                self.at,
                format!("a value is expected after `{}`", &self.text[at..self.at]),
                None,
            );
            return Some(Test::Range { low: None, high: None });
        };
        let bound = Some((bound, is_included));
        let (low, high) = if is_less { (None, bound) } else { (bound, None) };
        Some(Test::Range { low, high })
    }

    fn range(&mut self) -> Option<Test> {
        const HINT: &str =
            "Write [low TO high], with { or } where a bound is not included and * where there is none.";
        let start = self.at;
        let is_low_included = self.peek() == Some('[');
        self.at += 1;
        self.skip_space();
        let low = self.scalar("]}");
        self.skip_space();
        let is_range = low.is_some() && self.take_operator("TO");
        self.skip_space();
        let high = if is_range { self.scalar("]}") } else { None };
        self.skip_space();
        let closing = self.peek();
        if !is_range || high.is_none() || !matches!(closing, Some(']' | '}')) {
            self.faults.add_with_hint(start, "the range cannot be read", HINT);
            self.take_while(|c| !matches!(c, ']' | '}'));
            let _ = self.take(']') || self.take('}');
            return Some(Test::Range { low: None, high: None });
        }
        self.at += 1;
        let bound = |scalar: Option<Scalar>, is_included| {
            scalar.filter(|scalar| !scalar.is_open()).map(|scalar| (scalar, is_included))
        };
        Some(Test::Range { low: bound(low, is_low_included), high: bound(high, closing == Some(']')) })
    }

    fn scalar(&mut self, ends: &str) -> Option<Scalar> {
        if self.peek() == Some('"') {
            return Some(Scalar { text: self.quoted(), is_quoted: true });
        }
        let text = self.take_while(|c| !c.is_whitespace() && !matches!(c, '(' | ')') && !ends.contains(c));
        (!text.is_empty()).then(|| Scalar { text: text.to_owned(), is_quoted: false })
    }
}

/// The path of a column's name; a dot after `\` is part of a name.
fn path(written: &str, name: &str) -> Vec<Box<str>> {
    if !written.contains('\\') {
        return name.split('.').map(Box::from).collect();
    }
    let (mut path, mut part) = (Vec::new(), String::new());
    let mut chars = written.chars();
    while let Some(c) = chars.next() {
        match c {
            '.' => path.push(std::mem::take(&mut part).into()),
            '\\' => part.extend(chars.next()),
            c => part.push(c),
        }
    }
    path.push(part.into());
    path
}

//! Arranges records in columns: text to the left, numbers to the right, as wide as their contents and no wider than the
//! screen. Pure: records in, lines out.

use std::io;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::record::{Record, is_number, plain};

/// The gap between two columns.
const GAP: &str = "  ";
/// The mark after the last name, if columns are omitted.
const MORE: &str = "  …";
/// No column is made narrower than this to fit the screen.
const NARROWEST: usize = 6;
/// Decimals of a fraction that people are shown.
const DECIMALS: usize = 4;

/// Columns and rows of text.
#[derive(Debug, Default, Clone)]
pub(super) struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone)]
struct Column {
    name: String,
    width: usize,
    /// True if all values so far are numbers.
    numeric: bool,
}

#[derive(Debug, Clone, Default)]
struct Cell {
    text: String,
    width: usize,
}

impl Grid {
    /// An empty table with these columns, in this order; records may bring more.
    pub(super) fn new(names: &[String]) -> Grid {
        let mut grid = Grid::default();
        for name in names {
            grid.add_column(name);
        }
        grid
    }

    fn add_column(&mut self, name: &str) -> usize {
        let shown = shown_text(name);
        self.columns.push(Column { width: shown.width(), name: shown, numeric: true });
        self.columns.len() - 1
    }

    /// Adds a record; returns true if it added a column.
    pub(super) fn push(&mut self, line: &[u8]) -> io::Result<bool> {
        let record = Record::read(line)?;
        let columns_before = self.columns.len();
        let mut row = vec![Cell::default(); self.columns.len()];
        for (at_field, (name, value)) in record.0.iter().enumerate() {
            // Records mostly have the same fields in the same order.
            let guess =
                self.columns.get(at_field).is_some_and(|column| column.name == *name).then_some(at_field);
            let at = guess.or_else(|| {
                let shown = shown_text(name);
                self.columns.iter().position(|column| column.name == shown)
            });
            let at = at.unwrap_or_else(|| self.add_column(name));
            row.resize_with(self.columns.len(), Cell::default);
            let number = is_number(value);
            let text = match plain(value) {
                None => "null".to_owned(),
                Some(text) if number => shown_number(&text),
                Some(text) => shown_text(&text),
            };
            let column = &mut self.columns[at];
            column.numeric &= number || text == "null";
            let width = text.width();
            column.width = column.width.max(width);
            row[at] = Cell { text, width };
        }
        self.rows.push(row);
        Ok(self.columns.len() > columns_before)
    }

    /// Returns true if there is no row.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Forgets the rows; columns stay as wide as they were, so that further rows stand under the same header.
    pub(super) fn clear_rows(&mut self) {
        self.rows.clear();
    }

    /// The header and the line under it.
    pub(super) fn header(&self, width_max: Option<usize>) -> [String; 2] {
        let widths = self.widths(width_max);
        let names = self.columns.iter().map(|column| (column.name.as_str(), column.name.width()));
        let rules: Vec<_> = widths.iter().map(|width| "─".repeat(*width)).collect();
        let left_out = if widths.len() < self.columns.len() { MORE } else { "" };
        [self.line(names, &widths) + left_out, rules.join(GAP)]
    }

    /// The rows, as lines without ends.
    pub(super) fn lines(&self, width_max: Option<usize>) -> impl Iterator<Item = String> {
        let widths = self.widths(width_max);
        self.rows
            .iter()
            .map(move |row| self.line(row.iter().map(|cell| (cell.text.as_str(), cell.width)), &widths))
    }

    fn line<'a>(&self, cells: impl Iterator<Item = (&'a str, usize)>, widths: &[usize]) -> String {
        let mut out = String::new();
        for (at, ((text, width), (column, column_width))) in
            cells.zip(self.columns.iter().zip(widths)).enumerate()
        {
            if at > 0 {
                out.push_str(GAP);
            }
            let (shown, width) =
                if width > *column_width { cut(text, *column_width) } else { (text.to_owned(), width) };
            let space = " ".repeat(column_width - width);
            match column.numeric {
                true => out.extend([space.as_str(), shown.as_str()]),
                false => out.extend([shown.as_str(), space.as_str()]),
            }
        }
        out.truncate(out.trim_end().len());
        out
    }

    /// Widths that fit: the widest columns give way first, and then the last ones are left out.
    fn widths(&self, width_max: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<_> = self.columns.iter().map(|column| column.width).collect();
        let Some(mut width_max) = width_max else { return widths };
        let narrowest =
            |widths: &[usize]| widths.iter().map(|width| GAP.len() + width.min(&NARROWEST)).sum::<usize>();
        if narrowest(&widths) > width_max + GAP.len() {
            width_max = width_max.saturating_sub(MORE.width());
            while widths.len() > 1 && narrowest(&widths) > width_max + GAP.len() {
                widths.pop();
            }
        }
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(width_max);
        while over > 0 {
            let Some(widest) = widths.iter().copied().max().filter(|widest| *widest > NARROWEST) else {
                break;
            };
            let second =
                widths.iter().copied().filter(|width| *width < widest).max().unwrap_or(0).max(NARROWEST);
            let count = widths.iter().filter(|width| **width == widest).count();
            // All of the widest go down together, to the next or as far as is needed.
            let step = (widest - second).min(over.div_ceil(count));
            for width in widths.iter_mut().filter(|width| **width == widest) {
                let less = step.min(over);
                *width -= less;
                over -= less;
            }
        }
        widths
    }
}

/// The first characters of a text and `…`, at most `width` wide; and how wide that is.
pub(crate) fn cut(text: &str, width: usize) -> (String, usize) {
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let c_width = c.width().unwrap_or(0);
        if used + c_width + 1 > width {
            break;
        }
        out.push(c);
        used += c_width;
    }
    if width > 0 {
        out.push('…');
        used += 1;
    }
    (out, used)
}

/// Text on one line, and without what would move a terminal's cursor or change its colours.
fn shown_text(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect()
}

/// A number as people read it: fractions rounded to four decimals, where that leaves something of them.
fn shown_number(text: &str) -> String {
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    if decimals <= DECIMALS || text.contains(['e', 'E']) {
        return text.to_owned();
    }
    match text.parse::<f64>() {
        Ok(number) if number.abs() >= 0.01 => {
            let rounded = format!("{number:.DECIMALS$}");
            let trimmed = rounded.trim_end_matches('0');
            if trimmed.ends_with('.') { format!("{trimmed}0") } else { trimmed.to_owned() }
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(records: &[&str], width_max: Option<usize>, expected: &[&str]) {
        let mut grid = Grid::default();
        for record in records {
            grid.push(record.as_bytes()).unwrap();
        }
        let lines: Vec<_> = grid.header(width_max).into_iter().chain(grid.lines(width_max)).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn numbers_stand_right_and_text_left() {
        check(
            &[r#"{"carrier":"UA","n":1234,"delay":12.3456789}"#, r#"{"carrier":"B6 ","n":7,"delay":null}"#],
            None,
            &[
                "carrier     n    delay",
                "───────  ────  ───────",
                "UA       1234  12.3457",
                "B6          7     null",
            ],
        );
    }

    #[test]
    fn wide_characters_take_two_columns() {
        check(
            &[r#"{"word":"漢字","n":1}"#, r#"{"word":"é","n":22}"#],
            None,
            &["word   n", "────  ──", "漢字   1", "é     22"],
        );
    }

    #[test]
    fn a_column_that_comes_later_is_empty_before() {
        check(&[r#"{"a":1}"#, r#"{"b":"x"}"#], None, &["a  b", "─  ─", "1", "   x"]);
    }

    #[test]
    fn the_widest_give_way_to_fit_the_screen() {
        check(
            &[r#"{"short":"abc","long":"abcdefghijklmnopqrstuvwxyz"}"#],
            Some(20),
            &["short  long", "─────  ─────────────", "abc    abcdefghijkl…"],
        );
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out() {
        let record = r#"{"one":"abcdefgh","two":"abcdefgh","three":"abcdefgh"}"#;
        check(&[record], Some(20), &["one      two  …", "───────  ────────", "abcdef…  abcdefgh"]);
        let fits = ["one     two     three", "──────  ──────  ──────", "abcde…  abcde…  abcde…"];
        check(&[record], Some(22), &fits);
    }

    #[test]
    fn wide_characters_are_cut_whole() {
        assert_eq!(cut("漢字漢字", 6), ("漢字…".to_owned(), 5));
        assert_eq!(cut("abc", 0), (String::new(), 0));
    }

    #[test]
    fn what_moves_a_cursor_is_shown_escaped() {
        check(&[r#"{"a":"x\u001b[2Jy\nz"}"#], None, &["a", "──────────────", "x\\u{1b}[2Jy\\nz"]);
    }

    #[test]
    fn fractions_are_rounded_where_something_is_left() {
        for (number, shown) in [
            ("1.5", "1.5"),
            ("2.00001", "2.0"),
            ("0.000012345", "0.000012345"),
            ("1e-9", "1e-9"),
            ("-3.14159265", "-3.1416"),
        ] {
            assert_eq!(shown_number(number), shown);
        }
    }
}

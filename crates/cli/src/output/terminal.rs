//! Draws tables on a terminal: each window replaces the one before it; rows without a window scroll.
//!
//! A redrawn table is limited to the screen, because a cursor cannot go above it; the last window is drawn whole.

use std::io::{self, Write};

use super::{
    Emit, Form, Size,
    scroll::{Rows, grid_of},
    table::{Grid, cut},
};

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// Tables on a terminal.
pub(super) struct TerminalTable<'a> {
    rows: Rows<'a>,
    size: Size,
    /// Lines that the next window takes the place of.
    drawn: usize,
    /// The last window, if it was not drawn whole.
    cut_off: Option<(Grid, String)>,
}

impl<'a> TerminalTable<'a> {
    pub(super) fn new(out: Box<dyn Write + 'a>, size: Size) -> Self {
        TerminalTable { rows: Rows::new(out), size, drawn: 0, cut_off: None }
    }

    fn draw(&mut self, grid: Grid, summary: String, whole: bool) -> io::Result<()> {
        let (screen_rows, screen_columns) = (self.size)();
        // Summary, header and rule, a line for what is left out, and the line that the cursor ends on.
        let rows_max = if whole { usize::MAX } else { screen_rows.saturating_sub(5).max(1) };
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A\r\x1b[0J", self.drawn));
        }
        let (summary_shown, _) =
            if summary.len() > screen_columns { cut(&summary, screen_columns) } else { (summary.clone(), 0) };
        text.push_str(&format!("{DIM}{summary_shown}{PLAIN}\n"));
        let [names, rule] = grid.header(Some(screen_columns));
        text.push_str(&format!("{BOLD}{names}{PLAIN}\n{DIM}{rule}{PLAIN}\n"));
        self.drawn = 3;
        for line in grid.lines(Some(screen_columns)).take(rows_max) {
            text.push_str(&line);
            text.push('\n');
            self.drawn += 1;
        }
        if grid.len() > rows_max {
            text.push_str(&format!("{DIM}… and {} more{PLAIN}\n", grid.len() - rows_max));
            self.drawn += 1;
            self.cut_off = Some((grid, summary));
        } else {
            self.cut_off = None;
        }
        self.rows.out.write_all(text.as_bytes())?;
        self.rows.out.flush()
    }
}

impl Form for TerminalTable<'_> {
    fn emit(&mut self, emit: &Emit<'_>) -> io::Result<()> {
        let finished = emit.meta.query.finished.is_some();
        if emit.meta.window.is_none() && self.drawn == 0 {
            let (_, columns) = (self.size)();
            return self.rows.append(emit, Some(columns));
        }
        // The end of a windowed query may come without a window of its own.
        if finished && emit.records.is_empty() {
            return Ok(());
        }
        self.draw(grid_of(emit)?, emit.meta.summary(), false)
    }

    fn end(&mut self, _: &str) -> io::Result<()> {
        match self.cut_off.take() {
            Some((grid, summary)) => self.draw(grid, summary, true),
            None => self.rows.out.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::written, *};

    const WINDOWS: [&str; 2] = [r#"{"window":{"number":1}}"#, r#"{"window":{"number":2}}"#];

    fn check(emits: &[(&str, &str)], rows: usize, expected: &str) {
        let text = written(|out| Box::new(TerminalTable::new(out, Box::new(move || (rows, 80)))), emits);
        assert_eq!(text.replace('\x1b', "^"), expected);
    }

    #[test]
    fn a_window_takes_the_place_of_the_one_before() {
        let drawn = |number, n| {
            format!("^[2mwindow {number} ( to ) · 0 of 0 events matched^[0m\n^[1mn^[0m\n^[2m─^[0m\n{n}\n")
        };
        let expected = format!("{}^[4A\r^[0J{}", drawn(1, 5), drawn(2, 6));
        check(&[("{\"n\":5}\n", WINDOWS[0]), ("{\"n\":6}\n", WINDOWS[1])], 24, &expected);
    }

    #[test]
    fn the_last_window_is_drawn_whole() {
        let records = "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n";
        let head = "^[2mwindow 1 ( to ) · 0 of 0 events matched^[0m\n^[1mn^[0m\n^[2m─^[0m\n";
        let expected = format!("{head}1\n^[2m… and 2 more^[0m\n^[5A\r^[0J{head}1\n2\n3\n");
        check(&[(records, WINDOWS[0])], 6, &expected);
    }

    #[test]
    fn rows_without_a_window_scroll() {
        check(&[("{\"n\":1}\n", "{}"), ("{\"n\":2}\n", "{}")], 6, "n\n─\n1\n2\n");
    }
}

//! Writes tables without redrawing: one after the other or, for records that come one by one, one that grows.

use std::io::{self, Write};

use super::{Emit, Form, Meta, lines, table::Grid};

/// Tables as plain text, with no limit to their width.
pub(super) struct PlainTable<'a> {
    rows: Rows<'a>,
    first: bool,
}

impl<'a> PlainTable<'a> {
    pub(super) fn new(out: Box<dyn Write + 'a>) -> Self {
        PlainTable { rows: Rows::new(out), first: true }
    }
}

impl Form for PlainTable<'_> {
    fn emit(&mut self, emit: &Emit<'_>) -> io::Result<()> {
        if emit.meta.window.is_none() {
            return self.rows.append(emit, None);
        }
        if emit.records.is_empty() && emit.meta.query.finished.is_some() {
            return Ok(());
        }
        let out = &mut self.rows.out;
        writeln!(out, "{}{}", if self.first { "" } else { "\n" }, emit.meta.summary())?;
        self.first = false;
        let grid = grid_of(emit)?;
        for line in grid.header(None).into_iter().chain(grid.lines(None)) {
            writeln!(out, "{line}")?;
        }
        out.flush()
    }

    fn end(&mut self, _: &str) -> io::Result<()> {
        self.rows.out.flush()
    }
}

/// An emit as one table.
pub(super) fn grid_of(emit: &Emit<'_>) -> io::Result<Grid> {
    let mut grid = Grid::new(emit.meta.query.columns.as_deref().unwrap_or_default());
    for line in lines(emit.records) {
        grid.push(line)?;
    }
    Ok(grid)
}

/// A table that grows downwards. Columns widen as they must; a new one brings a new header.
pub(super) struct Rows<'a> {
    pub(super) out: Box<dyn Write + 'a>,
    grid: Option<Grid>,
    header_due: bool,
}

impl<'a> Rows<'a> {
    pub(super) fn new(out: Box<dyn Write + 'a>) -> Self {
        Rows { out, grid: None, header_due: true }
    }

    /// Adds an emit's records below.
    pub(super) fn append(&mut self, emit: &Emit<'_>, width_max: Option<usize>) -> io::Result<()> {
        let columns = |meta: &Meta| Grid::new(meta.query.columns.as_deref().unwrap_or_default());
        let grid = self.grid.get_or_insert_with(|| columns(emit.meta));
        for line in lines(emit.records) {
            self.header_due |= grid.push(line)?;
        }
        if !grid.is_empty() {
            if std::mem::take(&mut self.header_due) {
                for line in grid.header(width_max) {
                    writeln!(self.out, "{line}")?;
                }
            }
            for line in grid.lines(width_max) {
                writeln!(self.out, "{line}")?;
            }
            grid.clear_rows();
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::written, *};

    fn check(emits: &[(&str, &str)], expected: &str) {
        assert_eq!(written(|out| Box::new(PlainTable::new(out)), emits), expected);
    }

    #[test]
    fn records_without_windows_are_one_table() {
        check(
            &[("{\"a\":1}\n{\"a\":10}\n", "{}"), ("", "{}"), ("{\"a\":2}\n", "{}")],
            " a\n──\n 1\n10\n 2\n",
        );
    }

    #[test]
    fn each_window_is_a_table() {
        let (first, second) = (r#"{"window":{"number":1}}"#, r#"{"window":{"number":2}}"#);
        let expected = "window 1 ( to ) · 0 of 0 events matched\na\n─\n1\n\nwindow 2 ( to ) · 0 of 0 events matched\na\n─\n2\n";
        check(&[("{\"a\":1}\n", first), ("{\"a\":2}\n", second)], expected);
    }
}

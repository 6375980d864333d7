//! Prints an answer as a table: CSV in, aligned columns out.
//!
//! The first rows determine the widths; wider values in later rows overflow. Only those first rows are kept in memory.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

/// Rows from which widths are found.
const ROWS_MEASURED: usize = 1000;
/// Width beyond which a cell is cut on a terminal.
const CELL_WIDTH_MAX: usize = 80;

type Row = Vec<Option<String>>;

/// A table on its way.
pub(crate) struct Table {
    rest: Vec<u8>,
    header: Option<Row>,
    held: Vec<Row>,
    widths: Option<Vec<Column>>,
    rows: u64,
    /// Maximum width of a cell.
    cell_width_max: usize,
}

#[derive(Clone, Copy)]
struct Column {
    width: usize,
    is_number: bool,
}

impl Table {
    /// `cuts`: wide cells are cut, as a person wants to see them.
    pub(crate) fn new(cuts: bool) -> Table {
        let cell_width_max = if cuts { CELL_WIDTH_MAX } else { usize::MAX };
        Table { rest: Vec::new(), header: None, held: Vec::new(), widths: None, rows: 0, cell_width_max }
    }

    /// Rows so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds a part of the answer, cut anywhere.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
        self.rest.extend_from_slice(bytes);
        let whole = whole_records(&self.rest);
        let text = String::from_utf8_lossy(&self.rest[..whole]).into_owned();
        self.rest.drain(..whole);
        for row in rows_of(&text) {
            self.row(row, out)?;
        }
        Ok(())
    }

    /// The end of the answer.
    pub(crate) fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.widths.is_none() {
            self.measure(out)?;
        }
        out.flush()
    }

    fn row(&mut self, row: Row, out: &mut dyn Write) -> io::Result<()> {
        if self.header.is_none() {
            self.header = Some(row);
            return Ok(());
        }
        self.rows += 1;
        if let Some(widths) = &self.widths {
            return write_row(&row, widths, self.cell_width_max, out);
        }
        self.held.push(row);
        if self.held.len() == ROWS_MEASURED { self.measure(out) } else { Ok(()) }
    }

    fn measure(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let header = self.header.clone().unwrap_or_default();
        let cell_width_max = self.cell_width_max;
        let columns: Vec<Column> = header
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let cells = || self.held.iter().filter_map(|row| row.get(index).and_then(Option::as_ref));
                let width =
                    cells().chain(name).map(|cell| shown(cell, cell_width_max).width()).max().unwrap_or(0);
                let is_number = cells().next().is_some() && cells().all(|cell| cell.parse::<f64>().is_ok());
                Column { width, is_number }
            })
            .collect();
        if !header.is_empty() {
            write_row(&header, &columns, cell_width_max, out)?;
            let lines: Vec<String> = columns.iter().map(|column| "-".repeat(column.width)).collect();
            writeln!(out, "{}", lines.join("  "))?;
        }
        for row in self.held.drain(..) {
            write_row(&row, &columns, cell_width_max, out)?;
        }
        self.widths = Some(columns);
        Ok(())
    }
}

fn write_row(row: &Row, columns: &[Column], cell_width_max: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut line = String::new();
    for (index, (cell, column)) in row.iter().zip(columns).enumerate() {
        if index > 0 {
            line.push_str("  ");
        }
        let text = cell.as_deref().map_or_else(String::new, |cell| shown(cell, cell_width_max));
        let space = " ".repeat(column.width.saturating_sub(text.width()));
        if column.is_number {
            line.push_str(&space);
            line.push_str(&text);
        } else {
            line.push_str(&text);
            line.push_str(&space);
        }
    }
    writeln!(out, "{}", line.trim_end())
}

/// A cell on one line, without what a terminal would take for commands.
fn shown(cell: &str, width_max: usize) -> String {
    let plain: String = cell.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if plain.width() <= width_max {
        return plain;
    }
    let mut cut: String = plain.chars().take(width_max - 1).collect();
    cut.push('…');
    cut
}

/// The end of the whole records.
fn whole_records(bytes: &[u8]) -> usize {
    let (mut quoted, mut whole) = (false, 0);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' if !quoted => whole = at + 1,
            _ => {}
        }
    }
    whole
}

/// The records of a CSV text; an empty field without quotes is a null.
pub(crate) fn rows_of(text: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let (mut row, mut field): (Row, Option<String>) = (Vec::new(), None);
    let mut characters = text.chars().peekable();
    let mut quoted = false;
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.get_or_insert_default().push('"');
            }
            '"' => {
                quoted = !quoted;
                field.get_or_insert_default();
            }
            ',' if !quoted => row.push(field.take()),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                row.push(field.take());
                rows.push(std::mem::take(&mut row));
            }
            other => field.get_or_insert_default().push(other),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_read_as_they_were_written() {
        let rows = rows_of("a,b\r\n1,\"x,\"\"y\"\"\nz\"\r\n,\"\"\r\n");
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            rows,
            [vec![some("a"), some("b")], vec![some("1"), some("x,\"y\"\nz")], vec![None, some("")]]
        );
    }

    #[test]
    fn a_table_is_aligned_however_its_bytes_are_cut() {
        let text = "name,n\r\n\"漢字\",5\r\nabc,12345\r\n";
        let expected = "name      n\n----  -----\n漢字      5\nabc   12345\n";
        for at in 0..text.len() {
            let (mut table, mut out) = (Table::new(true), Vec::new());
            table.push(&text.as_bytes()[..at], &mut out).unwrap();
            table.push(&text.as_bytes()[at..], &mut out).unwrap();
            table.finish(&mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
            assert_eq!(table.rows(), 2);
        }
    }

    #[test]
    fn wide_cells_are_cut_for_a_person_only() {
        let wide = "x".repeat(100);
        for (cuts, expected) in [(true, format!("{}…", "x".repeat(79))), (false, wide.clone())] {
            let (mut table, mut out) = (Table::new(cuts), Vec::new());
            table.push(format!("a\n{wide}\n").as_bytes(), &mut out).unwrap();
            table.finish(&mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap().lines().last(), Some(expected.as_str()));
        }
    }
}

//! Writes CSV after RFC 4180, with line feeds: a header, and one record per line. Null is empty, empty text is `""`; lists
//! and objects are JSON text.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use super::{
    Emit, Form, lines,
    record::{Record, plain},
};
use crate::stdio::complain;

/// Fields left out that are told by name.
const LEFT_OUT_TOLD_MAX: usize = 10;

/// Writes CSV. The columns are the query's; where those are not known before (`*`), the first record's.
pub(super) struct Csv<'a> {
    out: Box<dyn Write + 'a>,
    columns: Option<Vec<String>>,
    /// Fields of later records that the header does not have.
    left_out: BTreeSet<String>,
}

impl<'a> Csv<'a> {
    pub(super) fn new(out: Box<dyn Write + 'a>) -> Self {
        Csv { out, columns: None, left_out: BTreeSet::new() }
    }

    fn header(&mut self, columns: Vec<String>) -> io::Result<()> {
        let cells: Vec<_> = columns.iter().map(|name| Some(name.as_str())).collect();
        self.columns = Some(columns.clone());
        write_line(&mut self.out, &cells)
    }
}

impl Form for Csv<'_> {
    fn emit(&mut self, emit: &Emit<'_>) -> io::Result<()> {
        if let (None, Some(columns)) = (&self.columns, &emit.meta.query.columns) {
            self.header(columns.clone())?;
        }
        for line in lines(emit.records) {
            let record = Record::read(line)?;
            if self.columns.is_none() {
                self.header(record.0.iter().map(|(name, _)| name.to_string()).collect())?;
            }
            let columns = self.columns.as_deref().unwrap_or_default();
            let cells: Vec<_> = columns.iter().map(|name| record.get(name).and_then(plain)).collect();
            write_line(&mut self.out, &cells.iter().map(Option::as_deref).collect::<Vec<_>>())?;
            for (name, _) in record.0.iter().filter(|(name, _)| !columns.iter().any(|column| column == name))
            {
                if self.left_out.len() < LEFT_OUT_TOLD_MAX && !self.left_out.contains(name.as_ref()) {
                    self.left_out.insert(name.to_string());
                }
            }
        }
        self.out.flush()
    }

    fn end(&mut self, _: &str) -> io::Result<()> {
        if !self.left_out.is_empty() {
            let names = self.left_out.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            complain(&format!(
                "fields that the first record did not have are omitted: {names}; name these columns in SELECT"
            ));
        }
        self.out.flush()
    }
}

fn write_line(out: &mut dyn Write, cells: &[Option<&str>]) -> io::Result<()> {
    for (at, cell) in cells.iter().enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        match cell {
            None if cells.len() > 1 => {}
            // A line without anything would be no line at all to most readers.
            None => out.write_all(b"\"\"")?,
            Some(text) if needs_quotes(text) => write!(out, "\"{}\"", text.replace('"', "\"\""))?,
            Some(text) => out.write_all(text.as_bytes())?,
        }
    }
    out.write_all(b"\n")
}

fn needs_quotes(text: &str) -> bool {
    text.is_empty()
        || text.starts_with([' ', '\t'])
        || text.ends_with([' ', '\t'])
        || text.contains([',', '"', '\n', '\r'])
}

#[cfg(test)]
mod tests {
    use super::{super::tests::written, *};

    fn check(emits: &[(&str, &str)], expected: &str) {
        assert_eq!(written(|out| Box::new(Csv::new(out)), emits), expected);
    }

    #[test]
    fn what_csv_would_misread_is_quoted() {
        let records = concat!(
            r#"{"a":"x,y","b":"say \"hi\"","c":"two\nlines","d":" space","e":"","f":null}"#,
            "\n",
            r#"{"a":1.50,"b":-3,"c":true,"d":[1,2],"e":{"k":"v"},"f":"漢字"}"#,
            "\n"
        );
        let expected = "a,b,c,d,e,f\n\
            \"x,y\",\"say \"\"hi\"\"\",\"two\nlines\",\" space\",\"\",\n\
            1.50,-3,true,\"[1,2]\",\"{\"\"k\"\":\"\"v\"\"}\",漢字\n";
        check(&[(records, "{}")], expected);
    }

    #[test]
    fn the_header_is_there_once_and_first() {
        let meta = r#"{"query": {"columns": ["b", "a"]}}"#;
        check(&[("", meta), ("{\"a\":1,\"b\":2}\n", meta), ("{\"b\":3,\"c\":4}\n", meta)], "b,a\n2,1\n3,\n");
    }

    #[test]
    fn a_lone_null_is_still_a_line() {
        check(&[("{\"a\":null}\n", "{}")], "a\n\"\"\n");
    }
}

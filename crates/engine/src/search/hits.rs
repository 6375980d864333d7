//! Reads the rows of a page, and makes hits of them.

use std::{collections::HashMap, ops::Range, sync::Arc};

use arrow_array::{
    Array, ArrayRef, RecordBatch,
    cast::AsArray,
    new_null_array,
    types::{Int64Type, TimestampMicrosecondType},
};
use swiftwater_lang::ddl::SYSTEM_COLUMNS;
use swiftwater_sql::{
    ErrorKind as SqlErrorKind, SqlError,
    forms::{Form, FormWriter},
};
use swiftwater_store::{OFFSET_COLUMN, TIME_COLUMN};
use swiftwater_text::{Highlight, MatcherScratch};

use super::{
    Search, Target,
    condition::{field, identifier},
    costs::{Costs, HITS},
    request::{ContextRequest, Piece, SearchHit},
    scan::Found,
};
use crate::durable::backfill::{NullFields, event_lines};

/// Characters of a long text that are shown before and after a match.
const AROUND_CHARS: usize = 80;
/// Texts up to this length are shown whole.
const WHOLE_BYTES: usize = 512;
/// Matches of one text that are shown.
const MATCHES_MAX: usize = 100;

impl Search<'_> {
    /// The hits of a page. An event that retention deletes meanwhile is left out.
    pub(super) async fn hits(
        &self,
        targets: &[Target],
        found: &[Found],
        costs: &mut Costs,
    ) -> Result<Vec<SearchHit>, SqlError> {
        let mut hits: HashMap<(usize, u64), SearchHit> = HashMap::with_capacity(found.len());
        for (place, target) in targets.iter().enumerate() {
            let offsets: Vec<u64> =
                found.iter().filter(|found| found.stream == place).map(|found| found.offset).collect();
            let (Some(least), Some(most)) = (offsets.iter().min(), offsets.iter().max()) else { continue };
            let list: Vec<String> = offsets.iter().map(u64::to_string).collect();
            let text = format!(
                "SELECT {} FROM {} WHERE {OFFSET_COLUMN} BETWEEN {least} AND {most} AND {OFFSET_COLUMN} IN ({})",
                self.selected(target)?,
                identifier(target.stored.name.as_str()),
                list.join(", ")
            );
            let part = (HITS, Some(place));
            let mut add = |rows: &RecordBatch| {
                hits.extend(self.hits_of(target, rows)?.into_iter().map(|hit| ((place, hit.offset), hit)));
                Ok(())
            };
            self.read(part, (text, Vec::new()), costs, &mut add).await?;
        }
        let of_page = found.iter().filter_map(|found| {
            let hit = hits.remove(&(found.stream, found.offset))?;
            Some(SearchHit { score: found.score(), ..hit })
        });
        Ok(of_page.collect())
    }

    /// The events around one of them, in the order of their offsets.
    pub(super) async fn hits_around(
        &self,
        target: &Target,
        around: &ContextRequest,
        costs: &mut Costs,
    ) -> Result<Vec<SearchHit>, SqlError> {
        let ContextRequest { offset, before, after, same } = around;
        let stream = identifier(target.stored.name.as_str());
        let selected = self.selected(target)?;
        let (condition, parameters) = self.condition(target, &(0..target.position), None)?;
        let same = match same {
            Some(column) => {
                field(target, column)?;
                let column = identifier(column);
                let own = format!("(SELECT {column} FROM {stream} WHERE {OFFSET_COLUMN} = {offset})");
                format!(" AND {column} IS NOT DISTINCT FROM {own}")
            }
            None => String::new(),
        };
        let mut hits: Vec<SearchHit> = Vec::new();
        let sides = [("<", "DESC", *before), (">=", "ASC", after.saturating_add(1))];
        for (operator, order, limit) in sides {
            let text = format!(
                "SELECT {selected} FROM {stream} WHERE ({OFFSET_COLUMN} = {offset} OR ({condition}{same})) \
                 AND {OFFSET_COLUMN} {operator} {offset} ORDER BY {OFFSET_COLUMN} {order} LIMIT {limit}"
            );
            let mut add = |rows: &RecordBatch| {
                hits.extend(self.hits_of(target, rows)?);
                Ok(())
            };
            self.read(("around", Some(0)), (text, parameters.clone()), costs, &mut add).await?;
        }
        hits.sort_unstable_by_key(|hit| hit.offset);
        if hits.iter().any(|hit| hit.offset == *offset) {
            return Ok(hits);
        }
        let message = format!("stream `{}` has no event with offset {offset}", target.stored.name);
        Err(SqlError::new(SqlErrorKind::NotFound, message))
    }

    /// The columns that are read of the rows.
    pub(super) fn selected(&self, target: &Target) -> Result<String, SqlError> {
        let Some(columns) = &self.request.columns else { return Ok("*".to_owned()) };
        for column in columns {
            field(target, column)?;
        }
        if self.request.highlights {
            return Ok("*".to_owned());
        }
        let mut names = vec![OFFSET_COLUMN, TIME_COLUMN];
        names.extend(columns.iter().map(String::as_str));
        names.sort_unstable();
        names.dedup();
        Ok(names.into_iter().map(identifier).collect::<Vec<_>>().join(", "))
    }

    pub(super) fn hits_of(&self, target: &Target, rows: &RecordBatch) -> Result<Vec<SearchHit>, SqlError> {
        let missing = || SqlError::new(SqlErrorKind::Internal, "a stream's table lacks its own columns");
        let column = |name: &str| rows.column_by_name(name).ok_or_else(missing);
        let offsets = column(OFFSET_COLUMN)?.as_primitive_opt::<Int64Type>().ok_or_else(missing)?;
        let times =
            column(TIME_COLUMN)?.as_primitive_opt::<TimestampMicrosecondType>().ok_or_else(missing)?;
        let lines = match &self.request.columns {
            Some(columns) => lines_of(rows, columns)?,
            None => match event_lines(&target.stored, rows, NullFields::LeftOut) {
                // A column within a list has no place in an event: rows are shown by their columns.
                Err(error) if error.kind() == SqlErrorKind::Invalid => lines_of(rows, &own_columns(rows))?,
                lines => lines?,
            },
        };
        let lines = String::from_utf8(lines)
            .map_err(|_| SqlError::new(SqlErrorKind::Corrupt, "an event is not UTF-8"))?;
        let searched = self.request.highlights.then(|| searched_columns(target, rows));
        let mut scratch = MatcherScratch::default();
        let hits = lines.lines().enumerate().map(|(row, event)| SearchHit {
            stream: target.stored.name.clone(),
            offset: offsets.value(row).cast_unsigned(),
            time_micros: times.value(row),
            event: event.to_owned(),
            score: None,
            highlights: searched
                .as_ref()
                .map(|arrays| by_column(target.search.highlights(arrays, row, &mut scratch))),
        });
        Ok(hits.collect())
    }
}

/// The columns that the query reads.
fn searched_columns(target: &Target, rows: &RecordBatch) -> Vec<ArrayRef> {
    let needed = target.search.needed().iter().map(|&place| {
        let field = &target.fields[place];
        match rows.column_by_name(&field.name).filter(|column| *column.data_type() == field.ty) {
            Some(column) => Arc::clone(column),
            None => new_null_array(&field.ty, rows.num_rows()),
        }
    });
    needed.collect()
}

/// Each row as a JSON object of these columns.
pub(super) fn lines_of(rows: &RecordBatch, columns: &[String]) -> Result<Vec<u8>, SqlError> {
    let places = columns.iter().filter_map(|name| rows.schema().index_of(name).ok()).collect::<Vec<_>>();
    let rows =
        rows.project(&places).map_err(|error| SqlError::new(SqlErrorKind::Internal, error.to_string()))?;
    let mut lines = Vec::new();
    FormWriter::new(Form::Ndjson, &rows.schema())?.batch(&rows, &mut lines)?;
    Ok(lines)
}

fn own_columns(rows: &RecordBatch) -> Vec<String> {
    let schema = rows.schema();
    let names = schema.fields().iter().map(|field| field.name());
    names.filter(|name| !SYSTEM_COLUMNS.contains(&name.as_str())).cloned().collect()
}

/// The pieces of texts by column; the texts of one column follow one another, with a gap between them.
fn by_column(highlights: Vec<Highlight>) -> Vec<(Box<str>, Vec<Piece>)> {
    let mut columns: Vec<(Box<str>, Vec<Piece>)> = Vec::new();
    for Highlight { column, text, places } in highlights {
        let pieces = pieces(&text, &places);
        match columns.iter_mut().find(|(known, _)| *known == column) {
            Some((_, known)) => {
                known.push(Piece::Gap);
                known.extend(pieces);
            }
            None => columns.push((column, pieces)),
        }
    }
    columns
}

/// A text divided at its matches. Of a long one only what stands around them is shown.
fn pieces(text: &str, places: &[Range<usize>]) -> Vec<Piece> {
    let is_long = text.len() > WHOLE_BYTES;
    let mut pieces = Vec::new();
    let mut shown = 0;
    let places = &places[..places.len().min(MATCHES_MAX)];
    for (number, place) in places.iter().enumerate() {
        let before = &text[shown..place.start];
        let kept = if is_long { tail(before, AROUND_CHARS) } else { before };
        if kept.len() < before.len() {
            let end_of_last = if number > 0 { head(before, AROUND_CHARS) } else { "" };
            if end_of_last.len() + kept.len() < before.len() {
                push_text(&mut pieces, end_of_last);
                pieces.push(Piece::Gap);
                push_text(&mut pieces, kept);
            } else {
                push_text(&mut pieces, before);
            }
        } else {
            push_text(&mut pieces, before);
        }
        pieces.push(Piece::Match(text[place.clone()].to_owned()));
        shown = place.end;
    }
    let rest = &text[shown..];
    let kept = if is_long { head(rest, AROUND_CHARS) } else { rest };
    push_text(&mut pieces, kept);
    if kept.len() < rest.len() {
        pieces.push(Piece::Gap);
    }
    pieces
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
}

/// The first characters of a text.
fn head(text: &str, chars: usize) -> &str {
    let end = text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// Its last ones.
fn tail(text: &str, chars: usize) -> &str {
    let start = text.char_indices().rev().take(chars).last().map_or(text.len(), |(at, _)| at);
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_shown_around_their_matches() {
        let text = |text: &str| Piece::Text(text.to_owned());
        let found = |text: &str| Piece::Match(text.to_owned());
        let middle = 2..3;
        assert_eq!(pieces("a b c", std::slice::from_ref(&middle)), [text("a "), found("b"), text(" c")]);
        assert_eq!(pieces("a b", &[0..1, 2..3]), [found("a"), text(" "), found("b")]);
        let long = format!("{}x{}x{}", "é".repeat(300), "ü".repeat(100), "ö".repeat(300));
        let (first, second) = (600..601, 801..802);
        let expected = [
            Piece::Gap,
            text(&"é".repeat(80)),
            found("x"),
            text(&"ü".repeat(100)),
            found("x"),
            text(&"ö".repeat(80)),
            Piece::Gap,
        ];
        assert_eq!(pieces(&long, &[first.clone(), second]), expected);
        let far = format!("x{}x", "ü".repeat(1000));
        let around = text(&"ü".repeat(80));
        assert_eq!(
            pieces(&far, &[0..1, 2001..2002]),
            [found("x"), around.clone(), Piece::Gap, around, found("x")]
        );
    }
}

//! Stores articles in the columns of a Wikipedia dump, 3.5 KB each, and runs the published queries over them.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::Arc,
};

use anyhow::Context;
use memchr::memmem;
use serde_json::Value;
use swiftwater_generate::Workload;

use super::{
    asked::{self, Fault, Question, is_close},
    duckdb::DuckDb,
    sustained::{self, RequiredRate},
};
use crate::{args::Args, bodies::Bodies, sending::Plan, stored::Stored, table::Table};

pub(super) const STREAM: &str = "wiki";
pub(super) const DECLARED: &str = "CREATE STREAM wiki (sha1 STRING, title STRING, revision_ts LONG, contributor_username STRING, \
     contributor_id LONG, comment STRING, model STRING, format STRING, text STRING, length INT)";
/// Articles that are made, and sent again and again.
pub(super) const MADE: u64 = 60_000;
const BYTES_PER_SECOND_MIN: f64 = 60e6;

/// Stores, asks, and adds all rows.
pub(super) fn run(
    args: &Args,
    directory: &Path,
    duckdb: Option<&mut DuckDb>,
    table: &mut Table,
) -> anyhow::Result<()> {
    let made = if args.quick { MADE / 10 } else { MADE };
    let bodies = Arc::new(Bodies::generate(Workload::Articles, made)?);
    let stored = Stored::start(directory, &[])?;
    stored.sql(DECLARED)?;
    let count = bodies.holding(args.articles());
    let plan = Plan::all(stored.server()?.address, STREAM, &bodies, count);
    let needed = RequiredRate::Bytes(BYTES_PER_SECOND_MIN);
    let (_, mut delta) = sustained::run(&stored, &plan, "articles of 3.5 KB", needed, table)?;
    delta.wait_for_commits()?;
    let tally = Tally::of(&bodies, count)?;
    asked::run(args, &stored, &delta.paths(), &questions(&tally), duckdb, table)
}

/// The totals of the articles, by plain search of their text.
#[derive(Debug, Default)]
struct Tally<'b> {
    articles: u64,
    chars: u64,
    contributors: HashMap<&'b [u8], u64>,
}

impl<'b> Tally<'b> {
    fn of(bodies: &'b Bodies, count: u64) -> anyhow::Result<Tally<'b>> {
        let mut tally = Tally::default();
        for (body, times) in bodies.times(count).filter(|(_, times)| *times > 0) {
            tally.take(&body.bytes, times)?;
        }
        Ok(tally)
    }

    fn take(&mut self, text: &'b [u8], times: u64) -> anyhow::Result<()> {
        let name = memmem::Finder::new(b"\"contributor_username\":\"");
        let length = memmem::FinderRev::new(b"\"length\":");
        for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let start = name.find(line).context("an article has no contributor")? + name.needle().len();
            let end = start + memchr::memchr(b'"', &line[start..]).context("a name has no end")?;
            *self.contributors.entry(&line[start..end]).or_default() += times;
            let start = length.rfind(line).context("an article has no length")? + length.needle().len();
            let digits = line[start..].iter().take_while(|byte| byte.is_ascii_digit());
            let length = digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
            self.chars += length * times;
            self.articles += times;
        }
        Ok(())
    }

    fn mean_fault(&self, rows: &[Value]) -> Option<String> {
        let mean = self.chars as f64 / self.articles as f64;
        let is_right = rows.len() == 1 && is_close(&rows[0]["avg_article_length"], mean);
        (!is_right).then(|| format!("{rows:?}, not {mean}"))
    }

    fn contributors_fault(&self, rows: &[Value]) -> Option<String> {
        let counts: HashSet<u64> = self.contributors.values().copied().collect();
        let expected = [
            self.contributors.len() as u64,
            self.articles,
            counts.iter().copied().min().unwrap_or(0),
            counts.iter().copied().max().unwrap_or(0),
        ];
        let told = |row: &Value| ["names", "pages", "least", "most"].map(|name| row[name].as_u64());
        let is_right = rows.len() == 1 && told(&rows[0]) == expected.map(Some);
        (!is_right).then(|| format!("{rows:?}, not {expected:?}"))
    }

    fn number_fault(rows: &[Value], name: &str, expected: u64) -> Option<String> {
        let is_right = rows.len() == 1 && rows[0][name].as_u64() == Some(expected);
        (!is_right).then(|| format!("{rows:?}, not {expected}"))
    }
}

/// The published queries. The result per contributor is summed up in both engines, so that only the query is measured and
/// not the transfer of its many rows.
const CONTRIBUTORS: &str = "SELECT count(*) AS names, sum(page_count) AS pages, min(page_count) AS least, \
                            max(page_count) AS most FROM (SELECT contributor_username, COUNT(*) AS page_count FROM wiki \
                            GROUP BY contributor_username)";

fn questions<'t>(tally: &'t Tally<'_>) -> Vec<Question<'t>> {
    let question = |what, text: &str, fault: Fault<'t>| Question {
        what,
        ours: text.to_owned(),
        theirs: text.to_owned(),
        before: None,
        stream: STREAM,
        rows: tally.articles,
        fault,
    };
    vec![
        question(
            "articles, average length",
            "SELECT AVG(length) as avg_article_length FROM wiki",
            Box::new(move |rows| tally.mean_fault(rows)),
        ),
        question(
            "articles, pages by contributor",
            CONTRIBUTORS,
            Box::new(move |rows| tally.contributors_fault(rows)),
        ),
        question(
            "articles, total length",
            "SELECT SUM(length) as total_article_chars FROM wiki",
            Box::new(move |rows| Tally::number_fault(rows, "total_article_chars", tally.chars)),
        ),
        question(
            "articles, COUNT",
            "SELECT COUNT(*) as total_pages FROM wiki",
            Box::new(move |rows| Tally::number_fault(rows, "total_pages", tally.articles)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_held_against_the_articles() {
        let ann = b"{\"contributor_username\":\"ann\",\"text\":\"the \\\"length\\\":7\",\"length\":10}\n"
            .as_slice();
        let bob = b"{\"contributor_username\":\"bob\",\"text\":\"\",\"length\":20}\n".as_slice();
        let both = [ann, bob].concat();
        let mut tally = Tally::default();
        tally.take(&both, 2).unwrap();
        tally.take(ann, 1).unwrap();
        assert_eq!(tally.mean_fault(&[json!({"avg_article_length": 14.0})]), None);
        let row = json!({"names": 2, "pages": 5, "least": 2, "most": 3});
        assert_eq!(tally.contributors_fault(std::slice::from_ref(&row)), None);
        assert!(tally.contributors_fault(&[]).is_some());
        assert!(Tally::number_fault(&[json!({"n": 69})], "n", tally.chars).is_some());
        assert_eq!(Tally::number_fault(&[json!({"n": 70})], "n", tally.chars), None);
    }
}

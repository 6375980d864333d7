//! Runs the published summaries of articles as they were printed, by the number of SQL's threads, and of its workers. A plain loop over the same
//! articles checks their output.

use std::collections::BTreeMap;

use serde_json::Value;

use super::kept::{ARTICLES, RUNNERS, as_published, is_about, rows_of, scanned};
use crate::bench::seeds::scenario::{Context, Measured, Needs, Row, Scenario};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "article-sql",
    about: "the published statements over articles (10 M and 16.75 M with --full), on one thread and on two, and on 2 and 3 workers",
    needs: |size| Needs { disk_bytes: size.of(512 << 20, 4 << 30, 110 << 30), seconds: size.of(8, 40, 2400) },
    run,
};

/// A table, and the statement that writes it.
const STATEMENTS: [(&str, &str); 4] = [
    ("wikiAvgArticleLength", "SELECT AVG(length) as avg_article_length FROM wiki"),
    (
        "wikiContributorSummary",
        "SELECT contributor_username, COUNT(*) as page_count FROM wiki GROUP BY contributor_username",
    ),
    ("wikiTotalArticleLength", "SELECT SUM(length) as total_article_chars FROM wiki"),
    ("wikiTotalArticlePages", "SELECT COUNT(*) as total_pages FROM wiki"),
];
/// Published sizes, with the experiment.
const SIZES: [(u64, &str); 2] = [(10_000_000, "D8"), (16_753_779, "D10")];
const SHORT: u64 = 200_000;
const SMOKE: u64 = 3_600;

fn run(context: &Context) -> anyhow::Result<Measured> {
    let sizes: &[(u64, &str)] = context.size.of(&[(SMOKE, "")], &[(SHORT, "")], &SIZES);
    let mut measured = Measured::default();
    let mut wanted = ExpectedTotals::default();
    let mut server = ARTICLES.server(context, &[])?;
    let bodies = ARTICLES.bodies(|article| wanted.add(article))?;
    let (mut sent, mut rounds) = (0, 0);
    for &(size, experiment) in sizes {
        let (fed, more) = ARTICLES.send(context, &server, (&bodies, size - sent))?;
        (sent, rounds) = (sent + fed.events, rounds + more);
        anyhow::ensure!(fed.failures == 0, "{} bodies failed", fed.failures);
        ARTICLES.wait(context, &server, 0)?;
        for &runner in RUNNERS {
            let (again, _workers) = runner.start(context, server)?;
            server = again;
            for (table, select) in STATEMENTS {
                context.check()?;
                // The published INSERT INTO of what came before is still there.
                let statement = format!("INSERT OVERWRITE TABLE {table} {select}");
                let seconds = as_published(context, &server, &statement)?;
                let fault = wanted.fault(&rows_of(&server, table)?, table, rounds);
                let row = Row::new(format!("{table} over {sent} articles, {runner}"), seconds, "s")
                    .under(scanned(sent, seconds, runner))
                    .unless(fault);
                measured.rows.push(match experiment {
                    "" => row,
                    experiment => row.beside(format!("{experiment}/{table}")),
                });
            }
        }
    }
    if sizes != SIZES {
        for (_, experiment) in SIZES {
            measured.without(experiment, "as many articles are tens of gigabytes: only with --full");
        }
    }
    Ok(measured)
}

/// The expected results of the statements over the articles of all bodies once.
#[derive(Debug, Default)]
struct ExpectedTotals {
    articles: u64,
    letters: u64,
    by_contributor: BTreeMap<String, u64>,
}

impl ExpectedTotals {
    fn add(&mut self, article: &[u8]) {
        let article: Value = serde_json::from_slice(article).expect("it was created as JSON");
        self.articles += 1;
        self.letters += article["length"].as_u64().unwrap_or(0);
        let name = article["contributor_username"].as_str().unwrap_or_default();
        *self.by_contributor.entry(name.to_owned()).or_default() += 1;
    }

    /// The fault in a statement's output, if it has one.
    fn fault(&self, rows: &[Value], table: &str, rounds: u64) -> Option<String> {
        let only = |column: &str, wanted: f64| {
            let is_right = rows.len() == 1 && is_about(&rows[0][column], wanted);
            (!is_right).then(|| format!("`{table}` is {rows:?}, not {wanted}"))
        };
        match table {
            "wikiAvgArticleLength" => only("avg_article_length", self.letters as f64 / self.articles as f64),
            "wikiTotalArticleLength" => only("total_article_chars", (self.letters * rounds) as f64),
            "wikiTotalArticlePages" => only("total_pages", (self.articles * rounds) as f64),
            _ => {
                let is_right = |row: &&Value| {
                    let name = row["contributor_username"].as_str().unwrap_or_default();
                    self.by_contributor
                        .get(name)
                        .is_some_and(|pages| row["page_count"].as_u64() == Some(pages * rounds))
                };
                let (right, wanted) = (rows.iter().filter(is_right).count(), self.by_contributor.len());
                (right != wanted || rows.len() != wanted).then(|| {
                    format!("`{table}` has {} rows, {right} of them right, {wanted} were wanted", rows.len())
                })
            }
        }
    }
}

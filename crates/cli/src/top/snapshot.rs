//! Fetches and parses a server's metrics at one moment.

use std::collections::BTreeMap;

use anyhow::Context;
use hyper::Method;
use serde::{Deserialize, de::DeserializeOwned};
use swiftwater_event::Clock;

use crate::{
    args::TopSort,
    client::{Client, Problem},
};

/// All that a picture shows.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    /// Time of the snapshot, on the monotonic clock.
    pub(super) at_nanos: u64,
    /// Time of the snapshot, in seconds since 1970.
    pub(super) at_seconds: f64,
    pub(super) streams: Vec<Stream>,
    pub(super) queries: Vec<Query>,
    pub(super) metrics: Series,
}

/// A stream in the answer of `/v1/streams`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Stream {
    pub(super) name: String,
    pub(super) events: u64,
    pub(super) rejected: u64,
    pub(super) events_per_second: f64,
    pub(super) bytes_per_second: f64,
    pub(super) queries: u64,
    pub(super) pending_bytes: u64,
    pub(super) lag_ms: u64,
}

/// A query in the answer of `/v1/queries`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    pub(super) id: String,
    pub(super) text: String,
    pub(super) stream: String,
    pub(super) finished: Option<String>,
    pub(super) state_bytes: u64,
    pub(super) lag_ms: u64,
    pub(super) cost: Cost,
}

/// The cost of a [`Query`].
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Cost {
    pub(super) matches: u64,
    pub(super) bytes_out: u64,
    pub(super) cpu_nanos: u64,
}

impl Snapshot {
    /// Takes a snapshot from the server. If there are very many queries, it gets those that are first in the order, by
    /// their total cost so far.
    pub(super) async fn take(client: &Client, clock: &dyn Clock, sort: TopSort) -> anyhow::Result<Snapshot> {
        let streams = fetch(client, "/v1/streams").await?;
        let sort = match sort {
            TopSort::Cpu => "cpu",
            TopSort::State => "state",
            TopSort::Matches => "matches",
            TopSort::Out => "out",
            TopSort::Age => "newest",
        };
        let queries = fetch(client, &format!("/v1/queries?sort={sort}&limit=1000")).await?;
        let metrics = fetch(client, "/metrics").await?;
        Ok(Snapshot {
            at_nanos: clock.monotonic_nanos(),
            at_seconds: clock.now_micros() as f64 / 1e6,
            streams: list(&streams, "streams")?,
            queries: list(&queries, "queries")?,
            metrics: Series::read(&String::from_utf8_lossy(&metrics)),
        })
    }
}

async fn fetch(client: &Client, path: &str) -> anyhow::Result<bytes::Bytes> {
    let (status, body) = client.fetch(Method::GET, path).await?;
    if !status.is_success() {
        anyhow::bail!("{path}: {}", Problem::read(status, &body).text(None));
    }
    Ok(body)
}

/// A list, as it is or under a name.
fn list<T: DeserializeOwned>(body: &[u8], name: &str) -> anyhow::Result<Vec<T>> {
    let value: serde_json::Value =
        serde_json::from_slice(body).with_context(|| format!("cannot read the {name}"))?;
    let value = match value {
        serde_json::Value::Object(mut object) => object.remove(name).unwrap_or_default(),
        value => value,
    };
    serde_json::from_value(value).with_context(|| format!("cannot read the {name}"))
}

/// Numbers of a Prometheus page, by name and labels as they are spelled there.
#[derive(Debug, Clone, Default)]
pub(super) struct Series(BTreeMap<String, f64>);

impl Series {
    /// Reads the text format; lines that are not numbers are passed over.
    pub(super) fn read(page: &str) -> Series {
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let number = |line: &str| {
            let (name, number) = line.trim_end().rsplit_once(' ')?;
            Some((name.to_owned(), number.parse().ok()?))
        };
        Series(lines.filter_map(number).collect())
    }

    /// One number; 0 where it is not there.
    pub(super) fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(0.0)
    }

    /// The numbers of a family: its labels and numbers.
    pub(super) fn family(&self, name: &str) -> impl Iterator<Item = (Labels<'_>, f64)> {
        let name = format!("{name}{{");
        let after = self.0.range(name.clone()..);
        let family = after.take_while({
            let name = name.clone();
            move |(key, _)| key.starts_with(&name)
        });
        family.map(move |(key, number)| (Labels(&key[name.len()..]), *number))
    }
}

/// A series' labels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Labels<'a>(&'a str);

impl<'a> Labels<'a> {
    /// The value of a label that needs no escapes.
    pub(super) fn get(self, name: &str) -> Option<&'a str> {
        let mut pairs = self.0.trim_end_matches('}').split(',');
        pairs.find_map(|pair| {
            let (key, value) = pair.split_once('=')?;
            (key.trim() == name).then(|| value.trim_matches('"'))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metrics_page_is_read() {
        let series = Series::read(
            "# HELP a b\n# TYPE a counter\na 3\na_more{x=\"1\"} 9\nb{shard=\"0\",stage=\"match\"} 0.5\n\
             b{shard=\"1\",stage=\"match\"} 1e3\nnonsense\nbb{shard=\"7\"} 4\n",
        );
        assert_eq!(series.get("a"), 3.0);
        assert_eq!(series.get("none"), 0.0);
        let family: Vec<_> =
            series.family("b").map(|(labels, n)| (labels.get("shard"), labels.get("stage"), n)).collect();
        assert_eq!(family, [(Some("0"), Some("match"), 0.5), (Some("1"), Some("match"), 1000.0)]);
    }

    #[test]
    fn a_list_may_stand_under_its_name() {
        let read = |text: &str| list::<Stream>(text.as_bytes(), "streams").unwrap().len();
        assert_eq!(read(r#"[{"name": "a", "new": 1}]"#), 1);
        assert_eq!(read(r#"{"streams": [{"name": "a"}, {}]}"#), 2);
    }
}

//! Pushes the metrics to a collector, as OTLP over HTTP in JSON, from the same table as the Prometheus page.
//!
//! All numbers are cumulative, so a failed push loses nothing: the next one includes its numbers. The log reports an
//! unreachable collector once, and once more when it is back.

use std::{sync::Arc, time::Duration};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::watch};

use crate::{
    config::OtlpConfig,
    metrics::{Family, Kind, Number, Sample, bounds_seconds},
    server::{Phase, Shared},
};

const PUSH_TIMEOUT: Duration = Duration::from_secs(10);
const LAST_PUSH_TIMEOUT: Duration = Duration::from_secs(2);
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// Bytes of a collector's answer that are looked at.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Settings of the push that cannot be followed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OtlpSettingError {
    #[error("`otlp.endpoint` is `{0}`, but must be like `http://host:4318`")]
    Endpoint(String),
    #[error("`otlp.headers` has `{0}`, which cannot be a header field")]
    Header(String),
    #[error("`otlp.interval_ms` is {0}, but must be at least 100")]
    Interval(u64),
}

#[derive(Debug, thiserror::Error)]
enum PushError {
    #[error("no connection to `{0}`")]
    Connect(String, #[source] std::io::Error),
    #[error("the connection ended early")]
    Exchange(#[from] hyper::Error),
    #[error("the collector answered {0}")]
    Status(StatusCode),
    #[error("the collector did not answer in time")]
    Timeout,
}

/// Destination of the metrics.
#[derive(Debug)]
pub(crate) struct Pusher {
    authority: String,
    /// The address to connect to: the authority, with a port.
    address: String,
    path: String,
    headers: HeaderMap,
    interval: Duration,
}

impl Pusher {
    pub(crate) fn new(config: &OtlpConfig) -> Result<Pusher, OtlpSettingError> {
        let wrong = || OtlpSettingError::Endpoint(config.endpoint.clone());
        let uri: Uri = config.endpoint.parse().map_err(|_| wrong())?;
        let authority = uri.authority().ok_or_else(wrong)?;
        if uri.scheme_str() != Some("http") || uri.query().is_some() || authority.as_str().contains('@') {
            return Err(wrong());
        }
        if config.interval_ms < 100 {
            return Err(OtlpSettingError::Interval(config.interval_ms));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &config.headers {
            let field = name.parse::<HeaderName>().ok().zip(HeaderValue::from_str(value).ok());
            let (name, value) = field.ok_or_else(|| OtlpSettingError::Header(name.clone()))?;
            headers.append(name, value);
        }
        Ok(Pusher {
            authority: authority.to_string(),
            address: format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80)),
            path: format!("{}/v1/metrics", uri.path().trim_end_matches('/')),
            headers,
            interval: Duration::from_millis(config.interval_ms),
        })
    }

    /// Pushes until the server closes, and then once more.
    pub(crate) async fn run(self, shared: Arc<Shared>, mut phase: watch::Receiver<Phase>) {
        let mut failures = 0u32;
        loop {
            let wait = match failures {
                0 => self.interval,
                _ => (RETRY_FIRST * 2u32.saturating_pow(failures.min(16) - 1)).min(self.interval),
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = phase.wait_for(|phase| *phase >= Phase::Closing) => break,
            }
            match self.push(&shared, PUSH_TIMEOUT).await {
                Ok(()) if failures > 0 => {
                    tracing::info!(endpoint = %self.authority, "metrics are pushed again");
                    failures = 0;
                }
                Ok(()) => {}
                Err(error) => {
                    if failures == 0 {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(endpoint = %self.authority, error, "metrics cannot be pushed; the server retries");
                    }
                    failures = failures.saturating_add(1);
                }
            }
        }
        if let Err(error) = self.push(&shared, LAST_PUSH_TIMEOUT).await {
            tracing::debug!(endpoint = %self.authority, %error, "the last metrics could not be pushed");
        }
    }

    async fn push(&self, shared: &Shared, timeout: Duration) -> Result<(), PushError> {
        let now = shared.engine.clock().now_micros();
        let body = document(&shared.families(), shared.start_micros, now).to_string();
        tokio::time::timeout(timeout, self.send(body)).await.map_err(|_| PushError::Timeout)?
    }

    async fn send(&self, body: String) -> Result<(), PushError> {
        let stream = TcpStream::connect(&self.address)
            .await
            .map_err(|error| PushError::Connect(self.address.clone(), error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let mut request =
            Request::post(&self.path).body(Full::new(Bytes::from(body))).expect("the path was parsed");
        *request.headers_mut() = self.headers.clone();
        let host = HeaderValue::from_str(&self.authority).expect("the authority was parsed");
        request.headers_mut().insert(header::HOST, host);
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let exchange = async {
            let response = sender.send_request(request).await?;
            let status = response.status();
            let body = http_body_util::Limited::new(response.into_body(), ANSWER_BYTES_MAX);
            if let Ok(answer) = body.collect().await {
                report_partial(&answer.to_bytes());
            }
            if status.is_success() { Ok(()) } else { Err(PushError::Status(status)) }
        };
        tokio::pin!(exchange);
        tokio::select! {
            result = &mut exchange => result,
            closed = connection => {
                closed?;
                exchange.await
            }
        }
    }
}

/// Logs a warning if a collector refused some of the numbers.
fn report_partial(answer: &[u8]) {
    let Ok(answer) = serde_json::from_slice::<Value>(answer) else { return };
    let message = &answer["partialSuccess"]["errorMessage"];
    if let Some(message) = message.as_str().filter(|message| !message.is_empty()) {
        tracing::debug!(message, "the collector refused some metrics");
    }
}

/// An `ExportMetricsServiceRequest` in the JSON form of OTLP: 64-bit integers as text.
fn document(families: &[Family], start_micros: i64, now_micros: i64) -> Value {
    let times = (nanos(start_micros), nanos(now_micros));
    let metrics: Vec<Value> = families
        .iter()
        .filter(|family| !family.samples.is_empty())
        .map(|family| {
            let points: Vec<Value> = family.samples.iter().map(|sample| point(sample, &times)).collect();
            let mut metric =
                json!({"name": family.name, "description": family.help, "unit": unit(family.name)});
            match family.kind {
                Kind::Counter => {
                    metric["sum"] =
                        json!({"aggregationTemporality": 2, "isMonotonic": true, "dataPoints": points});
                }
                Kind::Gauge => metric["gauge"] = json!({"dataPoints": points}),
                Kind::Histogram => {
                    metric["histogram"] = json!({"aggregationTemporality": 2, "dataPoints": points});
                }
            }
            metric
        })
        .collect();
    let attribute = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let resource =
        [attribute("service.name", "swiftwater"), attribute("service.version", env!("CARGO_PKG_VERSION"))];
    json!({"resourceMetrics": [{
        "resource": {"attributes": resource},
        "scopeMetrics": [{"scope": {"name": "swiftwater"}, "metrics": metrics}],
    }]})
}

fn nanos(micros: i64) -> String {
    format!("{}000", micros.max(0))
}

/// The unit that stands at a name's end, in UCUM's form.
fn unit(name: &str) -> &'static str {
    match name.trim_end_matches("_total").trim_end_matches("_max") {
        name if name.ends_with("_seconds") => "s",
        name if name.ends_with("_bytes") => "By",
        _ => "1",
    }
}

fn point(sample: &Sample, (start, now): &(String, String)) -> Value {
    let attributes: Vec<Value> = sample
        .labels
        .iter()
        .map(|(key, value)| json!({"key": key, "value": {"stringValue": value}}))
        .collect();
    let mut point = json!({"attributes": attributes, "startTimeUnixNano": start, "timeUnixNano": now});
    match &sample.number {
        Number::Whole(number) => point["asInt"] = number.to_string().into(),
        Number::Real(number) => point["asDouble"] = (*number).into(),
        Number::Seconds { counts, sum } => {
            point["count"] = counts.iter().sum::<u64>().to_string().into();
            point["sum"] = (*sum).into();
            point["bucketCounts"] = counts.iter().map(u64::to_string).collect::<Vec<_>>().into();
            point["explicitBounds"] = bounds_seconds().to_vec().into();
        }
    }
    point
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_is_checked() {
        let check = |endpoint: &str, expected: Option<(&str, &str)>| {
            let pusher = Pusher::new(&OtlpConfig::new(endpoint)).ok();
            let found = pusher.as_ref().map(|pusher| (pusher.address.as_str(), pusher.path.as_str()));
            assert_eq!(found, expected, "{endpoint}");
        };
        check("http://localhost:4318", Some(("localhost:4318", "/v1/metrics")));
        check("http://localhost:4318/", Some(("localhost:4318", "/v1/metrics")));
        check("http://[::1]/otlp", Some(("[::1]:80", "/otlp/v1/metrics")));
        check("https://localhost:4318", None);
        check("localhost:4318", None);
        check("/v1", None);
        check("http://a:b@localhost", None);
    }

    #[test]
    fn numbers_have_the_form_of_otlp() {
        let labels = vec![("stream", "s".to_owned())];
        let families = [
            Family {
                name: "x_bytes_total",
                help: "Bytes.",
                kind: Kind::Counter,
                samples: vec![Sample { labels, number: Number::Whole(7) }],
            },
            Family {
                name: "y_seconds",
                help: "Wait.",
                kind: Kind::Histogram,
                samples: vec![Sample {
                    labels: vec![],
                    number: Number::Seconds { counts: [1; 17], sum: 2.5 },
                }],
            },
        ];
        let document = document(&families, 1, 2);
        let metrics = &document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        let expected = json!({
            "name": "x_bytes_total", "description": "Bytes.", "unit": "By",
            "sum": {"aggregationTemporality": 2, "isMonotonic": true, "dataPoints": [{
                "attributes": [{"key": "stream", "value": {"stringValue": "s"}}],
                "startTimeUnixNano": "1000", "timeUnixNano": "2000", "asInt": "7",
            }]},
        });
        assert_eq!(metrics[0], expected);
        let point = &metrics[1]["histogram"]["dataPoints"][0];
        assert_eq!(point["count"], "17");
        assert_eq!(point["bucketCounts"].as_array().unwrap().len(), 17);
        assert_eq!(point["explicitBounds"].as_array().unwrap().len(), 16);
        assert_eq!(metrics[1]["unit"], "s");
    }
}

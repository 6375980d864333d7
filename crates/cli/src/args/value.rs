//! Parses the values of flags.

use std::time::Duration;

use swiftwater_generate::Fault;

use crate::settings::{parse_bytes, parse_millis};

pub(super) fn count(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| "not a whole number; write for example `100_000`".to_owned())
}

pub(super) fn fault(text: &str) -> Result<(Fault, f64), String> {
    let (name, told) = text.split_once('=').map_or((text, None), |(name, told)| (name, Some(told)));
    let fault = Fault::ALL.into_iter().find(|fault| fault.name() == name).ok_or_else(|| {
        format!("`{name}` is not a fault; write one of {}", Fault::ALL.map(Fault::name).join(", "))
    })?;
    Ok((fault, told.map_or(Ok(fault.share()), share)?))
}

pub(super) fn time_ms(text: &str) -> Result<i64, String> {
    let micros = swiftwater_event::from_rfc3339(text.as_bytes());
    micros
        .map(|micros| micros.div_euclid(1000))
        .ok_or_else(|| "not a time; write for example `2026-01-01T00:00:00Z`".to_owned())
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "not a share; write a number above 0 and up to 1, for example `0.1`".to_owned())
}

pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate = text.replace('_', "").parse().ok().filter(|rate: &f64| *rate > 0.0 && rate.is_finite());
    rate.ok_or_else(|| "not a number above 0; write for example `5000`".to_owned())
}

pub(super) fn batch_bytes(text: &str) -> Result<usize, String> {
    let bytes = parse_bytes(text)?;
    if (1 << 10..=64 << 20).contains(&bytes) {
        Ok(bytes as usize)
    } else {
        Err("allowed: 1KiB to 64MiB".to_owned())
    }
}

/// A name that leaves room for what each input adds to it.
pub(super) fn producer(text: &str) -> Result<String, String> {
    let is_visible = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    match text.len() {
        ..=96 if is_visible => Ok(text.to_owned()),
        _ => Err("allowed: 1 to 96 visible ASCII characters".to_owned()),
    }
}

pub(super) fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(&text.replace('_', "")).map_err(str::to_owned)
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse_millis(text).map(Duration::from_millis).map_err(str::to_owned)
}

pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    let allowed = Duration::from_millis(100)..=Duration::from_secs(3600);
    if allowed.contains(&interval) { Ok(interval) } else { Err("allowed: 100ms to 1h".to_owned()) }
}

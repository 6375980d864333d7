//! Parses the requests of `swiftwater bench load`: `[WEIGHT] METHOD PATH [BODY]`, with files and workloads for bodies.

use std::{fs, path::Path, sync::Arc};

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use swiftwater_generate::{LogsSettings, SwipesSettings, TelecomSettings};
use swiftwater_load::{Body, Lines, Request, Template, WEIGHTS_MAX};

use crate::args::{LoadArgs, Workload};

const FORM: &str = "write `[WEIGHT] METHOD PATH [BODY]`, such as `GET /stats/{1..50000}`";

/// All requests, given the path of the target.
pub(super) fn read(args: &LoadArgs, path: &str) -> anyhow::Result<Vec<Request>> {
    let fields = fields(args)?;
    let has_body = args.body.is_some() || args.body_file.is_some();
    let lines = args.body_file.as_deref().map(lines_of).transpose()?;
    let usual = || {
        Ok(match (&args.body, &lines) {
            (Some(text), _) => Body::Text(Template::new(text)?),
            (None, Some(lines)) => Body::Lines(Arc::clone(lines)),
            (None, None) => Body::None,
        })
    };
    let texts = match args.requests.as_slice() {
        [] => vec![format!("{} {path}", if has_body { "POST" } else { "GET" })],
        requests => {
            ensure!(
                path == "/",
                "the target has the path `{path}`, and the requests have paths, too: leave one out"
            );
            requests.to_vec()
        }
    };
    let mut requests = Vec::with_capacity(texts.len());
    for text in &texts {
        let request = one(text, &fields, usual).with_context(|| format!("`{text}` is not a request"))?;
        requests.push(request);
    }
    let weights: u64 = requests.iter().map(|request| u64::from(request.weight)).sum();
    ensure!(weights <= WEIGHTS_MAX.into(), "the sum of the weights is {weights}, limit is {WEIGHTS_MAX}");
    Ok(requests)
}

fn one(
    text: &str,
    fields: &[(String, String)],
    usual_body: impl Fn() -> anyhow::Result<Body>,
) -> anyhow::Result<Request> {
    let (first, rest) = split(text);
    let (weight, rest) = match first.parse::<u32>() {
        Ok(weight) => {
            ensure!((1..=WEIGHTS_MAX).contains(&weight), "a weight must be a number from 1 to {WEIGHTS_MAX}");
            (weight, rest)
        }
        Err(_) => (1, text.trim_start()),
    };
    let (method, rest) = split(rest);
    let (path, body) = split(rest);
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    ensure!(is_method && path.starts_with('/'), "{FORM}");
    ensure!(
        path.bytes().all(|byte| (0x21..0x7f).contains(&byte)),
        "a path must be ASCII; write other characters as %C3%A9"
    );
    let template = Template::new(path)?;
    ensure!(
        template.plain().is_none_or(|path| !path.iter().any(|byte| b"{}".contains(byte))),
        "the text in braces is not {{1..9}}, {{a|b}} or {{n}}"
    );
    let may_have_body = !["GET", "HEAD"].contains(&method);
    let body = match body {
        "" if may_have_body => usual_body()?,
        "" => Body::None,
        _ if !may_have_body => bail!("{method} has no body"),
        body => match (body.strip_prefix('@'), body.strip_prefix("generate:")) {
            (Some(file), _) => Body::Lines(lines_of(Path::new(file))?),
            (None, Some(name)) => made(name)?,
            (None, None) => Body::Text(Template::new(body)?),
        },
    };
    // A POST of nothing has a length all the same.
    let body =
        if may_have_body && matches!(body, Body::None) { Body::Text(Template::new("")?) } else { body };
    let mut fields = fields.to_vec();
    let says_type = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if may_have_body && !says_type {
        fields.push(("Content-Type".to_owned(), "application/json".to_owned()));
    }
    Ok(Request {
        name: format!("{method} {path}"),
        weight,
        method: method.to_owned(),
        path: template,
        fields,
        body,
    })
}

/// The first word, and what follows the space behind it.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    (first, rest.trim_start())
}

fn lines_of(path: &Path) -> anyhow::Result<Arc<Lines>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let lines = Lines::new(bytes).with_context(|| format!("`{}` has no lines", path.display()))?;
    Ok(Arc::new(lines))
}

/// Events of a workload, as their usual settings have them.
fn made(name: &str) -> anyhow::Result<Body> {
    let workload = Workload::from_str(name, false).map_err(|_| {
        let names = Workload::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<_> = names.map(|value| value.get_name().to_owned()).collect();
        anyhow::anyhow!("`{name}` is not one of {}", names.join(", "))
    })?;
    let workload = match workload {
        Workload::Telecom => swiftwater_generate::Workload::Telecom(TelecomSettings::default()),
        Workload::Swipes => swiftwater_generate::Workload::Swipes(SwipesSettings {
            posted: true,
            ..SwipesSettings::default()
        }),
        Workload::SmartHome => swiftwater_generate::Workload::SmartHome,
        Workload::Articles => swiftwater_generate::Workload::Articles,
        Workload::Logs => swiftwater_generate::Workload::Logs(LogsSettings::default()),
    };
    Ok(Body::Made(Box::new(move |seed| {
        workload.begin(seed).expect("the usual settings are in their ranges")
    })))
}

fn fields(args: &LoadArgs) -> anyhow::Result<Vec<(String, String)>> {
    let mut fields =
        vec![("User-Agent".to_owned(), concat!("swiftwater/", env!("CARGO_PKG_VERSION")).to_owned())];
    for text in &args.headers {
        let (name, value) =
            text.split_once(':').map_or((text.as_str(), ""), |(name, value)| (name, value.trim()));
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        ensure!(
            !name.is_empty() && name.bytes().all(is_name) && text.contains(':'),
            "`{text}` is not a header field; write `Name: value`"
        );
        ensure!(
            value.bytes().all(|byte| byte >= 0x20 && byte != 0x7f),
            "the value of `{name}` has a control character"
        );
        let ours = ["host", "content-length", "transfer-encoding", "connection"];
        ensure!(!ours.contains(&name.to_ascii_lowercase().as_str()), "`{name}` cannot be set");
        fields.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        fields.push((name.to_owned(), value.to_owned()));
    }
    if let Some(producer) = &args.producer {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        ensure!(
            !producer.is_empty() && producer.len() <= 100 && producer.bytes().all(is_fit),
            "`{producer}`: a producer's name has up to 100 letters, digits, `-`, `_` and `.`"
        );
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{BenchCommand, Cli, Command};

    fn requests(words: &[&str]) -> anyhow::Result<Vec<Request>> {
        let words = ["swiftwater", "bench", "load"].iter().chain(words);
        let Command::Bench(args) = Cli::try_parse_from(words)?.command else { panic!("not bench") };
        let BenchCommand::Load(args) = args.command else { panic!("not load") };
        read(&args, "/")
    }

    #[test]
    fn requests_are_read() {
        let read = requests(&[
            "4 GET /stats/{1..9}/",
            "POST /swipe/{left|right}/ {\"swiper\": \"{1..9}\"}",
            "DELETE /x",
            "--header",
            "x-a: b: c",
        ])
        .unwrap();
        let shown: Vec<_> = read.iter().map(|request| (request.weight, request.name.as_str())).collect();
        assert_eq!(shown, [(4, "GET /stats/{1..9}/"), (1, "POST /swipe/{left|right}/"), (1, "DELETE /x")]);
        assert!(matches!(read[0].body, Body::None) && matches!(read[1].body, Body::Text(_)));
        assert!(read[0].fields.contains(&("x-a".to_owned(), "b: c".to_owned())));
        assert!(read[1].fields.iter().any(|(name, _)| name == "Content-Type"));
        assert!(!read[0].fields.iter().any(|(name, _)| name == "Content-Type"));
    }

    #[test]
    fn what_is_no_request_is_refused_with_its_form() {
        let refusal = |words: &[&str]| format!("{:#}", requests(words).map(drop).unwrap_err());
        assert!(refusal(&["get /"]).contains("write `[WEIGHT] METHOD PATH [BODY]`"));
        assert!(refusal(&["GET"]).contains("write `[WEIGHT] METHOD PATH [BODY]`"));
        assert!(refusal(&["0 GET /"]).contains("from 1 to 10000"));
        assert!(refusal(&["GET / x"]).contains("GET has no body"));
        assert!(refusal(&["GET /{id}"]).contains("is not {1..9}"));
        assert!(refusal(&["GET /{9..1}"]).contains("above the second"));
        assert!(refusal(&["POST / @/no/such/file"]).contains("cannot read `/no/such/file`"));
        assert!(refusal(&["POST / generate:x"]).contains("`x` is not one of telecom"));
        assert!(refusal(&["GET /", "-H", "Host: x"]).contains("cannot be set"));
        assert!(refusal(&["GET /", "-H", "no"]).contains("write `Name: value`"));
        assert!(refusal(&["9999 GET /", "2 GET /"]).contains("10001"));
    }
}

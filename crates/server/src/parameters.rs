//! Parses the query string of a request, and reports its faults.

use std::borrow::Cow;

use axum::http::StatusCode;
use percent_encoding::percent_decode_str;

use crate::problem::Problem;

/// Parameters of one request. Every one must be known by name and may come once.
#[derive(Debug)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Refuses any that is not in `known`, naming those that are.
    pub(crate) fn parse(query: Option<&str>, known: &[&str]) -> Result<Parameters, Problem> {
        let mut parameters: Vec<(String, String)> = Vec::new();
        for (name, value) in pairs(query.unwrap_or_default()) {
            if !known.contains(&&*name) {
                let problem = bad(format!("no parameter `{}` here", cut(&name)));
                return Err(problem.hint(match known {
                    [] => "This call takes no parameters.".to_owned(),
                    _ => format!("Parameters are: {}.", known.join(", ")),
                }));
            }
            let value = value.ok_or_else(|| no_text(&name))?;
            if parameters.iter().any(|(other, _)| *other == name) {
                return Err(bad(format!("parameter `{name}` is given twice")));
            }
            parameters.push((name.into_owned(), value.into_owned()));
        }
        Ok(Parameters(parameters))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// `true` and `false`; the bare name means `true`.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.get(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1" | "") => Ok(true),
            Some(other) => Err(bad(format!("parameter `{name}` is `true` or `false`, not `{}`", cut(other)))),
        }
    }

    /// The number of objects to list, from 1 to `most`, which is the default.
    pub(crate) fn limit(&self, most: usize) -> Result<usize, Problem> {
        self.limit_or(most, most)
    }

    /// The number of objects to list, from 1 to `most`, or what is usual.
    pub(crate) fn limit_or(&self, usual: usize, most: usize) -> Result<usize, Problem> {
        let Some(text) = self.get("limit") else { return Ok(usual) };
        text.parse().ok().filter(|limit| (1..=most).contains(limit)).ok_or_else(|| {
            bad(format!("parameter `limit` is a number from 1 to {most}, not `{}`", cut(text)))
        })
    }
}

/// Names and values of a query string, decoded, in their order; no value where one of the two is not UTF-8.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Option<Cow<'_, str>>)> {
    // Bytes that are not UTF-8 are decoded as U+FFFD, so the name is searched in the sent text. Empty pairs are passed
    // over there, too.
    let sent = query.split('&').filter(|pair| !pair.is_empty());
    let is_text = |pair: &str| percent_decode_str(pair).decode_utf8().is_ok();
    let decoded = form_urlencoded::parse(query.as_bytes());
    sent.zip(decoded).map(move |(pair, (name, value))| (name, Some(value).filter(|_| is_text(pair))))
}

/// The fault of a parameter that [`pairs`] has without a value.
pub(crate) fn no_text(name: &str) -> Problem {
    bad(format!("parameter `{}` is not valid percent-encoded UTF-8", cut(name)))
}

/// A fault of a parameter.
pub(crate) fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "parameter-invalid", "A parameter is not valid", detail)
}

/// The first 64 characters of a client's text, for an error message.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_doubled_and_odd_parameters_are_refused() {
        let check = |query: &str, expected: &str| {
            let problem = Parameters::parse(Some(query), &["detach", "times"])
                .and_then(|parameters| parameters.flag("detach"))
                .map_or_else(
                    |problem| problem.to_json()["detail"].as_str().unwrap().to_owned(),
                    |flag| flag.to_string(),
                );
            assert_eq!(problem, expected);
        };
        check("", "false");
        check("detach", "true");
        check("detach=true&times=false", "true");
        check("%64etach=1", "true");
        check("detach=maybe", "parameter `detach` is `true` or `false`, not `maybe`");
        check("detatch=true", "no parameter `detatch` here");
        check("times&times", "parameter `times` is given twice");
        check("&&times=%EF%BF%BD&detach=tru%65&", "true");
        check("&&detach&times=%C3", "parameter `times` is not valid percent-encoded UTF-8");
        check("%FF=1", "no parameter `\u{fffd}` here");
    }
}

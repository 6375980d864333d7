//! What stands after the `?` of a request, and its faults.

use axum::http::StatusCode;

use crate::problem::Problem;

/// Parameters of one request. Every one must be known by name and may come once.
#[derive(Debug)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Refuses any that is not in `known`, naming those that are.
    pub(crate) fn parse(query: Option<&str>, known: &[&str]) -> Result<Parameters, Problem> {
        let mut parameters: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if !known.contains(&&*name) {
                let problem = bad(format!("no parameter `{}` here", cut(&name)));
                return Err(problem.hint(match known {
                    [] => "This call takes no parameters.".to_owned(),
                    _ => format!("Parameters are: {}.", known.join(", ")),
                }));
            }
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
}

/// A fault of a parameter.
pub(crate) fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "parameter-invalid", "A parameter is not valid", detail)
}

/// At most 64 characters of a client's text, for an error message.
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
    }
}

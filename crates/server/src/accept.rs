//! Chooses the form of an answer by the `Accept` field (RFC 9110, section 12.5.1).

use axum::http::{HeaderMap, StatusCode, header};
#[cfg(feature = "history")]
use swiftwater_sql::forms::Form as SqlForm;

use crate::problem::Problem;

/// A form that results can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Each emit as a server-sent event.
    ServerSentEvents,
    /// Each emit as one line.
    Ndjson,
    /// One answer at the end.
    Json,
}

/// The forms in the order of preference if a client wants several equally: forms that stream come first.
const FORMS: [(Form, &str); 3] = [
    (Form::Ndjson, "application/x-ndjson"),
    (Form::ServerSentEvents, "text/event-stream"),
    (Form::Json, "application/json"),
];

/// The form that the client wants most: by weight, then by how exactly it is named. Without a preference it is
/// NDJSON, since a live query may have no end at which to give one answer.
pub(crate) fn form(headers: &HeaderMap) -> Result<Form, Problem> {
    preferred_form(headers, &FORMS)
}

/// The form of an answer to SQL: who does not say gets JSON.
#[cfg(feature = "history")]
pub(crate) fn sql_form(headers: &HeaderMap) -> Result<SqlForm, Problem> {
    let forms = SqlForm::ALL.map(|form| {
        let media_type = form.media_type();
        (form, media_type.split(';').next().unwrap_or(media_type))
    });
    preferred_form(headers, &forms)
}

fn preferred_form<T: Copy, const N: usize>(
    headers: &HeaderMap,
    forms: &[(T, &str); N],
) -> Result<T, Problem> {
    let Some(accept) = joined(headers) else { return Ok(forms[0].0) };
    let mut best: Option<((u16, u8), T)> = None;
    for &(form, media_type) in forms {
        let rank = rank(&accept, media_type);
        if rank.0 > 0 && best.is_none_or(|(other, _)| rank > other) {
            best = Some((rank, form));
        }
    }
    best.map(|(_, form)| form).ok_or_else(|| {
        let names = forms.map(|(_, name)| name).join(", ");
        Problem::new(
            StatusCode::NOT_ACCEPTABLE,
            "not-acceptable",
            "No format of the answer is acceptable",
            "the server has no format that `Accept` allows",
        )
        .hint(format!("Formats are: {names}."))
    })
}

/// True if the client would rather have `wanted` than `otherwise`.
pub(crate) fn prefers(headers: &HeaderMap, wanted: &str, otherwise: &str) -> bool {
    joined(headers).is_some_and(|accept| rank(&accept, wanted) > rank(&accept, otherwise))
}

fn joined(headers: &HeaderMap) -> Option<String> {
    let fields: Vec<&str> =
        headers.get_all(header::ACCEPT).iter().filter_map(|field| field.to_str().ok()).collect();
    let joined = fields.join(",");
    (!joined.trim().is_empty()).then_some(joined)
}

/// Weight in thousandths, and exactness (0: `*/*`, 1: `text/*`, 2: the type itself), of the range that fits best.
fn rank(accept: &str, media_type: &str) -> (u16, u8) {
    let (main, _) = media_type.split_once('/').unwrap_or((media_type, ""));
    let mut best = (0, 0);
    let mut exactness = None;
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let fits = match name {
            "*/*" => 0,
            _ if name.eq_ignore_ascii_case(media_type) => 2,
            _ if name.strip_suffix("/*").is_some_and(|prefix| prefix.eq_ignore_ascii_case(main)) => 1,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let weight = weight.map_or(1.0, |text| text.trim().parse::<f32>().unwrap_or(0.0)).clamp(0.0, 1.0);
        if exactness.is_none_or(|other| fits > other) {
            exactness = Some(fits);
            best = ((weight * 1000.0).round() as u16, fits);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &[&str], expected: Option<Form>) {
        let mut headers = HeaderMap::new();
        for field in accept {
            headers.append(header::ACCEPT, field.parse().unwrap());
        }
        assert_eq!(form(&headers).ok(), expected, "{accept:?}");
    }

    #[test]
    fn the_form_is_what_the_client_wants_most() {
        check(&[], Some(Form::Ndjson));
        check(&[""], Some(Form::Ndjson));
        check(&["*/*"], Some(Form::Ndjson));
        check(&["application/*"], Some(Form::Ndjson));
        check(&["text/*"], Some(Form::ServerSentEvents));
        check(&["text/event-stream"], Some(Form::ServerSentEvents));
        check(&["Application/JSON; charset=utf-8"], Some(Form::Json));
        check(&["application/json, text/plain, */*"], Some(Form::Json));
        check(&["application/json;q=0.5, text/event-stream;q=0.9"], Some(Form::ServerSentEvents));
        check(&["application/json", "text/event-stream;q=0.1"], Some(Form::Json));
        check(&["application/json, text/event-stream"], Some(Form::ServerSentEvents));
        check(&["application/x-ndjson;q=0, */*"], Some(Form::ServerSentEvents));
        check(&["text/html"], None);
        check(&["application/json;q=0"], None);
        check(&["application/json;q=nonsense"], None);
    }
}

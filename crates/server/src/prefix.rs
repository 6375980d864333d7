//! The path prefix under which a proxy serves this server, so that the paths in answers work for the proxy's clients.
//!
//! The proxy removes the prefix from each request and sends it in `X-Forwarded-Prefix`. The setting `server.prefix` is for
//! proxies that do not send it, and takes precedence. A prefix changes the paths in answers, never the rights of a request.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

const FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
/// A longer prefix is ignored.
const PREFIX_BYTES_MAX: usize = 1024;

/// The prefix for the places in an answer: empty, or `/a` or `/a/b` without a slash at its end.
pub(crate) fn prefix<'a>(setting: &'a str, headers: &'a HeaderMap) -> &'a str {
    let stated = match setting {
        "" => headers.get(FORWARDED_PREFIX).and_then(|field| field.to_str().ok()).unwrap_or_default(),
        setting => setting,
    };
    let stated = stated.trim_end_matches('/');
    if is_prefix(stated) { stated } else { "" }
}

/// True if this is a path that a place can begin with; `//host` and `/\host` are other servers to a browser.
pub fn is_prefix(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:@".contains(&byte);
    text.is_empty()
        || text.starts_with('/')
            && !text.starts_with("//")
            && text.len() <= PREFIX_BYTES_MAX
            && text.bytes().all(is_plain)
}

/// Adds the prefix to the place that an answer names.
pub(crate) fn place_under(prefix: &str, fields: &mut HeaderMap) {
    if prefix.is_empty() {
        return;
    }
    let place = fields.get(header::LOCATION).and_then(|place| place.to_str().ok());
    // An address of another server is not below this one's prefix.
    let Some(place) = place.filter(|place| place.starts_with('/')) else { return };
    if let Ok(place) = HeaderValue::from_str(&format!("{prefix}{place}")) {
        fields.insert(header::LOCATION, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(setting: &str, forwarded: &str, expected: &str) {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_str(forwarded) {
            headers.insert(FORWARDED_PREFIX, value);
        }
        assert_eq!(prefix(setting, &headers), expected, "{setting:?} {forwarded:?}");
    }

    #[test]
    fn prefix_is_the_settings_or_the_proxys() {
        check("", "", "");
        check("", "/live", "/live");
        check("", "/live/", "/live");
        check("/own", "/live", "/own");
        check("/own/", "", "/own");
    }

    #[test]
    fn prefix_that_is_no_path_is_ignored() {
        for odd in [
            "live",
            "//evil.example",
            "/\\evil.example",
            "/a b",
            "/a\"b",
            "http://evil.example/",
            "/?a",
            "/#a",
        ] {
            check("", odd, "");
        }
        check("", &format!("/{}", "a".repeat(PREFIX_BYTES_MAX)), "");
    }
}

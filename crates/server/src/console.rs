//! The console: the page at `/` and its files, which are built from `console/` and are in the binary.
//!
//! A file's address contains the *build*, a hash over all files, so browsers may cache it for ever. The page itself is made
//! anew for each request: it names the build, and a nonce that lets it add styles. Its policy allows nothing from elsewhere.
//! All addresses in it are relative, so it works below a path that a proxy strips.

use std::{collections::BTreeMap, fmt::Write as _, io::Write as _, sync::LazyLock};

use axum::{
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use rust_embed::RustEmbed;
use sha2::{Digest, Sha256};
use std::sync::Arc;

use crate::{config::ConsoleMode, problem::Problem, server::Shared};

/// The page's file. All others are named in it or by it.
const PAGE: &str = "index.html";
/// Letters of the build.
const BUILD_CHARS: usize = 16;

#[derive(RustEmbed)]
#[folder = "../../console/dist"]
struct Sources;

static CONSOLE: LazyLock<Console> = LazyLock::new(Console::new);

/// All files, as they are sent.
struct Console {
    build: String,
    page: String,
    files: BTreeMap<String, File>,
}

struct File {
    media_type: &'static str,
    plain: Bytes,
    /// None if it would not be shorter.
    gzip: Option<Bytes>,
    etag: HeaderValue,
}

impl Console {
    fn new() -> Console {
        let mut names: Vec<String> = Sources::iter().map(|name| name.into_owned()).collect();
        names.sort_unstable();
        let mut hash = Sha256::new();
        let mut sources = BTreeMap::new();
        for name in names {
            let Some(source) = Sources::get(&name) else { continue };
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name.as_bytes());
            hash.update((source.data.len() as u64).to_le_bytes());
            hash.update(&source.data);
            sources.insert(name, Bytes::from(source.data.into_owned()));
        }
        let build = hex(&hash.finalize())[..BUILD_CHARS].to_owned();
        let page = sources.remove(PAGE).unwrap_or_default();
        let page = String::from_utf8_lossy(&page).into_owned();
        let files = sources.into_iter().map(|(name, plain)| {
            let file = File {
                media_type: media_type(&name),
                gzip: gzip(&plain),
                etag: HeaderValue::from_str(&format!("W/\"{build}-{name}\""))
                    .unwrap_or(HeaderValue::from_static("\"\"")),
                plain,
            };
            (name, file)
        });
        let files = files.collect();
        Console { build, page, files }
    }
}

/// The build of the page's files.
pub(crate) fn build() -> &'static str {
    &CONSOLE.build
}

/// The page.
pub(crate) fn page(shared: &Shared, headers: &HeaderMap) -> Response {
    let console = &*CONSOLE;
    let nonce = uuid::Uuid::new_v4().simple().to_string();
    let from = match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        Some(b"cross-site") => "cross-site",
        _ => "here",
    };
    let mode = match shared.config.console_mode {
        ConsoleMode::ReadOnly => "read_only",
        ConsoleMode::On | ConsoleMode::Off => "on",
    };
    let page = console
        .page
        .replace("{{base}}", &format!("v1/console/{}", console.build))
        .replace("{{build}}", &console.build)
        .replace("{{nonce}}", &nonce)
        .replace("{{mode}}", mode)
        .replace("{{from}}", from);
    let ancestors = match shared.config.console_frame_ancestors.as_slice() {
        [] => "'none'".to_owned(),
        origins => origins.join(" "),
    };
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; connect-src 'self'; \
         img-src 'self' data: blob:; font-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors {ancestors}; require-trusted-types-for 'script'"
    );
    let mut response = Response::new(Body::from(page));
    let fields = response.headers_mut();
    let mut put = |name: &'static str, value: HeaderValue| {
        fields.insert(HeaderName::from_static(name), value);
    };
    put("content-type", HeaderValue::from_static("text/html; charset=utf-8"));
    put("cache-control", HeaderValue::from_static("no-cache"));
    put("vary", HeaderValue::from_static("accept"));
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        put("content-security-policy", policy);
    }
    for (name, value) in OF_PAGE {
        put(name, HeaderValue::from_static(value));
    }
    response
}

/// Fields of the page and of scripts that it starts.
const OF_PAGE: [(&str, &str); 3] = [
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-embedder-policy", "require-corp"),
    ("referrer-policy", "no-referrer"),
];

/// A file of the page.
pub(crate) async fn file(
    State(shared): State<Arc<Shared>>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let console = &*CONSOLE;
    let Ok(Path((build, name))) = path else { return Err(not_found("the path is not valid UTF-8")) };
    if shared.config.console_mode == ConsoleMode::Off {
        return Err(not_found("the console is off (`console.mode`)"));
    }
    if build != console.build {
        let build: String = build.chars().take(64).collect();
        return Err(not_found(format!("this server has no build `{build}` of the console"))
            .hint("Reload the page: the server has another version."));
    }
    let Some(file) = console.files.get(&name) else {
        let name: String = name.chars().take(64).collect();
        return Err(not_found(format!("the console has no file `{name}`")));
    };
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| *known == file.etag);
    let gzip = file.gzip.as_ref().filter(|_| accepts_gzip(&headers));
    let body = match is_known {
        true => Bytes::new(),
        false => gzip.unwrap_or(&file.plain).clone(),
    };
    let mut response = Response::new(Body::from(body));
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.media_type));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    fields.insert(header::ETAG, file.etag.clone());
    fields.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if gzip.is_some() && !is_known {
        fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    for (name, value) in OF_PAGE {
        fields.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    fields.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    Ok(response.into_response())
}

fn not_found(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not-found", "The object does not exist", detail)
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let fields = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|field| field.to_str().ok());
    let codings = fields.flat_map(|field| field.split(','));
    // What is said of gzip counts before what is said of all others.
    let (mut of_gzip, mut of_others) = (None, None);
    for coding in codings {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let is_wanted = !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
        match name {
            "*" => of_others = Some(is_wanted),
            _ if name.eq_ignore_ascii_case("gzip") => of_gzip = Some(is_wanted),
            _ => {}
        }
    }
    of_gzip.or(of_others).unwrap_or(false)
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        Some("html") => "text/html; charset=utf-8",
        Some("png") => "image/png",
        Some("woff2") => "font/woff2",
        _ => "text/plain; charset=utf-8",
    }
}

fn gzip(plain: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).ok()?;
    encoder.finish().ok().filter(|gzip| gzip.len() < plain.len()).map(Bytes::from)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_and_its_files_are_in_the_binary() {
        let console = &*CONSOLE;
        assert_eq!(console.build.len(), BUILD_CHARS);
        for place in ["{{base}}/app.js", "{{base}}/style.css", "{{from}}", "{{build}}", "{{mode}}"] {
            assert!(console.page.contains(place), "{place}");
        }
        for name in ["app.js", "worker.js", "style.css", "licences.txt"] {
            assert!(console.files.contains_key(name), "{name}");
        }
    }

    #[test]
    fn gzip_is_sent_to_those_who_take_it() {
        let check = |field: &'static str, expected| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(field));
            assert_eq!(accepts_gzip(&headers), expected, "{field}");
        };
        check("gzip, deflate, br", true);
        check("br, GZIP;q=0.5", true);
        check("*", true);
        check("gzip;q=0", false);
        check("gzip;q=0, *", false);
        check("br", false);
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}

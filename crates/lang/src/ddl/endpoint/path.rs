//! Parses and matches paths with parameters: `/stats/{userId}`.

use std::fmt;

use crate::lexer::is_word;

/// The longest path, in bytes.
const PATH_BYTES_MAX: usize = 1024;
/// The most segments of a path.
const SEGMENTS_MAX: usize = 32;

/// First segments that are the server's own.
const RESERVED: [&str; 6] = ["v1", "api", "drpc", "metrics", "healthz", "readyz"];
/// The last segment of paths that bulk helpers use.
const BULK: &str = "_bulk";

/// A path, some of whose segments stand for any.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathTemplate(Vec<Segment>);

/// The text between two `/`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Segment {
    /// This.
    Literal(Box<str>),
    /// `{name}`: anything but nothing.
    Parameter(Box<str>),
}

/// True if a request's path is none that an endpoint may have, whatever its template is.
pub fn is_reserved_path(path: &str) -> bool {
    let path = path.strip_prefix('/').unwrap_or(path);
    let first = path.split('/').next().unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or_default();
    path.is_empty() || RESERVED.contains(&first) || last == BULK
}

impl PathTemplate {
    /// Parses a path; the error has its fault. A `/` at its end means nothing.
    pub(crate) fn parse(text: &str) -> Result<PathTemplate, String> {
        let Some(path) = text.strip_prefix('/') else {
            return Err("a path must begin with `/`".to_owned());
        };
        if text.len() > PATH_BYTES_MAX {
            return Err(format!("a path has at most {PATH_BYTES_MAX} bytes"));
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        if path.is_empty() {
            return Err("`/` is reserved for the server".to_owned());
        }
        let segments: Vec<Segment> = path.split('/').map(segment).collect::<Result<_, _>>()?;
        if segments.len() > SEGMENTS_MAX {
            return Err(format!("a path has at most {SEGMENTS_MAX} segments"));
        }
        match &segments[0] {
            Segment::Literal(first) if RESERVED.contains(&&**first) => {
                return Err(format!("`/{first}` is reserved for the server"));
            }
            _ => {}
        }
        if segments.last() == Some(&Segment::Literal(BULK.into())) {
            return Err(format!("paths that end in `/{BULK}` are reserved for the server"));
        }
        let template = PathTemplate(segments);
        let mut names: Vec<&str> = template.parameters().collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("`{{{}}}` occurs twice in the path", twice[0]));
        }
        Ok(template)
    }

    /// Its segments, at least one.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// The names of its parameters, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|segment| match segment {
            Segment::Parameter(name) => Some(&**name),
            Segment::Literal(_) => None,
        })
    }

    pub(crate) fn has_parameter(&self, name: &str) -> bool {
        self.parameters().any(|parameter| parameter == name)
    }

    /// The path without the names of parameters: equal for two paths that the same requests match.
    pub fn shape(&self) -> String {
        self.0.iter().fold(String::new(), |shape, segment| match segment {
            Segment::Literal(text) => shape + "/" + text,
            Segment::Parameter(_) => shape + "/{}",
        })
    }
}

fn segment(text: &str) -> Result<Segment, String> {
    if text.is_empty() {
        return Err("a segment of a path cannot be empty".to_owned());
    }
    if let Some(name) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        if !is_word(name) {
            return Err(format!(
                "`{{{name}}}` is not a parameter: a name consists of letters, digits and `_`"
            ));
        }
        return Ok(Segment::Parameter(name.into()));
    }
    if matches!(text, "." | "..") {
        return Err(format!("`{text}` cannot be a segment of a path"));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@".contains(c);
    match text.chars().find(|&c| !is_plain(c)) {
        Some(c @ ('{' | '}')) => Err(format!("`{c}` must enclose a whole segment: `/{{name}}/`")),
        Some(c) => Err(format!("`{}` is not allowed in a path", c.escape_debug())),
        None => Ok(Segment::Literal(text.into())),
    }
}

impl fmt::Display for PathTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|segment| match segment {
            Segment::Literal(text) => write!(f, "/{text}"),
            Segment::Parameter(name) => write!(f, "/{{{name}}}"),
        })
    }
}

//! Paths: the locations of values inside an event, `a`, `a.b`, `a[0].c`, `a['k']`.

use std::{fmt, sync::Arc};

/// One step down into a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// A step into an object, by key.
    Key(Box<str>),
    /// A step into a list, by place, from 0.
    Index(u32),
}

/// The steps from an event to one of its values, the first a key; none for the event itself. A clone shares them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    steps: Arc<[Step]>,
}

/// A path that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// No step at all, or a first step that is not a key.
    #[error("a path begins with the name of a field")]
    NoField,
    /// Text that is not a path.
    #[error("path `{text}` cannot be read at byte {at}")]
    Syntax {
        /// The whole text.
        text: String,
        /// The byte at which reading stopped.
        at: usize,
    },
}

impl Path {
    /// The path of a field of the event itself.
    pub fn field(name: impl Into<Box<str>>) -> Path {
        Path { steps: Arc::new([Step::Key(name.into())]) }
    }

    /// The path of the event itself, which no text writes.
    pub fn event() -> Path {
        Path { steps: Arc::new([]) }
    }

    /// True if it is that of the event itself.
    pub fn is_event(&self) -> bool {
        self.steps.is_empty()
    }

    /// A path of several steps; the first must be a key.
    pub fn new(steps: Vec<Step>) -> Result<Path, PathError> {
        match steps.first() {
            Some(Step::Key(_)) => Ok(Path { steps: steps.into() }),
            _ => Err(PathError::NoField),
        }
    }

    /// This path and one step more.
    #[must_use]
    pub fn then(&self, step: Step) -> Path {
        Path { steps: self.steps.iter().cloned().chain([step]).collect() }
    }

    /// True if a clone of it is there.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.steps) > 1
    }

    /// The steps, outermost first.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Reads `a.b[0]['k k']` as people write it on a command line. Names hold anything but `.`, `[` and `]`;
    /// other names go into `['…']`, where `''` is one quote.
    pub fn parse(text: &str) -> Result<Path, PathError> {
        let error = |at| PathError::Syntax { text: text.to_owned(), at };
        let bytes = text.as_bytes();
        let mut steps = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] == b'[' {
                if bytes.get(at + 1) == Some(&b'\'') {
                    let mut key = String::new();
                    let mut from = at + 2;
                    loop {
                        let quote = from + text[from..].find('\'').ok_or_else(|| error(from))?;
                        key.push_str(&text[from..quote]);
                        if bytes.get(quote + 1) == Some(&b'\'') {
                            key.push('\'');
                            from = quote + 2;
                        } else {
                            at = quote + 1;
                            break;
                        }
                    }
                    steps.push(Step::Key(key.into()));
                } else {
                    let close = at + text[at..].find(']').ok_or_else(|| error(at))?;
                    let index = text[at + 1..close].parse().map_err(|_| error(at + 1))?;
                    steps.push(Step::Index(index));
                    at = close;
                }
                if bytes.get(at) != Some(&b']') {
                    return Err(error(at));
                }
                at += 1;
            } else {
                if at > 0 {
                    if bytes[at] != b'.' {
                        return Err(error(at));
                    }
                    at += 1;
                }
                let end = text[at..].find(['.', '[', ']']).map_or(text.len(), |found| at + found);
                if end == at {
                    return Err(error(at));
                }
                steps.push(Step::Key(text[at..end].into()));
                at = end;
            }
        }
        Path::new(steps)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_event() {
            return f.write_str("*");
        }
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) if at == 0 => f.write_str(key)?,
                Step::Key(key) if is_plain(key) => write!(f, ".{key}")?,
                Step::Key(key) => write!(f, "['{}']", key.replace('\'', "''"))?,
            }
        }
        Ok(())
    }
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_')
}

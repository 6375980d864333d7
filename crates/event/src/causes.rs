//! Formats an error with its causes as text.

/// An error with all that caused it, on one line. Many errors contain their cause in their own text, those of object stores
/// over several levels: a repeated text is omitted.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !told.contains(&text) {
            told.push_str(": ");
            told.push_str(&text);
        }
        next = cause.source();
    }
    told
}

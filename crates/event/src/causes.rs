//! Formats an error with its causes as text.

/// An error with all that caused it, on one line. Many an error says what caused it in its own text, those of object stores
/// over several levels: what is said already is not said again.
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

//! Errors of the deduplication of numbered requests.

/// A conflict of a numbered request with those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DedupError {
    /// The number is older than those that are remembered.
    #[error(
        "request {sequence} of producer `{producer}` is too old to be deduplicated, {lowest} is the oldest that can be"
    )]
    TooOld {
        /// The producer.
        producer: String,
        /// The request's number.
        sequence: u64,
        /// The lowest number that is remembered.
        lowest: u64,
    },
    /// A part of a request came before those that precede it.
    #[error(
        "only {parts} parts of request {sequence} of producer `{producer}` are stored, so a later one cannot be"
    )]
    PartMissing {
        /// The producer.
        producer: String,
        /// The request's number.
        sequence: u64,
        /// Parts that are stored.
        parts: u32,
    },
    /// The number was used before for other events.
    #[error("request {sequence} of producer `{producer}` is already stored with other events")]
    NumberReused {
        /// The producer.
        producer: String,
        /// The request's number.
        sequence: u64,
    },
}

impl DedupError {
    pub(super) fn hint(&self) -> &'static str {
        match self {
            DedupError::TooOld { .. } => {
                "Number requests in ascending order, and retry before many later ones are sent."
            }
            DedupError::PartMissing { .. } => "Send the whole request again.",
            DedupError::NumberReused { .. } => {
                "Send other events under an unused number. A retry must have the same body as the first attempt."
            }
        }
    }
}

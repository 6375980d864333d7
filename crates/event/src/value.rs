//! One value of one event, borrowed from where it lies.

/// A value as expressions see it: 24 bytes, copied freely. Text and containers borrow from the event's bytes, from a
/// column, or from the arena of the evaluation that made them.
///
/// `Error` stands beside `Null`: a value that *cannot be had* (an element past the end of a list, a failed cast, a
/// division by zero) is not a value that is missing. Each dialect decides what becomes of it.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// Missing, or a JSON `null`.
    Null,
    /// It cannot be had.
    Error,
    /// BOOLEAN.
    Boolean(bool),
    /// INTEGER.
    Integer(i32),
    /// LONG.
    Long(i64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// STRING.
    String(&'a str),
    /// TIMESTAMP: microseconds since 1970-01-01T00:00:00Z.
    Timestamp(i64),
    /// A list, in order.
    List(&'a [Value<'a>]),
    /// A map, in the order of the event's text; of equal keys only the last is here.
    Map(&'a [(&'a str, Value<'a>)]),
}

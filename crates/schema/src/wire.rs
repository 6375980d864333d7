//! The wire format of schema registries: a zero byte, the schema's id as 4 bytes, big-endian, and the payload.

use crate::Fault;

/// The first byte of a message.
const MAGIC: u8 = 0;

/// A message with the id of its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framed<'m> {
    /// The id of the schema in the registry.
    pub schema: u32,
    /// The bytes after the id.
    pub payload: &'m [u8],
}

/// Takes the schema's id off a message.
pub fn unframe(message: &[u8]) -> Result<Framed<'_>, Fault> {
    const HINT: &str = "messages with a registry's schema begin with a zero byte and the schema's id";
    match message {
        [] => Err(Fault::new("the message is empty")),
        [MAGIC, a, b, c, d, payload @ ..] => {
            Ok(Framed { schema: u32::from_be_bytes([*a, *b, *c, *d]), payload })
        }
        [MAGIC, ..] => Err(Fault::new(format!("the message ends within the schema's id: {HINT}"))),
        [first, ..] => Err(Fault::new(format!("the message begins with the byte {first}: {HINT}"))),
    }
}

/// The bytes before the payload of a message: the schema's id, and the indexes of the message's type in it.
pub fn frame(schema: u32, indexes: &[u8]) -> Vec<u8> {
    [&[MAGIC], &schema.to_be_bytes()[..], indexes].concat()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use super::*;

    #[test]
    fn message_begins_with_the_id_of_its_schema() {
        let framed = unframe(&[0, 1, 2, 3, 4, 5]).unwrap();
        assert_eq!(framed, Framed { schema: 0x0102_0304, payload: &[5] });
        assert_eq!(frame(0x0102_0304, &[5]), [0, 1, 2, 3, 4, 5]);
        for (message, fault) in [
            (&b""[..], "the message is empty"),
            (b"\0\0\0\0", "the message ends within the schema's id"),
            (b"{\"a\":1}", "the message begins with the byte 123"),
        ] {
            assert!(unframe(message).unwrap_err().to_string().starts_with(fault), "{message:?}");
        }
    }
}

//! Finds places where a text of events can be cut, so that checking each part separately returns the same result.

use crate::scan::is_space;

/// The last place where `bytes` can be cut between two events (the second part begins there); `None` if none is found.
///
/// It lies after a newline that has a `}` before it and a `{` after it, white space aside. No valid event holds such a
/// newline, and checking treats one as the end of an event in any case, so the parts of a text that is not an array,
/// cut there and checked by [`crate::check_block`], give what the whole would give. Cost: the bytes from there to the end.
pub fn last_cut(bytes: &[u8]) -> Option<usize> {
    let mut end = bytes.len();
    loop {
        let newline = memchr::memrchr(b'\n', &bytes[..end])?;
        let before = bytes[..newline].iter().rposition(|&byte| !is_space(byte))?;
        let after = bytes[newline..end].iter().position(|&byte| !is_space(byte));
        let after = after.map_or(end, |found| newline + found);
        if bytes[before] == b'}' && bytes.get(after) == Some(&b'{') {
            return Some(newline + 1);
        }
        end = before;
    }
}

/// The first such place.
pub fn first_cut(bytes: &[u8]) -> Option<usize> {
    let mut start = 0;
    loop {
        let newline = start + memchr::memchr(b'\n', &bytes[start..])?;
        let before =
            bytes[start..newline].iter().rposition(|&byte| !is_space(byte)).map(|found| start + found);
        let after = newline + bytes[newline..].iter().position(|&byte| !is_space(byte))?;
        if before.is_some_and(|at| bytes[at] == b'}') && bytes[after] == b'{' {
            return Some(newline + 1);
        }
        start = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, first: Option<usize>, last: Option<usize>) {
        assert_eq!(first_cut(text.as_bytes()), first, "first in {text:?}");
        assert_eq!(last_cut(text.as_bytes()), last, "last in {text:?}");
    }

    #[test]
    fn texts_are_cut_between_events_only() {
        check("", None, None);
        check("\n\n", None, None);
        check("{}\n", None, None);
        check("{}\n{}", Some(3), Some(3));
        check("{}\n{}\n{}\n", Some(3), Some(6));
        check("{} \r\n\n {}", Some(5), Some(6));
        check("{}{}", None, None);
        check("{\"a\":\n{}\n,\"b\":\n{\n}\n}\n", None, None);
        check("\n{}\n\n", None, None);
    }
}

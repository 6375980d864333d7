//! Compiles and matches the patterns of LIKE.

/// A pattern of LIKE: `%` takes any characters, `_` one; `\` before a character takes it as it is.
#[derive(Debug)]
pub(super) struct LikePattern {
    parts: Vec<Like>,
}

#[derive(Debug, PartialEq)]
enum Like {
    Text(Box<str>),
    One,
    Any,
}

impl LikePattern {
    pub(super) fn new(pattern: &str) -> LikePattern {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            let wildcard = match c {
                '%' => Like::Any,
                '_' => Like::One,
                '\\' => {
                    text.push(chars.next().unwrap_or('\\'));
                    continue;
                }
                c => {
                    text.push(c);
                    continue;
                }
            };
            if !text.is_empty() {
                parts.push(Like::Text(std::mem::take(&mut text).into()));
            }
            if wildcard != Like::Any || parts.last() != Some(&Like::Any) {
                parts.push(wildcard);
            }
        }
        if !text.is_empty() {
            parts.push(Like::Text(text.into()));
        }
        LikePattern { parts }
    }

    /// True if the whole text matches. After a mismatch only the last `%` is tried further on, so the cost is at most
    /// the product of the lengths.
    pub(super) fn matches(&self, text: &str) -> bool {
        let mut rest = text;
        let mut at = 0;
        let mut retry: Option<(usize, &str)> = None;
        loop {
            let stepped = match self.parts.get(at) {
                None if rest.is_empty() => return true,
                None => None,
                Some(Like::Any) if at + 1 == self.parts.len() => return true,
                Some(Like::Any) => {
                    retry = Some((at, rest));
                    Some(rest)
                }
                Some(Like::One) => {
                    let mut chars = rest.chars();
                    chars.next().map(|_| chars.as_str())
                }
                Some(Like::Text(part)) => rest.strip_prefix(&**part),
            };
            if let Some(stepped) = stepped {
                rest = stepped;
                at += 1;
                continue;
            }
            // Let the last `%` take one character more, or go straight to the next place its text occurs at.
            let Some((any, from)) = retry else { return false };
            let mut chars = from.chars();
            if chars.next().is_none() {
                return false;
            }
            let mut next = chars.as_str();
            if let Some(Like::Text(part)) = self.parts.get(any + 1) {
                match next.find(&**part) {
                    Some(found) => next = next.get(found..).unwrap_or(""),
                    None => return false,
                }
            }
            retry = Some((any, next));
            rest = next;
            at = any + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    #[test]
    fn like_patterns() {
        for (pattern, text, matches) in [
            ("", "", true),
            ("", "a", false),
            ("%", "", true),
            ("a%", "abc", true),
            ("%c", "abc", true),
            ("%b%", "abc", true),
            ("a_c", "aéc", true),
            ("a_c", "ac", false),
            (r"a\%", "a%", true),
            (r"a\%", "ab", false),
            (r"a\\b", r"a\b", true),
            ("%a%b%c%", "xxaxxbxxcxx", true),
            ("%ab", "aab", true),
            ("%_b", "ab", true),
            ("a%%b", "ab", true),
            ("%😀_", "x😀y", true),
            ("A%", "abc", false),
        ] {
            assert_eq!(LikePattern::new(pattern).matches(text), matches, "{pattern} on {text}");
        }
    }

    proptest! {
        #[test]
        fn like_agrees_with_its_regex(pattern in "[ab%_é]{0,8}", text in "[abé]{0,10}") {
            let regex = format!("(?s)^{}$", pattern.replace('%', ".*").replace('_', "."));
            let expected = Regex::new(&regex).unwrap().is_match(&text);
            prop_assert_eq!(LikePattern::new(&pattern).matches(&text), expected);
        }
    }
}

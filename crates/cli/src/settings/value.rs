//! Parses and prints sizes, durations and numbers as people write them: `64MiB`, `1.5GB`, `250ms`, `1h 30min`, `10_000`.
//!
//! A plain number is in the unit that the setting's name ends with. Nothing is rounded: text that is not a whole number of
//! bytes or milliseconds is refused.

/// Units of size, the larger first, so that printing finds the largest that divides a number.
const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

/// Units of time in milliseconds, the larger first.
const TIMES: [(&str, u64); 6] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A size in bytes; letter case of the unit does not matter, `KB` is `kB`.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, &'static str> {
    let why = "not a size; write for example `65536`, `64KiB`, `64MiB` or `1.5GiB`";
    let (number, unit) = split_unit(text).ok_or(why)?;
    let factor = match unit {
        "" => 1,
        _ => SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or(why)?.1,
    };
    times(number, factor).ok_or(why)
}

/// A duration in milliseconds; parts may follow each other.
pub(crate) fn parse_millis(text: &str) -> Result<u64, &'static str> {
    let why = "not a duration; write for example `250` (milliseconds), `250ms`, `5s` or `1h 30min`";
    let mut rest = text.trim();
    let mut sum: u64 = 0;
    let mut parts = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit_len =
            rest[number_end..].find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len() - number_end);
        let (part, after) = rest.split_at(number_end + unit_len);
        let (number, unit) = split_unit(part).ok_or(why)?;
        let factor = match unit {
            "" if parts == 0 && after.is_empty() => 1,
            _ => TIMES.iter().find(|(name, _)| *name == unit).ok_or(why)?.1,
        };
        sum = times(number, factor).and_then(|part| sum.checked_add(part)).ok_or(why)?;
        parts += 1;
        rest = after.trim_start();
    }
    if parts == 0 { Err(why) } else { Ok(sum) }
}

/// A whole number, `_` allowed between digits.
pub(crate) fn parse_count(text: &str) -> Result<u64, &'static str> {
    whole(text.trim()).ok_or("not a whole number")
}

/// The shortest text that [`parse_bytes`] reads back to the same number.
pub(crate) fn bytes_text(bytes: u64) -> String {
    let binary = SIZES.iter().filter(|(name, _)| name.ends_with("iB") || *name == "B");
    largest_unit(bytes, binary)
}

/// The shortest text that [`parse_millis`] reads back to the same number.
pub(crate) fn millis_text(millis: u64) -> String {
    largest_unit(millis, TIMES.iter().filter(|(name, _)| *name != "m"))
}

fn largest_unit<'a>(number: u64, mut units: impl Iterator<Item = &'a (&'static str, u64)>) -> String {
    if number == 0 {
        return "0".to_owned();
    }
    let (name, factor) =
        units.find(|(_, factor)| number.is_multiple_of(*factor)).expect("the last unit is 1");
    format!("{}{name}", number / factor)
}

fn split_unit(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let number = text[..end].trim_end();
    if number.is_empty() { None } else { Some((number, &text[end..])) }
}

/// `number * factor`, where `number` may have decimals and the product has none.
fn times(number: &str, factor: u64) -> Option<u64> {
    let Some((before, after)) = number.split_once('.') else { return whole(number)?.checked_mul(factor) };
    if after.is_empty() || after.len() > 12 || !after.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let denominator = 10u128.pow(after.len() as u32);
    let numerator = u128::from(whole(before)?) * denominator + after.parse::<u128>().ok()?;
    let product = numerator.checked_mul(u128::from(factor))?;
    if product % denominator == 0 { u64::try_from(product / denominator).ok() } else { None }
}

fn whole(text: &str) -> Option<u64> {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    if !edge(text.chars().next()) || !edge(text.chars().next_back()) {
        return None;
    }
    text.replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65_536),
            ("64KiB", 65_536),
            ("64 kib", 65_536),
            ("1.5GiB", 1_610_612_736),
            ("2MB", 2_000_000),
            ("2KB", 2_000),
            ("10_000B", 10_000),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "1.0001KiB", "64 parsecs", "1e3", "18446744073709551615KiB", "_1", "1."]
        {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_read_with_and_without_units() {
        for (text, millis) in [
            ("0", 0),
            ("250", 250),
            ("250ms", 250),
            ("5s", 5_000),
            ("1h 30min", 5_400_000),
            ("1.5s", 1_500),
            ("1h30m", 5_400_000),
        ] {
            assert_eq!(parse_millis(text), Ok(millis), "{text}");
        }
        for text in ["", "s", "5 parsecs", "1h 30", "0.5ms", "-5s", "5S"] {
            assert!(parse_millis(text).is_err(), "{text}");
        }
    }

    #[test]
    fn printed_values_are_read_back() {
        for number in [0, 1, 999, 1_000, 1_024, 60_000, 65_536, 3_600_000, 256 << 20, 4 << 30, u64::MAX] {
            assert_eq!(parse_bytes(&bytes_text(number)), Ok(number));
            assert_eq!(parse_millis(&millis_text(number)), Ok(number));
        }
        assert_eq!(bytes_text(256 << 20), "256MiB");
        assert_eq!(millis_text(600_000), "10min");
    }
}

//! Reimplements functions of Java's library on numbers, text and collections; Bullet's answers depend on them.
//!
//! Printing takes the shortest digits that read back as the same number, as `Double.toString` does since Java 19. Older
//! releases print a few numbers with more digits than needed.

use std::fmt::Write;

use swiftwater_event::Value;

use super::time;

/// Appends a double as `Double.toString` prints it: `1.0`, `1.0E10`, `NaN`, `-Infinity`.
pub fn push_java_double(number: f64, out: &mut String) {
    if let Some(text) = special(number) {
        return out.push_str(text);
    }
    // Java prints at least two digits: of the decimals with two, the nearest, if it reads back as the same number.
    let mut digits = format!("{number:e}");
    if !digits.contains('.') {
        let two = format!("{number:.1e}");
        if two.parse() == Ok(number) {
            digits = two;
        }
    }
    push_decimal(&digits, out);
}

/// Appends a float as `Float.toString` prints it.
pub fn push_java_float(number: f32, out: &mut String) {
    if let Some(text) = special(f64::from(number)) {
        return out.push_str(text);
    }
    let mut digits = format!("{number:e}");
    if !digits.contains('.') {
        let two = format!("{number:.1e}");
        if two.parse() == Ok(number) {
            digits = two;
        }
    }
    push_decimal(&digits, out);
}

fn special(number: f64) -> Option<&'static str> {
    match number {
        _ if number.is_nan() => Some("NaN"),
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        _ => None,
    }
}

/// Converts Rust's `-1.25e7` to Java's form: plain from 10^-3 up to 10^7, with an exponent outside.
fn push_decimal(scientific: &str, out: &mut String) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    out.push_str(sign);
    let fraction = match fraction.trim_end_matches('0') {
        "" => "0",
        trimmed => trimmed,
    };
    match exponent {
        -3..=-1 => {
            out.push_str("0.");
            out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
            out.push_str(whole);
            out.push_str(if fraction == "0" { "" } else { fraction });
            if whole == "0" && fraction == "0" {
                out.push('0');
            }
        }
        0..=6 => {
            let places = exponent as usize;
            out.push_str(whole);
            if places >= fraction.len() {
                if places > 0 {
                    out.push_str(fraction);
                    out.extend(std::iter::repeat_n('0', places - fraction.len()));
                    out.push_str(".0");
                } else {
                    out.push('.');
                    out.push_str(fraction);
                }
            } else {
                let (before, after) = fraction.split_at(places);
                out.push_str(before);
                out.push('.');
                out.push_str(after);
            }
        }
        _ => {
            // Writing to a String cannot fail.
            let _ = write!(out, "{whole}.{fraction}E{exponent}");
        }
    }
}

/// Reads a number as `Double.parseDouble` does: space (up to U+0020) around it, a sign, `NaN`, `Infinity`, digits
/// with point and exponent, hexadecimal with a binary exponent, and a closing `f` or `d` are all allowed.
pub fn parse_java_double(text: &str) -> Option<f64> {
    let text = trim_java(text);
    let (negative, body) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = match body {
        "NaN" => f64::NAN,
        "Infinity" => f64::INFINITY,
        _ => match body.strip_prefix("0x").or_else(|| body.strip_prefix("0X")) {
            Some(hexadecimal) => parse_hexadecimal(hexadecimal)?,
            None => parse_decimal(body)?,
        },
    };
    Some(if negative { -magnitude } else { magnitude })
}

fn parse_decimal(body: &str) -> Option<f64> {
    let body = body.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(body);
    let (mantissa, exponent) = match body.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (body, None),
    };
    let is_mantissa = mantissa.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && mantissa.bytes().any(|byte| byte.is_ascii_digit());
    let is_exponent = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    if !is_mantissa || !is_exponent {
        return None;
    }
    body.parse().ok()
}

/// `h.hhhp±d`, the prefix cut off; the exponent must be there.
fn parse_hexadecimal(body: &str) -> Option<f64> {
    let body = body.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(body);
    let (mantissa, exponent) = body.split_once(['p', 'P'])?;
    let exponent_digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if exponent_digits.is_empty() || !exponent_digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // An exponent beyond these bounds makes the number 0 or infinite whatever mantissa a text of sane length has.
    let mut scale: i64 =
        exponent.parse::<i64>().unwrap_or(if exponent.starts_with('-') { -1 << 40 } else { 1 << 40 });
    scale = scale.clamp(-(1 << 40), 1 << 40);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // The first 60 bits, and whether anything came behind them: rounding needs no more.
    let mut bits: u64 = 0;
    for (digits, is_fraction) in [(whole, false), (fraction, true)] {
        for digit in digits.chars() {
            let digit = u64::from(digit.to_digit(16)?);
            if bits < 1 << 56 {
                bits = bits << 4 | digit;
                scale -= if is_fraction { 4 } else { 0 };
            } else {
                bits |= u64::from(digit != 0);
                scale += if is_fraction { 0 } else { 4 };
            }
        }
    }
    let mut number = bits as f64;
    // In steps, since 2^scale itself may be out of range.
    while scale != 0 && number != 0.0 && number.is_finite() {
        let step = scale.clamp(-1000, 1000);
        number *= 2f64.powi(step as i32);
        scale -= step;
    }
    Some(number)
}

/// Java's `trim`: characters up to U+0020 are cut from both ends.
pub(super) fn trim_java(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ')
}

/// Appends the value as Java's `toString` gives it: `[1, 2]`, `{k=v}`, `null`. An error is as null.
pub fn java_text(value: &Value<'_>, out: &mut String) {
    match value {
        Value::Null | Value::Error => out.push_str("null"),
        Value::Boolean(true) => out.push_str("true"),
        Value::Boolean(false) => out.push_str("false"),
        Value::Integer(number) => {
            let _ = write!(out, "{number}");
        }
        Value::Long(number) => {
            let _ = write!(out, "{number}");
        }
        Value::Float(number) => push_java_float(*number, out),
        Value::Double(number) => push_java_double(*number, out),
        Value::String(text) => out.push_str(text),
        Value::Timestamp(micros) => time::push_rfc3339(*micros, out),
        Value::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                java_text(item, out);
            }
            out.push(']');
        }
        Value::Map(entries) => {
            out.push('{');
            for (at, (key, item)) in entries.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                out.push_str(key);
                out.push('=');
                java_text(item, out);
            }
            out.push('}');
        }
    }
}

/// Java's `hashCode`; 0 for null, and for an error.
pub fn java_hash(value: &Value<'_>) -> i32 {
    match value {
        Value::Null | Value::Error => 0,
        Value::Boolean(truth) => {
            if *truth {
                1231
            } else {
                1237
            }
        }
        Value::Integer(number) => *number,
        Value::Long(number) => hash_long(*number as u64),
        Value::Float(number) => if number.is_nan() { 0x7fc0_0000 } else { number.to_bits() }.cast_signed(),
        Value::Double(number) => {
            hash_long(if number.is_nan() { 0x7ff8_0000_0000_0000 } else { number.to_bits() })
        }
        Value::String(text) => hash_text(text),
        Value::Timestamp(micros) => hash_long(*micros as u64),
        Value::List(items) => {
            items.iter().fold(1i32, |hash, item| hash.wrapping_mul(31).wrapping_add(java_hash(item)))
        }
        Value::Map(entries) => {
            entries.iter().fold(0i32, |hash, (key, item)| hash.wrapping_add(hash_text(key) ^ java_hash(item)))
        }
    }
}

/// The places of a map's entries in the order in which Java's `HashMap` gives them out, where they were put into an
/// empty one in their order.
///
/// The table has a power of two of buckets, at least 16, and at most three quarters as many entries; an entry is in the
/// bucket that its hash's low bits name, the high half folded into them. Entries of one bucket stay in the order of
/// their coming (Java makes a tree of eight and more, which may change it: that is left out).
pub(crate) fn hash_map_order(entries: &[(&str, Value<'_>)]) -> Vec<u32> {
    let buckets = (entries.len() * 4).div_ceil(3).next_power_of_two().max(16);
    let bucket = |place: &u32| {
        let hash = hash_text(entries[*place as usize].0) as u32;
        (hash ^ (hash >> 16)) as usize & (buckets - 1)
    };
    let mut places: Vec<u32> = (0..entries.len() as u32).collect();
    places.sort_by_cached_key(bucket);
    places
}

fn hash_long(bits: u64) -> i32 {
    ((bits ^ (bits >> 32)) as u32).cast_signed()
}

fn hash_text(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn double_text(number: f64) -> String {
        let mut text = String::new();
        push_java_double(number, &mut text);
        text
    }

    fn float_text(number: f32) -> String {
        let mut text = String::new();
        push_java_float(number, &mut text);
        text
    }

    #[test]
    fn doubles_print_as_java_does() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-2.5, "-2.5"),
            (100.0, "100.0"),
            (123.456, "123.456"),
            (1234567.0, "1234567.0"),
            (9999999.0, "9999999.0"),
            (1.0e7, "1.0E7"),
            (1.25e10, "1.25E10"),
            (12345678.9, "1.23456789E7"),
            (0.001, "0.001"),
            (0.0125, "0.0125"),
            (0.5, "0.5"),
            (0.00099, "9.9E-4"),
            (1e-5, "1.0E-5"),
            (4.9e-324, "4.9E-324"),
            (f64::MAX, "1.7976931348623157E308"),
            (2e23, "2.0E23"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
            (9007199254740993.0, "9.007199254740992E15"),
        ];
        for (number, text) in cases {
            assert_eq!(double_text(number), text);
        }
    }

    #[test]
    fn floats_print_as_java_does() {
        let cases = [
            (1.0f32, "1.0"),
            (0.1, "0.1"),
            (16777216.0, "1.6777216E7"),
            (1e10, "1.0E10"),
            (9.223372e18, "9.223372E18"),
            (1.4e-45, "1.4E-45"),
            (f32::MAX, "3.4028235E38"),
            (f32::INFINITY, "Infinity"),
        ];
        for (number, text) in cases {
            assert_eq!(float_text(number), text);
        }
    }

    #[test]
    fn doubles_read_as_java_does() {
        let good = [
            ("5", 5.0),
            (" 3.9 ", 3.9),
            ("\t-7\n", -7.0),
            ("+1e3", 1000.0),
            ("5f", 5.0),
            ("5.D", 5.0),
            (".5", 0.5),
            ("1.5e-2d", 0.015),
            ("Infinity", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("1e999", f64::INFINITY),
            ("0x10p0", 16.0),
            ("0x1.8p1", 3.0),
            ("-0X.8P-1f", -0.25),
            ("0x1p-1074", 4.9e-324),
            ("0x1p99999999999999999999", f64::INFINITY),
        ];
        for (text, number) in good {
            assert_eq!(parse_java_double(text), Some(number), "{text}");
        }
        assert!(parse_java_double("NaN").is_some_and(f64::is_nan));
        for text in [
            "", " ", "0x10", "abc", "1e", "1e+", "--1", "1.2.3", ".", "nan", "inf", "1_000", "e5", "f",
            "\u{a0}1", "١",
        ] {
            assert_eq!(parse_java_double(text), None, "{text}");
        }
    }

    #[test]
    fn hashes_are_those_of_java() {
        let cases = [
            (Value::String("abc"), 96354),
            (Value::String("Zed"), 89721),
            (Value::Long(10_000_000_000), 1_410_065_410),
            (Value::Long(i64::MIN), i32::MIN),
            (Value::Double(5.0), 1_075_052_544),
            (Value::Double(f64::NAN), 2_146_959_360),
            (Value::Float(2.5), 1_075_838_976),
            (Value::Boolean(false), 1237),
            (Value::Null, 0),
            (Value::List(&[Value::Integer(1), Value::Integer(2)]), 994),
            (Value::Map(&[("a", Value::Integer(1))]), 96),
        ];
        for (value, hash) in cases {
            assert_eq!(java_hash(&value), hash, "{value:?}");
        }
    }

    #[test]
    fn entries_come_in_the_order_of_a_hash_map() {
        let order = |keys: &str| {
            let entries: Vec<(&str, Value<'_>)> = keys.split(' ').map(|key| (key, Value::Null)).collect();
            let names = hash_map_order(&entries).into_iter().map(|place| entries[place as usize].0);
            names.collect::<Vec<_>>().join(" ")
        };
        for (text, java) in [
            ("def abc", "abc def"),
            ("jane bob", "bob jane"),
            // Two of a bucket stay in the order of their coming.
            ("q a", "q a"),
            ("a q", "a q"),
            ("l k j i h g f e d c b a", "a b c d e f g h i j k l"),
            // One more than three quarters of 16 buckets makes them 32: then p and 0 share one, and q is behind a.
            ("q p 0 l k j i h g f e d c b a", "a b c d e f g h i j k l p 0 q"),
        ] {
            assert_eq!(order(text), java, "{text}");
        }
    }

    #[test]
    fn containers_print_as_java_does() {
        let inner = [("k", Value::String("v")), ("n", Value::Null)];
        let items = [Value::Double(1.0), Value::Map(&inner)];
        let mut text = String::new();
        java_text(&Value::List(&items), &mut text);
        assert_eq!(text, "[1.0, {k=v, n=null}]");
    }

    proptest! {
        #[test]
        fn printed_doubles_read_back(bits: u64) {
            let number = f64::from_bits(bits);
            let back = parse_java_double(&double_text(number)).unwrap();
            prop_assert!(back.to_bits() == number.to_bits() || (back.is_nan() && number.is_nan()));
        }

        #[test]
        fn printed_floats_read_back(bits: u32) {
            let number = f32::from_bits(bits);
            let back: f32 = float_text(number).replace("Infinity", "inf").parse().unwrap();
            prop_assert!(back.to_bits() == number.to_bits() || (back.is_nan() && number.is_nan()));
        }

        #[test]
        fn reading_never_panics(text in "[-+0-9a-fA-FxXpP.eEdD \u{e9}]{0,12}") {
            parse_java_double(&text);
        }
    }
}

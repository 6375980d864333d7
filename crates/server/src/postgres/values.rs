//! Decodes the values of parameters that clients of PostgreSQL's protocol send: as text or in binary form, with or without a
//! type number. (PostgreSQL's source, `src/backend/utils/adt`: the `*_in` and `*_recv` functions.)
//!
//! A text of an unknown type stays a text, and is converted to the type that its place requires.

use swiftwater_sql::{Parameter, array_elements};

use super::message::Incoming;

/// The days from 1970-01-01 to 2000-01-01.
const DAYS: i32 = 10_957;
const MICROS: i64 = DAY_MICROS * DAYS as i64;
const DAY_MICROS: i64 = 86_400_000_000;
/// Digits of a decimal.
const DIGITS_MAX: usize = 38;
/// Groups of zeros that are written out for a numeric that has none there: with more it is beyond every double, or as good as 0.
const GROUPS_MAX: i32 = 128;

/// A value of the type with this number; none if it cannot be read.
pub(super) fn parameter(bytes: &[u8], ty: i32, is_binary: bool) -> Option<Parameter> {
    if is_binary { of_binary(bytes, ty) } else { of_text(std::str::from_utf8(bytes).ok()?, ty) }
}

/// The type of an array's elements.
fn element(ty: i32) -> Option<i32> {
    Some(match ty {
        1000 => 16,
        1001 => 17,
        1005 => 21,
        1007 => 23,
        1009 | 1015 => 25,
        1016 => 20,
        1021 => 700,
        1022 => 701,
        1115 => 1114,
        1182 => 1082,
        1185 => 1184,
        1187 => 1186,
        1231 => 1700,
        2951 => 2950,
        _ => return None,
    })
}

fn of_text(text: &str, ty: i32) -> Option<Parameter> {
    Some(match ty {
        16 => match text.trim().to_ascii_lowercase().as_str() {
            "t" | "true" | "y" | "yes" | "on" | "1" => Parameter::Boolean(true),
            "f" | "false" | "n" | "no" | "off" | "0" => Parameter::Boolean(false),
            _ => return None,
        },
        17 => match text.strip_prefix("\\x") {
            Some(digits) => Parameter::Binary(of_hex(digits)?),
            None => Parameter::Binary(text.as_bytes().to_vec()),
        },
        20 | 21 | 23 => Parameter::Long(text.trim().parse().ok()?),
        700 | 701 => Parameter::Double(text.trim().parse().ok()?),
        1186 => interval(text)?,
        1700 => decimal(text.trim())?,
        // With hyphens or without, in braces or not.
        2950 => {
            let digits = text.trim().trim_start_matches('{').trim_end_matches('}').replace('-', "");
            Parameter::Text(uuid(&of_hex(&digits)?)?)
        }
        _ => match element(ty) {
            Some(element) => list(text, element)?,
            None => Parameter::Text(text.to_owned()),
        },
    })
}

fn of_hex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

/// A decimal, exactly if it has digits enough.
fn decimal(text: &str) -> Option<Parameter> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction}");
    match digits.parse() {
        Ok(value) if digits.len() <= DIGITS_MAX && fraction.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(Parameter::Decimal(value, fraction.len() as i8))
        }
        // An exponent, or more digits than there is room for.
        _ => text.parse().ok().map(Parameter::Double),
    }
}

/// `1 year 2 mons -3 days 04:05:06.7`, `1 day, 2:00:00`, `5 min`: numbers with units, and hours, minutes and seconds.
fn interval(text: &str) -> Option<Parameter> {
    let (mut months, mut days, mut nanos) = (0_i64, 0_i64, 0_i64);
    let mut words = text.split([' ', ',', '\t']).filter(|word| !word.is_empty());
    let mut is_empty = true;
    while let Some(word) = words.next() {
        is_empty = false;
        if word.contains(':') {
            let (sign, clock) = match word.strip_prefix('-') {
                Some(clock) => (-1, clock),
                None => (1, word.strip_prefix('+').unwrap_or(word)),
            };
            let mut parts = clock.split(':');
            let hours: i64 = parts.next()?.parse().ok()?;
            let minutes: i64 = parts.next()?.parse().ok().filter(|minutes| (0..60).contains(minutes))?;
            let seconds = parts.next().map_or(Some(0), |seconds| scaled(seconds, NANOS))?;
            let clock = hours.checked_mul(3600)?.checked_add(minutes * 60)?.checked_mul(NANOS)?;
            nanos = nanos.checked_add(sign * clock.checked_add(seconds)?)?;
            if parts.next().is_some() {
                return None;
            }
            continue;
        }
        let digits = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
        let (number, unit) = word.split_at(digits);
        let unit = if unit.is_empty() { words.next()? } else { unit }.to_ascii_lowercase();
        let (of, size) = match unit.as_str() {
            "years" | "year" | "y" => (&mut months, 12),
            "mons" | "mon" | "months" | "month" => (&mut months, 1),
            "weeks" | "week" | "w" => (&mut days, 7),
            "days" | "day" | "d" => (&mut days, 1),
            "hours" | "hour" | "h" => (&mut nanos, 3600 * NANOS),
            "minutes" | "minute" | "mins" | "min" | "m" => (&mut nanos, 60 * NANOS),
            "seconds" | "second" | "secs" | "sec" | "s" => (&mut nanos, NANOS),
            "milliseconds" | "millisecond" | "msecs" | "msec" | "ms" => (&mut nanos, NANOS / 1000),
            "microseconds" | "microsecond" | "usecs" | "usec" | "us" => (&mut nanos, 1000),
            _ => return None,
        };
        *of = of.checked_add(scaled(number, size)?)?;
    }
    let (months, days) = (months.try_into().ok()?, days.try_into().ok()?);
    (!is_empty).then_some(Parameter::Interval { months, days, nanos })
}

const NANOS: i64 = 1_000_000_000;

/// A number, with a fraction where what it counts has room for it.
fn scaled(text: &str, size: i64) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let (sign, whole) = match whole.strip_prefix('-') {
        Some(whole) => (-1, whole),
        None => (1, whole.strip_prefix('+').unwrap_or(whole)),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let unit = 10_i64.pow(fraction.len() as u32);
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<i64>().ok()?.checked_mul(size)? };
    if part % unit != 0 {
        return None;
    }
    Some(sign * whole.parse::<i64>().ok()?.checked_mul(size)?.checked_add(part / unit)?)
}

fn list(text: &str, element: i32) -> Option<Parameter> {
    let values = array_elements(text)?.into_iter();
    let values = values.map(|value| value.map_or(Some(Parameter::Null), |value| of_text(&value, element)));
    Some(Parameter::List(values.collect::<Option<_>>()?))
}

fn of_binary(bytes: &[u8], ty: i32) -> Option<Parameter> {
    Some(match ty {
        16 => match bytes {
            [value] => Parameter::Boolean(*value != 0),
            _ => return None,
        },
        17 => Parameter::Binary(bytes.to_vec()),
        20 => Parameter::Long(i64::from_be_bytes(bytes.try_into().ok()?)),
        21 => Parameter::Long(i16::from_be_bytes(bytes.try_into().ok()?).into()),
        23 => Parameter::Long(i32::from_be_bytes(bytes.try_into().ok()?).into()),
        // Texts, names, JSON, and what is not said.
        0 | 18 | 19 | 25 | 114 | 1042 | 1043 => Parameter::Text(std::str::from_utf8(bytes).ok()?.to_owned()),
        // `jsonb` has the number of its version in front.
        3802 => Parameter::Text(std::str::from_utf8(bytes.strip_prefix(&[1])?).ok()?.to_owned()),
        700 => Parameter::Double(f32::from_be_bytes(bytes.try_into().ok()?).into()),
        701 => Parameter::Double(f64::from_be_bytes(bytes.try_into().ok()?)),
        1082 => Parameter::Date(i32::from_be_bytes(bytes.try_into().ok()?).checked_add(DAYS)?),
        1083 => {
            let micros = i64::from_be_bytes(bytes.try_into().ok()?);
            Parameter::Time(Some(micros).filter(|micros| (0..=DAY_MICROS).contains(micros))?)
        }
        1114 | 1184 => Parameter::Timestamp {
            micros: i64::from_be_bytes(bytes.try_into().ok()?).checked_add(MICROS)?,
            is_utc: ty == 1184,
        },
        1186 => {
            let mut message = Incoming(bytes);
            let micros: i64 = i64::from_be_bytes(message.read_bytes(8).ok()?.try_into().ok()?);
            let (days, months) = (message.i32().ok()?, message.i32().ok()?);
            Parameter::Interval { months, days, nanos: micros.checked_mul(1000)? }
        }
        1700 => numeric(bytes)?,
        2950 => Parameter::Text(uuid(bytes)?),
        _ => list_of_binary(bytes, element(ty)?)?,
    })
}

/// The text of a UUID in PostgreSQL's form, as events have it: `6ba7b810-9dad-11d1-80b4-00c04fd430c8`.
fn uuid(bytes: &[u8]) -> Option<String> {
    let digits = u128::from_be_bytes(bytes.try_into().ok()?);
    let digits = format!("{digits:032x}");
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    Some(parts.join("-"))
}

fn numeric(bytes: &[u8]) -> Option<Parameter> {
    let mut message = Incoming(bytes);
    let count = message.count().ok()?;
    let weight = i32::from(message.i16().ok()?);
    let (sign, scale) = (message.i16().ok()? as u16, message.count().ok()?);
    let sign = match sign {
        0 => "",
        0x4000 => "-",
        0xc000 => return Some(Parameter::Double(f64::NAN)),
        0xd000 => return Some(Parameter::Double(f64::INFINITY)),
        0xf000 => return Some(Parameter::Double(f64::NEG_INFINITY)),
        _ => return None,
    };
    // As text: groups of four digits, the first of them 10000^weight.
    let zeros = |groups: i32| groups.clamp(0, GROUPS_MAX) as usize;
    let (mut whole, mut fraction) = (String::new(), "0000".repeat(zeros(-1 - weight)));
    for place in 0..count {
        let group = message.i16().ok().filter(|group| (0..10_000).contains(group))?;
        let digits = format!("{group:04}");
        if (place as i32) <= weight { &mut whole } else { &mut fraction }.push_str(&digits);
    }
    let missing = zeros(weight + 1).saturating_sub(whole.len() / 4);
    whole.push_str(&"0000".repeat(missing));
    fraction.extend(std::iter::repeat_n('0', scale.saturating_sub(fraction.len()).min(64)));
    fraction.truncate(scale);
    let whole = whole.trim_start_matches('0');
    decimal(&format!("{sign}{}{whole}.{fraction}", if whole.is_empty() { "0" } else { "" }))
}

fn list_of_binary(bytes: &[u8], ty: i32) -> Option<Parameter> {
    let mut message = Incoming(bytes);
    let (dimensions, _, _) = (message.i32().ok()?, message.i32().ok()?, message.i32().ok()?);
    if dimensions == 0 {
        return Some(Parameter::List(Vec::new()));
    }
    if dimensions != 1 {
        return None;
    }
    let (count, _) = (message.i32().ok()?, message.i32().ok()?);
    let mut values = Vec::new();
    for _ in 0..count {
        values.push(match usize::try_from(message.i32().ok()?) {
            Err(_) => Parameter::Null,
            Ok(length) => of_binary(message.read_bytes(length).ok()?, ty)?,
        });
    }
    Some(Parameter::List(values))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parameters_are_read_in_both_forms() {
        let text = |bytes: &str, ty| parameter(bytes.as_bytes(), ty, false);
        assert_eq!(text("7", 23), Some(Parameter::Long(7)));
        assert_eq!(text("x", 23), None);
        assert_eq!(text("x", 0), Some(Parameter::Text("x".into())));
        assert_eq!(text("maybe", 16), None);
        assert_eq!(text("\\x00fF", 17), Some(Parameter::Binary(vec![0, 255])));
        assert_eq!(text("\\x0", 17), None);
        assert_eq!(text("-12.340", 1700), Some(Parameter::Decimal(-12_340, 3)));
        assert_eq!(text("1e3", 1700), Some(Parameter::Double(1000.0)));
        assert_eq!(
            text("{a,NULL,\"b \\\"c\\\",{}\",\"\"}", 1009),
            Some(Parameter::List(vec![
                Parameter::Text("a".into()),
                Parameter::Null,
                Parameter::Text("b \"c\",{}".into()),
                Parameter::Text(String::new()),
            ]))
        );
        assert_eq!(text("{}", 1016), Some(Parameter::List(Vec::new())));
        for odd in ["{", "{x}", "1"] {
            assert_eq!(text(odd, 1016), None, "{odd}");
        }
        let binary = |bytes: &[u8], ty| parameter(bytes, ty, true);
        assert_eq!(binary(&7_i32.to_be_bytes(), 23), Some(Parameter::Long(7)));
        assert_eq!(binary(&[0; 3], 23), None);
        assert_eq!(binary(&0.5_f64.to_be_bytes(), 701), Some(Parameter::Double(0.5)));
        assert_eq!(binary(&0_i32.to_be_bytes(), 1082), Some(Parameter::Date(10_957)));
        let numeric = |words: &[i16]| {
            binary(&words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>(), 1700)
        };
        assert_eq!(numeric(&[0, 0, 0, 0]), Some(Parameter::Decimal(0, 0)));
        assert_eq!(numeric(&[3, 1, 0, 1, 1, 2340, 5000]), Some(Parameter::Decimal(123_405, 1)));
        assert_eq!(numeric(&[1, -1, 0x4000, 4, 5]), Some(Parameter::Decimal(-5, 4)));
        assert_eq!(numeric(&[1, -2, 0, 5, 5000]), Some(Parameter::Decimal(5, 5)));
        assert_eq!(numeric(&[1, 1, 0, 0, 12]), Some(Parameter::Decimal(120_000, 0)));
        // Digits that are none, and more of them than any double has.
        for odd in [&[1, 0, 0, 0, -1][..], &[2, 1, 0, 0, i16::MIN, i16::MIN], &[1, 0, 0, 0, 10_000]] {
            assert_eq!(numeric(odd), None, "{odd:?}");
        }
        assert_eq!(numeric(&[1, 75, 0, 0, 1]), Some(Parameter::Double(1e300)));
        let long: Vec<i16> = [101, 100, 0, 0].into_iter().chain([1; 101]).collect();
        assert_eq!(numeric(&long), Some(Parameter::Double(f64::INFINITY)));
        assert_eq!(numeric(&[1, i16::MAX, 0, 0, 1]), Some(Parameter::Double(f64::INFINITY)));
        assert_eq!(numeric(&[1, i16::MIN, 0, i16::MAX, 1]), Some(Parameter::Double(0.0)));
        assert_eq!(binary(&DAY_MICROS.to_be_bytes(), 1083), Some(Parameter::Time(DAY_MICROS)));
        assert_eq!(binary(&i64::MAX.to_be_bytes(), 1083), None);
        let id: Vec<u8> = (0x6b..0x7b).collect();
        let written = "6b6c6d6e-6f70-7172-7374-75767778797a";
        assert_eq!(binary(&id, 2950), Some(Parameter::Text(written.into())));
        assert_eq!(binary(&id[1..], 2950), None);
        for form in [written, "{6B6C6D6E-6F70-7172-7374-75767778797A}", "6b6c6d6e6f707172737475767778797a"] {
            assert_eq!(text(form, 2950), Some(Parameter::Text(written.into())), "{form}");
        }
        assert_eq!(text("6b6c6d6e", 2950), None);
        let interval = |micros: i64| {
            let bytes = [&micros.to_be_bytes()[..], &(-2_i32).to_be_bytes(), &3_i32.to_be_bytes()].concat();
            binary(&bytes, 1186)
        };
        assert_eq!(interval(1_500), Some(Parameter::Interval { months: 3, days: -2, nanos: 1_500_000 }));
        assert_eq!(interval(i64::MAX), None);
        let written = |written: &str| match text(written, 1186)? {
            Parameter::Interval { months, days, nanos } => Some((months, days, nanos)),
            other => panic!("{other:?}"),
        };
        const SECOND: i64 = 1_000_000_000;
        for (form, parts) in [
            ("1 year 2 mons -3 days 04:05:06.7", (14, -3, 14_706_700_000_000)),
            ("-1 day, 23:00:00", (0, -1, 82_800 * SECOND)),
            ("-00:00:01.5", (0, 0, -1_500_000_000)),
            ("90 min", (0, 0, 5_400 * SECOND)),
            ("2h 30m", (0, 0, 9_000 * SECOND)),
            ("1.5 hours", (0, 0, 5_400 * SECOND)),
            ("1 Week", (0, 7, 0)),
            ("250 ms", (0, 0, SECOND / 4)),
        ] {
            assert_eq!(written(form), Some(parts), "{form}");
        }
        let odd = [
            "",
            "soon",
            "1",
            "1.5 days",
            "1:2:3:4",
            "1:60",
            "-",
            ".5 s",
            "99999999999 years",
            "9999999999999:00",
        ];
        for odd in odd {
            assert_eq!(written(odd), None, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), binary in any::<bool>(),
                          ty in prop::sample::select(vec![0, 16, 17, 20, 21, 23, 25, 700, 701, 1007, 1009, 1082, 1083,
                                                          1114, 1184, 1186, 1187, 1231, 1700, 2950, 3802, 9999])) {
            let _ = parameter(&bytes, ty, binary);
        }

        #[test]
        fn no_interval_panics(text in "[-+0-9.:, a-z]{0,24}") {
            let _ = parameter(text.as_bytes(), 1186, false);
        }
    }
}

//! Rows as JSON, of which numbers keep all their digits, and the values of texts: times, decimals.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::value::RawValue;
use swiftwater_event::{from_rfc3339, from_rfc3339_with_zone};

use crate::{DEPTH_MAX, Fault, json::Unit};

const DAY_MICROS: i64 = 86_400_000_000;

/// The most digits of a decimal, with all zeros that its exponent stands for.
const DIGITS_MAX: usize = 2000;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json<'r> {
    Null,
    Boolean(bool),
    /// A number as it is written.
    Number(&'r str),
    Text(Cow<'r, str>),
    List(Vec<Json<'r>>),
    /// The fields by name: the last one of several with one name.
    Object(BTreeMap<String, Json<'r>>),
}

impl<'r> Json<'r> {
    /// Reads a JSON text.
    pub(crate) fn parse(text: &'r [u8]) -> Result<Json<'r>, Fault> {
        let no_json = |error: serde_json::Error| Fault::new(format!("the row is no JSON: {error}"));
        let raw: &RawValue = serde_json::from_slice(text).map_err(no_json)?;
        Json::of(raw, 0)
    }

    /// The value of a text that was found to be JSON. Each level of nesting is read once more, so that numbers stay texts.
    fn of(raw: &'r RawValue, depth: usize) -> Result<Json<'r>, Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::too_deep());
        }
        let text = raw.get();
        let no_json = |error: serde_json::Error| Fault::new(format!("the row is no JSON: {error}"));
        Ok(match text.as_bytes().first() {
            Some(b'n') => Json::Null,
            Some(b't') => Json::Boolean(true),
            Some(b'f') => Json::Boolean(false),
            Some(b'"') => Json::Text(match text.contains('\\') {
                true => Cow::Owned(serde_json::from_str(text).map_err(no_json)?),
                false => Cow::Borrowed(&text[1..text.len() - 1]),
            }),
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text).map_err(no_json)?;
                let items = items.into_iter().map(|item| Json::of(item, depth + 1));
                Json::List(items.collect::<Result<_, _>>()?)
            }
            Some(b'{') => {
                let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).map_err(no_json)?;
                let fields = fields.into_iter().map(|(name, value)| {
                    let value = Json::of(value, depth + 1).map_err(|fault| fault.within(&name))?;
                    Ok((name, value))
                });
                Json::Object(fields.collect::<Result<_, Fault>>()?)
            }
            _ => Json::Number(text),
        })
    }

    /// The fault of a value that is not of the type that a schema has in its place.
    pub(crate) fn mismatch(&self, expected: &str) -> Fault {
        let found = match self {
            Json::Null => "null",
            Json::Boolean(_) => "a boolean",
            Json::Number(_) => "a number",
            Json::Text(_) => "a text",
            Json::List(_) => "a list",
            Json::Object(_) => "an object",
        };
        Fault::new(format!("{found} is no {expected}"))
    }
}

/// True if a number has neither a point nor an exponent.
pub(crate) fn is_whole(number: &str) -> bool {
    !number.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
}

/// A whole number, also one that is written with a point, such as `3.0`.
pub(crate) fn whole(number: &str) -> Result<i128, Fault> {
    if is_whole(number) {
        return number.parse().map_err(|_| Fault::new("a number is beyond the range of 128 bits"));
    }
    const EXACT_MAX: f64 = (1i64 << 53) as f64;
    match number.parse::<f64>() {
        Ok(value) if value.fract() == 0.0 && value.abs() <= EXACT_MAX => Ok(value as i128),
        _ => Err(Fault::new(format!("{} is no whole number", shortened(number)))),
    }
}

/// A number of 64 bits. A whole number must be one of those that it can be exactly.
pub(crate) fn double(number: &str) -> Result<f64, Fault> {
    let value: f64 = number.parse().map_err(|_| Fault::new("a number cannot be read"))?;
    let inexact =
        || Fault::new(format!("{} has more digits than a number of 64 bits keeps", shortened(number)));
    match is_whole(number) {
        true if whole(number).map_err(|_| inexact())? != value as i128 => Err(inexact()),
        _ if value.is_infinite() => {
            Err(Fault::new(format!("{} is beyond the range of 64 bits", shortened(number))))
        }
        _ => Ok(value),
    }
}

/// A number of 32 bits, the nearest one. A whole number must be one of those that it can be exactly.
pub(crate) fn float(number: &str) -> Result<f32, Fault> {
    let value: f32 = number.parse().map_err(|_| Fault::new("a number cannot be read"))?;
    let inexact =
        || Fault::new(format!("{} has more digits than a number of 32 bits keeps", shortened(number)));
    match is_whole(number) {
        true if whole(number).map_err(|_| inexact())? != value as i128 => Err(inexact()),
        _ if value.is_infinite() => {
            Err(Fault::new(format!("{} is beyond the range of 32 bits", shortened(number))))
        }
        _ => Ok(value),
    }
}

/// The texts that stand for numbers that are not finite.
pub(crate) fn not_finite(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// A number for a message, without what is too long to read.
fn shortened(number: &str) -> &str {
    number.get(..40).unwrap_or(number)
}

/// The days since 1970 of `YYYY-MM-DD`.
pub(crate) fn date(text: &str) -> Option<i32> {
    if text.len() != 10 {
        return None;
    }
    let micros = from_rfc3339_with_zone(format!("{text}T00:00:00Z").as_bytes())?;
    i32::try_from(micros.div_euclid(DAY_MICROS)).ok()
}

/// A time of day, `HH:MM:SS` with digits behind a point or without, in a unit. Further digits are cut off.
pub(crate) fn time(text: &str, unit: Unit) -> Option<i64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.')) {
        return None;
    }
    instant(&format!("1970-01-01T{text}Z"), unit, false).filter(|_| text.get(6..8) != Some("60"))
}

/// A point in time since 1970 in a unit. Further digits are cut off. One without a zone must have none, or `Z`.
pub(crate) fn instant(text: &str, unit: Unit, is_local: bool) -> Option<i64> {
    let bytes = text.as_bytes();
    let micros = match is_local {
        false => from_rfc3339_with_zone(bytes)?,
        true if bytes.iter().skip(19).any(|byte| matches!(byte, b'+' | b'-')) => return None,
        true => from_rfc3339(bytes)?,
    };
    match unit {
        Unit::Millis => Some(micros.div_euclid(1000)),
        Unit::Micros => Some(micros),
        Unit::Nanos => micros.checked_mul(1000)?.checked_add(nanos_beyond_micros(bytes)),
    }
}

/// The seventh to the ninth digit behind the point of a time.
pub(crate) fn nanos_beyond_micros(text: &[u8]) -> i64 {
    let Some([b'.', fraction @ ..]) = text.get(19..) else { return 0 };
    let digit = |place: usize| {
        fraction
            .get(..=place)
            .and_then(|digits| digits.iter().all(u8::is_ascii_digit).then(|| i64::from(digits[place] - b'0')))
    };
    (6..9).fold(0, |nanos, place| nanos * 10 + digit(place).unwrap_or(0))
}

/// A number in decimal digits: its sign, its digits without leading zeros, and the number of those behind the point, which is
/// negative if zeros follow them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub(crate) is_negative: bool,
    pub(crate) digits: Vec<u8>,
    pub(crate) scale: i64,
}

impl Decimal {
    /// Reads `-12.05`, `5` or `1.5e3`.
    pub(crate) fn parse(text: &str) -> Option<Decimal> {
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (number, exponent) = match rest.split_once(['e', 'E']) {
            Some((number, exponent)) => {
                let exponent: i64 = exponent.parse().ok()?;
                (number, exponent)
            }
            None => (rest, 0),
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
        let is_there = !whole.is_empty() && (!part.is_empty() || !number.contains('.'));
        if !is_there || !is_number(whole) || !is_number(part) || number.len() > DIGITS_MAX {
            return None;
        }
        let digits = whole.bytes().chain(part.bytes()).map(|digit| digit - b'0');
        let digits: Vec<u8> = digits.skip_while(|digit| *digit == 0).collect();
        let scale = (part.len() as i64).checked_sub(exponent)?;
        Some(Decimal { is_negative: is_negative && !digits.is_empty(), digits, scale })
    }

    /// The same number with so many digits behind the point; none if it has more of them, or too many digits in all.
    pub(crate) fn with_scale(mut self, scale: i64) -> Option<Decimal> {
        if self.digits.is_empty() {
            self.scale = scale;
        }
        while self.scale > scale && self.digits.last() == Some(&0) {
            self.digits.pop();
            self.scale -= 1;
        }
        if self.scale > scale {
            return None;
        }
        let zeros = usize::try_from(scale.checked_sub(self.scale)?).ok()?;
        if self.digits.len().checked_add(zeros)? > DIGITS_MAX {
            return None;
        }
        self.digits.extend(std::iter::repeat_n(0, zeros));
        self.scale = scale;
        Some(self)
    }

    /// The digits as a number in two's complement, big-endian, of as few bytes as possible.
    pub(crate) fn unscaled(&self) -> Vec<u8> {
        // The lowest byte first.
        let mut bytes: Vec<u8> = Vec::new();
        for digit in &self.digits {
            let mut carry = u16::from(*digit);
            for byte in &mut bytes {
                carry += u16::from(*byte) * 10;
                *byte = carry as u8;
                carry >>= 8;
            }
            if carry > 0 {
                bytes.push(carry as u8);
            }
        }
        bytes.push(0);
        if self.is_negative {
            let mut carry = true;
            for byte in &mut bytes {
                (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
            }
        }
        bytes.reverse();
        let is_sign = |pair: &[u8]| matches!(pair, [0, 0..=0x7f] | [0xff, 0x80..=0xff]);
        let surplus = bytes.windows(2).take_while(|pair| is_sign(pair)).count();
        bytes.drain(..surplus);
        bytes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use super::*;

    #[test]
    fn numbers_keep_their_digits_and_the_last_of_a_name_counts() {
        let row =
            Json::parse(br#" {"a":[1.50,12345678901234567890],"b":"\u00e9\"","a ":null,"c":true,"c":{}} "#);
        let Json::Object(fields) = row.unwrap() else { panic!() };
        let numbers = [Json::Number("1.50"), Json::Number("12345678901234567890")];
        assert_eq!(fields["a"], Json::List(numbers.to_vec()));
        assert_eq!(fields["b"], Json::Text("é\"".into()));
        assert_eq!((&fields["a "], &fields["c"]), (&Json::Null, &Json::Object(BTreeMap::new())));
        let deep = format!("{}{}", "[".repeat(DEPTH_MAX + 2), "]".repeat(DEPTH_MAX + 2));
        assert_eq!(Json::parse(deep.as_bytes()), Err(Fault::too_deep()));
        assert!(Json::parse(b"{").unwrap_err().to_string().starts_with("the row is no JSON"));
    }

    #[test]
    fn whole_numbers_are_exact_or_refused() {
        assert_eq!((whole("-7").unwrap(), whole("3.0").unwrap(), whole("1e3").unwrap()), (-7, 3, 1000));
        for number in ["1.5", "1e300", "9.1e15"] {
            assert!(whole(number).is_err(), "{number}");
        }
        assert_eq!(double("9007199254740992").unwrap(), 9_007_199_254_740_992.0);
        assert!(double("9007199254740993").is_err());
        assert!(double("1e400").is_err());
        assert_eq!(float("0.1").unwrap(), 0.1);
        assert!(float("16777217").is_err());
        assert!(float("1e39").is_err());
    }

    #[test]
    fn times_are_those_of_their_texts() {
        assert_eq!(date("1970-01-02"), Some(1));
        assert_eq!(date("0001-01-01"), Some(-719_162));
        assert_eq!((date("1970-02-30"), date("1970-01-01T"), date("é234-1-1")), (None, None, None));
        assert_eq!(time("00:00:01.002003", Unit::Millis), Some(1002));
        assert_eq!(time("23:59:59", Unit::Micros), Some(86_399_000_000));
        assert_eq!((time("24:00:00", Unit::Millis), time("23:59:60", Unit::Millis)), (None, None));
        let of = |text, unit| instant(text, unit, false);
        assert_eq!(of("1970-01-01T00:00:00.001002003Z", Unit::Nanos), Some(1_002_003));
        assert_eq!(of("1969-12-31T23:59:59.9999999Z", Unit::Nanos), Some(-100));
        assert_eq!(of("1969-12-31T23:59:59.9999Z", Unit::Millis), Some(-1));
        assert_eq!(of("1970-01-01T01:00:00+01:00", Unit::Micros), Some(0));
        assert_eq!(of("1970-01-01T00:00:00", Unit::Micros), None);
        assert_eq!(instant("1970-01-01T00:00:00.5", Unit::Millis, true), Some(500));
        assert_eq!(instant("1970-01-01T00:00:00.5+01:00", Unit::Millis, true), None);
    }

    #[test]
    fn decimals_become_twos_complement() {
        let bytes = |text: &str, scale| Some(Decimal::parse(text)?.with_scale(scale)?.unscaled());
        assert_eq!(bytes("0.00", 2), Some(vec![0]));
        assert_eq!(bytes("-0.05", 2), Some(vec![0xfb]));
        assert_eq!(bytes("123.45", 2), Some(vec![0x30, 0x39]));
        assert_eq!(bytes("-12.8", 1), Some(vec![0x80]));
        assert_eq!(bytes("12.8", 1), Some(vec![0, 0x80]));
        assert_eq!(bytes("1.5e3", 0), Some(vec![0x05, 0xdc]));
        assert_eq!(bytes("1.500", 1), Some(vec![15]));
        let mut long = vec![0u8; 17];
        long[0] = 1;
        assert_eq!(bytes("340282366920938463463374607431768211456", 0), Some(long));
        for text in ["1.25", "", "-", ".5", "5.", "1e", "0x1", "1e99999999", "1e9223372036854775807", "+1"] {
            assert_eq!(bytes(text, 1), None, "{text}");
        }
    }
}

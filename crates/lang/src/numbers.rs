//! Prints floating-point numbers as Java does: `1.0`, `0.015`, `1.0E10`, `1.5E-5`.
//!
//! There is at least one digit after the point, and an exponent outside `[0.001, 10000000)`.

/// A DOUBLE.
pub(crate) fn double(value: f64) -> String {
    shape(value, format!("{value:e}"))
}

/// A FLOAT, without its `f`.
pub(crate) fn float(value: f32) -> String {
    shape(f64::from(value), format!("{value:e}"))
}

/// `scientific` is Rust's shortest form `d[.ddd]e[-]x`.
fn shape(value: f64, scientific: String) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", mantissa),
    };
    let (first, rest) = digits.split_once('.').unwrap_or((digits, ""));
    if value != 0.0 && !(-3..7).contains(&exponent) {
        let rest = if rest.is_empty() { "0" } else { rest };
        return format!("{sign}{first}.{rest}E{exponent}");
    }
    let all = format!("{first}{rest}");
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        return format!("{sign}0.{zeros}{all}");
    }
    let whole = exponent as usize + 1;
    if all.len() <= whole {
        let zeros = "0".repeat(whole - all.len());
        return format!("{sign}{all}{zeros}.0");
    }
    format!("{sign}{}.{}", &all[..whole], &all[whole..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_as_javas() {
        fn check(value: f64, expected: &str) {
            assert_eq!(double(value), expected);
        }
        check(0.0, "0.0");
        check(-0.0, "-0.0");
        check(1.0, "1.0");
        check(-2.5, "-2.5");
        check(100.0, "100.0");
        check(1234567.0, "1234567.0");
        check(12345678.0, "1.2345678E7");
        check(1e10, "1.0E10");
        check(0.001, "0.001");
        check(0.015, "0.015");
        check(0.00015, "1.5E-4");
        check(1e300, "1.0E300");
        check(f64::NAN, "NaN");
        check(f64::NEG_INFINITY, "-Infinity");
        assert_eq!(float(0.1), "0.1");
        assert_eq!(float(16777216.0), "1.6777216E7");
    }
}

//! The functions of the language with their help: for people, consoles and completion.
//!
//! Every signature is a call that the parser takes, with fields in the place of its arguments.

use self::FunctionKind::{Aggregate, Rows, Scalar};
use crate::Dialect;

/// A function of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// Its name, in capitals.
    pub name: &'static str,
    /// The rows that it needs, and those that it returns.
    pub kind: FunctionKind,
    /// Its calls, each as an example.
    pub signatures: &'static [&'static str],
    /// The type of its result; none if that is the type of an argument.
    pub returns: Option<&'static str>,
    /// One sentence.
    pub doc: &'static str,
    /// True if Bullet's dialect has it, too.
    pub in_bullet: bool,
}

/// The rows of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionKind {
    /// A value of one event.
    Scalar,
    /// A value of a group of events.
    Aggregate,
    /// Rows of a group of events.
    Rows,
}

impl FunctionKind {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            FunctionKind::Scalar => "scalar",
            FunctionKind::Aggregate => "aggregate",
            FunctionKind::Rows => "rows",
        }
    }
}

const NATIVE: bool = false;
const BOTH: bool = true;

const fn describe(
    name: &'static str,
    kind: FunctionKind,
    in_bullet: bool,
    signatures: &'static [&'static str],
    returns: Option<&'static str>,
    doc: &'static str,
) -> Function {
    Function { name, kind, signatures, returns, doc, in_bullet }
}

#[rustfmt::skip]
const FUNCTIONS: &[Function] = &[
    describe("ABS", Scalar, BOTH, &["ABS(x)"], None, "The absolute value of a number."),
    describe("BETWEEN", Scalar, BOTH, &["BETWEEN(x, low, high)"], Some("BOOLEAN"), "True if x is from low to high, both included."),
    describe("CAST", Scalar, BOTH, &["CAST(x AS LONG)"], None, "The value as another type without parts."),
    describe("COALESCE", Scalar, NATIVE, &["COALESCE(a, b)"], None, "The first of the values that is not null."),
    describe("CONTAINSKEY", Scalar, BOTH, &["CONTAINSKEY(m, 'key')"], Some("BOOLEAN"), "True if a map has the key, also one in a list of maps."),
    describe("CONTAINSVALUE", Scalar, BOTH, &["CONTAINSVALUE(c, 'value')"], Some("BOOLEAN"), "True if a list or map has the value, also in maps of maps."),
    describe("FILTER", Scalar, BOTH, &["FILTER(items, flags)"], None, "The elements of a list at whose place the other list is true."),
    describe("GROUPING", Scalar, NATIVE, &["GROUPING(a)"], Some("INTEGER"), "1 if the set of this row does not group by the key, else 0; several keys are bits of one number."),
    describe("GROUPING_ID", Scalar, NATIVE, &["GROUPING_ID()", "GROUPING_ID(a, b)"], Some("INTEGER"), "GROUPING of all keys, or of these."),
    describe("HASH", Scalar, BOTH, &["HASH(x)"], Some("INTEGER"), "Java's hash code of the value."),
    describe("IF", Scalar, BOTH, &["IF(condition, a, b)"], None, "The value a where the condition is true, else b."),
    describe("LOWER", Scalar, BOTH, &["LOWER(s)"], Some("STRING"), "The text in small letters."),
    describe("NOW", Scalar, NATIVE, &["NOW()"], Some("LONG"), "The time of the query's submission, in milliseconds since 1970."),
    describe("SEARCH", Scalar, NATIVE, &["SEARCH('words')", "SEARCH(x, 'words')"], Some("BOOLEAN"), "True if the event, or a value of it, has these words."),
    describe("SIZEIS", Scalar, BOTH, &["SIZEIS(x, 3)"], Some("BOOLEAN"), "True if a list, map or text has so many elements, entries or characters."),
    describe("SIZEOF", Scalar, BOTH, &["SIZEOF(x)"], Some("INTEGER"), "The number of elements of a list, entries of a map or characters of a text."),
    describe("SUBSTR", Scalar, BOTH, &["SUBSTR(s, 1)", "SUBSTR(s, 1, 3)"], Some("STRING"), "The same as SUBSTRING."),
    describe("SUBSTRING", Scalar, BOTH, &["SUBSTRING(s, 1)", "SUBSTRING(s, 1, 3)"], Some("STRING"), "The text from a position, which counts from 1 or, if it is negative, from the end; at most so many characters."),
    describe("TRIM", Scalar, BOTH, &["TRIM(s)"], Some("STRING"), "The text without space around it."),
    describe("UNIXTIMESTAMP", Scalar, BOTH, &["UNIXTIMESTAMP()", "UNIXTIMESTAMP(s)", "UNIXTIMESTAMP(s, 'yyyy-MM-dd')"], Some("LONG"), "Seconds since 1970: of now, or of a time in text, which Java's pattern describes."),
    describe("UPPER", Scalar, BOTH, &["UPPER(s)"], Some("STRING"), "The text in capitals."),
    describe("AVG", Aggregate, BOTH, &["AVG(x)"], Some("DOUBLE"), "The mean of the numbers."),
    describe("COUNT", Aggregate, BOTH, &["COUNT(*)", "COUNT(DISTINCT a, b)"], Some("LONG"), "The number of events, or of distinct combinations, exact up to 16,384 and then estimated."),
    describe("MAX", Aggregate, BOTH, &["MAX(x)"], None, "The greatest value."),
    describe("MIN", Aggregate, BOTH, &["MIN(x)"], None, "The least value."),
    describe("SUM", Aggregate, BOTH, &["SUM(x)"], None, "The sum of the numbers; exact for whole numbers, and null while it exceeds a LONG."),
    describe("APPROX_DISTINCT", Aggregate, NATIVE, &["APPROX_DISTINCT(a)"], Some("LONG"), "The number of distinct values, exact up to 16,384 and then estimated."),
    describe("APPROX_MEDIAN", Aggregate, NATIVE, &["APPROX_MEDIAN(x)"], Some("DOUBLE"), "The value below which half of all values lie, estimated."),
    describe("APPROX_PERCENTILE_CONT", Aggregate, NATIVE, &["APPROX_PERCENTILE_CONT(x, 0.95)"], Some("DOUBLE"), "The value below which this share of all values lies, estimated."),
    describe("ARG_MAX", Aggregate, NATIVE, &["ARG_MAX(x, other)"], None, "The x of the event with the greatest other value."),
    describe("ARG_MIN", Aggregate, NATIVE, &["ARG_MIN(x, other)"], None, "The x of the event with the least other value."),
    describe("ARRAY_AGG", Aggregate, NATIVE, &["ARRAY_AGG(x)", "ARRAY_AGG(x, 100)"], Some("LIST"), "The same as COLLECT_LIST."),
    describe("COLLECT_LIST", Aggregate, NATIVE, &["COLLECT_LIST(x)", "COLLECT_LIST(x, 100)"], Some("LIST"), "A list of the first values, 1,000 unless a number is given."),
    describe("COLLECT_SET", Aggregate, NATIVE, &["COLLECT_SET(x)", "COLLECT_SET(x, 100)"], Some("LIST"), "A list of the first distinct values, 1,000 unless a number is given."),
    describe("FIRST", Aggregate, NATIVE, &["FIRST(x)", "FIRST(*)"], None, "The first value, or the first event as a map."),
    describe("LAST", Aggregate, NATIVE, &["LAST(x)", "LAST(*)"], None, "The last value, or the last event as a map."),
    describe("MAX_BY", Aggregate, NATIVE, &["MAX_BY(x, other)"], None, "The same as ARG_MAX."),
    describe("MIN_BY", Aggregate, NATIVE, &["MIN_BY(x, other)"], None, "The same as ARG_MIN."),
    describe("CUMFREQ", Rows, BOTH, &["CUMFREQ(x, LINEAR, 10)", "CUMFREQ(x, REGION, 0, 1, 0.25)", "CUMFREQ(x, MANUAL, 1, 10)"], None, "For each range, the share and the number of values up to it."),
    describe("EXPLODE", Rows, BOTH, &["EXPLODE(items) AS x"], None, "A row for each element of a list, or for each entry of a map."),
    describe("FREQ", Rows, BOTH, &["FREQ(x, LINEAR, 10)", "FREQ(x, REGION, 0, 1, 0.25)", "FREQ(x, MANUAL, 1, 10)"], None, "For each range, the share and the number of values in it."),
    describe("QUANTILE", Rows, BOTH, &["QUANTILE(x, LINEAR, 11)", "QUANTILE(x, REGION, 0, 1, 0.25)", "QUANTILE(x, MANUAL, 0.5, 0.99)"], None, "For each point from 0 to 1, the value below which that share of all values lies."),
    describe("TOP", Rows, BOTH, &["TOP(10, a)", "TOP(10, 100, a, b)"], None, "The most frequent combinations of values with their counts; those below the threshold are left out."),
];

/// The functions of a dialect: those of one event, then aggregates, then those that return rows, each by name.
pub fn functions(dialect: Dialect) -> impl Iterator<Item = &'static Function> {
    FUNCTIONS.iter().filter(move |function| dialect == Dialect::Native || function.in_bullet)
}

/// The function of a name in any letter case.
pub fn function(dialect: Dialect, name: &str) -> Option<&'static Function> {
    functions(dialect).find(|function| function.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ParseOptions, parse};

    #[test]
    fn each_function_of_the_parser_is_described() {
        for name in crate::parser::function_names() {
            assert!(function(Dialect::Native, name).is_some(), "{name}");
        }
    }

    #[test]
    fn each_signature_is_a_call_in_the_dialects_that_have_it() {
        for dialect in [Dialect::Native, Dialect::Bullet] {
            for function in functions(dialect) {
                let (mut accepted, mut fault) = (0, None);
                for signature in function.signatures {
                    assert!(signature.starts_with(&format!("{}(", function.name)), "{signature}");
                    let grouped = if function.name.starts_with("GROUPING") { " GROUP BY a, b" } else { "" };
                    let text = match function.name {
                        "EXPLODE" => format!("SELECT * FROM STREAM() LATERAL VIEW {signature}"),
                        _ => format!("SELECT {signature} FROM STREAM(){grouped}"),
                    };
                    let parsed = parse(&text, &ParseOptions::new(dialect, 0));
                    accepted += usize::from(parsed.is_ok());
                    fault = parsed.as_ref().err().cloned().or(fault);
                    assert!(dialect == Dialect::Bullet || parsed.is_ok(), "{text}: {parsed:?}");
                }
                assert!(accepted > 0, "{} in {dialect:?}: {fault:?}", function.name);
            }
        }
    }
}

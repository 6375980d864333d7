//! Translates DataFusion's words for types and constants into SQL: `Int64` is BIGINT, and `Int64(1)` is 1.

use arrow::datatypes::DataType;

use crate::type_name;

/// A message with its types and constants in SQL. Quoted parts are unchanged.
pub(crate) fn in_sql(message: &str) -> String {
    with_words(message, |text| type_in_sql(text).or_else(|| constant_in_sql(text)))
}

/// The name of a column that is computed, with its constants in SQL.
pub(crate) fn name_in_sql(name: &str) -> String {
    with_words(name, constant_in_sql)
}

/// The text with other words for those that `word` knows, which gives them with the length of what they stand for.
fn with_words(text: &str, word: impl Fn(&str) -> Option<(String, usize)>) -> String {
    let mut told = String::with_capacity(text.len());
    let (mut rest, mut before) = (text, ' ');
    while let Some(character) = rest.chars().next() {
        let is_inside = before.is_alphanumeric() || matches!(before, '_' | '.' | '\'' | '"' | '`');
        let begins = character.is_ascii_uppercase() && !is_inside;
        let length = match begins.then(|| word(rest)).flatten() {
            Some((word, length)) => {
                told.push_str(&word);
                length
            }
            None => {
                told.push(character);
                character.len_utf8()
            }
        };
        before = rest[..length].chars().next_back().unwrap_or(' ');
        rest = &rest[length..];
    }
    told
}

/// The word at the beginning.
fn word_of(text: &str) -> &str {
    let end = text.find(|character: char| !character.is_ascii_alphanumeric()).unwrap_or(text.len());
    &text[..end]
}

fn type_in_sql(text: &str) -> Option<(String, usize)> {
    let word = word_of(text);
    let whole = in_brackets(&text[word.len()..]).map(|inner| &text[..word.len() + inner.len() + 2]);
    if let Some(whole) = whole
        && let Ok(ty) = whole.parse::<DataType>()
    {
        return Some((type_name(&ty), whole.len()));
    }
    // Other types without brackets are words of other meanings too, and constants begin with their type.
    let is_type = word.contains(|character: char| character.is_ascii_digit()) || word == "Boolean";
    let ty = (is_type && whole.is_none()).then(|| word.parse::<DataType>().ok()).flatten()?;
    Some((type_name(&ty), word.len()))
}

fn constant_in_sql(text: &str) -> Option<(String, usize)> {
    let word = word_of(text);
    let inner = in_brackets(&text[word.len()..])?;
    let told = match word {
        "Int8" | "Int16" | "Int32" | "Int64" | "UInt8" | "UInt16" | "UInt32" | "UInt64" | "Float32"
        | "Float64" | "Boolean" => inner.to_owned(),
        "Utf8" | "LargeUtf8" | "Utf8View" => {
            let inner = inner.strip_prefix('"').and_then(|inner| inner.strip_suffix('"'));
            inner.map_or("NULL".to_owned(), |inner| format!("'{inner}'"))
        }
        _ => return None,
    };
    Some((told, word.len() + inner.len() + 2))
}

/// The text in the brackets at the beginning.
fn in_brackets(text: &str) -> Option<&str> {
    if !text.starts_with('(') {
        return None;
    }
    let (mut depth, mut is_quoted) = (0_usize, false);
    for (place, character) in text.char_indices() {
        match character {
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(&text[1..place]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_constants_are_told_in_sql() {
        for (text, told) in [
            ("Int64(1) + Int64(1)", "1 + 1"),
            ("sum(t.x + Float64(1.5))", "sum(t.x + 1.5)"),
            ("concat(Utf8(\"a (b\"),t.x)", "concat('a (b',t.x)"),
            ("concat(Utf8(\"ä\"),Boolean(NULL))", "concat('ä',NULL)"),
            ("no function `avg(Utf8View, Int64)`", "no function `avg(VARCHAR, BIGINT)`"),
            ("Timestamp(µs, \"UTC\") > Interval(MonthDayNano)", "TIMESTAMP WITH TIME ZONE > INTERVAL"),
            ("no column `Int64`, t.Int64, 'Int64', xInt64", "no column `Int64`, t.Int64, 'Int64', xInt64"),
            ("Date and Binary are words, Date32 is a type", "Date and Binary are words, DATE is a type"),
            ("Int64(", "BIGINT("),
            ("\", \"x", "\", \"x"),
            ("Invalid timezone \"Nowhere/City\": failed", "Invalid timezone \"Nowhere/City\": failed"),
            ("'Utf8\"'", "'Utf8\"'"),
            ("", ""),
        ] {
            assert_eq!(in_sql(text), told, "{text}");
        }
        assert_eq!(name_in_sql("Int64 + Int64(1)"), "Int64 + 1");
    }
}

//! The time zone of a session, which is always UTC.
//!
//! `SET TIME ZONE` and its other spellings are accepted for UTC and refused for any other zone, which would change the
//! meaning of texts, dates and `date_trunc`. A client that names a zone when it connects, as drivers do by themselves, gets
//! a warning: instants are the same in any zone.

use swiftwater_sql::{SqlError, is_utc};

use super::Failed;

/// The zone that a statement sets; none if it sets something else.
pub(super) fn requested_zone(text: &str) -> Option<String> {
    let text = text.replacen('=', " = ", 1);
    let mut words = text.split_whitespace().skip(1).peekable();
    let is = |word: Option<&&str>, wanted: &str| word.is_some_and(|word| word.eq_ignore_ascii_case(wanted));
    while is(words.peek(), "LOCAL") || is(words.peek(), "SESSION") {
        words.next();
    }
    let first = words.next()?;
    let is_zone = match first.eq_ignore_ascii_case("TIME") {
        true => words.next_if(|word| word.eq_ignore_ascii_case("ZONE")).is_some(),
        false => is_setting(first),
    };
    if !is_zone {
        return None;
    }
    words.next_if(|word| *word == "=" || word.eq_ignore_ascii_case("TO"));
    Some(words.collect::<Vec<_>>().join(" "))
}

/// True if a setting of that name is the zone.
pub(super) fn is_setting(name: &str) -> bool {
    name.trim_matches('"').eq_ignore_ascii_case("TimeZone")
}

/// Refuses a zone that is not UTC.
pub(super) fn set(value: &str) -> Result<(), Box<Failed>> {
    match is_session_zone(value) {
        Ok(true) => Ok(()),
        Ok(false) => {
            let zone = bare(value);
            let failed = Failed::new(
                "0A000",
                format!("the time zone of a session is UTC, it cannot be set to `{zone}`"),
            );
            Err(Box::new(failed.hint(&format!("For local times, write ts AT TIME ZONE '{zone}'."))))
        }
        Err(error) => Err(Box::new(Failed { error, text: String::new() })),
    }
}

/// The warning for a client that named a zone when it connected; an error if there is no such zone.
pub(super) fn begin(value: &str) -> Result<Option<String>, Box<Failed>> {
    match is_session_zone(value) {
        Ok(true) => Ok(None),
        Ok(false) => Ok(Some(format!(
            "the time zone of this session is UTC, not `{}`: times are sent in UTC",
            bare(value)
        ))),
        // Offsets that two standards read differently change nothing here.
        Err(error) if error.to_string().contains("ambiguous") => Ok(Some(format!(
            "the time zone of this session is UTC, not `{}`: times are sent in UTC",
            bare(value)
        ))),
        Err(error) => Err(Box::new(Failed { error, text: String::new() })),
    }
}

fn bare(value: &str) -> &str {
    value.trim().trim_matches(['\'', '"']).trim()
}

fn is_session_zone(value: &str) -> Result<bool, SqlError> {
    let zone = bare(value);
    let is_default = ["DEFAULT", "LOCAL", "0"].iter().any(|word| zone.eq_ignore_ascii_case(word));
    if is_default {
        return Ok(true);
    }
    if zone.get(..8).is_some_and(|word| word.eq_ignore_ascii_case("INTERVAL")) {
        return Ok(!zone.bytes().any(|byte| matches!(byte, b'1'..=b'9')));
    }
    is_utc(zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_in_utc_or_the_statement_is_refused() {
        for text in [
            "SET TIME ZONE 'UTC'",
            "set time zone utc",
            "SET SESSION TIME ZONE DEFAULT",
            "SET LOCAL TIME ZONE LOCAL",
            "SET timezone='Etc/UTC'",
            "SET SESSION TimeZone TO \"GMT\"",
            "SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE",
            "SET TIME ZONE 0",
        ] {
            let zone = requested_zone(text).unwrap_or_else(|| panic!("{text}"));
            assert!(set(&zone).is_ok(), "{text}: {zone}");
        }
        for (text, state) in [
            ("SET TIME ZONE 'Europe/Berlin'", "0A000"),
            ("SET timezone = 'America/New_York'", "0A000"),
            ("SET SESSION TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE", "0A000"),
            ("SET timezone TO 'Nowhere/City'", "22023"),
            ("SET TIME ZONE '+02'", "22023"),
            ("SET TIME ZONE -7", "22023"),
            ("SET timezone TO", "22023"),
        ] {
            let zone = requested_zone(text).unwrap_or_else(|| panic!("{text}"));
            let failed = set(&zone).err().unwrap_or_else(|| panic!("{text}"));
            assert_eq!(failed.error.state(), state, "{text}");
        }
        for text in
            ["SET search_path = public", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SET"]
        {
            assert_eq!(requested_zone(text), None, "{text}");
        }
    }

    #[test]
    fn a_client_that_connects_with_a_zone_is_warned() {
        let begun = |value| begin(value).map_err(|failed| failed.error.to_string());
        assert_eq!(begun("UTC"), Ok(None));
        assert!(begun("Europe/Berlin").is_ok_and(|warning| warning.is_some()));
        assert!(begun("-05:00").is_ok_and(|warning| warning.is_some()));
        assert!(begun("Nowhere/City").is_err());
    }
}

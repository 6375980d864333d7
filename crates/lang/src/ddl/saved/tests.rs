//! Tests the statements about saved objects.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use proptest::prelude::*;

use super::*;
use crate::{
    Dialect, ParseOptions,
    ddl::{Ddl, placeholders, split_statements},
    parse_ddl,
};

/// The normal form of a statement, or its first fault with place and hint.
fn normal(text: &str) -> String {
    match parse_ddl(text, &ParseOptions::new(Dialect::Native, 0)) {
        Ok(Some(ddl)) => ddl.to_string(),
        Ok(None) => "not one of ours".to_owned(),
        Err(errors) => {
            let first = &errors.0[0];
            let hint = first.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            format!("{}:{} {}{hint}", first.line.unwrap(), first.column.unwrap(), first.message)
        }
    }
}

#[test]
fn statements_have_a_normal_form() {
    for (text, expected) in [
        (
            "create saved query late AS $$ SELECT * FROM STREAM(f) WHERE d > 'a;' $$;",
            "CREATE SAVED QUERY late AS $$ SELECT * FROM STREAM(f) WHERE d > 'a;' $$",
        ),
        (
            "CREATE OR REPLACE SAVED DASHBOARD \"a-b\" COMMENT 'it''s' AS '{\"a\": \"''\"}'",
            "CREATE OR REPLACE SAVED DASHBOARD \"a-b\" COMMENT 'it''s' AS $${\"a\": \"'\"}$$",
        ),
        (
            "CREATE SAVED NOTEBOOK IF NOT EXISTS n AS 'costs 5$'",
            "CREATE SAVED NOTEBOOK IF NOT EXISTS n AS 'costs 5$'",
        ),
        ("CREATE SAVED QUERY q AS 'a $$ b'", "CREATE SAVED QUERY q AS 'a $$ b'"),
        (
            "CREATE SAVED QUERY q DIALECT bullet COMMENT 'c' AS $$a$$",
            "CREATE SAVED QUERY q DIALECT BULLET COMMENT 'c' AS $$a$$",
        ),
        ("CREATE SAVED QUERY q DIALECT NATIVE AS $$a$$", "CREATE SAVED QUERY q AS $$a$$"),
        ("CREATE SAVED QUERY q AS /* why */ -- so\n $$a$$", "CREATE SAVED QUERY q AS $$a$$"),
        ("DROP SAVED QUERY IF EXISTS q", "DROP SAVED QUERY IF EXISTS q"),
        ("drop saved dashboard d;", "DROP SAVED DASHBOARD d"),
        ("SHOW SAVED QUERIES", "SHOW SAVED QUERIES"),
        ("SHOW SAVED notebooks;", "SHOW SAVED NOTEBOOKS"),
        ("SHOW CREATE SAVED DASHBOARD d", "SHOW CREATE SAVED DASHBOARD d"),
    ] {
        assert_eq!(normal(text), expected, "{text}");
        assert_eq!(normal(expected), expected);
    }
}

#[test]
fn faults_name_their_place() {
    for (text, expected) in [
        ("CREATE SAVED VIEW v AS $$a$$", "1:14 expected QUERY, DASHBOARD or NOTEBOOK, found `VIEW`"),
        (
            "CREATE SAVED QERY q AS $$a$$",
            "1:14 expected QUERY, DASHBOARD or NOTEBOOK, found `QERY` (Did you mean QUERY?)",
        ),
        ("CREATE SAVED QUERY q AS $$a", "1:25 this `$$` is not closed (Close it with `$$`.)"),
        (
            "CREATE SAVED QUERY q AS $$a$$ b",
            "1:31 nothing is allowed after the closing `$$` (Write a text that has `$$` in single quotes.)",
        ),
        ("CREATE SAVED QUERY q AS 'a' b", "1:29 expected the end of the statement, found `b`"),
        (
            "CREATE SAVED QUERY q AS SELECT 1",
            "1:25 expected a text between `$$` and `$$`, or in single quotes, found `SELECT`",
        ),
        (
            "CREATE SAVED QUERY q",
            "1:21 expected DIALECT, COMMENT or AS, found the end of the query (Write AS and the text of the saved query between `$$` and `$$`.)",
        ),
        (
            "CREATE OR REPLACE SAVED QUERY IF NOT EXISTS q AS $$a$$",
            "1:38 OR REPLACE and IF NOT EXISTS exclude each other (Write one of them.)",
        ),
        (
            "ALTER SAVED QUERY q AS $$a$$",
            "1:7 a saved object cannot be altered (Write CREATE OR REPLACE SAVED … with the new text.)",
        ),
        (
            "CREATE SAVED DASHBOARD d DIALECT BULLET AS $$a$$",
            "1:26 expected COMMENT or AS, found `DIALECT` (Write AS and the text of the dashboard between `$$` and `$$`.)",
        ),
        ("SHOW SAVED", "1:11 expected QUERIES, DASHBOARDS or NOTEBOOKS, found the end of the query"),
        ("CREATE SAVD QUERY q AS $$a$$", "1:8 there is no CREATE SAVD (Did you mean CREATE SAVED QUERY?)"),
    ] {
        assert_eq!(normal(text), expected, "{text}");
    }
}

#[test]
fn placeholders_are_those_outside_of_quotes() {
    for (text, most) in [
        ("SELECT $1, $3 + $2", 3),
        ("SELECT '$'", 0),
        ("SELECT '$4', \"$5\" -- $6\n", 0),
        ("CREATE SAVED QUERY q AS $$ a = $1 $$", 0),
        ("SELECT '\u{fc}', $12", 12),
    ] {
        assert_eq!(placeholders(text), most, "{text}");
    }
}

proptest! {
    /// Any text comes back exactly, alone and among other statements.
    #[test]
    fn texts_come_back_exactly(
        text in prop_oneof![any::<String>(), "[$'a;\\n ]{0,12}"],
        comment in prop::option::of("[^\\x00]{0,20}"),
        name in "[a-z][a-z_-]{0,7}",
        is_bullet in any::<bool>(),
        kind in prop::sample::select(SavedKind::ALL.to_vec()),
    ) {
        prop_assume!(swiftwater_event::StreamName::new(&name).is_ok());
        let create = CreateSaved {
            name: SavedName { kind, name: name.into() },
            or_replace: true,
            if_not_exists: false,
            dialect: if is_bullet && kind == SavedKind::Query { Dialect::Bullet } else { Dialect::Native },
            comment: comment.map(String::into_boxed_str),
            text: text.into(),
        };
        let ddl = Ddl::CreateSaved(create);
        let text = ddl.to_string();
        prop_assert_eq!(parse_ddl(&text, &ParseOptions::new(Dialect::Native, 0)), Ok(Some(ddl)), "{}", text);
        let several = format!("SHOW STREAMS; {text}; SHOW VIEWS");
        let pieces = split_statements(&several);
        prop_assert_eq!(pieces.len(), 3, "{}", several);
        prop_assert_eq!(pieces[1].text, text.as_str());
    }
}

//! Tests the faults of contents. `cases.json` has contents with the place of their first fault; `console/test/schemas.test.ts` holds the
//! published schemas against the same cases.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use serde::Deserialize;
use swiftwater_lang::{
    Dialect,
    ddl::{CreateSaved, SavedName},
};

use super::*;

#[derive(Deserialize)]
struct Case {
    kind: String,
    content: Value,
    /// None: it is right.
    fault: Option<String>,
    message: Option<String>,
}

fn create(kind: SavedKind, text: &str) -> CreateSaved {
    CreateSaved {
        name: SavedName { kind, name: "n".into() },
        or_replace: false,
        if_not_exists: false,
        dialect: Dialect::Native,
        comment: None,
        text: text.into(),
    }
}

#[test]
fn contents_have_the_form_of_their_schema() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("cases.json")).unwrap();
    assert!(cases.len() > 40);
    for case in cases {
        let kind = if case.kind == "dashboard" { SavedKind::Dashboard } else { SavedKind::Notebook };
        let text = case.content.to_string();
        match (check(&create(kind, &text), 100, 0), case.fault) {
            (Ok(()), None) => {}
            (Err(ContentError::Form(faults)), Some(path)) => {
                assert_eq!(faults[0].path, path, "{text}: {faults:?}");
                let message = case.message.unwrap_or_default();
                assert!(faults[0].message.contains(&message), "{text}: {faults:?}");
            }
            (found, fault) => panic!("{text}: {found:?}, {fault:?}"),
        }
    }
}

#[test]
fn all_faults_are_found() {
    let text = r#"{"version": 1, "titel": "a", "panels": [{"id": "a"}, 3]}"#;
    let Err(ContentError::Form(faults)) = check(&create(SavedKind::Dashboard, text), 100, 0) else {
        panic!()
    };
    let faults: Vec<String> =
        faults.into_iter().map(|fault| format!("{} {}", fault.path, fault.message)).collect();
    assert_eq!(
        faults,
        [
            " there is no member `titel` here; did you mean `title`?",
            " the member `title` is missing",
            "/panels/0 the member `x` is missing",
            "/panels/0 the member `w` is missing",
            "/panels/0 the member `y` is missing",
            "/panels/0 the member `h` is missing",
            "/panels/0 the member `source` is missing",
            "/panels/1 an object is expected",
        ]
    );
    let many = format!(r#"{{"version": 1, "title": "a", "panels": [{}]}}"#, vec!["1"; 99].join(","));
    let Err(ContentError::Form(faults)) = check(&create(SavedKind::Dashboard, &many), 100, 0) else {
        panic!()
    };
    assert_eq!(faults.len(), 20);
    let Err(ContentError::Form(faults)) = check(&create(SavedKind::Notebook, "{"), 100, 0) else { panic!() };
    assert!(faults[0].message.starts_with("the content is not valid JSON: EOF"), "{faults:?}");
}

#[test]
fn queries_are_parsed_unless_they_have_parameters() {
    let of = |text: &str| check(&create(SavedKind::Query, text), 100, 0);
    assert_eq!(of("SELECT a FROM STREAM(s) WHERE b = 1"), Ok(()));
    assert_eq!(of("SELECT a FROM STREAM(s) WHERE b = $1"), Ok(()));
    assert_eq!(of(r#" {"aggregation": {"type": "RAW", "size": 1}}"#), Ok(()));
    assert_eq!(of("SELECT 'US$' AS a FROM STREAM(s)"), Ok(()));
    assert!(matches!(of("SELECT 'US$' FORM STREAM(s)"), Err(ContentError::Query(_))));
    let long = format!("SELECT '{}' AS a FROM STREAM(s)", "x".repeat(99));
    assert!(matches!(of(&long), Err(ContentError::TooLarge { bytes_max: 100, .. })));
    let Err(ContentError::Query(errors)) = of("SELECT a FORM STREAM(s)") else { panic!() };
    assert!(errors.0[0].line.is_some(), "{errors:?}");
    assert!(matches!(of(""), Err(ContentError::Query(_))));
    assert!(matches!(of(r#"{"aggregation": 1}"#), Err(ContentError::Query(_))));
}

#[test]
fn a_title_is_found_whatever_else_there_is() {
    assert_eq!(title_of(r#"{"panels": [], "title": "ü\n"}"#).as_deref(), Some("ü\n"));
    assert_eq!(title_of("{}"), None);
}

#[test]
fn names_and_comments_are_those_that_statements_take() {
    let query = create(SavedKind::Query, "SELECT a FROM STREAM(s)");
    let mut named = query.clone();
    named.name.name = "a b".into();
    assert!(matches!(check(&named, 100, 0), Err(ContentError::Head(_))));
    let comment = |bytes| CreateSaved { comment: Some("x".repeat(bytes).into()), ..query.clone() };
    assert_eq!(check(&comment(SAVED_COMMENT_BYTES_MAX), 100, 0), Ok(()));
    assert!(matches!(check(&comment(SAVED_COMMENT_BYTES_MAX + 1), 100, 0), Err(ContentError::Head(_))));
}

//! Tests revisions, sizes and links.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use super::*;
use crate::{Catalog, Change, ChangeRecord, Snapshot, read};

const DAY_MS: Millis = 86_400_000;

fn create(text: &str) -> CreateSaved {
    let Ddl::CreateSaved(create) = read(text).unwrap() else { panic!("{text}") };
    create
}

fn query(name: &str) -> SavedName {
    SavedName { kind: SavedKind::Query, name: name.into() }
}

#[test]
fn a_revision_is_never_given_again() {
    let mut saved = SavedObjects::default();
    let revision = |saved: &SavedObjects| {
        let entry = saved.get(&query("q")).unwrap();
        (entry.revision, entry.created, entry.changed)
    };
    assert!(saved.create(&create("CREATE SAVED QUERY q AS $$a$$"), 1).unwrap());
    assert_eq!(revision(&saved), (1, 1, 1));
    let replace = create("CREATE OR REPLACE SAVED QUERY q AS $$b$$");
    assert!(saved.create(&replace, 2).unwrap());
    assert_eq!(revision(&saved), (2, 1, 2));
    assert!(!saved.create(&replace, 3).unwrap(), "it has this text");
    assert_eq!(revision(&saved), (2, 1, 2));
    assert!(saved.drop(&query("q"), false).unwrap());
    assert!(saved.create(&replace, 4).unwrap());
    assert_eq!(revision(&saved), (3, 4, 4));
    let error = saved.create(&create("CREATE SAVED QUERY q AS $$b$$"), 5).unwrap_err();
    assert_eq!(error.to_string(), "saved query `q` already exists");
    assert!(!saved.create(&create("CREATE SAVED QUERY IF NOT EXISTS q AS $$c$$"), 5).unwrap());
    assert_eq!(saved.drop(&query("r"), false).unwrap_err().to_string(), "no saved query `r`");
    assert!(!saved.drop(&query("r"), true).unwrap());
}

#[test]
fn bytes_are_those_of_all_texts_and_comments() {
    let mut saved = SavedObjects::default();
    saved.create(&create("CREATE SAVED QUERY q COMMENT 'four' AS $$12345$$"), 0).unwrap();
    saved.create(&create("CREATE SAVED DASHBOARD q AS $${}$$"), 0).unwrap();
    assert_eq!((saved.bytes(), saved.len()), (11, 2));
    saved.create(&create("CREATE OR REPLACE SAVED QUERY q AS $$1$$"), 0).unwrap();
    assert_eq!(saved.bytes(), 3);
    saved.drop(&query("q"), false).unwrap();
    assert_eq!((saved.bytes(), saved.len()), (2, 1));
}

#[test]
fn objects_of_a_kind_are_listed_by_name() {
    let mut saved = SavedObjects::default();
    for text in ["QUERY b", "QUERY a", "DASHBOARD c", "QUERY d", "NOTEBOOK a"] {
        saved.create(&create(&format!("CREATE SAVED {text} AS $$x$$")), 0).unwrap();
    }
    let names = |kind, after| {
        saved.of_kind(kind, after).map(|entry| entry.create.name.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(SavedKind::Query, None), ["a", "b", "d"]);
    assert_eq!(names(SavedKind::Query, Some("a")), ["b", "d"]);
    assert_eq!(names(SavedKind::Query, Some("bb")), ["d"]);
    assert_eq!(names(SavedKind::Notebook, None), ["a"]);
    assert!(names(SavedKind::Notebook, Some("a")).is_empty());
}

#[test]
fn a_link_stays_while_it_is_opened() {
    let mut catalog = Catalog::default();
    let apply = |catalog: &mut Catalog, at, key: &str, state: Option<&str>| {
        let change = Change::Link { key: key.into(), state: state.map(Box::from) };
        let bytes = ChangeRecord::new(at, change).to_bytes();
        catalog.apply(&ChangeRecord::from_bytes(&bytes).unwrap()).unwrap();
    };
    apply(&mut catalog, 0, "a", Some("#/a"));
    apply(&mut catalog, 0, "b", Some("#/b"));
    let link = catalog.saved().link("a", DAY_MS).unwrap();
    assert!(
        SavedObjects::opening_is_change(link, DAY_MS) && !SavedObjects::opening_is_change(link, DAY_MS - 1)
    );
    apply(&mut catalog, 60 * DAY_MS, "a", None);
    assert!(
        catalog.saved().link("b", 90 * DAY_MS - 1).is_some()
            && catalog.saved().link("b", 90 * DAY_MS).is_none()
    );
    let snapshot = Snapshot::from_bytes(&catalog.snapshot(0, |_| None).to_bytes()).unwrap();
    assert_eq!(Catalog::from_snapshot(&snapshot).unwrap(), catalog);
    // An opening of a link that is gone brings nothing back, and what is too old goes.
    apply(&mut catalog, 100 * DAY_MS, "b", None);
    assert!(catalog.saved().link("b", 0).is_none());
    assert_eq!(&*catalog.saved().link("a", 100 * DAY_MS).unwrap().state, "#/a");
}

#[test]
fn the_oldest_link_makes_room() {
    let mut saved = SavedObjects::default();
    for number in 0..LINKS_MAX {
        let link = LinkEntry { state: "x".into(), opened: number as Millis };
        saved.links.insert(number.to_string().into(), Arc::new(link));
    }
    saved.put_link("one more", Some("x"), LINKS_MAX as Millis);
    assert_eq!(saved.links.len(), LINKS_MAX);
    assert!(saved.link("0", 0).is_none() && saved.link("1", 0).is_some());
    // So do the oldest ones if the states are too large together.
    let state = "x".repeat(LINK_BYTES_MAX);
    let many = LINKS_BYTES_MAX / LINK_BYTES_MAX;
    for number in 0..=many {
        saved.put_link(&format!("large {number}"), Some(&state), (2 * LINKS_MAX + number) as Millis);
    }
    assert_eq!((saved.links.len(), saved.link_bytes), (many, LINKS_BYTES_MAX));
    assert!(saved.link("large 0", 0).is_none() && saved.link("large 1", 0).is_some());
}

#[test]
fn the_longest_texts_are_read_back() {
    for text in ["x".repeat(SAVED_BYTES_MAX), format!("$${}", "'".repeat(SAVED_BYTES_MAX - 2))] {
        let create =
            CreateSaved { text: text.into(), or_replace: true, ..create("CREATE SAVED QUERY q AS $$$$") };
        let mut catalog = Catalog::default();
        let change = catalog.check(&Ddl::CreateSaved(create.clone())).unwrap().unwrap();
        catalog.apply(&ChangeRecord::from_bytes(&ChangeRecord::new(7, change).to_bytes()).unwrap()).unwrap();
        assert_eq!(catalog.saved().get(&query("q")).unwrap().create.text, create.text);
        let snapshot = Snapshot::from_bytes(&catalog.snapshot(0, |_| None).to_bytes()).unwrap();
        assert_eq!(Catalog::from_snapshot(&snapshot).unwrap(), catalog);
    }
}

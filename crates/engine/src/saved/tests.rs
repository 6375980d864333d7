//! Tests the keys of links.

use super::link_key;

#[test]
fn a_key_has_ten_characters_that_go_into_an_address() {
    let key = link_key("#/ask?text=x", 0);
    assert!(key.len() == 10 && key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()), "{key}");
    assert_eq!(link_key("#/ask?text=x", 0), key);
    assert_ne!(link_key("#/ask?text=x", 1), key);
    assert_ne!(link_key("#/ask?text=y", 0), key);
}

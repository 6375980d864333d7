//! The places of matches in the JSON text of an event.

use std::ops::Range;

use bumpalo::Bump;
use swiftwater_event::{Value as EventValue, parse_value};

use crate::{
    event_search::EventSearch,
    matcher::{MatcherScratch, merge_places},
};

impl EventSearch {
    /// The places in the JSON text of an event that satisfy conditions of the query which are not negated: sorted, apart
    /// from one another, in bytes. Texts with escapes have no places, as their characters are spelled otherwise.
    pub fn places(&self, event: &str, scratch: &mut MatcherScratch) -> Vec<Range<usize>> {
        let arena = Bump::new();
        let mut places: Vec<Range<usize>> = Vec::new();
        let Some(value) = parse_value(event, &arena) else { return places };
        for column in self.matcher().columns() {
            self.for_each_text(&value, column, &mut |text| {
                // A text without escapes is a part of the event's own.
                let start = (text.as_ptr() as usize).wrapping_sub(event.as_ptr() as usize);
                if start < event.len() && start + text.len() <= event.len() {
                    let found = self.matcher().highlights(column, text, scratch);
                    places.extend(found.into_iter().map(|place| start + place.start..start + place.end));
                }
            });
        }
        merge_places(places)
    }

    fn for_each_text(&self, value: &EventValue<'_>, column: u32, visit: &mut dyn FnMut(&str)) {
        let mut visit_text = |value: crate::Value<'_>| {
            if let crate::Value::Text(text) = value {
                visit(text);
            }
        };
        self.for_each_value_of(value, column, &mut visit_text);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use super::*;
    use crate::query::Operator;

    #[test]
    fn places_are_in_the_text_of_the_event() {
        let event = r#"{"m": "Connection refused", "n": {"o": ["refused twice: refused", "a \"refused\""]}, "refused": 1}"#;
        for (query, expected) in [
            ("refused", &["refused", "refused", "refused"][..]),
            ("m:refused", &["refused"]),
            ("m:refused n.o:twice", &["refused", "twice"]),
            ("m:refused connection", &["Connection", "refused"]),
            ("-refused twice", &["twice"]),
            ("m:=\"on ref\"", &["on ref"]),
        ] {
            let search = EventSearch::of_event(query, Operator::And, None).unwrap();
            let places = search.places(event, &mut MatcherScratch::default());
            let found: Vec<&str> = places.into_iter().map(|place| &event[place]).collect();
            assert_eq!(found, expected, "{query}");
        }
    }
}

//! The paths that the expressions of a query want.

use std::collections::HashMap;

use swiftwater_event::Want;

/// Paths that a query's expressions want, each once; a [`Program`](super::Program) refers to them by place.
#[derive(Debug, Clone, Default)]
pub struct Wants {
    wants: Vec<Want>,
    places: HashMap<Want, usize>,
}

impl Wants {
    /// No wants yet.
    pub fn new() -> Wants {
        Wants::default()
    }

    /// The place of a want, which is added if it is new.
    pub fn intern(&mut self, want: Want) -> usize {
        if let Some(&place) = self.places.get(&want) {
            return place;
        }
        let place = self.wants.len();
        self.wants.push(want.clone());
        self.places.insert(want, place);
        place
    }

    /// All wants, in the order of their places.
    pub fn as_slice(&self) -> &[Want] {
        &self.wants
    }
}

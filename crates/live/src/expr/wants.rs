//! Collects the paths that the expressions of a query read.

use std::collections::HashMap;

use swiftwater_event::Want;

/// Paths that a query's expressions want, each once; a [`Program`](super::Program) refers to them by place.
#[derive(Debug, Clone, Default)]
pub struct Wants {
    wants: Vec<Want>,
    /// An index, if there are more than [`FEW`].
    places: Option<HashMap<Want, usize>>,
}

/// Number of wants that are searched one by one.
const FEW: usize = 32;

impl Wants {
    /// No wants yet.
    pub fn new() -> Wants {
        Wants::default()
    }

    /// The place of a want, which is added if it is new.
    pub fn intern(&mut self, want: Want) -> usize {
        let known = match &self.places {
            Some(places) => places.get(&want).copied(),
            None => self.wants.iter().position(|other| *other == want),
        };
        if let Some(place) = known {
            return place;
        }
        let place = self.wants.len();
        if place == FEW {
            let places = self.wants.iter().cloned().zip(0..).collect();
            self.places = Some(places);
        }
        if let Some(places) = &mut self.places {
            places.insert(want.clone(), place);
        }
        self.wants.push(want);
        place
    }

    /// All wants, in the order of their places.
    pub fn as_slice(&self) -> &[Want] {
        &self.wants
    }
}

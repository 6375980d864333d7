//! Generates swipes of a matching app: the user who swiped, the other user, the direction, and a comment of 256 letters.
//! About 330 bytes each.

use crate::{Events, rng::Rng, zipf::Zipf};

const COMMENT_LETTERS: usize = 256;
/// A letter by five bits.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz eaoin";

/// The parameters of swipes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwipesSettings {
    /// Number of users that swipe, from 1 on.
    pub swipers: u32,
    /// Number of users that are swiped, from 1 on.
    pub swipees: u32,
    /// Skew of Zipf's law, by which some swipe and are swiped more than others; 0: all alike.
    pub skew: f64,
    /// True for the body of `POST /swipe/{leftorright}/`: the numbers as texts, and no direction, which is in the path.
    pub posted: bool,
}

impl Default for SwipesSettings {
    fn default() -> SwipesSettings {
        SwipesSettings { swipers: 50_000, swipees: 50_000, skew: 0.0, posted: false }
    }
}

/// See the head of this module.
#[derive(Debug)]
pub(crate) struct Swipes {
    rng: Rng,
    swipers: Zipf,
    swipees: Zipf,
    posted: bool,
}

impl Swipes {
    pub(crate) fn new(seed: u64, settings: &SwipesSettings) -> Swipes {
        Swipes {
            rng: Rng::new(seed),
            swipers: Zipf::new(settings.swipers as usize, settings.skew),
            swipees: Zipf::new(settings.swipees as usize, settings.skew),
            posted: settings.posted,
        }
    }
}

impl Events for Swipes {
    fn push(&mut self, out: &mut Vec<u8>) {
        let quote: &[u8] = if self.posted { b"\"" } else { b"" };
        let mut digits = itoa::Buffer::new();
        out.extend_from_slice(b"{\"swiper\":");
        out.extend_from_slice(quote);
        out.extend_from_slice(digits.format(self.swipers.draw(&mut self.rng) + 1).as_bytes());
        out.extend_from_slice(quote);
        out.extend_from_slice(b",\"swipee\":");
        out.extend_from_slice(quote);
        out.extend_from_slice(digits.format(self.swipees.draw(&mut self.rng) + 1).as_bytes());
        out.extend_from_slice(quote);
        if !self.posted {
            let direction: &[u8] = match self.rng.bits() >> 63 {
                0 => b",\"direction\":\"left\"",
                _ => b",\"direction\":\"right\"",
            };
            out.extend_from_slice(direction);
        }
        out.extend_from_slice(b",\"comment\":\"");
        let start = out.len();
        out.resize(start + COMMENT_LETTERS, 0);
        for letters in out[start..].chunks_mut(8) {
            let mut bits = self.rng.bits();
            for letter in letters {
                *letter = LETTERS[(bits & 31) as usize];
                bits >>= 5;
            }
        }
        out.extend_from_slice(b"\"}\n");
    }
}

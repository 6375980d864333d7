//! Guesses the keys of an event by their place, as learnt from earlier events of the buffer: speculation on order, after
//! Li et al., "Mison", VLDB 2017. Each guess is compared with the whole key, so it changes no result. If more than half
//! of an event's guesses fail, the next 64 events are decoded without guesses.

use crate::{plan::Target, scan::same};

/// Keys of one object that are remembered.
pub(crate) const SEEN_MAX: usize = 4096;

/// Predicts the keys of the next event from those of the latest events, by their place.
#[derive(Debug, Default)]
pub(crate) struct KeyPredictor {
    keys: Vec<PredictedKey>,
    /// Events yet to come without a guess.
    pause: u32,
}

/// A predicted key with its quotes, and what it leads to.
#[derive(Debug, Clone, Copy)]
struct PredictedKey {
    /// The last 16 bytes up to the key's end, and those bits of them that are the key's.
    last: u128,
    mask: u128,
    /// Start of a longer key.
    start: u32,
    len: u32,
    target: Target,
}

/// The position among the predicted keys of one event.
pub(crate) struct KeyCursor {
    guess: bool,
    /// The place of the next key.
    place: usize,
    /// Keys that were guessed wrong.
    wrong: usize,
}

impl KeyPredictor {
    /// Events that are not guessed at once most guesses failed.
    const PAUSE: u32 = 64;

    /// Forgets all, for another buffer.
    pub(crate) fn forget(&mut self) {
        self.keys.clear();
        self.pause = 0;
    }

    /// Begins the keys of an event.
    pub(crate) fn begin_event(&mut self) -> KeyCursor {
        let guess = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        KeyCursor { guess, place: 0, wrong: 0 }
    }

    /// Ends the keys of an event.
    pub(crate) fn end_event(&mut self, event: &KeyCursor) {
        if self.pause == 0 && event.wrong * 2 > event.place {
            self.pause = Self::PAUSE;
        }
    }

    /// The target of the event's next key, which ends right before `colon`. If it is not the expected one, `find`
    /// returns the target, given the key's start.
    #[inline(always)]
    pub(crate) fn next(
        &mut self,
        bytes: &[u8],
        colon: usize,
        event: &mut KeyCursor,
        find: impl FnOnce() -> (usize, Target),
    ) -> Target {
        if !event.guess {
            return find().1;
        }
        let place = event.place;
        event.place += 1;
        let guess = self.keys.get(place);
        if let Some(guess) = guess
            && guess.is_before(bytes, colon)
        {
            return guess.target;
        }
        event.wrong += usize::from(guess.is_some());
        let (start, target) = find();
        self.record_key(place, bytes, start, colon, target);
        target
    }

    #[cold]
    fn record_key(&mut self, place: usize, bytes: &[u8], start: usize, end: usize, target: Target) {
        let len = end - start;
        // A key that is too close to the buffer's beginning is remembered as a value that matches no key.
        let (last, mask) = bytes[..end].last_chunk().map_or((1, 0), |last| {
            let mask = u128::MAX << (128 - 8 * len.min(16));
            (u128::from_le_bytes(*last) & mask, mask)
        });
        let guess = PredictedKey { last, mask, start: start as u32, len: len as u32, target };
        if place < self.keys.len() {
            self.keys[place] = guess;
        } else if place < SEEN_MAX {
            self.keys.push(guess);
        }
    }
}

impl PredictedKey {
    /// True if this very key stands right before `colon`.
    #[inline(always)]
    fn is_before(&self, bytes: &[u8], colon: usize) -> bool {
        let Some(before) = bytes[..colon].last_chunk() else { return false };
        let len = self.len as usize;
        u128::from_le_bytes(*before) & self.mask == self.last
            && (len <= 16 || (len <= colon && same(bytes, self.start as usize, colon - len, len)))
    }
}

//! The bit masks of a chunk of blocks, one word a block.

use super::wide::Wide;

/// Blocks that are read together.
pub(super) const CHUNK: usize = 32;

/// A property of a chunk's blocks, a word a block.
pub(super) struct Masks(pub(super) [u64; CHUNK]);

impl Default for Masks {
    fn default() -> Self {
        Masks([0; CHUNK])
    }
}

impl Masks {
    /// The masks of the eight blocks of a group.
    ///
    /// # Safety
    ///
    /// The machine has the instructions of `W`.
    #[inline(always)]
    pub(super) unsafe fn group<W: Wide>(&self, group: usize) -> W {
        // SAFETY: the caller's.
        unsafe { W::load(&self.0.as_chunks().0[group]) }
    }

    #[inline(always)]
    pub(super) fn group_mut(&mut self, group: usize) -> &mut [u64; 8] {
        &mut self.0.as_chunks_mut().0[group]
    }
}

/// The masks of a chunk.
pub(super) struct Chunk {
    // Masks of bytes inside and outside of strings.
    pub(super) quotes: Masks,
    pub(super) backslashes: Masks,
    pub(super) open: Masks,
    pub(super) close: Masks,
    pub(super) colons: Masks,
    pub(super) commas: Masks,
    /// Set of what is not less than `` ` ``: tells curly brackets from square ones.
    pub(super) curly: Masks,
    pub(super) spaces: Masks,
    pub(super) controls: Masks,
    pub(super) digits: Masks,
    pub(super) zeros: Masks,
    pub(super) minus: Masks,
    pub(super) plus: Masks,
    pub(super) points: Masks,
    pub(super) exponents: Masks,
    /// The bytes that exist: none after the last block.
    pub(super) bytes: Masks,
    /// A bit a block: not all is ASCII.
    pub(super) non_ascii: u64,
    /// The bytes from each opening quote to before the closing one.
    pub(super) in_string: Masks,
    // The state of the brackets at each byte; at a bracket, the state before it.
    /// It lies in an object.
    pub(super) object: Masks,
    /// It lies at depth 1.
    pub(super) top: Masks,
    /// A bracket that closes another kind.
    pub(super) misfits: Masks,
    /// Outermost brackets, and commas between events.
    pub(super) roots: Masks,
    pub(super) between: Masks,
    /// Literals to be looked at.
    pub(super) literals: Masks,
    pub(super) bad: Masks,
}

impl Chunk {
    pub(super) fn new() -> Chunk {
        Chunk {
            quotes: Masks::default(),
            backslashes: Masks::default(),
            open: Masks::default(),
            close: Masks::default(),
            colons: Masks::default(),
            commas: Masks::default(),
            curly: Masks::default(),
            spaces: Masks::default(),
            controls: Masks::default(),
            digits: Masks::default(),
            zeros: Masks::default(),
            minus: Masks::default(),
            plus: Masks::default(),
            points: Masks::default(),
            exponents: Masks::default(),
            bytes: Masks::default(),
            non_ascii: 0,
            in_string: Masks::default(),
            object: Masks::default(),
            top: Masks::default(),
            misfits: Masks::default(),
            roots: Masks::default(),
            between: Masks::default(),
            literals: Masks::default(),
            bad: Masks::default(),
        }
    }

    /// Forgets the blocks from this one on, which are those of an earlier chunk.
    pub(super) fn clear_from(&mut self, block: usize) {
        for masks in [
            &mut self.quotes,
            &mut self.backslashes,
            &mut self.open,
            &mut self.close,
            &mut self.colons,
            &mut self.commas,
            &mut self.curly,
            &mut self.spaces,
            &mut self.controls,
            &mut self.digits,
            &mut self.zeros,
            &mut self.minus,
            &mut self.plus,
            &mut self.points,
            &mut self.exponents,
            &mut self.bytes,
        ] {
            masks.0[block..].fill(0);
        }
    }

    /// Marks a comma between two events, if it lies in this chunk, which begins at `base`.
    #[inline(always)]
    pub(super) fn mark_between(&mut self, base: usize, comma: usize) {
        if let Some(mask) = comma.checked_sub(base).and_then(|place| self.between.0.get_mut(place / 64)) {
            *mask |= 1 << (comma % 64);
        }
    }
}

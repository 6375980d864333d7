//! Building blocks of columns: Arrow's string views, and null masks.

use std::sync::Arc;

use arrow_array::StringViewArray;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};

use crate::{text::unescape, walk::Slot};

/// The null rows, recorded only once there is one.
#[derive(Default)]
pub(crate) struct Nulls {
    /// A bit a row up to the last null: 0 if it is null.
    valid: Vec<u64>,
    count: usize,
}

impl Nulls {
    #[inline(always)]
    pub(crate) fn push(&mut self, valid: bool) {
        if !valid {
            self.push_null();
        }
        self.count += 1;
    }

    fn push_null(&mut self) {
        self.valid.resize(self.count / 64 + 1, u64::MAX);
        self.valid[self.count / 64] &= !(1 << (self.count % 64));
    }

    pub(crate) fn finish(mut self) -> Option<NullBuffer> {
        if self.valid.is_empty() {
            return None;
        }
        self.valid.resize(self.count.div_ceil(64), u64::MAX);
        Some(NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(self.valid), 0, self.count)))
    }
}

/// Texts as Arrow views: into the source, and where they held escapes, into a buffer of their own.
#[derive(Default)]
pub(crate) struct Views {
    pub(crate) views: Vec<u128>,
    unescaped: Vec<u8>,
}

impl Views {
    pub(crate) fn with_capacity(rows: usize) -> Views {
        Views { views: Vec::with_capacity(rows), unescaped: Vec::new() }
    }

    /// Adds what the string in `slot` (with its quotes) says.
    #[inline(always)]
    pub(crate) fn push_string(&mut self, bytes: &[u8], slot: Slot) {
        let view = self.string(bytes, slot);
        self.views.push(view);
    }

    /// A view of what the string in `slot` (with its quotes) says.
    #[inline(always)]
    pub(crate) fn string(&mut self, bytes: &[u8], slot: Slot) -> u128 {
        if slot.is_escaped() {
            return self.unescaped(&bytes[slot.start() + 1..slot.end() - 1]);
        }
        view(bytes, slot.start() + 1, slot.end() - 1, 0)
    }

    #[cold]
    fn unescaped(&mut self, text: &[u8]) -> u128 {
        let start = self.unescaped.len();
        unescape(text, &mut self.unescaped);
        view(&self.unescaped, start, self.unescaped.len(), 1)
    }

    /// Adds the text that lies there.
    #[inline(always)]
    pub(crate) fn push(&mut self, bytes: &[u8], start: usize, end: usize) {
        self.views.push(view(bytes, start, end, 0));
    }

    /// True if two of these views, into `bytes` or what is unescaped, are of equal texts.
    #[inline(always)]
    pub(crate) fn equal(&self, bytes: &[u8], a: u128, b: u128) -> bool {
        // Lengths and first four bytes; a text of up to 12 bytes is all in its view.
        a as u64 == b as u64
            && (a == b || (len(a) > INLINE_MAX && self.text(bytes, a) == self.text(bytes, b)))
    }

    fn text<'a>(&'a self, bytes: &'a [u8], view: u128) -> &'a [u8] {
        let (buffer, start) = ((view >> 64) as u32, (view >> 96) as usize);
        let buffer = if buffer == 0 { bytes } else { &self.unescaped };
        &buffer[start..start + len(view)]
    }

    /// The text of any of these views.
    pub(crate) fn text_of(&self, bytes: &[u8], view: u128) -> Vec<u8> {
        if len(view) > INLINE_MAX {
            return self.text(bytes, view).to_vec();
        }
        view.to_le_bytes()[4..4 + len(view)].to_vec()
    }

    /// The texts; `shared` is the source.
    pub(crate) fn finish(self, shared: &Arc<[Buffer]>, nulls: Option<NullBuffer>) -> StringViewArray {
        let buffers = if self.unescaped.is_empty() {
            Arc::clone(shared)
        } else {
            shared.iter().cloned().chain([Buffer::from_vec(self.unescaped)]).collect()
        };
        // SAFETY: every view was made by `view` of a place within the buffer it names, and what lies there is a whole
        // string (or container) of an event whose UTF-8 was checked, or was made by `unescape` from one.
        unsafe { StringViewArray::new_unchecked(ScalarBuffer::from(self.views), buffers, nulls) }
    }
}

/// The longest text that is held in a view itself.
const INLINE_MAX: usize = 12;

fn len(view: u128) -> usize {
    view as u32 as usize
}

/// The masks by length, of the bytes of a view that are the text.
const TEXT: [u128; INLINE_MAX + 1] = {
    let mut masks = [0; INLINE_MAX + 1];
    let mut len = 0;
    while len <= INLINE_MAX {
        masks[len] = ((1 << (8 * len)) - 1) << 32;
        len += 1;
    }
    masks
};

/// Arrow's view of `bytes[start..end]`, which lies in buffer number `buffer`: the length, then the text itself up to
/// 12 bytes, or its first 4, the buffer and the place.
#[inline(always)]
fn view(bytes: &[u8], start: usize, end: usize, buffer: u32) -> u128 {
    let len = end - start;
    // The text where it stands in a view, with what is around it. Some bytes always are in an event.
    let around = start.checked_sub(4).and_then(|before| bytes.get(before..)?.first_chunk());
    let around = around.map_or_else(|| alone(bytes, start, end), |around| u128::from_le_bytes(*around));
    match TEXT.get(len) {
        Some(text) => around & text | len as u128,
        None => around & TEXT[4] | len as u128 | u128::from(buffer) << 64 | (start as u128) << 96,
    }
}

/// The first bytes of `bytes[start..end]` where they stand in a view.
#[cold]
fn alone(bytes: &[u8], start: usize, end: usize) -> u128 {
    let mut text = [0; 16];
    let len = (end - start).min(INLINE_MAX);
    text[4..4 + len].copy_from_slice(&bytes[start..start + len]);
    u128::from_le_bytes(text)
}

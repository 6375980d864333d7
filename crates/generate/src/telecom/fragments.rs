//! Stores texts consecutively in one buffer, and finds them by number.

#[derive(Debug)]
pub(super) struct Fragments {
    bytes: Vec<u8>,
    /// Start of each, and after all of them the end.
    starts: Vec<u32>,
}

impl Fragments {
    /// Makes so many texts, each added to the buffer by a call.
    pub(super) fn new(count: usize, mut add: impl FnMut(usize, &mut Vec<u8>)) -> Fragments {
        let mut fragments = Fragments { bytes: Vec::new(), starts: vec![0] };
        for number in 0..count {
            add(number, &mut fragments.bytes);
            fragments.starts.push(fragments.bytes.len() as u32);
        }
        fragments
    }

    pub(super) fn count(&self) -> usize {
        self.starts.len() - 1
    }

    #[inline]
    pub(super) fn get(&self, number: usize) -> &[u8] {
        &self.bytes[self.starts[number] as usize..self.starts[number + 1] as usize]
    }
}

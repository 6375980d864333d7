//! The set of ended queries of an index segment: a bitmap in pages; a change copies one page.

use std::sync::Arc;

/// Bits of a page.
const PAGE_BITS: usize = 4096;
const WORDS: usize = PAGE_BITS / 64;

/// A set of places; cheap to copy with one place more.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndedSet {
    pages: Vec<Option<Arc<[u64; WORDS]>>>,
    count: usize,
}

impl EndedSet {
    /// Places in it.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    pub(crate) fn has(&self, place: u32) -> bool {
        let place = place as usize;
        self.count > 0
            && self
                .pages
                .get(place / PAGE_BITS)
                .and_then(Option::as_ref)
                .is_some_and(|page| page[place % PAGE_BITS / 64] >> (place % 64) & 1 == 1)
    }

    /// Inserts a place.
    pub(crate) fn insert(&mut self, place: u32) {
        if self.has(place) {
            return;
        }
        let place = place as usize;
        if self.pages.len() <= place / PAGE_BITS {
            self.pages.resize(place / PAGE_BITS + 1, None);
        }
        let page = self.pages[place / PAGE_BITS].get_or_insert_with(|| Arc::new([0; WORDS]));
        Arc::make_mut(page)[place % PAGE_BITS / 64] |= 1 << (place % 64);
        self.count += 1;
    }

    /// Places that are in this set and not in an earlier version of it. Pages that both share are passed over.
    pub(crate) fn since<'e>(&'e self, earlier: &'e EndedSet) -> impl Iterator<Item = u32> + 'e {
        self.pages.iter().enumerate().flat_map(move |(number, page)| {
            let before = earlier.pages.get(number).and_then(Option::as_ref);
            let page = page.as_ref().filter(|page| before.is_none_or(|before| !Arc::ptr_eq(page, before)));
            page.into_iter().flat_map(move |page| {
                (0..PAGE_BITS)
                    .filter(move |bit| {
                        let old = before.map_or(0, |before| before[bit / 64]);
                        (page[bit / 64] & !old) >> (bit % 64) & 1 == 1
                    })
                    .map(move |bit| (number * PAGE_BITS + bit) as u32)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_there_and_older_versions_stay() {
        let mut ended = EndedSet::default();
        for place in [3, 4095, 4096, 100_000, 3] {
            ended.insert(place);
        }
        let earlier = ended.clone();
        ended.insert(5);
        ended.insert(50_000);
        assert_eq!((earlier.len(), ended.len()), (4, 6));
        for place in [3, 4095, 4096, 100_000] {
            assert!(earlier.has(place) && ended.has(place));
        }
        assert!(!earlier.has(5) && !ended.has(6) && !ended.has(1 << 30));
        assert_eq!(ended.since(&earlier).collect::<Vec<_>>(), [5, 50_000]);
    }
}

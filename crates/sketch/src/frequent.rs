//! Finds the most frequent values.
//!
//! It is a map from values to counts. When the map is full, the median count is subtracted from all, which halves the
//! map. After Anderson et al., "A High-Performance Algorithm for Identifying Frequent Items in Data Streams", 2017.
//! Counts are never too low, and too high by at most [`Frequent::error`]. No value that occurred more often than that is
//! missing.
//!
//! ```text
//! image := 1 'f' lg_entries seen error count item*       seen, error: u64; count: u32
//! item  := least length byte*                            least, its lower bound: u64; length: u32
//! ```

use std::cmp::Reverse;

use datasketches::frequencies::{ErrorType, FrequentItemsSketch};

use crate::image::{self, ImageError, Reader};

const KIND: u8 = b'f';
const OF: &str = "frequent items";

/// A sketch of frequent values.
#[derive(Debug, Clone)]
pub struct Frequent {
    lg_entries: u8,
    /// Allocated with the first value.
    map: Option<Box<Map>>,
}

#[derive(Debug, Clone)]
struct Map {
    items: FrequentItemsSketch<Vec<u8>>,
    /// The number of values; more than the map's own weight once the map was read from an image, which contains the
    /// rest of them.
    seen: u64,
    /// The amount by which counts were reduced before the map was read from an image.
    cut: u64,
    /// Bytes of the values that are known, about: when some are dropped, so large a share of them is.
    value_bytes: usize,
}

/// A value, and how often it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrequentItem {
    /// Its bytes.
    pub value: Vec<u8>,
    /// The most times that it came.
    pub count: u64,
    /// The least times that it came.
    pub least: u64,
}

impl Frequent {
    /// A sketch with a map of so many entries: between 8 and 2^26, the next power of two. It is exact while there are
    /// three quarters as many values.
    pub fn new(entries: u32) -> Frequent {
        let lg_entries = entries.clamp(8, 1 << 26).next_power_of_two().trailing_zeros() as u8;
        Frequent { lg_entries, map: None }
    }

    /// Takes in a value.
    #[inline]
    pub fn update(&mut self, value: &[u8]) {
        self.update_counted(value, 1);
    }

    /// Takes in a value that came so often.
    #[inline]
    pub fn update_counted(&mut self, value: &[u8], count: u64) {
        if count > 0 {
            let map = self.map();
            map.grow((value.len(), 1), |items| items.update_with_count_ref(value, count));
            map.seen += count;
        }
    }

    /// Takes in values.
    pub fn update_many<'v>(&mut self, values: impl IntoIterator<Item = &'v [u8]>) {
        values.into_iter().for_each(|value| self.update(value));
    }

    /// Takes in all that another sketch has.
    pub fn merge(&mut self, other: &Frequent) {
        let Some(theirs) = &other.map else { return };
        let ours = self.map();
        let of = (theirs.value_bytes, theirs.items.num_active_items());
        ours.grow(of, |items| items.merge(&theirs.items));
        ours.seen += theirs.seen;
        ours.cut += theirs.cut;
    }

    /// The values that may have come at least `threshold` times and are known, the most frequent first, of equally
    /// frequent ones the least first; at most `count`.
    pub fn evaluate(&self, count: usize, threshold: u64) -> Vec<FrequentItem> {
        let Some(map) = &self.map else { return Vec::new() };
        let rows = map.items.frequent_items_with_threshold(ErrorType::NoFalseNegatives, 0);
        let items = rows.into_iter().map(|row| FrequentItem {
            value: row.item().clone(),
            count: row.upper_bound() + map.cut,
            least: row.lower_bound(),
        });
        let mut items: Vec<FrequentItem> = items.filter(|item| item.count >= threshold).collect();
        items.sort_unstable_by(|a, b| {
            Reverse(a.count).cmp(&Reverse(b.count)).then_with(|| a.value.cmp(&b.value))
        });
        items.truncate(count);
        items
    }

    /// Largest error of a count, and largest count of an unknown value; 0 while exact.
    pub fn error(&self) -> u64 {
        self.map.as_ref().map_or(0, |map| map.items.maximum_error() + map.cut)
    }

    /// True if there were more values than are counted exactly.
    pub fn is_estimated(&self) -> bool {
        self.error() > 0
    }

    /// The number of values that came, each as often as it came.
    pub fn values_count(&self) -> u64 {
        self.map.as_ref().map_or(0, |map| map.seen)
    }

    /// True if none came.
    pub fn is_empty(&self) -> bool {
        self.map.is_none()
    }

    /// Number of known distinct values.
    pub fn distinct_count(&self) -> u64 {
        self.map.as_ref().map_or(0, |map| map.items.num_active_items() as u64)
    }

    /// Bytes on the heap, about.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.map.as_ref().map_or(0, |map| size_of::<Map>() + map.items.estimated_size() + map.value_bytes)
    }

    /// The sketch as bytes.
    pub fn serialize(&self) -> Vec<u8> {
        let mut out = image::begin(KIND);
        out.push(self.lg_entries);
        out.extend(self.values_count().to_le_bytes());
        out.extend(self.error().to_le_bytes());
        let items = self.evaluate(usize::MAX, 0);
        out.extend((items.len() as u32).to_le_bytes());
        for item in items {
            out.extend(item.least.to_le_bytes());
            out.extend((item.value.len() as u32).to_le_bytes());
            out.extend(item.value);
        }
        out
    }

    /// A sketch from bytes that [`serialize`](Frequent::serialize) made.
    pub fn deserialize(bytes: &[u8]) -> Result<Frequent, ImageError> {
        let (kind, mut reader) = Reader::begin(bytes, OF)?;
        if kind != KIND {
            return Err(ImageError::Kind { wanted: OF });
        }
        let [lg_entries] = reader.take()?;
        if !(3..=26).contains(&lg_entries) {
            return Err(reader.content(format!("its map has 2^{lg_entries} entries")));
        }
        let (seen, cut, count) = (reader.take_u64()?, reader.take_u64()?, reader.take_u32()?);
        if count as usize > (1usize << lg_entries) * 3 / 4 {
            return Err(reader.content(format!("{count} items in a map of 2^{lg_entries} entries")));
        }
        let mut frequent = Frequent { lg_entries, map: None };
        if seen == 0 && cut == 0 && count == 0 {
            return reader.end().map(|()| frequent);
        }
        // The counts add up to what was seen, less what was cut, so no sum of them overflows.
        let mut left = seen;
        for _ in 0..count {
            let (least, length) = (reader.take_u64()?, reader.take_u32()?);
            let value = reader.take_bytes(length as usize)?;
            left = left.checked_sub(least).ok_or_else(|| reader.content("items came more often than all"))?;
            if least == 0 {
                return Err(reader.content("an item never came"));
            }
            frequent.map().grow((value.len(), 1), |items| items.update_with_count_ref(value, least));
        }
        if cut > left {
            return Err(reader.content("more was cut than came"));
        }
        let map = frequent.map();
        (map.seen, map.cut) = (seen, cut);
        reader.end().map(|()| frequent)
    }

    #[inline]
    fn map(&mut self) -> &mut Map {
        let lg_entries = self.lg_entries;
        self.map.get_or_insert_with(|| {
            let items = FrequentItemsSketch::new(1 << lg_entries).expect("a power of two in range");
            Box::new(Map { items, seen: 0, cut: 0, value_bytes: 0 })
        })
    }
}

impl Map {
    /// Takes in so many values that have so many bytes together; some may be known.
    fn grow(
        &mut self,
        (bytes, values): (usize, usize),
        take: impl FnOnce(&mut FrequentItemsSketch<Vec<u8>>),
    ) {
        let before = self.items.num_active_items();
        take(&mut self.items);
        let after = self.items.num_active_items();
        if after > before {
            self.value_bytes += bytes * (after - before) / values.max(1);
        } else if after < before {
            self.value_bytes = self.value_bytes * after / before;
        }
    }
}

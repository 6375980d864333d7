//! The distribution of numbers: quantiles, and the number of values below a point.
//!
//! A few values are stored as they are. More are stored in a KLL sketch (Karnin, Lang, Liberty, 2016), whose answers are
//! off by a small share of all ranks. KLL tosses coins: an estimate is within its bounds, but differs between runs and
//! between splits. NaN has no rank and is skipped.
//!
//! ```text
//! image := 1 'q' k body               k: u16
//! body  := 0 number*                  numbers of 8 bytes
//!        | 1 kll                      a KLL sketch in the format of Apache DataSketches
//! ```

use datasketches::{
    common::SearchCriteria,
    kll::{KllFloat, KllSketch, SortedView},
};

use crate::image::{self, ImageError, Reader};

const KIND: u8 = b'q';
const OF: &str = "quantiles";

type Kll = KllSketch<KllFloat<f64>>;

/// A sketch of numbers.
#[derive(Debug, Clone)]
pub struct Quantiles {
    k: u16,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    /// All values, at most `k`.
    Few(Vec<f64>),
    Many(Box<Kll>),
}

/// A sketch's numbers in order, to be asked.
#[derive(Debug)]
pub struct QuantileView {
    count: u64,
    numbers: Numbers,
}

#[derive(Debug)]
enum Numbers {
    /// Ascending.
    All(Vec<f64>),
    Some(SortedView<KllFloat<f64>>),
}

impl Quantiles {
    /// A sketch that is exact up to `k` numbers, between 8 and 65535.
    pub fn new(k: u16) -> Quantiles {
        Quantiles { k: k.max(8), state: State::Few(Vec::new()) }
    }

    /// Takes in a number; NaN is passed over.
    #[inline]
    pub fn update(&mut self, number: f64) {
        let Ok(item) = KllFloat::<f64>::new(number) else { return };
        match &mut self.state {
            State::Many(kll) => kll.update(item),
            State::Few(numbers) if numbers.len() < usize::from(self.k) => numbers.push(number),
            State::Few(_) => self.grow().update(item),
        }
    }

    /// Takes in numbers.
    pub fn update_many(&mut self, numbers: impl IntoIterator<Item = f64>) {
        numbers.into_iter().for_each(|number| self.update(number));
    }

    /// Takes in all that another sketch has.
    pub fn merge(&mut self, other: &Quantiles) {
        match &other.state {
            State::Few(numbers) => self.update_many(numbers.iter().copied()),
            State::Many(theirs) => {
                let merged = self.grow().merge(theirs);
                debug_assert!(merged.is_ok(), "{merged:?}: more than 2^64 numbers");
            }
        }
    }

    /// The numbers in order. Costs a sort of what is kept.
    pub fn evaluate(&self) -> QuantileView {
        let numbers = match &self.state {
            State::Few(numbers) => {
                let mut numbers = numbers.clone();
                numbers.sort_unstable_by(f64::total_cmp);
                Numbers::All(numbers)
            }
            State::Many(kll) => Numbers::Some(kll.sorted_view()),
        };
        QuantileView { count: self.count(), numbers }
    }

    /// Numbers taken in.
    pub fn count(&self) -> u64 {
        match &self.state {
            State::Few(numbers) => numbers.len() as u64,
            State::Many(kll) => kll.n(),
        }
    }

    /// True if none came.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// True if there were more than are answered of exactly.
    pub fn is_estimated(&self) -> bool {
        matches!(&self.state, State::Many(kll) if kll.is_estimation_mode())
    }

    /// Largest error of an answer's rank, as a share of all numbers, at 99 % confidence; 0 while exact.
    pub fn rank_error(&self) -> f64 {
        match &self.state {
            State::Many(kll) if kll.is_estimation_mode() => kll.normalized_rank_error(),
            _ => 0.0,
        }
    }

    /// The least number, always exact; `None` where none came.
    pub fn least(&self) -> Option<f64> {
        match &self.state {
            State::Few(numbers) => numbers.iter().copied().min_by(f64::total_cmp),
            State::Many(kll) => kll.min_item().map(|item| item.into_inner()),
        }
    }

    /// The greatest number, always exact; `None` where none came.
    pub fn greatest(&self) -> Option<f64> {
        match &self.state {
            State::Few(numbers) => numbers.iter().copied().max_by(f64::total_cmp),
            State::Many(kll) => kll.max_item().map(|item| item.into_inner()),
        }
    }

    /// Bytes on the heap, about.
    #[inline]
    pub fn bytes(&self) -> usize {
        match &self.state {
            State::Few(numbers) => numbers.capacity() * size_of::<f64>(),
            // Vectors of levels grow by doubling; half of them is in use, about.
            State::Many(kll) => size_of::<Kll>() + kll.num_retained() * 2 * size_of::<f64>(),
        }
    }

    /// The sketch as bytes.
    pub fn serialize(&self) -> Vec<u8> {
        let mut out = image::begin(KIND);
        out.extend(self.k.to_le_bytes());
        match &self.state {
            State::Few(numbers) => {
                out.push(0);
                out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            }
            State::Many(kll) => {
                out.push(1);
                out.extend(kll.serialize());
            }
        }
        out
    }

    /// A sketch from bytes that [`serialize`](Quantiles::serialize) made.
    pub fn deserialize(bytes: &[u8]) -> Result<Quantiles, ImageError> {
        let (kind, mut reader) = Reader::begin(bytes, OF)?;
        if kind != KIND {
            return Err(ImageError::Kind { wanted: OF });
        }
        let k = u16::from_le_bytes(reader.take()?);
        if k < 8 {
            return Err(reader.content(format!("k is {k}")));
        }
        let [body] = reader.take()?;
        let state = match body {
            0 => {
                let (numbers, rest) = reader.rest().as_chunks::<8>();
                if !rest.is_empty() || numbers.len() > usize::from(k) {
                    return Err(reader.length());
                }
                let numbers: Vec<f64> = numbers.iter().map(|number| f64::from_le_bytes(*number)).collect();
                if numbers.iter().any(|number| number.is_nan()) {
                    return Err(reader.content("a number is NaN"));
                }
                State::Few(numbers)
            }
            1 => {
                let kll = Kll::deserialize(reader.rest()).map_err(|error| reader.content(error))?;
                State::Many(Box::new(kll))
            }
            other => return Err(reader.content(format!("its body is of kind {other}"))),
        };
        Ok(Quantiles { k, state })
    }

    /// Makes room for more than few.
    fn grow(&mut self) -> &mut Kll {
        if let State::Few(numbers) = &self.state {
            let mut kll = Kll::new(self.k).expect("k is in range");
            for item in numbers.iter().filter_map(|&number| KllFloat::<f64>::new(number).ok()) {
                kll.update(item);
            }
            self.state = State::Many(Box::new(kll));
        }
        match &mut self.state {
            State::Many(kll) => kll,
            State::Few(_) => unreachable!("it has grown just now"),
        }
    }
}

impl QuantileView {
    /// Numbers in all.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The number at place ⌊`share` · n⌋ of the n numbers in order, counted from 0, the last one for a share of 1;
    /// `share` in [0, 1]. `None` where there are no numbers.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let share = share.clamp(0.0, 1.0);
        match &self.numbers {
            Numbers::All(numbers) => {
                let place = (share * numbers.len() as f64) as usize;
                numbers.get(place.min(numbers.len().saturating_sub(1))).copied()
            }
            Numbers::Some(view) => {
                view.quantile(share, SearchCriteria::Exclusive).ok()?.map(KllFloat::<f64>::into_inner)
            }
        }
    }

    /// Number of the numbers less than `point`.
    pub fn below(&self, point: f64) -> u64 {
        match &self.numbers {
            Numbers::All(numbers) => numbers.partition_point(|number| *number < point) as u64,
            Numbers::Some(view) => {
                let Ok(point) = KllFloat::<f64>::new(point) else { return 0 };
                let share = view.rank(&point, SearchCriteria::Exclusive).unwrap_or(0.0);
                (share * self.count as f64).round() as u64
            }
        }
    }
}

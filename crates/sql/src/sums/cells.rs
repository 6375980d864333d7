//! The state of one sum: the number of its values, and their exact sum.
//!
//! ```text
//! image of whole numbers := u64 count, i128 sum, u8 (1: it exceeded all bounds)
//! image of doubles       := u64 count, u32 p, u32 h, p f64 (parts), and if there are any of these:
//!                           h f64 (parts of huge addends), u64 infinite, u64 negative, u64 nan
//! ```
//!
//! Numbers are little endian. Images live as long as a statement.

use std::fmt::Debug;
use std::marker::PhantomData;

use arrow::array::ArrowNativeTypeOp;
use arrow::datatypes::{ArrowPrimitiveType, DECIMAL128_MAX_PRECISION, DataType, Float64Type};
use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use swiftwater_sketch::{ExactSum, Specials};

/// The state of a sum.
pub(super) trait Cell: Default + Debug + Send + Sync + 'static {
    /// The type of its values.
    type Of: ArrowPrimitiveType;

    fn add(&mut self, value: <Self::Of as ArrowPrimitiveType>::Native);

    /// Retracts a value that was added.
    fn retract(&mut self, value: <Self::Of as ArrowPrimitiveType>::Native);

    fn merge(&mut self, image: &[u8]) -> Result<()>;

    fn write(&self, image: &mut Vec<u8>);

    /// The sum, none of no values.
    fn sum(&self) -> Result<Option<<Self::Of as ArrowPrimitiveType>::Native>>;

    fn average(&self) -> Option<f64>;

    fn heap_bytes(&self) -> usize;
}

/// A sum of whole numbers or of decimals of one scale.
#[derive(Debug)]
pub(super) struct IntegerSum<T> {
    sum: i128,
    count: u64,
    is_over: bool,
    of: PhantomData<T>,
}

impl<T> Default for IntegerSum<T> {
    fn default() -> Self {
        IntegerSum { sum: 0, count: 0, is_over: false, of: PhantomData }
    }
}

impl<T> IntegerSum<T> {
    fn move_by(&mut self, moved: Option<i128>) {
        match moved {
            Some(sum) => self.sum = sum,
            None => self.is_over = true,
        }
    }
}

impl<T> Cell for IntegerSum<T>
where
    T: ArrowPrimitiveType + Debug + Send + Sync,
    T::Native: ArrowNativeTypeOp + Into<i128> + TryFrom<i128>,
{
    type Of = T;

    fn add(&mut self, value: T::Native) {
        self.count += 1;
        self.move_by(self.sum.checked_add(value.into()));
    }

    fn retract(&mut self, value: T::Native) {
        self.count = self.count.saturating_sub(1);
        self.move_by(self.sum.checked_sub(value.into()));
    }

    fn merge(&mut self, image: &[u8]) -> Result<()> {
        let mut rest = image;
        self.count += u64::from_le_bytes(take(&mut rest)?);
        self.move_by(self.sum.checked_add(i128::from_le_bytes(take(&mut rest)?)));
        let [is_over] = take(&mut rest)?;
        self.is_over |= is_over != 0;
        Ok(())
    }

    fn write(&self, image: &mut Vec<u8>) {
        image.extend_from_slice(&self.count.to_le_bytes());
        image.extend_from_slice(&self.sum.to_le_bytes());
        image.push(u8::from(self.is_over));
    }

    fn sum(&self) -> Result<Option<T::Native>> {
        if self.count == 0 {
            return Ok(None);
        }
        let is_decimal = matches!(T::DATA_TYPE, DataType::Decimal128(_, _));
        let is_long = is_decimal && self.sum.unsigned_abs() >= 10_u128.pow(DECIMAL128_MAX_PRECISION.into());
        let sum = T::Native::try_from(self.sum).ok().filter(|_| !self.is_over && !is_long);
        sum.map(Some).ok_or_else(|| {
            let ty = if is_decimal { "DECIMAL".to_owned() } else { crate::type_name(&T::DATA_TYPE) };
            DataFusionError::from(ArrowError::ArithmeticOverflow(format!(
                "a sum is out of range of {ty}: sum over CAST(x AS DECIMAL(38, 0)) or CAST(x AS DOUBLE)"
            )))
        })
    }

    fn average(&self) -> Option<f64> {
        // As views do it: the sum is rounded once, then divided.
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}

/// A sum of doubles, as views have it: `high + low + rest`, where only the rest costs more than a few additions, and ordinary data has
/// none. All of it is exact; it is rounded when it is asked.
#[derive(Debug, Default)]
pub(super) struct DoubleSum {
    count: u64,
    high: f64,
    low: f64,
    rest: Option<Box<ExactSum>>,
}

/// Doubles from here on go to the rest, so that no sum of fewer than 2^63 others overflows.
const LARGE: f64 = f64::from_bits((960 + 1023) << 52);

/// The sum of two doubles and what was rounded off it (Knuth, "The Art of Computer Programming", 4.2.2).
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

impl DoubleSum {
    fn put(&mut self, value: f64) {
        if value.is_nan() || value.abs() >= LARGE {
            self.rest.get_or_insert_default().add(value);
            return;
        }
        let (high, off) = two_sum(self.high, value);
        self.high = high;
        if off != 0.0 {
            let (low, off) = two_sum(self.low, off);
            self.low = low;
            if off != 0.0 {
                self.rest.get_or_insert_default().add(off);
            }
        }
    }

    fn whole(&self) -> f64 {
        let mut sum = self.rest.as_deref().cloned().unwrap_or_default();
        sum.add(self.low);
        sum.add(self.high);
        sum.round()
    }
}

impl Cell for DoubleSum {
    type Of = Float64Type;

    fn add(&mut self, value: f64) {
        self.count += 1;
        self.put(value);
    }

    fn retract(&mut self, value: f64) {
        self.count = self.count.saturating_sub(1);
        match value.is_finite() {
            true => self.put(-value),
            false => self.rest.get_or_insert_default().subtract(value),
        }
    }

    fn merge(&mut self, image: &[u8]) -> Result<()> {
        let mut rest = image;
        self.count += u64::from_le_bytes(take(&mut rest)?);
        let parts = u32::from_le_bytes(take(&mut rest)?);
        let huge = u32::from_le_bytes(take(&mut rest)?);
        for _ in 0..parts {
            self.put(f64::from_le_bytes(take(&mut rest)?));
        }
        if rest.is_empty() {
            return Ok(());
        }
        let huge = (0..huge).map(|_| Ok(f64::from_le_bytes(take(&mut rest)?))).collect::<Result<Vec<_>>>()?;
        let mut counts = [0_u64; 3];
        for count in &mut counts {
            *count = u64::from_le_bytes(take(&mut rest)?);
        }
        let [infinite, negative, nan] = counts;
        let others = ExactSum::of_parts(&[], &huge, Specials { infinite, negative, nan });
        self.rest.get_or_insert_default().merge(&others);
        Ok(())
    }

    fn write(&self, image: &mut Vec<u8>) {
        let (parts, huge, specials) = self.rest.as_deref().map(ExactSum::parts).unwrap_or_default();
        let has_others = !huge.is_empty() || specials != Specials::default();
        image.extend_from_slice(&self.count.to_le_bytes());
        // A sum has some forty parts at most: they do not overlap.
        image.extend_from_slice(&(parts.len() as u32 + 2).to_le_bytes());
        image.extend_from_slice(&(huge.len() as u32).to_le_bytes());
        for part in [self.high, self.low].iter().chain(parts) {
            image.extend_from_slice(&part.to_le_bytes());
        }
        if has_others {
            for part in huge {
                image.extend_from_slice(&part.to_le_bytes());
            }
            for count in [specials.infinite, specials.negative, specials.nan] {
                image.extend_from_slice(&count.to_le_bytes());
            }
        }
    }

    fn sum(&self) -> Result<Option<f64>> {
        Ok((self.count > 0).then(|| self.whole()))
    }

    fn average(&self) -> Option<f64> {
        (self.count > 0).then(|| self.whole() / self.count as f64)
    }

    fn heap_bytes(&self) -> usize {
        self.rest.as_deref().map_or(0, |rest| size_of_val(rest) + rest.heap_bytes())
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let cut = || internal_datafusion_err!("the state of a sum is cut short");
    let (taken, rest) = bytes.split_first_chunk::<N>().ok_or_else(cut)?;
    *bytes = rest;
    Ok(*taken)
}

//! The state of one sum: how many values there were, and what they come to, exactly.
//!
//! ```text
//! image of whole numbers := u64 count, i128 sum, u8 (1: it passed all bounds)
//! image of doubles       := u64 count, u32 p, u32 h, p f64 (parts), h f64 (of huge addends),
//!                           and where there are any: u64 infinite, u64 negative, u64 nan
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

/// What a sum is made of.
pub(super) trait Cell: Default + Debug + Send + Sync + 'static {
    /// The type of its values.
    type Of: ArrowPrimitiveType;

    fn add(&mut self, value: <Self::Of as ArrowPrimitiveType>::Native);

    /// Takes a value out that was added.
    fn take_out(&mut self, value: <Self::Of as ArrowPrimitiveType>::Native);

    fn merge(&mut self, image: &[u8]) -> Result<()>;

    fn write(&self, image: &mut Vec<u8>);

    /// The sum, none of no values.
    fn sum(&self) -> Result<Option<<Self::Of as ArrowPrimitiveType>::Native>>;

    fn average(&self) -> Option<f64>;

    fn heap_bytes(&self) -> usize;
}

/// A sum of whole numbers or of decimals of one scale.
#[derive(Debug)]
pub(super) struct Whole<T> {
    sum: i128,
    count: u64,
    is_over: bool,
    of: PhantomData<T>,
}

impl<T> Default for Whole<T> {
    fn default() -> Self {
        Whole { sum: 0, count: 0, is_over: false, of: PhantomData }
    }
}

impl<T> Whole<T> {
    fn move_by(&mut self, moved: Option<i128>) {
        match moved {
            Some(sum) => self.sum = sum,
            None => self.is_over = true,
        }
    }
}

impl<T> Cell for Whole<T>
where
    T: ArrowPrimitiveType + Debug + Send + Sync,
    T::Native: ArrowNativeTypeOp + Into<i128> + TryFrom<i128>,
{
    type Of = T;

    fn add(&mut self, value: T::Native) {
        self.count += 1;
        self.move_by(self.sum.checked_add(value.into()));
    }

    fn take_out(&mut self, value: T::Native) {
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

/// A sum of doubles, as views have it.
#[derive(Debug, Default)]
pub(super) struct Doubles {
    count: u64,
    sum: ExactSum,
}

impl Cell for Doubles {
    type Of = Float64Type;

    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum.add(value);
    }

    fn take_out(&mut self, value: f64) {
        self.count = self.count.saturating_sub(1);
        self.sum.subtract(value);
    }

    fn merge(&mut self, image: &[u8]) -> Result<()> {
        let mut rest = image;
        self.count += u64::from_le_bytes(take(&mut rest)?);
        let parts = u32::from_le_bytes(take(&mut rest)?) as usize;
        let huge = u32::from_le_bytes(take(&mut rest)?) as usize;
        let mut doubles = |count: usize| -> Result<Vec<f64>> {
            (0..count).map(|_| Ok(f64::from_le_bytes(take(&mut rest)?))).collect()
        };
        let (parts, huge) = (doubles(parts)?, doubles(huge)?);
        let mut specials = Specials::default();
        if !rest.is_empty() {
            specials.infinite = u64::from_le_bytes(take(&mut rest)?);
            specials.negative = u64::from_le_bytes(take(&mut rest)?);
            specials.nan = u64::from_le_bytes(take(&mut rest)?);
        }
        self.sum.merge(&ExactSum::of_parts(&parts, &huge, specials));
        Ok(())
    }

    fn write(&self, image: &mut Vec<u8>) {
        let (parts, huge, specials) = self.sum.parts();
        image.extend_from_slice(&self.count.to_le_bytes());
        // An expansion has some forty parts at most: they do not overlap.
        image.extend_from_slice(&(parts.len() as u32).to_le_bytes());
        image.extend_from_slice(&(huge.len() as u32).to_le_bytes());
        for part in parts.iter().chain(huge) {
            image.extend_from_slice(&part.to_le_bytes());
        }
        if specials != Specials::default() {
            for count in [specials.infinite, specials.negative, specials.nan] {
                image.extend_from_slice(&count.to_le_bytes());
            }
        }
    }

    fn sum(&self) -> Result<Option<f64>> {
        Ok((self.count > 0).then(|| self.sum.round()))
    }

    fn average(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum.round() / self.count as f64)
    }

    fn heap_bytes(&self) -> usize {
        self.sum.heap_bytes()
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let cut = || internal_datafusion_err!("the state of a sum is cut short");
    let (taken, rest) = bytes.split_first_chunk::<N>().ok_or_else(cut)?;
    *bytes = rest;
    Ok(*taken)
}

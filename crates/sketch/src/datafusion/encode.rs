//! Encodes values of Arrow arrays as bytes, and decodes them: equal values of one type have equal bytes.
//!
//! Numbers, dates, times and decimals are their own bytes, little endian, with one zero and one NaN. Text and binary
//! values are their contents. Booleans are 0 or 1.

use std::sync::Arc;

use datafusion_common::{
    Result,
    arrow::{
        array::{
            Array, ArrayData, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, LargeBinaryArray,
            LargeStringArray, StringArray, StringViewArray, cast::AsArray, downcast_primitive_array,
            make_array,
        },
        buffer::Buffer,
        datatypes::{DataType, Float32Type, Float64Type, ToByteSlice},
    },
    exec_err, not_impl_err,
};

/// Calls `take` with each value that is not null, and its row, in order.
pub(crate) fn for_each_value(array: &dyn Array, mut take: impl FnMut(usize, &[u8])) -> Result<()> {
    macro_rules! each {
        ($array:expr, $bytes:expr) => {{
            let array = $array;
            for row in 0..array.len() {
                if array.is_valid(row) {
                    take(row, $bytes(array.value(row)).as_ref());
                }
            }
        }};
    }
    match array.data_type() {
        DataType::Null => {}
        DataType::Boolean => each!(array.as_boolean(), |value: bool| [u8::from(value)]),
        DataType::Utf8 => each!(array.as_string::<i32>(), str::as_bytes),
        DataType::LargeUtf8 => each!(array.as_string::<i64>(), str::as_bytes),
        DataType::Utf8View => each!(array.as_string_view(), str::as_bytes),
        DataType::Binary => each!(array.as_binary::<i32>(), std::convert::identity::<&[u8]>),
        DataType::LargeBinary => each!(array.as_binary::<i64>(), std::convert::identity::<&[u8]>),
        DataType::BinaryView => each!(array.as_binary_view(), std::convert::identity::<&[u8]>),
        DataType::Float64 => each!(array.as_primitive::<Float64Type>(), |value: f64| {
            let one = if value.is_nan() { f64::NAN } else { value + 0.0 };
            one.to_le_bytes()
        }),
        DataType::Float32 => each!(array.as_primitive::<Float32Type>(), |value: f32| {
            let one = if value.is_nan() { f32::NAN } else { value + 0.0 };
            one.to_le_bytes()
        }),
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let mut values: Vec<Option<Vec<u8>>> = vec![None; dictionary.values().len()];
            // Without a type of its own, or each level of dictionaries would make a function of its own.
            let keep: &mut dyn FnMut(usize, &[u8]) = &mut |place, bytes| values[place] = Some(bytes.to_vec());
            for_each_value(dictionary.values().as_ref(), keep)?;
            if values.is_empty() {
                return Ok(());
            }
            for (row, key) in dictionary.normalized_keys().into_iter().enumerate() {
                if let Some(bytes) = &values[key]
                    && array.is_valid(row)
                {
                    take(row, bytes);
                }
            }
        }
        _ => downcast_primitive_array! {
            array => {
                for row in 0..array.len() {
                    if array.is_valid(row) {
                        let value = array.value(row);
                        take(row, value.to_byte_slice());
                    }
                }
            },
            other => return not_impl_err!("sketches do not accept values of type {other}")
        },
    }
    Ok(())
}

/// The type of values that [`decoded`] makes of those of a type.
pub(crate) fn decoded_type(ty: &DataType) -> DataType {
    match ty {
        DataType::Dictionary(_, values) => decoded_type(values),
        other => other.clone(),
    }
}

/// An array of such a type, which is no dictionary, from values as [`for_each_value`] gives them.
pub(crate) fn decoded(values: &[Vec<u8>], ty: &DataType) -> Result<ArrayRef> {
    let texts = || values.iter().map(|value| String::from_utf8_lossy(value));
    Ok(match ty {
        DataType::Boolean => {
            Arc::new(BooleanArray::from_iter(values.iter().map(|value| Some(value == &[1]))))
        }
        DataType::Utf8 => Arc::new(StringArray::from_iter_values(texts())),
        DataType::LargeUtf8 => Arc::new(LargeStringArray::from_iter_values(texts())),
        DataType::Utf8View => Arc::new(StringViewArray::from_iter_values(texts())),
        DataType::Binary => Arc::new(BinaryArray::from_iter_values(values)),
        DataType::LargeBinary => Arc::new(LargeBinaryArray::from_iter_values(values)),
        DataType::BinaryView => Arc::new(BinaryViewArray::from_iter_values(values)),
        ty => match ty.primitive_width() {
            Some(width) if values.iter().all(|value| value.len() == width) => {
                let data = ArrayData::builder(ty.clone())
                    .len(values.len())
                    .add_buffer(Buffer::from_slice_ref(values.concat()))
                    .build()?;
                make_array(data)
            }
            _ => return exec_err!("a sketch contains values that are not of type {ty}"),
        },
    })
}

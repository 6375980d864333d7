//! Describes the value that an event has at a path where another type was declared. Only bad events need it, so it may be
//! slow.

use swiftwater_event::{DecodePlan, Decoder, EventBatch, Kind, Path, Primitive, Type, Values, Want};

/// The value at a path in each of these rows, as messages name it.
pub(super) fn describe_values(batch: &EventBatch, rows: &[u32], path: &Path, ty: &Type) -> Vec<String> {
    let plan = DecodePlan::new([Want { path: path.clone(), ty: Type::Any }]);
    let decoded = Decoder::new().decode(&batch.select(rows), &plan);
    let Some(Values::Tagged(tagged)) = decoded.columns.first().map(|column| &column.values) else {
        return vec![String::new(); rows.len()];
    };
    let name = |row: usize| {
        let (kind, place) = (tagged.kinds[row], tagged.offsets[row] as usize);
        match kind {
            kind if kind == Kind::Boolean as i8 => tagged.booleans.value(place).to_string(),
            kind if kind == Kind::Long as i8 => tagged.longs.value(place).to_string(),
            kind if kind == Kind::Double as i8 => tagged.doubles.value(place).to_string(),
            kind if kind == Kind::String as i8 => match ty {
                Type::Primitive(Primitive::Timestamp(_)) => "text that is not an RFC 3339 time".to_owned(),
                _ => "text".to_owned(),
            },
            kind if kind == Kind::List as i8 => match ty {
                Type::List(_) => "a list with something else in it".to_owned(),
                _ => "a list".to_owned(),
            },
            kind if kind == Kind::Map as i8 => match ty {
                Type::Map(_) => "an object with something else in it".to_owned(),
                _ => "an object".to_owned(),
            },
            _ => "null".to_owned(),
        }
    };
    (0..rows.len()).map(name).collect()
}

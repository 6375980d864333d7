//! Tests of output formats: the encoded rows decode as the original rows.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int64Array,
    ListArray, StringArray, StringViewArray, StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Int64Type, Schema};
use arrow::record_batch::RecordBatch;
use proptest::prelude::*;
use swiftwater_sql::forms::{Form, FormWriter, PgWriter};

/// A row of every kind of value.
#[derive(Debug, Clone)]
struct Row {
    long: Option<i64>,
    double: Option<f64>,
    boolean: Option<bool>,
    text: Option<String>,
    /// Hundredths.
    decimal: Option<i64>,
    micros: Option<i64>,
    days: Option<i32>,
    list: Option<Vec<Option<i64>>>,
}

fn double() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(-0.0),
        Just(1e300),
        Just(5e-324)
    ]
}

fn row() -> impl Strategy<Value = Row> {
    let text = prop_oneof![".*", "[\",\\\\\r\n\t ]*", Just(String::new())];
    (
        any::<Option<i64>>(),
        proptest::option::of(double()),
        any::<Option<bool>>(),
        proptest::option::of(text),
        proptest::option::of(-10_i64.pow(15)..10_i64.pow(15)),
        // Years 0 to 9999: beyond them RFC 3339 has nothing.
        proptest::option::of(-62_167_219_200_000_000_i64..253_402_300_800_000_000),
        proptest::option::of(-719_528..2_932_897),
        proptest::option::of(proptest::collection::vec(any::<Option<i64>>(), 0..4)),
    )
        .prop_map(|(long, double, boolean, text, decimal, micros, days, list)| Row {
            long,
            double,
            boolean,
            text,
            decimal,
            micros,
            days,
            list,
        })
}

fn batch(rows: &[Row]) -> RecordBatch {
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>(rows.iter().map(|row| row.list.clone()));
    let texts: Vec<Option<&str>> = rows.iter().map(|row| row.text.as_deref()).collect();
    let long: ArrayRef = Arc::new(rows.iter().map(|row| row.long).collect::<Int64Array>());
    let inner = Fields::from(vec![Field::new("a", DataType::Int64, true)]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("long", Arc::clone(&long)),
        ("double", Arc::new(rows.iter().map(|row| row.double).collect::<Float64Array>())),
        ("boolean", Arc::new(rows.iter().map(|row| row.boolean).collect::<BooleanArray>())),
        ("text", Arc::new(StringArray::from(texts.clone()))),
        ("view", Arc::new(StringViewArray::from(texts.clone()))),
        ("dictionary", Arc::new(texts.iter().copied().collect::<DictionaryArray<Int32Type>>())),
        (
            "decimal",
            Arc::new(
                rows.iter()
                    .map(|row| row.decimal.map(i128::from))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(18, 2)
                    .unwrap(),
            ),
        ),
        (
            "at",
            Arc::new(
                rows.iter().map(|row| row.micros).collect::<TimestampMicrosecondArray>().with_timezone("UTC"),
            ),
        ),
        ("day", Arc::new(rows.iter().map(|row| row.days).collect::<Date32Array>())),
        ("list", Arc::new(list)),
        ("struct", Arc::new(StructArray::new(inner, vec![long], None))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .unwrap()
}

fn written(batch: &RecordBatch, form: Form) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = FormWriter::new(form, &batch.schema()).unwrap();
    writer.begin(&mut out);
    // Cut in two: how rows come together is nothing that an answer shows.
    let half = batch.num_rows() / 2;
    writer.batch(&batch.slice(0, half), &mut out).unwrap();
    writer.batch(&batch.slice(half, batch.num_rows() - half), &mut out).unwrap();
    writer.end(&mut out).unwrap();
    out
}

/// The JSON of a value, by a second, simple implementation.
fn expected(row: &Row) -> serde_json::Value {
    let decimal =
        |value: i64| serde_json::json!(format!("{:.2}", value as f64 / 100.0).parse::<f64>().unwrap());
    serde_json::json!({
        "long": row.long,
        "boolean": row.boolean,
        "text": row.text,
        "view": row.text,
        "dictionary": row.text,
        "decimal": row.decimal.map(decimal),
        "list": row.list,
        "struct": {"a": row.long},
    })
}

proptest! {
    #[test]
    fn json_reads_back(rows in proptest::collection::vec(row(), 0..8)) {
        let batch = batch(&rows);
        let array: Vec<serde_json::Value> = serde_json::from_slice(&written(&batch, Form::Json)).unwrap();
        let lines = String::from_utf8(written(&batch, Form::Ndjson)).unwrap();
        let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        prop_assert_eq!(&array, &lines);
        prop_assert_eq!(array.len(), rows.len());
        for (mut found, row) in array.into_iter().zip(&rows) {
            let members = found.as_object_mut().unwrap();
            let (at, day) = (members.remove("at").unwrap(), members.remove("day").unwrap());
            let double = members.remove("double").unwrap();
            match (row.double, double.as_f64()) {
                // The reader of these tests rounds the last digit as it likes; CSV shows that all are written.
                (Some(given), Some(read)) => prop_assert!((given - read).abs() <= given.abs() * 1e-14),
                (Some(given), None) => prop_assert_eq!(double.as_str(), Some(not_finite(given))),
                (None, _) => prop_assert!(double.is_null()),
            }
            prop_assert_eq!(found, expected(row));
            let micros = at.as_str().map(|at| {
                arrow::compute::kernels::cast_utils::string_to_datetime(&chrono_utc(), at).unwrap().timestamp_micros()
            });
            prop_assert_eq!(micros, row.micros);
            prop_assert_eq!(day.is_null(), row.days.is_none());
        }
    }

    #[test]
    fn arrow_reads_back(rows in proptest::collection::vec(row(), 0..8)) {
        let batch = batch(&rows);
        let bytes = written(&batch, Form::Arrow);
        let reader = arrow::ipc::reader::StreamReader::try_new(bytes.as_slice(), None).unwrap();
        let schema = reader.schema();
        let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
        let found = arrow::compute::concat_batches(&schema, &batches).unwrap();
        prop_assert_eq!(found.num_rows(), rows.len());
        for (index, field) in schema.fields().iter().enumerate() {
            let given = arrow::compute::cast(batch.column(index), field.data_type()).unwrap();
            prop_assert_eq!(given.to_data(), found.column(index).to_data());
        }
        prop_assert_eq!(schema.field(4).data_type(), &DataType::Utf8);
        prop_assert_eq!(schema.field(5).data_type(), &DataType::Utf8);
    }

    #[test]
    fn csv_reads_back(rows in proptest::collection::vec(row(), 0..8)) {
        let batch = batch(&rows);
        let text = String::from_utf8(written(&batch, Form::Csv)).unwrap();
        let records = records(&text);
        prop_assert_eq!(records.len(), rows.len() + 1);
        for (record, row) in records[1..].iter().zip(&rows) {
            prop_assert_eq!(&record[0], &row.long.map(|long| long.to_string()));
            prop_assert_eq!(&record[3], &row.text);
            prop_assert_eq!(&record[4], &row.text);
            let double = record[1].as_ref().map(|text| text.parse::<f64>().unwrap().to_bits());
            let nan = |value: f64| if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
            prop_assert_eq!(double, row.double.map(nan));
        }
    }

    #[test]
    fn postgresqls_texts_are_never_cut_short(rows in proptest::collection::vec(row(), 1..8)) {
        let batch = batch(&rows);
        let writer = PgWriter::new(&batch).unwrap();
        for (index, row) in rows.iter().enumerate() {
            let mut out = Vec::new();
            prop_assert_eq!(writer.write(index, 3, &mut out), row.text.is_some());
            prop_assert_eq!(String::from_utf8(out).unwrap(), row.text.clone().unwrap_or_default());
        }
    }
}

fn not_finite(value: f64) -> &'static str {
    match value {
        _ if value.is_nan() => "NaN",
        _ if value > 0.0 => "Infinity",
        _ => "-Infinity",
    }
}

fn chrono_utc() -> arrow::array::timezone::Tz {
    "+00:00".parse().unwrap()
}

/// CSV, read plainly: an empty field without quotes is none.
fn records(text: &str) -> Vec<Vec<Option<String>>> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), None::<String>);
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.get_or_insert_default().push('"');
            }
            '"' => {
                quoted = !quoted;
                field.get_or_insert_default();
            }
            ',' if !quoted => record.push(field.take()),
            '\r' if !quoted && characters.peek() == Some(&'\n') => {
                characters.next();
                record.push(field.take());
                records.push(std::mem::take(&mut record));
            }
            other => field.get_or_insert_default().push(other),
        }
    }
    records
}

#[test]
fn postgresql_has_its_own_spellings() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("t", DataType::Boolean, true),
        Field::new(
            "at",
            DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some("UTC".into())),
            true,
        ),
        Field::new("l", DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true))), true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from(vec![true])),
        Arc::new(TimestampMicrosecondArray::from(vec![1_000_000]).with_timezone("UTC")),
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None])])),
    ];
    let writer = PgWriter::new(&RecordBatch::try_new(schema, columns).unwrap()).unwrap();
    let cell = |column| {
        let mut out = Vec::new();
        writer.write(0, column, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!([cell(0), cell(1), cell(2)], ["t", "1970-01-01 00:00:01+00", "{1,NULL}"]);
}

#[test]
fn instants_have_a_zone_and_local_times_have_none_in_every_form() {
    let text = "SELECT ts AS instant, ts AT TIME ZONE 'Europe/Berlin' AS local FROM (VALUES (TIMESTAMPTZ '2026-07-01 12:00:00Z')) AS v(ts)";
    let sql = crate::common::sql(Arc::default(), swiftwater_sql::SqlOptions::default());
    let written = |form| {
        let options = swiftwater_sql::RunOptions::default();
        crate::common::block_on(crate::common::written(&sql, text, options, form)).unwrap()
    };
    assert_eq!(
        written(Form::Ndjson),
        "{\"instant\":\"2026-07-01T12:00:00.000000000Z\",\"local\":\"2026-07-01T14:00:00.000000000\"}\n"
    );
    assert_eq!(
        written(Form::Csv),
        "instant,local\r\n2026-07-01T12:00:00.000000000Z,2026-07-01T14:00:00.000000000\r\n"
    );
    let options = swiftwater_sql::RunOptions::default();
    let (schema, batches) = crate::common::block_on(crate::common::batches(&sql, text, options)).unwrap();
    let types: Vec<i32> = schema
        .fields()
        .iter()
        .map(|field| swiftwater_sql::forms::PgType::of(field.data_type()).oid())
        .collect();
    assert_eq!(types, [1184, 1114]);
    let writer = PgWriter::new(&batches[0]).unwrap();
    let cell = |column, is_binary| {
        let mut out = Vec::new();
        match is_binary {
            true => writer.write_binary(0, column, &mut out),
            false => writer.write(0, column, &mut out),
        };
        out
    };
    assert_eq!(cell(0, false), b"2026-07-01 12:00:00+00");
    assert_eq!(cell(1, false), b"2026-07-01 14:00:00");
    let hours = |bytes: Vec<u8>| i64::from_be_bytes(bytes.try_into().unwrap()) / 3_600_000_000;
    assert_eq!(hours(cell(1, true)) - hours(cell(0, true)), 2);
}

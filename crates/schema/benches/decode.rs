//! The rate of decoding, with an event of 20 fields: `cargo bench -p swiftwater-schema --features protobuf`.

use std::hint::black_box;

use divan::{Bencher, counter::ItemsCount};
use swiftwater_schema::{Schema, SchemaKind};

fn main() {
    divan::main();
}

/// Whole numbers, texts, doubles, booleans and times, five, six, five, two and two of them.
fn avro() -> (Schema, Vec<u8>) {
    let (mut fields, mut datum) = (Vec::new(), Vec::new());
    for place in 0..20u8 {
        let ty = match place {
            0..5 => "\"long\"",
            5..11 => "\"string\"",
            11..16 => "\"double\"",
            16..18 => "\"boolean\"",
            _ => "{\"type\":\"long\",\"logicalType\":\"timestamp-millis\"}",
        };
        fields.push(format!("{{\"name\":\"field_{place}\",\"type\":{ty}}}"));
        match place {
            0..5 => datum.extend([0x80 | place, 0x80, 3]),
            5..11 => datum.extend(b"\x1esome text here."),
            11..16 => datum.extend((f64::from(place) * 1.25).to_le_bytes()),
            16..18 => datum.push(place % 2),
            // 2023-11-14.
            _ => datum.extend([0x80, 0xa0, 0xb4, 0xfb, 0xf9, 0x62]),
        }
    }
    let text = format!("{{\"type\":\"record\",\"name\":\"R\",\"fields\":[{}]}}", fields.join(","));
    (Schema::registered(SchemaKind::Avro, &text, &[]).expect("the schema is right"), datum)
}

fn protobuf() -> (Schema, Vec<u8>) {
    let (mut text, mut message) = ("syntax = \"proto3\"; message R {".to_owned(), vec![0]);
    for place in 0..20u8 {
        let ty = match place {
            0..5 | 18.. => "int64",
            5..11 => "string",
            11..16 => "double",
            16..18 => "bool",
        };
        text.push_str(&format!(" {ty} field_{place} = {};", place + 1));
        let tag = |wire_type: u8| {
            let tag = (u16::from(place) + 1) << 3 | u16::from(wire_type);
            if tag < 0x80 { vec![tag as u8] } else { vec![tag as u8 | 0x80, (tag >> 7) as u8] }
        };
        match place {
            0..5 | 18.. => message.extend([tag(0), vec![0x80 | place, 0x80, 3]].concat()),
            5..11 => message.extend([tag(2), b"\x0fsome text here.".to_vec()].concat()),
            11..16 => message.extend([tag(1), (f64::from(place) * 1.25).to_le_bytes().to_vec()].concat()),
            16..18 => message.extend([tag(0), vec![1]].concat()),
        }
    }
    text.push('}');
    (Schema::registered(SchemaKind::Protobuf, &text, &[]).expect("the schema is right"), message)
}

fn decode(bencher: Bencher<'_, '_>, (schema, message): &(Schema, Vec<u8>)) {
    let mut out = Vec::new();
    schema.write_json(message, 1 << 20, &mut out).expect("the message is right");
    bencher.counter(ItemsCount::new(1u32)).bench_local(|| {
        out.clear();
        schema.write_json(black_box(message), 1 << 20, &mut out)
    });
}

#[divan::bench]
fn avro_of_20_fields(bencher: Bencher<'_, '_>) {
    decode(bencher, &avro());
}

#[divan::bench]
fn protobuf_of_20_fields(bencher: Bencher<'_, '_>) {
    decode(bencher, &protobuf());
}

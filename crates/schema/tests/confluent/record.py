"""Records messages of Confluent's own serializers, with the schemas that they register, as `recorded.json`.

Needs confluent-kafka[avro,protobuf]==2.16.1. The registry is the client's mock. Each message has the JSON that is expected of it,
written here by hand.

    python record.py > recorded.json
"""

import base64
import datetime
import decimal
import json
import uuid

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

UTC = datetime.timezone.utc
CONTEXT = SerializationContext("orders", MessageField.VALUE)
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "small", "type": "int"},
        {"name": "paid", "type": "boolean"},
        {"name": "ratio", "type": "float"},
        {"name": "amount", "type": "double"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "raw", "type": "bytes"},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "SHIPPED"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {
            "name": "tax",
            "type": {"type": "fixed", "name": "Tax", "size": 8, "logicalType": "decimal", "precision": 10, "scale": 3},
        },
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at_ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "at_us", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "clock_ms", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "clock_us", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "parent", "type": ["null", "Order"], "default": None},
    ],
}


def order(note, parent):
    return {
        "id": -(2**63),
        "small": 2**31 - 1,
        "paid": True,
        "ratio": 0.1,
        "amount": 1e300,
        "note": note,
        "raw": b"\x00\xff",
        "hash": b"abcd",
        "state": "SHIPPED",
        "tags": ["a", "\"b\"\n"],
        "counts": {"x": 1},
        "price": decimal.Decimal("-12.05"),
        "tax": decimal.Decimal("0.001"),
        "day": datetime.date(1969, 12, 31),
        "at_ms": datetime.datetime(2026, 1, 2, 3, 4, 5, 6000, UTC),
        "at_us": datetime.datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
        "local": datetime.datetime(2026, 1, 2, 3, 4, 5),
        "clock_ms": datetime.time(23, 59, 59, 999000),
        "clock_us": datetime.time(0, 0, 0, 1),
        "key": uuid.UUID("01234567-89ab-cdef-0123-456789abcdef"),
        "parent": parent,
    }


def order_json(note, parent):
    return {
        "id": -9223372036854775808,
        "small": 2147483647,
        "paid": True,
        "ratio": 0.1,
        "amount": 1e300,
        "note": note,
        "raw": "AP8=",
        "hash": "YWJjZA==",
        "state": "SHIPPED",
        "tags": ["a", "\"b\"\n"],
        "counts": {"x": 1},
        "price": "-12.05",
        "tax": "0.001",
        "day": "1969-12-31",
        "at_ms": "2026-01-02T03:04:05.006Z",
        "at_us": "2026-01-02T03:04:05.000006Z",
        "local": "2026-01-02T03:04:05.000",
        "clock_ms": "23:59:59.999",
        "clock_us": "00:00:00.000001",
        "key": "01234567-89ab-cdef-0123-456789abcdef",
        "parent": parent,
    }


def field(message, name, number, kind, label="OPTIONAL", type_name=None, oneof=None):
    added = message.field.add(name=name, number=number, type=getattr(descriptor_pb2.FieldDescriptorProto, "TYPE_" + kind))
    added.label = getattr(descriptor_pb2.FieldDescriptorProto, "LABEL_" + label)
    if type_name:
        added.type_name = type_name
    if oneof is not None:
        added.oneof_index = oneof


def protobuf_classes():
    part = descriptor_pb2.FileDescriptorProto(name="part.proto", package="shop", syntax="proto3")
    line = part.message_type.add(name="Line")
    field(line, "article", 1, "STRING")
    field(line, "count", 2, "UINT64")

    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.dependency.extend(["part.proto", "google/protobuf/timestamp.proto"])
    file.message_type.add(name="First")
    message = file.message_type.add(name="Order")
    field(message, "order_id", 1, "INT64")
    field(message, "paid", 2, "BOOL")
    field(message, "amount", 3, "DOUBLE")
    field(message, "raw", 4, "BYTES")
    field(message, "state", 5, "ENUM", type_name=".shop.State")
    field(message, "lines", 6, "MESSAGE", "REPEATED", ".shop.Line")
    field(message, "created_at", 7, "MESSAGE", type_name=".google.protobuf.Timestamp")
    field(message, "note", 8, "STRING")
    field(message, "numbers", 9, "SINT32", "REPEATED")
    nested = message.nested_type.add(name="Nested")
    field(nested, "value", 1, "FLOAT")
    state = file.enum_type.add(name="State")
    state.value.add(name="OPEN", number=0)
    state.value.add(name="SHIPPED", number=1)

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(part)
    pool.Add(file)
    get = lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    return get("shop.Order"), get("shop.Order.Nested"), get("shop.First")


def main():
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    recorded = []

    def record(kind, message, expected):
        schema_id = int.from_bytes(message[1:5], "big")
        schema = client.get_schema(schema_id)
        references = [
            {"name": each.name, "text": client.get_version(each.subject, each.version).schema.schema_str}
            for each in schema.references or []
        ]
        recorded.append(
            {"kind": kind, "schema": schema.schema_str, "references": references, "message": message.hex(), "expected": expected}
        )

    avro = AvroSerializer(client, json.dumps(ORDER))
    record("AVRO", avro(order(None, None), CONTEXT), order_json(None, None))
    record("AVRO", avro(order("é", order(None, None)), CONTEXT), order_json("é", order_json(None, None)))

    # A schema that refers to another subject.
    base = Schema('{"type":"record","name":"Base","namespace":"b","fields":[{"name":"n","type":"int"}]}', "AVRO")
    client.register_schema("base", base)
    outer = Schema(
        '{"type":"record","name":"Outer","fields":[{"name":"base","type":"b.Base"}]}', "AVRO", [SchemaReference("b.Base", "base", 1)]
    )
    outer_context = SerializationContext("outer", MessageField.VALUE)
    record("AVRO", AvroSerializer(client, outer)({"base": {"n": 5}}, outer_context), {"base": {"n": 5}})

    Order, Nested, First = protobuf_classes()
    message = Order(order_id=2**63 - 1, amount=0.5, raw=b"\x00\xff", state=1, note="é", numbers=[-1, 300])
    message.lines.add(article="a", count=2**64 - 1)
    message.created_at.FromJsonString("2026-01-02T03:04:05.006Z")
    expected = {
        "order_id": 9223372036854775807,
        "paid": False,
        "amount": 0.5,
        "raw": "AP8=",
        "state": "SHIPPED",
        "lines": [{"article": "a", "count": 18446744073709551615}],
        "created_at": "2026-01-02T03:04:05.006Z",
        "note": "é",
        "numbers": [-1, 300],
    }
    conf = {"use.deprecated.format": False}
    record("PROTOBUF", ProtobufSerializer(Order, client, conf)(message, CONTEXT), expected)
    record("PROTOBUF", ProtobufSerializer(Nested, client, conf)(Nested(value=0.1), CONTEXT), {"value": 0.1})
    record("PROTOBUF", ProtobufSerializer(First, client, conf)(First(), CONTEXT), {})
    print(json.dumps(recorded, indent=1, ensure_ascii=False))


main()

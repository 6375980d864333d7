"""Sends logs by OpenTelemetry's SDK and its exporter for OTLP over HTTP, and by hand where that speaks only one form.

usage: send_logs.py URL

crates/server/tests/server/clients.rs runs it.
"""

import gzip
import json
import logging
import sys
import urllib.request

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource

import checks
from checks import same

URL = sys.argv[1]
TIME = 1_769_860_800_123_456_789


def send(path, body, content_type, accept="text/csv"):
    fields = {"content-type": content_type, "accept": accept}
    request = urllib.request.Request(f"{URL}{path}", body, fields)
    with urllib.request.urlopen(request) as answer:
        return answer.read()


def sql(text):
    return json.loads(send("/v1/sql", text.encode(), "text/plain", "application/json"))


def emit(stream, compression, *records):
    exporter = OTLPLogExporter(endpoint=f"{URL}/v1/logs?stream={stream}", compression=compression, timeout=30)
    provider = LoggerProvider(Resource({"service.name": "shop", "ports": [80, 443]}))
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = provider.get_logger("web", "1.2")
    for record in records:
        logger.emit(record)
    provider.shutdown()


def record(**others):
    return LogRecord(
        timestamp=TIME,
        severity_text="WARN",
        severity_number=SeverityNumber.WARN,
        body={"text": "slow", "n": 9_007_199_254_740_993, "list": [1.5, True, "x"]},
        attributes={"http.status": 503, "ratio": 0.25, "ok": False, "tags": ("a", "b")},
        event_name="slow-request",
        **others,
    )


def records_become_events():
    for number, compression in enumerate((Compression.NoCompression, Compression.Gzip, Compression.Deflate)):
        stream = f"otlp_{number}"
        sql(f"CREATE STREAM {stream} (body JSON, attributes JSON, resource JSON, severity_number LONG, time TIMESTAMP)")
        emit(stream, compression, record(), record())
        rows = sql(
            f"SELECT body, attributes, resource, severity_number, time, _event FROM {stream} ORDER BY _offset"
        )
        same(len(rows), 2, compression)
        row = rows[0]
        same(json.loads(row["body"]), {"text": "slow", "n": 9_007_199_254_740_993, "list": [1.5, True, "x"]})
        same(json.loads(row["attributes"]), {"http.status": 503, "ratio": 0.25, "ok": False, "tags": ["a", "b"]})
        resource = json.loads(row["resource"])
        same((resource["service.name"], resource["ports"]), ("shop", [80, 443]))
        same((row["severity_number"], row["time"]), (13, "2026-01-31T12:00:00.123456Z"))
        event = json.loads(row["_event"])
        same((event["event_name"], event["severity_text"], event["scope"], event["scope_version"]),
             ("slow-request", "WARN", "web", "1.2"))
        assert event["observed_time"], event


def pythons_own_logging_arrives():
    from opentelemetry.sdk._logs import LoggingHandler

    sql("CREATE STREAM otlp_logging WITH (store = true)")
    provider = LoggerProvider(Resource({}))
    exporter = OTLPLogExporter(endpoint=f"{URL}/v1/logs?stream=otlp_logging", timeout=30)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = logging.getLogger("shop")
    logger.addHandler(LoggingHandler(logger_provider=provider))
    logger.error("it %s", "failed")
    provider.shutdown()
    same(sql("SELECT body, severity_text FROM otlp_logging"), [{"body": "it failed", "severity_text": "ERROR"}])


def a_request(*bodies):
    records = [{"timeUnixNano": str(TIME), "body": {"stringValue": body}} for body in bodies]
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}


def json_says_the_same():
    sql("CREATE STREAM otlp_json (body STRING)")
    body = json.dumps(a_request("a", "b")).encode()
    same(json.loads(send("/v1/logs?stream=otlp_json", body, "application/json")), {"partialSuccess": {}})
    request = urllib.request.Request(
        f"{URL}/v1/logs?stream=otlp_json", gzip.compress(body),
        {"content-type": "application/json", "content-encoding": "gzip"},
    )
    with urllib.request.urlopen(request) as answer:
        same(json.loads(answer.read()), {"partialSuccess": {}})
    same(sql("SELECT count(*) AS n FROM otlp_json WHERE body IN ('a', 'b')"), [{"n": 4}])


def what_is_refused_is_a_partial_success():
    sql("CREATE STREAM otlp_checked (body STRING CHECK (body <> 'bad'))")
    body = json.dumps(a_request("good", "bad", "bad")).encode()
    told = json.loads(send("/v1/logs?stream=otlp_checked", body, "application/json"))
    same(told["partialSuccess"]["rejectedLogRecords"], "2")
    assert told["partialSuccess"]["errorMessage"], told
    request = ExportLogsServiceRequest()
    for text in ("good", "bad"):
        record = request.resource_logs.add().scope_logs.add().log_records.add()
        record.body.string_value = text
    body = send("/v1/logs?stream=otlp_checked", request.SerializeToString(), "application/x-protobuf")
    told = ExportLogsServiceResponse.FromString(body)
    same(told.partial_success.rejected_log_records, 1)
    assert told.partial_success.error_message, told
    same(sql("SELECT body FROM otlp_checked"), [{"body": "good"}] * 2)


checks.run(
    records_become_events,
    pythons_own_logging_arrives,
    json_says_the_same,
    what_is_refused_is_a_partial_success,
)

"""Measures Kafka's sources and sinks of a server beside Kafka's own programs, over a broker of its own.

usage: kafka.py BINARY [--only source,rate,avro,protobuf,memory,stored,sink,watermark] [--events 400000] [--rounds 3] [--behind 500]

Needs Java, Maven, confluent-kafka and protobuf, as the tests do. Messages are events of `BINARY generate telecom` in JSON (1.85 KB), compressed
with LZ4, in 4 partitions. Each server reads a topic that is complete, with nothing else at work but the broker. Processor time is that of the
server alone, from /proc. Figures are medians of the rounds, in which ours and the peer take turns. Each answer is checked: a wrong count ends
the script. A ratio is that of ours to the peer.
"""

import argparse
import http.client
import json
import os
import re
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

ROOT = Path(__file__).resolve().parent.parent
TICKS = os.sysconf("SC_CLK_TCK")
PARTITIONS = 4
MIB = 1 << 20
WANTED_PROBE = "P25"


class Server:
    """A server with a data directory of its own."""

    def __init__(self, bench, settings="", kafka="", schemas=()):
        self.directory = Path(tempfile.mkdtemp(dir=bench.directory))
        (self.directory / "data/schemas").mkdir(parents=True)
        for name, content in schemas:
            (self.directory / "data/schemas" / name).write_bytes(content)
        file = self.directory / "swiftwater.toml"
        file.write_text(
            f'[data]\ndir = "{self.directory}/data"\n[server]\nlisten = ["127.0.0.1:0"]\n[kafka.main]\nbrokers = "{bench.broker}"\n{kafka}{settings}'
        )
        self.log = open(self.directory / "log", "w")
        command = [bench.binary, "serve", "--config", str(file)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.address = self.process.stdout.readline().split("http://")[1].split()[0].rstrip("/.,")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()
        shutil.rmtree(self.directory)

    def call(self, path, body=None, form="application/json"):
        request = urllib.request.Request(f"http://{self.address}{path}", data=body and body.encode())
        request.add_header("accept", form)
        try:
            return urllib.request.urlopen(request, timeout=120)
        except urllib.error.HTTPError as error:
            sys.exit(f"{body or path}: {error.read().decode()}")

    def sql(self, text):
        answer = self.call("/v1/sql", text, "application/x-ndjson").read()
        return [json.loads(line) for line in answer.splitlines() if line.strip()]

    def count(self, stream):
        return self.sql(f"SELECT COUNT(*) AS n FROM {stream}")[0]["n"]

    def positions(self):
        return sum(of["position"] or 0 for of in self.sql("SHOW PARTITIONS"))

    def lost(self):
        return sum(of["lost"] + of["tombstones"] for of in self.sql("SHOW PARTITIONS"))

    def seconds(self):
        """Its processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self, what):
        """In bytes: `VmRSS`, what is resident, or `VmHWM`, the most that was so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{what}:\s+(\d+)", status).group(1)) * 1024

    def rows(self, query):
        """The rows of a live query, in a list that grows."""
        response, rows = self.call("/v1/queries", query, "application/x-ndjson"), []

        def read():
            for line in response:
                rows.extend(json.loads(line).get("records") or [])

        threading.Thread(target=read, daemon=True).start()
        return rows


def wait(what, is_so, limit=600, pause=0.02):
    end = time.monotonic() + limit
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {limit} s")
        time.sleep(pause)


def check(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {found} instead of {wanted}")


def quiet_wait(what, rows, wanted):
    wait(what, lambda: len(rows) >= wanted, 60)
    time.sleep(0.3)
    check(what, len(rows), wanted)


class Bench:
    def __init__(self, arguments, directory, broker):
        self.binary, self.directory, self.broker = arguments.binary, Path(directory), broker
        self.arguments, self.rounds, self.events = arguments, arguments.rounds, arguments.events
        self.admin = AdminClient({"bootstrap.servers": broker})
        self.made = {}

    def topic(self, name, partitions=PARTITIONS):
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result()

    def produce(self, name, messages, partitions=PARTITIONS):
        producer = Producer({
            "bootstrap.servers": self.broker,
            "compression.type": "lz4",
            "linger.ms": 20,
            "queue.buffering.max.kbytes": 256 * 1024,
        })
        self.topic(name, partitions)
        for number, message in enumerate(messages):
            while True:
                try:
                    producer.produce(name, message, partition=number % partitions)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % 1_000 == 0:
                producer.poll(0)
        check(f"messages of {name} that were not delivered", producer.flush(120), 0)

    def file(self):
        """The events as a file, and the number of those with the wanted probe."""
        path = self.directory / "events.ndjson"
        if "file" not in self.made:
            command = [self.binary, "generate", "telecom", "-n", str(self.events), "-o", str(path)]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            with open(path, "rb") as lines:
                matches = sum(f'"id":"{WANTED_PROBE}"'.encode() in line for line in lines)
            self.made["file"] = path, matches
            print(f"{self.events:,} events of {path.stat().st_size / self.events:,.0f} bytes, {matches:,} of them match", flush=True)
        return self.made["file"]

    def source(self):
        """A topic with the events."""
        if "source" not in self.made:
            with open(self.file()[0], "rb") as lines:
                self.produce("source", (line.rstrip() for line in lines))
            self.made["source"] = "source"
        return self.made["source"]

    def java(self, tool, *arguments):
        command = ["java", "-cp", f"{self.tools()}/*", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", f"org.apache.kafka.tools.{tool}"]
        command += ["--bootstrap-server", self.broker, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def tools(self):
        """The directory of Kafka's tools, of the broker's version; Maven fetches them once."""
        pom = (ROOT / "tests/kafka/pom.xml").read_text()
        version = re.search("<kafka.version>(.*)</kafka.version>", pom).group(1)
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "swiftwater"
        jars = cache / f"kafka-tools-{version}"
        if not jars.exists():
            file, new = self.directory / "pom.xml", tempfile.mkdtemp(dir=cache)
            file.write_text(pom.replace("kafka_2.13", "kafka-tools").replace("kafka-for-tests", "kafka-tools"))
            command = ["mvn", "-q", "-B", "-f", str(file), "dependency:copy-dependencies", "-DincludeScope=runtime"]
            subprocess.run([*command, f"-DoutputDirectory={new}"], check=True)
            os.rename(new, jars)
        return jars

    def read(self, server, columns, options, count, with_="", share=1):
        """Reads a whole topic into the stream `s`; the seconds that a share of it took, and the processor time of all."""
        server.sql(f"CREATE STREAM s {columns} FROM KAFKA (start = earliest, paused = true, {options}) {with_}")
        return lambda: self.resume(server, count, share)

    def resume(self, server, count, share):
        time.sleep(1)
        used, began = server.seconds(), time.monotonic()
        server.sql("ALTER STREAM s RESUME")
        wait("most is read", lambda: server.positions() >= count * share)
        took = (time.monotonic() - began) / share
        wait("all is read", lambda: server.positions() >= count)
        time.sleep(0.5)
        check("positions", server.positions(), count)
        check("messages that were left out", server.lost(), 0)
        return took, server.seconds() - used


def line(name, ours, peer, ratio, wanted, meaning=""):
    passed = "" if wanted is None else ("yes" if (ratio <= wanted[1] if wanted[0] == "≤" else ratio >= wanted[1]) else "NO")
    wish = "" if wanted is None else f"{wanted[0]} {wanted[1]:g}"
    print(f"{name:<52} {ours:>22} {peer:>30} {ratio:>8.2f} {wish:>7} {passed:<4} {meaning}", flush=True)


def heading():
    print(f"{'name':<52} {'ours':>22} {'peer':>30} {'ratio':>8} {'wanted':>7} met", flush=True)


def spread(values, form="{:.2f}"):
    return f"{form.format(min(values))} to {form.format(max(values))}"


# --- 1 and 2: a stream that is not stored, and one query -------------------------------------------------------------------------------------

LOOP = """
import sys, time
from confluent_kafka import Consumer, TopicPartition
broker, topic, partitions, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
consumer = Consumer({"bootstrap.servers": broker, "group.id": "bench", "enable.auto.commit": False, "enable.auto.offset.store": False})
began, used, count = time.monotonic(), time.process_time(), 0
consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
while count < wanted:
    count += sum(not message.error() for message in consumer.consume(num_messages=10000, timeout=0.1))
print(count, time.monotonic() - began, time.process_time() - used)
"""


def bare_loop(bench, topic):
    command = [sys.executable, "-c", LOOP, bench.broker, topic, str(PARTITIONS), str(bench.events)]
    count, took, used = subprocess.check_output(command, text=True).split()
    check("messages of the bare loop", int(count), bench.events)
    return float(took), float(used)


def query_file(bench):
    path, matches = bench.file()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [bench.binary, "query", "--input", str(path), "--output", "ndjson", one_query()]
    answer = subprocess.check_output(command, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    check("rows of the file", answer.count(b"\n"), matches)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def one_query():
    return f"SELECT seq FROM STREAM(s) WHERE probe.id = '{WANTED_PROBE}'"


def source_once(bench):
    topic, matches = bench.source(), bench.file()[1]
    with Server(bench) as server:
        run = bench.read(server, "", f"topic = '{topic}'", bench.events, "WITH (store = false)")
        rows = server.rows(one_query())
        took, used = run()
        quiet_wait("rows of the query", rows, matches)
    return took, used


def source(bench):
    ours, bare, file = [], [], []
    for _ in range(bench.rounds):
        ours.append(source_once(bench))
        bare.append(bare_loop(bench, bench.source()))
        file.append(query_file(bench))
    micro = 1e6 / bench.events
    used, loop, query = (statistics.median(values) * micro for values in ([u for _, u in ours], [u for _, u in bare], file))
    ratios = [o[1] / (b[1] + 1.15 * f) for o, b, f in zip(ours, bare, file)]
    line(
        "source: processor time an event", f"{used:.2f} µs", f"{loop:.2f} + 1.15 × {query:.2f} µs", statistics.median(ratios), ("≤", 1.0),
        f"{spread(ratios)}; the peer is a loop of librdkafka that counts, and the query over a file",
    )


def rate(bench):
    ours, peer = [], []
    for _ in range(bench.rounds):
        ours.append(bench.events / source_once(bench)[0])
        answer = bench.java("ConsumerPerformance", "--topic", bench.source(), "--num-records", str(bench.events), "--hide-header")
        fields = answer.strip().splitlines()[-1].split(", ")
        check("messages of ConsumerPerformance", int(fields[4]), bench.events)
        peer.append(float(fields[9]))  # without the time in which it joins its group
    ratios = [a / b for a, b in zip(ours, peer)]
    line(
        "source: events/s", f"{statistics.median(ours):,.0f}", f"{statistics.median(peer):,.0f}", statistics.median(ratios), None,
        f"{spread(ratios)}; the peer is Kafka's ConsumerPerformance, its fetches alone",
    )


# --- 3: Avro and Protobuf --------------------------------------------------------------------------------------------------------------------

KINDS = ["long", "string", "double", "boolean", "int"]  # four fields of each
JSON_SCHEMA = {"type": "record", "name": "Twenty", "fields": [{"name": f"f{n}", "type": KINDS[n % 5]} for n in range(20)]}


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def value(row, field):
    kind, number = KINDS[field % 5], row * 7_919 + field
    if kind == "string":
        return f"value {number % 10_007} of {field}"
    return {"long": number, "double": number / 8, "boolean": number % 2 == 0, "int": number % 100_000}[kind]


def avro_message(row):
    out = []
    for field in range(20):
        of = value(row, field)
        if isinstance(of, bool):
            out.append(b"\1" if of else b"\0")
        elif isinstance(of, int):
            out.append(varint(of * 2))
        elif isinstance(of, float):
            out.append(struct.pack("<d", of))
        else:
            out.append(varint(2 * len(of)) + of.encode())
    return b"".join(out)


def protobuf_message(row):
    out = []
    for field in range(20):
        of = value(row, field)
        wire = 1 if isinstance(of, float) else 2 if isinstance(of, str) else 0
        out.append(varint((field + 1) << 3 | wire))
        if wire == 0:
            out.append(varint(int(of)))
        else:
            out.append(struct.pack("<d", of) if wire == 1 else varint(len(of)) + of.encode())
    return b"".join(out)


def descriptor():
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="twenty.proto", package="bench", syntax="proto3")
    message, types = file.message_type.add(name="Twenty"), descriptor_pb2.FieldDescriptorProto
    kinds = [types.TYPE_INT64, types.TYPE_STRING, types.TYPE_DOUBLE, types.TYPE_BOOL, types.TYPE_INT32]
    for number in range(20):
        message.field.add(name=f"f{number}", number=number + 1, type=kinds[number % 5], label=types.LABEL_OPTIONAL)
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def decoding(bench, name, message, options, schema):
    bench.produce(name, (message(row) for row in range(bench.events)))
    values = [value(row, 0) for row in range(bench.events)]
    took, used = [], []
    for _ in range(bench.rounds):
        with Server(bench, schemas=[schema]) as server:
            run = bench.read(server, "", f"topic = '{name}', {options}", bench.events, "WITH (store = false)")
            rows = server.rows(f"SELECT f0 FROM STREAM(s) WHERE f4 = {value(77, 4)}")
            wanted = [of for row, of in enumerate(values) if value(row, 4) == value(77, 4)]
            one = run()
            quiet_wait("rows of the query", rows, len(wanted))
            check("values", sorted(row["f0"] for row in rows), wanted)
            took.append(bench.events / one[0])
            used.append(bench.events / one[1])
    size = sum(len(message(row)) for row in range(1_000)) / 1_000
    line(f"{name}, 20 fields, {size:.0f} bytes: events/s", f"{statistics.median(took):,.0f}", "150,000 wanted", statistics.median(took) / 150_000, None)
    line(
        f"{name}: events a core-second of the server", f"{statistics.median(used):,.0f}", "150,000 wanted", statistics.median(used) / 150_000,
        ("≥", 1.0), f"{spread(used, '{:,.0f}')}; reading, decoding, matching and delivering",
    )


def avro(bench):
    decoding(bench, "avro", avro_message, "format = avro, schema = 'twenty.avsc'", ("twenty.avsc", json.dumps(JSON_SCHEMA).encode()))


def protobuf(bench):
    decoding(bench, "protobuf", protobuf_message, "format = protobuf, descriptor = 'twenty.desc'", ("twenty.desc", descriptor()))


# --- 4: memory -------------------------------------------------------------------------------------------------------------------------------


def memory(bench):
    """The most memory of a server that reads a topic of 256 partitions, beside the most of one that has the same events by HTTP."""
    partitions, limits = 256, [64, 256]
    settings = '[engine]\npending_bytes_max = "16MiB"\n'  # else, events wait for shards in more or less of the 256 MiB by chance
    path = bench.file()[0]
    lines = path.read_bytes().splitlines()
    count = bench.arguments.behind * MIB // (path.stat().st_size // bench.events)
    bench.produce("behind", (lines[number % len(lines)] for number in range(count)), partitions)
    wanted = sum(f'"id":"{WANTED_PROBE}"'.encode() in lines[number % len(lines)] for number in range(count))
    for store in "false", "true":
        kind = "stored" if store == "true" else "live-only"
        with Server(bench, settings) as server:  # the same events without Kafka
            server.sql(f"CREATE STREAM s WITH (store = {store})")
            rows, sent = server.rows(one_query()), 0
            while sent < count:
                some = lines[: count - sent]
                with open(bench.directory / "part.ndjson", "wb") as file:
                    file.writelines(line + b"\n" for line in some)
                post(server, bench.directory / "part.ndjson")
                sent += len(some)
            quiet_wait("rows of the query", rows, wanted)
            without = server.memory("VmHWM")
        for limit in limits:
            with Server(bench, settings, kafka=f'memory_bytes = "{limit}MiB"\n') as server:
                idle = server.memory("VmHWM")
                run = bench.read(server, "", "topic = 'behind'", count, f"WITH (store = {store})")
                rows = server.rows(one_query())
                run()
                quiet_wait("rows of the query", rows, wanted)
                most = server.memory("VmHWM")
            allowed = limit * MIB * 1.15 + without
            line(
                f"memory, {kind}, memory_bytes = {limit} MiB", f"{most / MIB:,.0f} MiB at most", f"1.15 × {limit} + {without / MIB:.0f} MiB",
                most / allowed, ("≤", 1.0), f"{count:,} messages behind in {partitions} partitions; idle {idle / MIB:.0f} MiB, to which the ratio is {most / (limit * MIB * 1.15 + idle):.2f}",
            )


# --- 5: a stored stream ----------------------------------------------------------------------------------------------------------------------


def post(server, path, senders=2):
    """Posts a file to the stream `s` in bodies of about 1 MiB over two connections."""
    with open(path, "rb") as file:
        lock, faults = threading.Lock(), []

        def send():
            connection = http.client.HTTPConnection(server.address, timeout=120)
            while True:
                with lock:
                    lines = file.readlines(MIB)
                if not lines or faults:
                    return
                connection.request("POST", "/v1/streams/s/events", b"".join(lines), {"content-type": "application/x-ndjson"})
                response = connection.getresponse()
                answer = response.read()
                if response.status != 200:
                    faults.append(answer)

        threads = [threading.Thread(target=send) for _ in range(senders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    check("refused requests", faults, [])


def committed(server, count):
    wait("all is in the table", lambda: server.sql("SHOW STREAMS")[0]["committed"] >= count, pause=0.1)


def stored(bench):
    path, topic = bench.file()[0], bench.source()
    ours, ours_table, peer, peer_table, used, peer_used = [], [], [], [], [], []
    often = '[store]\ncommit_interval_ms = "500ms"\n'
    for _ in range(bench.rounds):
        with Server(bench, often) as server:
            run = bench.read(server, "", f"topic = '{topic}'", bench.events, "WITH (store = true)")
            began = time.monotonic() + 1
            took, cpu = run()
            committed(server, bench.events)
            ours_table.append(bench.events / (time.monotonic() - began))
            check("stored events", server.count("s"), bench.events)
            ours.append(bench.events / took)
            used.append(server.seconds() * 1e6 / bench.events)
        with Server(bench, often) as server:
            server.sql("CREATE STREAM s WITH (store = true)")
            began = time.monotonic()
            post(server, path)
            peer.append(bench.events / (time.monotonic() - began))
            committed(server, bench.events)
            peer_table.append(bench.events / (time.monotonic() - began))
            check("stored events", server.count("s"), bench.events)
            peer_used.append(server.seconds() * 1e6 / bench.events)
    for what, a, b in ("durable", ours, peer), ("in the Delta table", ours_table, peer_table):
        ratios = [x / y for x, y in zip(a, b)]
        line(
            f"stored: events/s until {what}", f"{statistics.median(a):,.0f}", f"{statistics.median(b):,.0f}", statistics.median(ratios),
            ("≥", 0.7), f"{spread(ratios)}; the peer is NDJSON over HTTP, 2 connections, 1 MiB a request",
        )
    ratios = [x / y for x, y in zip(used, peer_used)]
    line("stored: processor time an event", f"{statistics.median(used):.2f} µs", f"{statistics.median(peer_used):.2f} µs", statistics.median(ratios), None)


# --- 6: a sink -------------------------------------------------------------------------------------------------------------------------------


def committed_messages(bench, topic):
    consumer = Consumer({"bootstrap.servers": bench.broker, "group.id": "bench", "enable.auto.commit": False, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    count, ends, size, keys = 0, 0, 0, set()
    while ends < PARTITIONS:
        for message in consumer.consume(10_000, 0.5):
            if message.error():
                ends += 1
            else:
                count, size = count + 1, size + len(message.value())
                keys.add(json.loads(message.value())["k"])
    consumer.close()
    return count, len(keys), size


def sink_once(bench, number, kind):
    """Rows per second of a sink, and the bytes of a row: of the windows that one event closes, of changes that wait as there is no topic yet, or of
    changes from the first event on, with intake and view."""
    groups = bench.events
    topic = f"sink-{kind}-{number}"
    if kind != "changes":
        bench.topic(topic)
    with Server(bench, settings='[views]\ncommit_interval_ms = "100ms"\n') as server:
        server.sql("CREATE STREAM s (k LONG NOT NULL, x DOUBLE, at LONG NOT NULL)")
        windows = "WINDOWING TUMBLING(60000, EVENT(at, INTERVAL '1 second'))" if kind == "windows" else ""
        start = "window_start, " if kind == "windows" else ""
        server.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {start}k, COUNT(*) AS n, SUM(x) AS x FROM STREAM(s) GROUP BY k {windows}")
        server.sql(f"CREATE SINK k FROM {'v' if kind == 'windows' else 'CHANGES OF v'} INTO KAFKA (topic = '{topic}')")
        path = bench.directory / "groups.ndjson"
        with open(path, "w") as file:
            file.writelines(f'{{"k":{n},"x":{n / 8},"at":60001}}\n' for n in range(groups))

        def rows():
            return server.sql("SHOW SINKS")[0]["rows"]

        began, first = time.monotonic(), 0
        post(server, path)
        if kind != "flow":
            wait("the view has all", lambda: server.count("v") == groups, pause=0.2)
            time.sleep(2)
        if kind == "windows":
            began = time.monotonic()
            server.call("/v1/streams/s/events", '{"k":1,"x":1,"at":180000}').read()
        if kind == "changes":
            bench.topic(topic)  # the sink tries again in its own time
            wait("the sink has begun", rows)
            began, first = time.monotonic(), rows()
        wait("the sink has written all", lambda: rows() >= groups)
        took = time.monotonic() - began
    count, keys, size = committed_messages(bench, topic)
    check("keys of the sink's messages", keys, groups)
    if kind == "windows":
        check("messages of the sink", count, groups)
    return (count - first) / took, size // count


def sink(bench):
    for kind in "windows", "changes", "flow":
        ours, peer = [], []
        for number in range(bench.rounds):
            rows, size = sink_once(bench, number, kind)
            ours.append(rows)
            topic = f"peer-{kind}-{number}"
            bench.topic(topic)
            answer = bench.java(
                "ProducerPerformance", "--topic", topic, "--num-records", str(bench.events), "--record-size", str(size), "--throughput", "-1",
                "--transactional-id", topic, "--transaction-duration-ms", "100",
            )
            peer.append(float(re.search(r"([\d.]+) records/sec", answer.strip().splitlines()[-1]).group(1)))
        ratios = [a / b for a, b in zip(ours, peer)]
        name = {"windows": "windows", "changes": "changes that wait", "flow": "changes, with intake and view"}[kind]
        line(
            f"sink exactly_once, {name}: rows/s", f"{statistics.median(ours):,.0f}", f"{statistics.median(peer):,.0f}", statistics.median(ratios),
            None if kind == "flow" else ("≥", 0.7),
            f"{spread(ratios)}; the peer is Kafka's ProducerPerformance in transactions of 100 ms, messages of {size} bytes",
        )


# --- 7: WATERMARK ----------------------------------------------------------------------------------------------------------------------------


def watermark(bench):
    """The time is that of 99 % of the messages: the last ones wait until the partitions, which have no more, are idle."""
    topic, matches = bench.source(), bench.file()[1]
    columns = "(seq LONG, \"tsEnd\" LONG{})"
    for store in "false", "true":
        figures = {"": [], ', WATERMARK FOR "tsEnd" AS "tsEnd" - INTERVAL \'5 seconds\'': []}
        for _ in range(bench.rounds):
            for part, of in figures.items():
                with Server(bench) as server:
                    options = f"topic = '{topic}'"
                    run = bench.read(server, columns.format(part), options, bench.events, f"WITH (store = {store})", share=0.99)
                    rows = server.rows(one_query())
                    of.append(run())
                    quiet_wait("rows of the query", rows, matches)
        without, with_ = figures.values()
        ratios = [a[0] / b[0] for a, b in zip(without, with_)]
        kind = "stored" if store == "true" else "live-only"
        line(
            f"WATERMARK, {kind}: events/s", f"{bench.events / statistics.median([t for t, _ in with_]):,.0f}",
            f"{bench.events / statistics.median([t for t, _ in without]):,.0f}", statistics.median(ratios), None,
            f"{spread(ratios)}; the peer is the same without WATERMARK; processor time "
            f"{statistics.median([b[1] / a[1] for a, b in zip(without, with_)]):.2f} times",
        )


FIGURES = {of.__name__: of for of in (source, rate, avro, protobuf, memory, stored, sink, watermark)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--only", default=",".join(FIGURES), help=f"names, separated by commas, of {', '.join(FIGURES)}")
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--behind", type=int, default=500, help="MiB of the topic of `memory`")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        parser.error(f"there is no {unknown[0]}: names are {', '.join(FIGURES)}")
    with tempfile.TemporaryDirectory() as directory:
        script, place = str(ROOT / "tests/kafka/broker.sh"), f"{directory}/broker"
        broker = subprocess.check_output(["bash", script, "start", place, "0"], text=True).split()[-1]
        try:
            bench = Bench(arguments, directory, broker)
            bench.file()
            heading()
            for name in names:
                FIGURES[name](bench)
            del bench  # its client, which would report the end of the broker
        finally:
            subprocess.run(["bash", script, "stop", place], check=False)


main()

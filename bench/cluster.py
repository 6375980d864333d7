"""Measures a cluster over a broker of its own: the processor time of all nodes for the same events, and the time from a message to a client.

usage: cluster.py BINARY [--nodes 1,8] [--events 200000] [--queries equality|groupings|none] [--latency 0]

Needs Java, Maven and confluent-kafka, as the tests do. The nodes stand still while the messages are written, so that they share the machine
with the broker alone when they read; processor time is that of the nodes, from /proc. Each number of nodes reads the same messages of a
topic of its own.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 8
ROOT = Path(__file__).resolve().parent.parent
TICKS = os.sysconf("SC_CLK_TCK")


class Node:
    """A server that is a node of the cluster."""

    def __init__(self, binary, directory, broker, cluster, name):
        settings = directory / f"{cluster}-{name}.toml"
        data = directory / f"{cluster}-{name}"
        settings.write_text(
            f'[data]\ndir = "{data}"\n[server]\nlisten = ["127.0.0.1:0"]\n[kafka.main]\nbrokers = "{broker}"\n'
            f'[cluster]\nname = "{cluster}"\nnode_id = "{name}"\nsession_timeout_ms = "5m"\n'
        )
        self.log = open(directory / f"{cluster}-{name}.log", "w")
        self.process = subprocess.Popen(
            [binary, "serve", "--config", str(settings)], stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        line = self.process.stdout.readline()
        self.address = line.split("http://")[1].split()[0].rstrip("/.,")

    def call(self, path, body=None, method=None, form="application/json"):
        request = urllib.request.Request(f"http://{self.address}{path}", data=body and body.encode(), method=method)
        request.add_header("accept", form)
        return urllib.request.urlopen(request, timeout=60)

    def sql(self, text):
        return self.call("/v1/sql", text).read().decode()

    def seconds(self):
        """Its processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def wait(what, is_so, limit=60):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            if is_so():
                return
        except OSError:
            pass
        time.sleep(0.05)
    sys.exit(f"{what}: not within {limit} s")


def events(count):
    """Events of 1.85 KB with 10,000 keys, of a fixed seed."""
    rng = random.Random(1)
    filler = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz ") for _ in range(1_750))
    for number in range(count):
        start = rng.randrange(80)
        yield json.dumps({"n": number, "k": rng.randrange(10_000), "x": rng.random(), "t": filler[start:]}).encode()


def queries(kind):
    if kind == "equality":
        return [f"SELECT n FROM STREAM(s) WHERE k = {key}" for key in range(1_000)]
    if kind == "groupings":
        text = "SELECT k, COUNT(*) AS c, SUM(x) AS x FROM STREAM(s) WHERE n >= {} GROUP BY k WINDOWING TUMBLING(1000, TIME)"
        return [text.format(number) for number in range(100)]
    return ["SELECT COUNT(*) AS c FROM STREAM(s) WINDOWING TUMBLING(1000, TIME)"]


def cluster(arguments, directory, broker, count):
    name = f"c{count}"
    admin = AdminClient({"bootstrap.servers": broker})  # its calls end with it
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result()
    nodes = [Node(arguments.binary, directory, broker, name, f"n{number}") for number in range(count)]
    wait("the nodes know each other", lambda: len(json.load(nodes[0].call("/v1/cluster"))["nodes"]) == count)
    nodes[0].sql(f"CREATE STREAM s FROM KAFKA (topic = '{name}')")

    def lag():
        partitions = json.load(nodes[0].call("/v1/cluster"))["partitions"]
        owners = {of["node"] for of in partitions}
        all_known = len(partitions) == PARTITIONS and len(owners) == min(count, PARTITIONS)
        return sum(of["lag"] or 0 for of in partitions) if all_known else None

    wait("all nodes read", lambda: lag() == 0)
    return nodes, lag


def produce(broker, topic, count):
    producer = Producer({
        "bootstrap.servers": broker,
        "compression.type": "lz4",
        "linger.ms": 5,
        "queue.buffering.max.messages": 500_000,
        "queue.buffering.max.kbytes": 1 << 20,
    })
    for number, event in enumerate(events(count)):
        producer.produce(topic, event, partition=number % PARTITIONS)
        if number % 1_000 == 0:
            producer.poll(0)
    producer.flush(120)


def measure(arguments, directory, broker, count):
    nodes, lag = cluster(arguments, directory, broker, count)
    for number, text in enumerate(queries(arguments.queries)):
        nodes[number % count].call("/v1/queries?detach=true", text).read()
    time.sleep(3)
    idle = sum(node.seconds() for node in nodes)
    time.sleep(5)
    idle = (sum(node.seconds() for node in nodes) - idle) / 5
    for node in nodes:
        node.process.send_signal(signal.SIGSTOP)
    produce(broker, f"c{count}", arguments.events)
    before, began = sum(node.seconds() for node in nodes), time.monotonic()
    for node in nodes:
        node.process.send_signal(signal.SIGCONT)
    wait("all is read", lambda: lag() == 0, 300)
    took = time.monotonic() - began
    time.sleep(2)
    used = sum(node.seconds() for node in nodes) - before
    for node in nodes:
        node.stop()
    micros = (used - idle * (took + 2)) * 1e6 / arguments.events
    print(
        f"{count} nodes, {len(queries(arguments.queries))} {arguments.queries}: {micros:.2f} µs of processor time an event "
        f"(and {idle * 100:.1f} % of a core when nothing comes); {arguments.events / took:,.0f} events/s",
        flush=True,
    )
    return micros


def latency(arguments, directory, broker):
    """From the production of a message to its record at a client of another node, at some 1,000 messages/s; the first half warms up."""
    nodes, _ = cluster(arguments, directory, broker, 2)
    seen = []
    response = nodes[1].call("/v1/queries", "SELECT at FROM STREAM(s)", form="application/x-ndjson")

    def read():
        for line in response:
            now = time.time()
            try:
                records = json.loads(line).get("records") or []
            except ValueError:
                continue
            seen.extend(now - record["at"] for record in records)

    threading.Thread(target=read, daemon=True).start()
    time.sleep(2)
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 0})
    for number in range(2 * arguments.latency):
        producer.produce("c2", json.dumps({"at": time.time()}), partition=number % PARTITIONS)
        producer.poll(0)
        time.sleep(0.001)
    producer.flush(30)
    wait("all records are there", lambda: len(seen) >= 2 * arguments.latency)
    for node in nodes:
        node.stop()
    seen = seen[arguments.latency:]
    quantiles = statistics.quantiles(seen, n=100)
    print(f"{len(seen)} messages: p50 {quantiles[49] * 1e3:.1f} ms, p99 {quantiles[98] * 1e3:.1f} ms", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--nodes", default="1,8")
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--queries", choices=["equality", "groupings", "none"], default="equality")
    parser.add_argument("--latency", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        script, place = str(ROOT / "tests/kafka/broker.sh"), f"{directory}/broker"
        broker = subprocess.check_output(["bash", script, "start", place, "0"], text=True).split()[-1]
        try:
            if arguments.latency:
                return latency(arguments, Path(directory), broker)
            used = [
                measure(arguments, Path(directory), broker, int(count)) for count in arguments.nodes.split(",")
            ]
            print(f"ratio of the last to the first: {used[-1] / used[0]:.2f}")
        finally:
            subprocess.run(["bash", script, "stop", place], check=False)


main()

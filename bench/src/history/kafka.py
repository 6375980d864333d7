"""Sends a file's lines to a Kafka broker, over and over, from several processes; prints how long it took as a line of JSON.

Arguments: address, file, events, processes. An event counts once the broker has acknowledged it.
"""

import json
import multiprocessing
import os
import sys
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 4


def send(address, topic, path, events, ready, failed):
    with open(path, "rb") as file:
        lines = file.read().splitlines()
    producer = Producer({
        "bootstrap.servers": address,
        "acks": "all",
        "compression.type": "lz4",
        "linger.ms": 5,
        "batch.size": 1 << 20,
        "queue.buffering.max.messages": 1_000_000,
    })

    def delivered(error, _):
        if error is not None:
            failed.value += 1

    producer.produce(topic, lines[0], on_delivery=delivered)
    producer.flush()
    ready.wait()
    for number in range(events):
        while True:
            try:
                producer.produce(topic, lines[number % len(lines)], on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1024 == 0:
            producer.poll(0)
    producer.flush()


def main():
    address, path, events, processes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    topic = f"swiftwater-bench-{os.getpid()}"
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        made.result(30)
    ready, failed = multiprocessing.Barrier(processes + 1), multiprocessing.Value("q", 0)
    each = events // processes
    children = [
        multiprocessing.Process(target=send, args=(address, topic, path, each, ready, failed)) for _ in range(processes)
    ]
    for child in children:
        child.start()
    ready.wait(60)
    start = time.perf_counter()
    for child in children:
        child.join()
    seconds = time.perf_counter() - start
    for gone in admin.delete_topics([topic]).values():
        gone.result(30)
    good = failed.value == 0 and all(child.exitcode == 0 for child in children)
    print(json.dumps({"seconds": seconds, "events": each * processes, "good": good}), flush=True)


main()

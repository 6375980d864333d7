"""Asks a query through a topic of Kafka, and prints its results as JSON lines: the signal, and the value.

usage: ask.py BROKERS QUERY_TOPIC RESULT_TOPIC ID TEXT
"""

import json
import sys

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition


def main(brokers: str, queries: str, results: str, query: str, text: str) -> None:
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "ask.py", "enable.auto.commit": False})
    partitions = consumer.list_topics(results, timeout=30).topics[results].partitions
    consumer.assign([TopicPartition(results, partition, OFFSET_END) for partition in partitions])
    for partition in partitions:  # so that the ends are found before the query is sent
        consumer.get_watermark_offsets(TopicPartition(results, partition), timeout=30)
    consumer.poll(1)
    producer = Producer({"bootstrap.servers": brokers})
    producer.produce(queries, text, key=query)
    if producer.flush(30):
        sys.exit("the query was not delivered")
    print("asked", flush=True)
    while True:
        message = consumer.poll(60)
        if message is None or message.error():
            sys.exit(f"there is no result: {message and message.error()}")
        if message.key() != query.encode():
            continue
        signal = dict(message.headers() or []).get("signal")
        signal = None if signal is None else signal.decode()
        print(json.dumps({"signal": signal, "value": json.loads(message.value())}), flush=True)
        if signal:
            return


main(*sys.argv[1:])

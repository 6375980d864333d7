"""Prints the committed messages of a topic as JSON lines: partition, key and value, in the order of each partition.

usage: consume.py BROKERS TOPIC
"""

import json
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition


def main(brokers: str, topic: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "consume.py",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    ended = set()
    while len(ended) < len(partitions):
        message = consumer.poll(30)
        if message is None:
            sys.exit(f"{topic} is not read to its end")
        if message.error():
            if message.error().code() != KafkaError._PARTITION_EOF:
                sys.exit(str(message.error()))
            ended.add(message.partition())
            continue
        key, value = message.key(), message.value()
        line = {
            "partition": message.partition(),
            "key": None if key is None else key.decode(),
            "value": None if value is None else json.loads(value),
        }
        print(json.dumps(line))


main(*sys.argv[1:])

"""Creates a topic if it is missing, and produces numbered orders to it.

usage: produce.py ADDRESS TOPIC PARTITIONS FIRST END
"""

import json
import sys

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

address, topic, partitions, first, end = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
settings = {"bootstrap.servers": address}
admin = AdminClient(settings)  # its calls end with it
made = admin.create_topics([NewTopic(topic, partitions, 1)])
try:
    made[topic].result()
except KafkaException as error:
    if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
        raise
producer = Producer({**settings, "enable.idempotence": True, "compression.type": "lz4"})
for number in range(first, end):
    event = {"id": number, "customer": f"c{number % 97}", "amount": number / 4}
    value = json.dumps(event) if number % 100 else "{"  # every hundredth is no event
    producer.produce(topic, value, key=str(number), partition=number % partitions)
    producer.poll(0)
undelivered = producer.flush(60)
sys.exit(f"{undelivered} messages were not delivered" if undelivered else 0)

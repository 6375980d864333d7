//! The rate at which messages are fetched: this crate's consumer, which reads librdkafka's queue in batches, beside
//! rdkafka's `BaseConsumer`, which is polled for one message after the other. Both copy all bytes into message batches.
//!
//! Needs a broker: `SWIFTWATER_KAFKA=127.0.0.1:9092 cargo bench -p swiftwater-kafka --features client`.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::{sync::Arc, time::Duration};

use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseProducer, BaseRecord, Producer},
};
use swiftwater_event::SystemClock;
use swiftwater_kafka::{
    Client, ConnectionConfig, ConsumerOptions, Fetched, Isolation, Kafka, MessageBatchBuilder, Timestamp,
};
use tokio::time::Instant;

const PARTITIONS: u32 = 4;
const MESSAGES: u64 = 400_000;
const VALUE_BYTES: usize = 1850;
const ROUNDS: usize = 5;
const TOPIC: &str = "bench-fetch";

/// A line of JSON of the size, some of which is random.
fn value(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = format!("{{\"number\":{number}");
    let mut field = 0;
    while text.len() < VALUE_BYTES - 60 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(&format!(
            ",\"field_{field}\":\"{:08x}\",\"status_{field}\":\"delivered\"",
            state as u32
        ));
        field += 1;
    }
    text.push_str(",\"padding\":\"");
    text.extend(std::iter::repeat_n('x', VALUE_BYTES - text.len() - 2));
    text.push_str("\"}");
    text.into_bytes()
}

async fn write(address: &str) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", address);
    let admin: AdminClient<DefaultClientContext> = config.create().unwrap();
    let topic = NewTopic::new(TOPIC, PARTITIONS as i32, TopicReplication::Fixed(1));
    let made = admin.create_topics([&topic], &AdminOptions::new()).await.unwrap();
    if made[0].is_err() {
        println!("topic {TOPIC} is there: it is read as it is");
        return;
    }
    let producer: BaseProducer = config
        .set("compression.type", "lz4")
        .set("linger.ms", "20")
        .set("batch.size", "200000")
        .create()
        .unwrap();
    for number in 0..MESSAGES {
        let value = value(number);
        let mut record: BaseRecord<'_, (), _> =
            BaseRecord::to(TOPIC).partition((number % u64::from(PARTITIONS)) as i32).payload(&value);
        while let Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) =
            producer.send(record)
        {
            producer.poll(Duration::from_millis(10));
            record = back;
        }
    }
    producer.flush(Duration::from_secs(60)).unwrap();
}

/// The processor time of this process so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

/// Reads all partitions by batches; the number of messages and of bytes.
async fn by_batches(address: &str) -> (u64, usize) {
    let config = ConnectionConfig { brokers: address.to_owned(), ..ConnectionConfig::default() };
    let client = Client::new(config, Arc::new(SystemClock::new())).unwrap();
    let options =
        ConsumerOptions { isolation: Isolation::ReadCommitted, group: "bench".to_owned(), shares: 1 };
    let mut consumer = client.consumer(TOPIC, &options).unwrap();
    (0..PARTITIONS).for_each(|partition| consumer.assign(partition, 0));
    let (mut messages, mut bytes, mut ends) = (0, 0, 0);
    while ends < PARTITIONS {
        match consumer.next().await {
            Fetched::Messages(batch) => {
                messages += batch.len() as u64;
                bytes += batch.bytes().len();
            }
            Fetched::End { .. } => ends += 1,
            other => panic!("{other:?}"),
        }
    }
    (messages, bytes)
}

/// Reads all partitions one message after the other.
fn one_by_one(address: &str) -> (u64, usize) {
    let shares = ConnectionConfig::default().memory_shares(1);
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", address)
        .set("group.id", "bench")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("enable.partition.eof", "true")
        .set("check.crcs", "true")
        .set("queued.max.messages.kbytes", shares.queue_kbytes.to_string())
        .set("queued.min.messages", shares.queue_messages.to_string())
        .set("fetch.max.bytes", shares.response_bytes.to_string())
        .set("fetch.message.max.bytes", shares.partition_bytes.to_string())
        .set("fetch.queue.backoff.ms", "5")
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(TOPIC, partition as i32, Offset::Offset(0)).unwrap();
    }
    consumer.assign(&list).unwrap();
    let (mut messages, mut bytes, mut ends) = (0, 0, 0);
    let mut builder = MessageBatchBuilder::with_capacity(0, 512, 1 << 20);
    while ends < PARTITIONS {
        match consumer.poll(Duration::from_secs(10)).expect("messages are there") {
            Ok(message) => {
                let timestamp = message.timestamp().to_millis().map_or(Timestamp::MISSING, Timestamp::create);
                builder.push(messages, timestamp, message.key(), message.payload(), []);
                messages += 1;
                if builder.len() == 512 {
                    bytes += builder.finish(messages).bytes().len();
                    builder = MessageBatchBuilder::with_capacity(0, 512, 1 << 20);
                }
            }
            Err(KafkaError::PartitionEOF(_)) => ends += 1,
            Err(error) => panic!("{error}"),
        }
    }
    bytes += builder.finish(messages).bytes().len();
    (messages, bytes)
}

fn report(name: &str, read: (u64, usize), since: Instant, cpu_before: f64) {
    let (seconds, cpu) = (since.elapsed().as_secs_f64(), cpu_seconds() - cpu_before);
    println!(
        "{name:<12} {:>9.0} messages/s {:>7.0} MB/s {:>9.0} messages per CPU second",
        read.0 as f64 / seconds,
        read.1 as f64 / 1e6 / seconds,
        read.0 as f64 / cpu
    );
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let Ok(address) = std::env::var("SWIFTWATER_KAFKA") else {
        println!("skipped: SWIFTWATER_KAFKA names no broker");
        return;
    };
    write(&address).await;
    for _ in 0..ROUNDS {
        let (start, cpu) = (Instant::now(), cpu_seconds());
        report("batches", by_batches(&address).await, start, cpu);
        let (start, cpu) = (Instant::now(), cpu_seconds());
        report("one by one", one_by_one(&address), start, cpu);
    }
}

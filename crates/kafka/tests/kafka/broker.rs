//! The suite against a broker, and what only that can do. `SWIFTWATER_KAFKA` names a running one; otherwise
//! `tests/kafka/broker.sh` starts one.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer as _},
    error::RDKafkaErrorCode,
    message::{Header, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, Producer},
};
use swiftwater_event::SystemClock;
use swiftwater_kafka::{Client, ConnectionConfig, Fetched, Isolation, Kafka, KafkaErrorKind, OffsetAt};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::{
    cluster::{Cluster, Message, next, options, read, values},
    suite::{self, each_case},
};

const TIMEOUT: Duration = Duration::from_secs(30);

/// The exit code of the scripts where Java, Maven or the network is missing.
pub(crate) const SKIPPED: i32 = 77;

/// A broker of this test, which ends with it, or one that runs already.
pub(crate) struct Broker {
    address: String,
    directory: Option<TempDir>,
}

/// Runs `broker.sh`, as [`run_script_of`].
fn run_script(directory: &Path, words: &[&str]) -> Result<String, (Option<i32>, String)> {
    run_script_of("broker.sh", directory, words)
}

/// Runs a script of `tests/kafka`; its output, or its exit code and its reason. What it starts must not have the test's pipes.
pub(crate) fn run_script_of(
    script: &str,
    directory: &Path,
    words: &[&str],
) -> Result<String, (Option<i32>, String)> {
    let errors = directory.join("script.log");
    let log = std::fs::File::create(&errors).unwrap();
    let output = Command::new("bash")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kafka").join(script))
        .arg(words[0])
        .arg(directory)
        .args(&words[1..])
        .stdin(Stdio::null())
        .stderr(log)
        .output()
        .expect("bash is there");
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned());
    }
    Err((output.status.code(), std::fs::read_to_string(errors).unwrap()))
}

impl Broker {
    /// A broker; `None` if this machine cannot run one.
    fn start() -> Option<Broker> {
        Broker::start_with(&[])
    }

    /// A broker, with further words for `broker.sh`.
    fn start_with(words: &[&str]) -> Option<Broker> {
        if let Ok(address) = std::env::var("SWIFTWATER_KAFKA") {
            return Some(Broker { address, directory: None });
        }
        let directory = TempDir::new().unwrap();
        match run_script(directory.path(), &[&["start", "0"], words].concat()) {
            Ok(address) => Some(Broker { address, directory: Some(directory) }),
            Err((Some(SKIPPED), reason)) => {
                println!("skipped: {}", reason.trim());
                None
            }
            Err((_, reason)) => panic!("{reason}"),
        }
    }

    /// A broker with listeners that check identities, `tls` among them if it is so; `None` if this machine cannot run one, or
    /// another one is to be used.
    pub(crate) fn start_with_identities(tls: bool) -> Option<Broker> {
        let broker = Broker::start_with(if tls { &["tls"] } else { &[] })?;
        if broker.directory.is_none() {
            println!("skipped: the broker of SWIFTWATER_KAFKA has no listener for these identities");
            return None;
        }
        Some(broker)
    }

    /// The address of the listener without encryption and identities.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// A file of the broker that the test has started.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.as_ref().unwrap().path().join(name)
    }

    /// The address of the listener `sasl`, `tls` or `certificate`.
    pub(crate) fn address_of(&self, listener: &str) -> String {
        let address = std::fs::read_to_string(self.file(&format!("{listener}.address"))).unwrap();
        address.trim().to_owned()
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.address).set("message.max.bytes", "20000000");
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().unwrap()
    }

    fn client(&self) -> Client {
        client(&self.address, 64 << 20)
    }

    fn send(producer: &BaseProducer, topic: &str, partition: u32, messages: &[Message]) {
        for message in messages {
            let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic).partition(partition as i32);
            record.key = message.key.as_deref();
            record.payload = message.value.as_deref();
            record.timestamp = message.timestamp;
            if !message.headers.is_empty() {
                let mut headers = OwnedHeaders::new();
                for (name, value) in &message.headers {
                    headers = headers.insert(Header { key: name, value: value.as_deref() });
                }
                record.headers = Some(headers);
            }
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
    }
}

fn client(address: &str, memory_bytes: u64) -> Client {
    // Members of groups find new topics and partitions with the first; an unknown topic is an error after the second, by default
    // after 30 s.
    let properties =
        [("topic.metadata.refresh.interval.ms", "500"), ("topic.metadata.propagation.max.ms", "3000")];
    let properties = properties.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = ConnectionConfig {
        brokers: address.to_owned(),
        memory_bytes,
        properties: properties.into(),
        ..ConnectionConfig::default()
    };
    Client::new(config, Arc::new(SystemClock::new())).unwrap()
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            let _ = run_script(directory.path(), &["stop"]);
        }
    }
}

#[async_trait]
impl Cluster for Broker {
    fn kafka(&self) -> Arc<dyn Kafka> {
        Arc::new(self.client())
    }

    async fn make_topic_of(&self, topic: &str, partitions: u32, message_bytes_max: usize) {
        let message_bytes_max = message_bytes_max.to_string();
        let (admin, options) = (self.admin(), AdminOptions::new().operation_timeout(Some(TIMEOUT)));
        admin.delete_topics(&[topic], &options).await.unwrap();
        // The broker deletes in the background.
        loop {
            let new = NewTopic::new(topic, partitions as i32, TopicReplication::Fixed(1));
            let made = admin
                .create_topics([&new.set("max.message.bytes", &message_bytes_max)], &options)
                .await
                .unwrap();
            match &made[0] {
                Ok(_) => break,
                Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((_, error)) => panic!("{error}"),
            }
        }
        let consumer: BaseConsumer = self.config().create().unwrap();
        let deadline = tokio::time::Instant::now() + TIMEOUT;
        while tokio::time::Instant::now() < deadline {
            let metadata = consumer.fetch_metadata(Some(topic), TIMEOUT).unwrap();
            let found = metadata.topics()[0].partitions();
            if found.len() == partitions as usize && found.iter().all(|partition| partition.error().is_none())
            {
                return;
            }
        }
        panic!("topic `{topic}` has no leaders");
    }

    async fn append(&self, topic: &str, partition: u32, messages: &[Message]) {
        let producer: BaseProducer = self.config().create().unwrap();
        Broker::send(&producer, topic, partition, messages);
        producer.flush(TIMEOUT).unwrap();
    }

    async fn append_in_transaction(&self, topic: &str, messages: &[Message], commits: bool) {
        let producer: BaseProducer = self.config().set("transactional.id", "suite").create().unwrap();
        producer.init_transactions(TIMEOUT).unwrap();
        producer.begin_transaction().unwrap();
        Broker::send(&producer, topic, 0, messages);
        producer.flush(TIMEOUT).unwrap();
        if commits {
            producer.commit_transaction(TIMEOUT).unwrap();
        } else {
            producer.abort_transaction(TIMEOUT).unwrap();
        }
        // The broker answers before it has written the marker. It takes another producer of the name after that.
        let next: BaseProducer = self.config().set("transactional.id", "suite").create().unwrap();
        next.init_transactions(TIMEOUT).unwrap();
    }

    async fn delete_before(&self, topic: &str, partition: u32, offset: u64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition as i32, Offset::Offset(offset as i64)).unwrap();
        let options = AdminOptions::new().operation_timeout(Some(TIMEOUT));
        let deleted = self.admin().delete_records(&list, &options).await.unwrap();
        deleted.elements()[0].error().unwrap();
    }

    async fn committed(&self, group: &str, topic: &str, partition: u32) -> Option<u64> {
        let consumer: BaseConsumer = self.config().set("group.id", group).create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition as i32);
        let committed = consumer.committed_offsets(list, TIMEOUT).unwrap();
        match committed.elements()[0].offset() {
            Offset::Offset(offset) => Some(offset as u64),
            _ => None,
        }
    }

    async fn add_partitions(&self, topic: &str, partitions: u32) {
        let options = AdminOptions::new().operation_timeout(Some(TIMEOUT));
        let new = NewPartitions::new(topic, partitions as usize);
        self.admin().create_partitions(&[new], &options).await.unwrap()[0].as_ref().unwrap();
    }
}

macro_rules! run_cases {
    ($($case:ident,)*) => {
        /// Runs all cases at once: each has topics of its own, and most of it is waiting.
        async fn run_suite(broker: &Arc<Broker>) {
            let mut cases = JoinSet::new();
            $(
                let broker_of_case = Arc::clone(broker);
                cases.spawn(async move {
                    suite::$case(&*broker_of_case).await;
                    println!("{}", stringify!($case));
                });
            )*
            while let Some(ended) = cases.join_next().await {
                ended.unwrap();
            }
        }
    };
}
each_case!(run_cases);

/// One test for all, as they share a broker that ends with it. Clients of the other side block threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn broker_behaves_as_the_kafka_in_memory() {
    let Some(broker) = Broker::start() else { return };
    let broker = Arc::new(broker);
    run_suite(&broker).await;
    println!("small_memory_suffices");
    small_memory_suffices(&broker).await;
    println!("consumer_ends_its_thread");
    consumer_ends_its_thread(&broker).await;
    println!("reading_continues_after_a_restart");
    reading_continues_after_a_restart(&broker).await;
}

/// More than the consumer's memory passes through it, in order, while the caller reads slowly.
async fn small_memory_suffices(broker: &Broker) {
    broker.make_topic("small-memory", 2).await;
    let messages: Vec<Message> =
        (0..400).map(|number| Message::value(vec![number as u8; 50_000 + 300 * number])).collect();
    for partition in 0..2 {
        broker.append("small-memory", partition, &messages).await;
    }
    let kafka = client(&broker.address, 8 << 20);
    let mut consumer = kafka.consumer("small-memory", &options(Isolation::ReadCommitted)).unwrap();
    let mut nexts = BTreeMap::from([(0, 0), (1, 0)]);
    consumer.assign(0, 0);
    consumer.assign(1, 0);
    while nexts.values().any(|next| *next < 400) {
        if let Fetched::Messages(batch) = next(&mut consumer).await {
            let position = nexts.get_mut(&batch.partition()).unwrap();
            for message in batch.messages() {
                assert_eq!(message.offset(), *position);
                let expected = &messages[*position as usize].value;
                assert!(message.value() == expected.as_deref());
                *position += 1;
            }
        }
    }
    assert_eq!(consumer.stalls(), 0);
}

/// The threads of consumers of the topic `threads` in this process.
fn consumer_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map_while(Result::ok);
    let names = tasks.map(|task| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default());
    names.filter(|name| name.trim() == "kafka threads").count()
}

/// Waits until no consumer has a thread.
async fn await_no_threads() {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    while consumer_threads() > 0 {
        assert!(tokio::time::Instant::now() < deadline, "a dropped consumer ends its thread within 5 s");
        tokio::task::yield_now().await;
    }
}

async fn consumer_ends_its_thread(broker: &Broker) {
    await_no_threads().await;
    broker.make_topic("threads", 1).await;
    broker.append("threads", 0, &values(0..5000)).await;
    let kafka = broker.client();
    let mut consumer = kafka.consumer("threads", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(0, 0);
    assert!(matches!(next(&mut consumer).await, Fetched::Messages(_)));
    assert_eq!(consumer_threads(), 1);
    drop(consumer);
    await_no_threads().await;
    // While no broker is there, too.
    let kafka = client("127.0.0.1:1", 8 << 20);
    let mut consumer = kafka.consumer("threads", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(0, 0);
    assert!(matches!(next(&mut consumer).await, Fetched::Waiting { .. }));
    drop(consumer);
    await_no_threads().await;
}

/// The processor time of this process.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    // In hundredths of a second.
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

async fn reading_continues_after_a_restart(broker: &Broker) {
    let Some(directory) = &broker.directory else {
        println!("skipped: the broker of SWIFTWATER_KAFKA is not restarted");
        return;
    };
    broker.make_topic("restarts", 1).await;
    broker.append("restarts", 0, &values(0..10)).await;
    let kafka = broker.client();
    let mut consumer = kafka.consumer("restarts", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(0, 0);
    assert_eq!(read(&mut consumer, 0).await.1, 10);
    assert_eq!(kafka.group("restarts").await, Ok(Vec::new()));
    run_script(directory.path(), &["stop"]).unwrap();
    match next(&mut consumer).await {
        Fetched::Waiting { error, .. } => assert_eq!(error.kind(), &KafkaErrorKind::Unreachable, "{error}"),
        other => panic!("{other:?}"),
    }
    // Calls that end while the broker is away, about a group too, whose coordinator it was, cost little and leave nothing behind
    // that is used when it is back.
    let before = processor_seconds();
    for _ in 0..3 {
        let calls = async { tokio::join!(kafka.group("restarts"), kafka.topic("restarts")) };
        let ended = tokio::time::timeout(Duration::from_millis(1500), calls).await;
        assert!(ended.is_err() || matches!(ended, Ok((Err(_), Err(_)))));
    }
    let used = processor_seconds() - before;
    assert!(used < 2.0, "{used} s of processor time while the broker is away");
    let port = broker.address.rsplit(':').next().unwrap();
    run_script(directory.path(), &["start", port]).unwrap();
    assert_eq!(kafka.group("restarts").await, Ok(Vec::new()));
    broker.append("restarts", 0, &values(10..20)).await;
    let (messages, _) = read(&mut consumer, 0).await;
    assert_eq!(messages[0].0, 10);
}

#[tokio::test]
async fn wrong_port_is_unreachable() {
    let kafka = client("127.0.0.1:1", 8 << 20);
    let error = kafka.topic("t").await.unwrap_err();
    assert_eq!(error.kind(), &KafkaErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains("`127.0.0.1:1`") && error.to_string().contains("refused"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("TLS")), "{error:?}");
    assert!(kafka.offsets("t", &[(0, OffsetAt::Latest)]).await.is_err());
}

#[test]
fn unknown_property_is_refused_with_the_reason_of_the_client() {
    for (name, value, reason) in [
        ("no.such.property", "S3CRET", "No such configuration property"),
        ("socket.timeout.ms", "S3CRET", "Invalid value"),
        ("broker.address.family", "S3CRET", "Invalid value"),
    ] {
        let config = ConnectionConfig {
            brokers: "127.0.0.1:1".to_owned(),
            properties: [(name.to_owned(), value.to_owned())].into(),
            ..ConnectionConfig::default()
        };
        let error = Client::new(config, Arc::new(SystemClock::new())).unwrap_err();
        assert_eq!(error.kind(), &KafkaErrorKind::Configuration);
        let text = error.to_string();
        assert!(text.contains(&format!("`{name}`")) && text.contains(reason), "{text}");
        assert!(!text.contains("S3CRET"), "{text}");
    }
}

#[test]
fn missing_password_file_is_named() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("password");
    let config = ConnectionConfig {
        brokers: "127.0.0.1:1".to_owned(),
        security_protocol: "sasl_plaintext".parse().unwrap(),
        sasl_mechanism: Some("PLAIN".parse().unwrap()),
        username: Some("u".to_owned()),
        password_file: Some(file.clone()),
        ..ConnectionConfig::default()
    };
    let new = || Client::new(config.clone(), Arc::new(SystemClock::new()));
    let error = new().unwrap_err().to_string();
    assert!(error.contains("`password_file`") && error.contains(file.to_str().unwrap()), "{error}");
    std::fs::write(&file, "\n").unwrap();
    assert!(new().unwrap_err().to_string().contains("is empty"));
    std::fs::write(&file, "S3CRET\n").unwrap();
    assert!(!format!("{:?}", new().unwrap()).contains("S3CRET"));
}

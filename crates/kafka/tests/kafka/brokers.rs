//! A producer and consumers of three brokers, which are killed and started again while messages pass: `tests/kafka/brokers.sh`
//! starts them. Takes a minute at least, and so runs only with `SOAK_SECONDS` set (`make torture`), for about that long.
//! `TORTURE_SEED` chooses the kills.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer as _},
};
use swiftwater_event::SystemClock;
use swiftwater_kafka::{
    Client, ConnectionConfig, Fetched, Isolation, Kafka, KafkaError, NewMessage, OffsetAt, Producer,
    ProducerOptions, SendError, TopicPartition,
};
use swiftwater_testkit::Rng;
use tempfile::TempDir;
use tokio::{
    sync::watch,
    task::{JoinHandle, spawn_blocking},
    time::{self, Instant, timeout},
};

use crate::{
    broker::{SKIPPED, run_script_of},
    cluster::options,
    producing::message,
};

const TOPIC: &str = "numbers";
const PARTITIONS: u32 = 4;
const BROKERS: usize = 3;

/// Messages of one call at most.
const MESSAGES_MAX: usize = 20;

/// The calls that must succeed while one broker is dead, before the next event.
const CALLS: u64 = 20;

/// The time in which the cluster goes on after any event: a message waits 30 s before it fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// The time in which a call succeeds after a broker has died.
const PATIENCE_OF_CALLS: Duration = Duration::from_secs(40);

struct Brokers {
    addresses: String,
    directory: TempDir,
}

impl Brokers {
    /// Brokers; `None` if this machine cannot run them.
    fn start() -> Option<Brokers> {
        let directory = TempDir::new().unwrap();
        match run_script_of("brokers.sh", directory.path(), &["start", "3"]) {
            Ok(addresses) => Some(Brokers { addresses, directory }),
            Err((Some(SKIPPED), reason)) => {
                println!("skipped: {}", reason.trim());
                None
            }
            Err((_, reason)) => panic!("{reason}"),
        }
    }

    /// Does something to one of them: `kill`, `stop` or `run`.
    async fn order(&self, command: &'static str, number: usize) {
        let directory: PathBuf = self.directory.path().to_owned();
        let words = move || run_script_of("brokers.sh", &directory, &[command, &number.to_string()]);
        spawn_blocking(words).await.unwrap().unwrap();
    }

    fn client(&self) -> Client {
        let config = ConnectionConfig { brokers: self.addresses.clone(), ..ConnectionConfig::default() };
        Client::new(config, Arc::new(SystemClock::new())).unwrap()
    }

    /// Waits until all replicas of the topic are in sync.
    async fn until_in_sync(&self) {
        let consumer: Arc<BaseConsumer> =
            Arc::new(ClientConfig::new().set("bootstrap.servers", &self.addresses).create().unwrap());
        let deadline = Instant::now() + PATIENCE;
        let mut ticks = time::interval(Duration::from_millis(200));
        while Instant::now() < deadline {
            ticks.tick().await;
            let consumer = Arc::clone(&consumer);
            let metadata =
                spawn_blocking(move || consumer.fetch_metadata(Some(TOPIC), Duration::from_secs(5)));
            let Ok(metadata) = metadata.await.unwrap() else { continue };
            let partitions = metadata.topics()[0].partitions();
            if partitions.len() == PARTITIONS as usize
                && partitions.iter().all(|partition| partition.isr().len() == BROKERS)
            {
                return;
            }
        }
        panic!("the replicas are not in sync again");
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        let _ = run_script_of("brokers.sh", self.directory.path(), &["stop"]);
    }
}

/// The calls that have ended.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    acknowledged: u64,
    failed: u64,
    /// Those that ended while two brokers were dead.
    failed_without_quorum: u64,
}

/// The outcome of all calls.
#[derive(Debug, Default)]
struct Written {
    /// Each number that was acknowledged has the partition of its remainder. Its offset, where the brokers returned it.
    acknowledged: BTreeMap<u64, Option<u64>>,
    /// Those that failed may have been written.
    failed: BTreeSet<u64>,
}

/// Writes numbered messages, one call after the other, until it is stopped. No number is written by a second call.
struct Writer {
    kafka: Client,
    rng: Rng,
    progress: watch::Sender<Progress>,
    stops: Arc<AtomicBool>,
    has_no_quorum: Arc<AtomicBool>,
}

impl Writer {
    async fn run(mut self) -> Written {
        let mut written = Written::default();
        let mut producer: Option<Box<dyn Producer>> = None;
        let mut next = 0;
        while !self.stops.load(SeqCst) {
            let Some(open) = &mut producer else {
                producer = self.open().await;
                continue;
            };
            let numbers = next..next + 1 + self.rng.below(MESSAGES_MAX) as u64;
            next = numbers.end;
            let messages: Vec<NewMessage> = numbers.clone().map(numbered).collect();
            let began_without_quorum = self.has_no_quorum.load(SeqCst);
            match open.send(&messages).await {
                Ok(places) => {
                    let ended_without_quorum = self.has_no_quorum.load(SeqCst);
                    assert!(
                        !(began_without_quorum && ended_without_quorum),
                        "{numbers:?} are acknowledged while two of three brokers are dead"
                    );
                    for (number, place) in numbers.zip(places) {
                        assert_eq!(place.partition, (number % u64::from(PARTITIONS)) as u32);
                        written.acknowledged.insert(number, place.offset);
                    }
                    self.progress.send_modify(|progress| progress.acknowledged += 1);
                }
                Err(SendError::Failed(error)) => {
                    println!("{numbers:?} failed: {error}; hint: {:?}", error.hint());
                    written.failed.extend(numbers);
                    producer = None;
                    let has_no_quorum = self.has_no_quorum.load(SeqCst);
                    self.progress.send_modify(|progress| {
                        progress.failed += 1;
                        progress.failed_without_quorum += u64::from(has_no_quorum);
                    });
                }
                Err(other) => panic!("{other}"),
            }
        }
        written
    }

    /// Another producer; none if the brokers do not answer.
    async fn open(&self) -> Option<Box<dyn Producer>> {
        let options = ProducerOptions { topics: vec![TOPIC.into()], ..ProducerOptions::default() };
        let mut producer = self.kafka.producer(&options).unwrap();
        match producer.open().await {
            Ok(()) => Some(producer),
            Err(error) => {
                println!("a producer does not open: {error}");
                // It may fail at once.
                time::timeout(Duration::from_millis(200), std::future::pending::<()>()).await.unwrap_err();
                None
            }
        }
    }
}

fn numbered(number: u64) -> NewMessage {
    let partition = (number % u64::from(PARTITIONS)) as u32;
    NewMessage { partition: Some(partition), ..message(TOPIC, None, &number.to_string()) }
}

/// The numbers of each partition with their offsets.
type Numbers = Vec<Vec<(u64, u64)>>;

/// Reads all partitions from their beginning up to the ends, as soon as they are known.
async fn read_numbers(kafka: Client, mut ends: watch::Receiver<Option<Vec<u64>>>) -> Numbers {
    let mut consumer = kafka.consumer(TOPIC, &options(Isolation::ReadCommitted)).unwrap();
    let mut numbers: Numbers = vec![Vec::new(); PARTITIONS as usize];
    let mut nexts = vec![0; PARTITIONS as usize];
    for partition in 0..PARTITIONS {
        consumer.assign(partition, 0);
    }
    loop {
        let is_done =
            ends.borrow().as_ref().is_some_and(|ends| ends.iter().zip(&nexts).all(|(end, next)| next >= end));
        if is_done {
            return numbers;
        }
        let fetched = tokio::select! {
            fetched = consumer.next() => fetched,
            changed = ends.changed(), if ends.borrow().is_none() => {
                changed.unwrap();
                continue;
            }
        };
        match fetched {
            Fetched::Messages(batch) => {
                let partition = batch.partition() as usize;
                for message in batch.messages() {
                    let text = std::str::from_utf8(message.value().unwrap()).unwrap();
                    numbers[partition].push((message.offset(), text.parse().unwrap()));
                }
                nexts[partition] = batch.next();
            }
            Fetched::End { partition, next } => nexts[partition as usize] = next,
            Fetched::Waiting { error, .. } => println!("a consumer waits: {error}"),
            other => panic!("{other:?}"),
        }
    }
}

/// Checks the messages of the topic: each acknowledged number once, at its offset and in order; each that failed once at most.
fn check(written: &Written, numbers: &Numbers) {
    let mut found = BTreeSet::new();
    for (partition, numbers) in numbers.iter().enumerate() {
        let mut last = None;
        for (offset, number) in numbers {
            assert_eq!(number % u64::from(PARTITIONS), partition as u64);
            assert!(found.insert(*number), "{number} is there twice");
            match written.acknowledged.get(number) {
                Some(place) => {
                    assert!(
                        place.is_none_or(|place| place == *offset),
                        "{number} is at {offset}, not at {place:?}"
                    );
                    assert!(last.is_none_or(|last| last < number), "{number} comes after {last:?}");
                    last = Some(number);
                }
                None => assert!(written.failed.contains(number), "{number} was never sent"),
            }
        }
    }
    let lost: Vec<&u64> = written.acknowledged.keys().filter(|number| !found.contains(number)).collect();
    assert!(
        lost.is_empty(),
        "{} acknowledged messages are lost: {:?}…",
        lost.len(),
        &lost[..lost.len().min(10)]
    );
}

/// Waits for progress, which the end of the writer would end.
async fn until(progress: &mut watch::Receiver<Progress>, what: &str, is_reached: impl Fn(&Progress) -> bool) {
    let reached = timeout(PATIENCE, progress.wait_for(|progress| is_reached(progress))).await;
    let is_late = reached.map(|reached| drop(reached.expect("the writer runs"))).is_err();
    assert!(!is_late, "{what}: not within {PATIENCE:?}, but {:?}", progress.borrow());
}

async fn more_calls(progress: &mut watch::Receiver<Progress>, what: &str) {
    let wanted = progress.borrow().acknowledged + CALLS;
    until(progress, what, |progress| progress.acknowledged >= wanted).await;
}

/// Ends and starts brokers by turns, one at a time, until the time is over.
async fn disturb(brokers: &Brokers, progress: &mut watch::Receiver<Progress>, rng: &mut Rng, seconds: u64) {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut turns = 0;
    while turns == 0 || Instant::now() < deadline {
        let (number, command) = (1 + rng.below(BROKERS), rng.pick(&["kill", "kill", "stop"]));
        println!("{command} {number}");
        brokers.order(command, number).await;
        more_calls(progress, "messages are acknowledged by two of three brokers").await;
        brokers.order("run", number).await;
        if rng.chance(0.5) {
            brokers.until_in_sync().await;
        }
        more_calls(progress, "messages are acknowledged after the start of a broker").await;
        turns += 1;
    }
    println!("{turns} turns, {:?}", progress.borrow());
}

/// The time that this process has used so far, in seconds, by all its threads.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // In hundredths of a second, in user mode and in the kernel.
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

/// The result of a call, which may fail while the brokers elect leaders.
async fn in_time<T>(what: &str, call: impl AsyncFn() -> Result<T, KafkaError>) -> T {
    let (began, deadline) = (Instant::now(), Instant::now() + PATIENCE_OF_CALLS);
    loop {
        match call().await {
            Ok(result) => {
                println!("{what} after {:.1} s", began.elapsed().as_secs_f64());
                return result;
            }
            Err(error) => {
                assert!(Instant::now() < deadline, "{what}: {error}");
                println!("{what}: {error}");
            }
        }
    }
}

/// Kills each broker in turn: the calls of a client that has used all of them go on, and it does not spin.
async fn calls_go_on(brokers: &Brokers, kafka: &Client) {
    let places: Vec<(u32, OffsetAt)> =
        (0..PARTITIONS).map(|partition| (partition, OffsetAt::Latest)).collect();
    let committed = [TopicPartition::new(TOPIC, 0)];
    for number in 1..=BROKERS {
        brokers.until_in_sync().await;
        in_time("group_offsets", async || kafka.group_offsets("readers", &committed).await).await;
        brokers.order("kill", number).await;
        let (began, used) = (Instant::now(), processor_seconds());
        // Calls that are given up while the coordinator may be dead.
        for _ in 0..3 {
            let _ = timeout(Duration::from_millis(100), kafka.group_offsets("readers", &committed)).await;
        }
        in_time("topic", async || kafka.topic(TOPIC).await).await;
        in_time("offsets", async || kafka.offsets(TOPIC, &places).await).await;
        in_time("group_offsets", async || kafka.group_offsets("readers", &committed).await).await;
        in_time("group", async || kafka.group("readers").await).await;
        in_time("open", async || {
            let options = ProducerOptions { topics: vec![TOPIC.into()], ..ProducerOptions::default() };
            kafka.producer(&options).unwrap().open().await
        })
        .await;
        in_time("create_topic", async || kafka.create_topic(&format!("made-{number}"), 1, &[]).await).await;
        let (took, used) = (began.elapsed().as_secs_f64(), processor_seconds() - used);
        println!("calls without {number}: {took:.1} s, of a processor {used:.1} s");
        assert!(used < 1.0 + took / 4.0, "{used} s of a processor in {took} s");
        brokers.order("run", number).await;
    }
}

/// Kills two of the three, and starts them again after a call has failed.
async fn lose_quorum(
    brokers: &Brokers,
    progress: &mut watch::Receiver<Progress>,
    rng: &mut Rng,
    has_no_quorum: &AtomicBool,
) {
    brokers.until_in_sync().await;
    let alive = rng.below(BROKERS);
    let dead = [1 + (alive + 1) % BROKERS, 1 + (alive + 2) % BROKERS];
    println!("kill {dead:?}");
    for number in dead {
        brokers.order("kill", number).await;
    }
    has_no_quorum.store(true, SeqCst);
    until(progress, "a call fails without two replicas", |progress| progress.failed_without_quorum > 0).await;
    has_no_quorum.store(false, SeqCst);
    for number in dead {
        brokers.order("run", number).await;
    }
    more_calls(progress, "messages are acknowledged when the brokers are back").await;
}

/// Duration of the random part, if a long run is requested.
fn soak_seconds() -> Option<u64> {
    let text = std::env::var("SOAK_SECONDS").ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("SOAK_SECONDS is a number of seconds, not `{text}`")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_messages_survive_the_death_of_brokers() {
    let Some(seconds) = soak_seconds() else {
        println!("skipped: it takes a minute; SOAK_SECONDS is not set");
        return;
    };
    let seed = std::env::var("TORTURE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("TORTURE_SEED={seed}");
    let mut rng = Rng::new(seed);
    let Some(brokers) = Brokers::start() else { return };
    let kafka = brokers.client();
    // All brokers have registered when each can have a replica.
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = kafka.create_topic(TOPIC, PARTITIONS, &[]).await {
        assert!(Instant::now() < deadline, "{error}");
    }
    brokers.until_in_sync().await;
    calls_go_on(&brokers, &kafka).await;
    brokers.until_in_sync().await;

    let (progress, mut watched) = watch::channel(Progress::default());
    let (stops, has_no_quorum) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let writer = Writer {
        kafka: kafka.clone(),
        rng: Rng::new(rng.bits()),
        progress,
        stops: Arc::clone(&stops),
        has_no_quorum: Arc::clone(&has_no_quorum),
    };
    let writer: JoinHandle<Written> = tokio::spawn(writer.run());
    let (ends, ends_known) = watch::channel(None);
    let reader = tokio::spawn(read_numbers(brokers.client(), ends_known.clone()));

    disturb(&brokers, &mut watched, &mut rng, seconds).await;
    lose_quorum(&brokers, &mut watched, &mut rng, &has_no_quorum).await;
    stops.store(true, SeqCst);
    let written = timeout(PATIENCE, writer).await.expect("the writer ends").unwrap();
    brokers.until_in_sync().await;

    let places: Vec<(u32, OffsetAt)> =
        (0..PARTITIONS).map(|partition| (partition, OffsetAt::Latest)).collect();
    ends.send(Some(kafka.offsets(TOPIC, &places).await.unwrap())).unwrap();
    let read_meanwhile = timeout(PATIENCE, reader).await.expect("the reader ends").unwrap();
    let read_again = timeout(PATIENCE, read_numbers(brokers.client(), ends_known)).await.unwrap();
    check(&written, &read_again);
    assert!(read_meanwhile == read_again, "what was read during the kills is what is there");
    println!("{} messages acknowledged, {} failed", written.acknowledged.len(), written.failed.len());
}

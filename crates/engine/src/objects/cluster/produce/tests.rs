//! Tests the task that writes the events of one stream.

use swiftwater_event::SystemClock;
use swiftwater_testkit::{FakeKafka, SendFault};
use tokio::sync::Semaphore;

use super::*;

fn writer(kafka: &FakeKafka) -> Writer {
    Writer {
        kafka: Arc::new(kafka.clone()),
        clock: Arc::new(SystemClock::new()),
        topic: "t".into(),
        partitioner: Partitioner::Murmur2,
        producer: None,
        opened_nanos: 0,
        is_failing: false,
    }
}

type Answer = oneshot::Receiver<Result<Vec<Outcome>, EngineError>>;

fn request(room: &Arc<Semaphore>, values: &[usize], bytes: usize) -> (Request, Answer) {
    let message = |bytes: &usize| NewMessage {
        topic: "t".into(),
        partition: Some(0),
        key: None,
        value: Some(vec![b' '; *bytes].into()),
        headers: Arc::default(),
    };
    let (reply, answer) = oneshot::channel();
    let room = Arc::clone(room).try_acquire_owned().unwrap();
    (Request { messages: values.iter().map(message).collect(), bytes, reply, _room: room }, answer)
}

#[tokio::test]
async fn a_request_behind_a_failed_group_is_not_begun() {
    let kafka = FakeKafka::new();
    kafka.make_topic("t", 1);
    kafka.fail_send_to("t", 0, SendFault::Partly(1));
    let room = Arc::new(Semaphore::new(3));
    let (queue, mut requests) = mpsc::channel(8);
    let (first, told) = request(&room, &[1, 1], 2);
    let (second, told_second) = request(&room, &[1], 1);
    queue.try_send(second).unwrap();
    let mut writer = writer(&kafka);
    writer.answer_group(vec![first], &mut requests).await;
    let is_unsure = |told: Result<Vec<Outcome>, EngineError>| match told.unwrap_err() {
        EngineError::NotWritten { is_unsure, .. } => is_unsure,
        other => panic!("{other}"),
    };
    assert!(is_unsure(told.await.unwrap()));
    assert!(!is_unsure(told_second.await.unwrap()));
    assert_eq!(kafka.committed_messages("t", 0).len(), 1);
    // Their room is free.
    assert_eq!(room.available_permits(), 3);
}

#[tokio::test]
async fn a_message_that_is_too_large_fails_alone_within_its_group() {
    let kafka = FakeKafka::new();
    kafka.make_topic("t", 1);
    kafka.set_message_bytes_max("t", 500);
    let room = Arc::new(Semaphore::new(2));
    let (_queue, mut requests) = mpsc::channel(8);
    let (first, told) = request(&room, &[1, 600], 601);
    let (second, told_second) = request(&room, &[700, 2, 800, 3], 1505);
    let mut writer = writer(&kafka);
    writer.answer_group(vec![first, second], &mut requests).await;
    let offsets = |told: Result<Vec<Outcome>, EngineError>| -> Vec<Option<u64>> {
        let offset = |outcome: Outcome| match outcome {
            Outcome::Written(position) => position.offset,
            Outcome::TooLarge => None,
        };
        told.unwrap().into_iter().map(offset).collect()
    };
    assert_eq!(offsets(told.await.unwrap()), [Some(0), None]);
    assert_eq!(offsets(told_second.await.unwrap()), [None, Some(1), None, Some(2)]);
}

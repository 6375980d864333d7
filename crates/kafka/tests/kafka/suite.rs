//! The semantics of `Kafka` and `Consumer`, whoever implements them; those of `Producer` are in `producing`, and those of
//! `GroupMember` in `membership`.

use swiftwater_kafka::{Fetched, Isolation, KafkaErrorKind, OffsetAt};

use crate::cluster::*;
pub(crate) use crate::{membership::*, producing::*};

/// Runs a macro with the name of each case.
macro_rules! each_case {
    ($run:ident) => {
        $run! {
            messages_of_a_partition_are_in_order,
            null_differs_from_empty,
            headers_and_timestamps_are_returned,
            end_is_reported_after_each_last_message,
            gap_has_the_bounds_of_the_partition,
            topic_made_again_has_another_id,
            read_committed_leaves_out_aborted_messages,
            large_message_arrives_among_small_ones,
            paused_partition_returns_nothing,
            partition_assigned_anew_starts_there,
            unknown_topic_is_an_error,
            offsets_are_those_of_places,
            commit_reaches_the_group,
            messages_are_written_as_they_are,
            keys_choose_partitions_as_stated,
            transaction_is_whole_over_topics,
            earlier_producer_of_a_name_is_fenced,
            message_that_is_too_large_is_named,
            limit_of_a_topic_is_exact,
            producer_of_an_unknown_topic_does_not_open,
            topic_is_created_once,
            places_of_messages_are_returned,
            members_share_partitions_evenly,
            third_member_disturbs_no_more_than_needed,
            partitions_of_a_member_that_leaves_go_to_the_rest,
            member_without_partitions_leaves_at_once,
            revoked_partition_moves_after_the_next_call,
            commit_is_read_back_with_its_text,
            static_member_comes_back_to_its_partitions,
            earlier_static_member_of_a_name_fails,
            subscription_can_change,
            unknown_topic_is_waited_for,
            new_partitions_are_assigned,
            unknown_group_has_no_members,
        }
    };
}
pub(crate) use each_case;

pub(crate) async fn messages_of_a_partition_are_in_order(cluster: &dyn Cluster) {
    cluster.make_topic("ordered", 2).await;
    cluster.append("ordered", 0, &values(0..3000)).await;
    cluster.append("ordered", 1, &values(0..1000)).await;
    let mut consumer = cluster.kafka().consumer("ordered", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(0, 0);
    consumer.assign(1, 700);
    let mut next = [0, 700];
    let mut ended = [false, false];
    while ended != [true, true] {
        match next_settled(&mut consumer).await {
            Fetched::Messages(batch) => {
                let partition = batch.partition() as usize;
                for (offset, text) in texts(&contents(&batch)) {
                    assert_eq!((offset, text), (next[partition], format!("value {offset}")));
                    next[partition] += 1;
                }
                assert_eq!(batch.next(), next[partition]);
            }
            Fetched::End { partition, next: end } => {
                assert_eq!(end, next[partition as usize]);
                ended[partition as usize] = true;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(next, [3000, 1000]);
}

pub(crate) async fn null_differs_from_empty(cluster: &dyn Cluster) {
    cluster.make_topic("nulls", 1).await;
    let message = |key: Option<&str>, value: Option<&str>| Message {
        key: key.map(Into::into),
        value: value.map(Into::into),
        headers: vec![("h".to_owned(), None), ("h".to_owned(), Some(Vec::new()))],
        timestamp: Some(1_700_000_000_000),
    };
    let messages = [
        message(None, None),
        message(None, Some("")),
        message(Some(""), None),
        message(Some(""), Some("")),
        message(Some("k"), Some("v")),
    ];
    cluster.append("nulls", 0, &messages).await;
    let mut consumer = cluster.kafka().consumer("nulls", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(0, 0);
    let (read, _) = read(&mut consumer, 0).await;
    assert_eq!(read, (0..).zip(messages).collect::<Vec<_>>());
}

pub(crate) async fn headers_and_timestamps_are_returned(cluster: &dyn Cluster) {
    cluster.make_topic("headers", 1).await;
    let message = |number: i64| Message {
        headers: (0..number).map(|h| (format!("h{h}"), Some(vec![h as u8, 0, 255]))).collect(),
        timestamp: Some(1_700_000_000_000 + number),
        ..Message::value("x")
    };
    let messages: Vec<Message> = (0..4).map(message).collect();
    cluster.append("headers", 0, &messages).await;
    let mut consumer = cluster.kafka().consumer("headers", &options(Isolation::ReadUncommitted)).unwrap();
    consumer.assign(0, 0);
    let (read, _) = read(&mut consumer, 0).await;
    assert_eq!(read, (0..).zip(messages).collect::<Vec<_>>());
}

pub(crate) async fn end_is_reported_after_each_last_message(cluster: &dyn Cluster) {
    cluster.make_topic("ends", 1).await;
    let mut consumer = cluster.kafka().consumer("ends", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(0, 0);
    assert_eq!(read(&mut consumer, 0).await, (vec![], 0));
    for count in 1..4 {
        cluster.append("ends", 0, &values(0..2)).await;
        let mut read_count = 0;
        // The end may be reported between the two messages, too.
        loop {
            let (messages, next) = read(&mut consumer, 0).await;
            read_count += messages.len();
            if next == 2 * count {
                break;
            }
        }
        assert_eq!(read_count, 2);
    }
}

pub(crate) async fn gap_has_the_bounds_of_the_partition(cluster: &dyn Cluster) {
    cluster.make_topic("gaps", 1).await;
    cluster.append("gaps", 0, &values(0..10)).await;
    cluster.delete_before("gaps", 0, 6).await;
    let mut consumer = cluster.kafka().consumer("gaps", &options(Isolation::ReadCommitted)).unwrap();
    for wanted in [2, 99] {
        consumer.assign(0, wanted);
        match next_settled(&mut consumer).await {
            Fetched::Gap { partition, wanted: reported, first, end } => {
                assert_eq!((partition, reported, first, end), (0, wanted, 6, 10));
            }
            other => panic!("{other:?}"),
        }
    }
    consumer.assign(0, 6);
    let (messages, next) = read(&mut consumer, 0).await;
    assert_eq!((messages[0].0, messages.len(), next), (6, 4, 10));
}

pub(crate) async fn topic_made_again_has_another_id(cluster: &dyn Cluster) {
    cluster.make_topic("again", 3).await;
    cluster.append("again", 0, &values(0..10)).await;
    let kafka = cluster.kafka();
    let before = kafka.topic("again").await.unwrap();
    assert_eq!(kafka.topic("again").await.unwrap(), before);
    cluster.make_topic("again", 2).await;
    let after = kafka.topic("again").await.unwrap();
    assert_ne!(after.id, before.id);
    assert_eq!((before.partitions, after.partitions), (3, 2));
    let mut consumer = kafka.consumer("again", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(0, 10);
    match next_settled(&mut consumer).await {
        Fetched::Gap { wanted: 10, first: 0, end: 0, .. } => {}
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn read_committed_leaves_out_aborted_messages(cluster: &dyn Cluster) {
    cluster.make_topic("transactions", 1).await;
    cluster.append_in_transaction("transactions", &values(0..2), true).await;
    cluster.append_in_transaction("transactions", &values(2..4), false).await;
    cluster.append("transactions", 0, &values(4..5)).await;
    cluster.append_in_transaction("transactions", &values(5..6), false).await;
    let kafka = cluster.kafka();
    let mut consumer = kafka.consumer("transactions", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(0, 0);
    let (messages, next) = read(&mut consumer, 0).await;
    // 0, 1, marker, 3, 4, marker, 6, 7, marker.
    let expected = [(0, "value 0".to_owned()), (1, "value 1".to_owned()), (6, "value 4".to_owned())];
    assert_eq!(texts(&messages), expected);
    assert_eq!(kafka.offsets("transactions", &[(0, OffsetAt::Latest)]).await, Ok(vec![next]));
    assert_eq!(next, 9);
    let mut consumer = kafka.consumer("transactions", &options(Isolation::ReadUncommitted)).unwrap();
    consumer.assign(0, 0);
    let (messages, next) = read(&mut consumer, 0).await;
    let offsets: Vec<u64> = messages.iter().map(|(offset, _)| *offset).collect();
    assert_eq!((offsets, next), (vec![0, 1, 3, 4, 6, 7], 9));
}

pub(crate) async fn large_message_arrives_among_small_ones(cluster: &dyn Cluster) {
    cluster.make_topic("large", 2).await;
    let large = vec![b'x'; 10_000_000];
    cluster.append("large", 0, &values(0..100)).await;
    cluster.append("large", 0, &[Message::value(large.clone())]).await;
    cluster.append("large", 0, &values(101..200)).await;
    let mut consumer = cluster.kafka().consumer("large", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(0, 0);
    let (messages, next) = read(&mut consumer, 0).await;
    assert_eq!((messages.len(), next), (200, 200));
    assert!(messages[100].1.value.as_deref() == Some(&large[..]));
    assert_eq!(texts(&messages[199..]), [(199, "value 199".to_owned())]);
}

pub(crate) async fn paused_partition_returns_nothing(cluster: &dyn Cluster) {
    cluster.make_topic("pauses", 2).await;
    cluster.append("pauses", 0, &values(0..10)).await;
    let mut consumer = cluster.kafka().consumer("pauses", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(0, 0);
    let (messages, _) = read(&mut consumer, 0).await;
    assert_eq!(messages.len(), 10);
    consumer.pause(0);
    cluster.append("pauses", 0, &values(10..20)).await;
    cluster.append("pauses", 1, &values(0..5)).await;
    consumer.assign(1, 0);
    // Fails on anything of partition 0.
    let (messages, _) = read(&mut consumer, 1).await;
    assert_eq!(messages.len(), 5);
    consumer.unassign(1);
    consumer.resume(0);
    let (messages, next) = read(&mut consumer, 0).await;
    assert_eq!((messages[0].0, messages.len(), next), (10, 10, 20));
}

pub(crate) async fn partition_assigned_anew_starts_there(cluster: &dyn Cluster) {
    cluster.make_topic("anew", 1).await;
    cluster.append("anew", 0, &values(0..5000)).await;
    let mut consumer = cluster.kafka().consumer("anew", &options(Isolation::ReadCommitted)).unwrap();
    for from in [0, 4000, 10, 4999, 5000, 2500] {
        consumer.assign(0, from);
        if from == 10 {
            // Another place, before any of it is read.
            consumer.assign(0, 4990);
            let (messages, next) = read(&mut consumer, 0).await;
            assert_eq!((messages.len(), next), (10, 5000));
            continue;
        }
        let (messages, next) = read(&mut consumer, 0).await;
        let offsets: Vec<u64> = messages.iter().map(|(offset, _)| *offset).collect();
        assert_eq!((offsets, next), ((from..5000).collect(), 5000));
    }
    // From the middle of what is being read.
    consumer.assign(0, 0);
    let Fetched::Messages(first) = next_settled(&mut consumer).await else { panic!("messages are there") };
    assert_eq!(first.offsets()[0], 0);
    consumer.assign(0, 1);
    let (messages, _) = read(&mut consumer, 0).await;
    assert_eq!((messages[0].0, messages.len()), (1, 4999));
}

pub(crate) async fn unknown_topic_is_an_error(cluster: &dyn Cluster) {
    let kafka = cluster.kafka();
    let error = kafka.topic("missing").await.unwrap_err();
    assert_eq!(error.kind(), &KafkaErrorKind::UnknownTopic, "{error}");
    assert!(error.to_string().contains("`missing`") && error.hint().is_some(), "{error}");
    // It was not made by the question.
    assert!(kafka.topic("missing").await.is_err());
    cluster.make_topic("small", 1).await;
    let error = kafka.offsets("small", &[(7, OffsetAt::Latest)]).await.unwrap_err();
    assert_eq!(error.kind(), &KafkaErrorKind::UnknownTopic, "{error}");
    for (topic, partition) in [("missing", 0), ("small", 7)] {
        let mut consumer = kafka.consumer(topic, &options(Isolation::ReadCommitted)).unwrap();
        consumer.assign(partition, 0);
        match next(&mut consumer).await {
            Fetched::Waiting { error, .. } => {
                assert_eq!(error.kind(), &KafkaErrorKind::UnknownTopic, "{topic}: {error}");
            }
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) async fn offsets_are_those_of_places(cluster: &dyn Cluster) {
    cluster.make_topic("places", 2).await;
    let message =
        |number: i64| Message { timestamp: Some(1_700_000_000_000 + 1000 * number), ..Message::value("x") };
    cluster.append("places", 1, &(0..10).map(message).collect::<Vec<_>>()).await;
    cluster.delete_before("places", 1, 3).await;
    let at = |number: i64| OffsetAt::Timestamp(1_700_000_000_000 + 1000 * number);
    let places = [
        (1, OffsetAt::Earliest),
        (1, OffsetAt::Latest),
        (0, OffsetAt::Latest),
        (1, at(5)),
        (1, OffsetAt::Timestamp(1_700_000_006_001)),
        (1, at(0)),
        (1, at(1000)),
        (0, at(0)),
        (1, at(2000)),
    ];
    let offsets = cluster.kafka().offsets("places", &places).await;
    assert_eq!(offsets, Ok(vec![3, 10, 0, 5, 7, 3, 10, 0, 10]));
    assert_eq!(cluster.kafka().offsets("places", &[]).await, Ok(vec![]));
}

pub(crate) async fn commit_reaches_the_group(cluster: &dyn Cluster) {
    cluster.make_topic("commits", 2).await;
    cluster.append("commits", 1, &values(0..5)).await;
    let mut consumer = cluster.kafka().consumer("commits", &options(Isolation::ReadCommitted)).unwrap();
    consumer.assign(1, 0);
    let (_, next) = read(&mut consumer, 1).await;
    consumer.commit(&[(1, next)]);
    // A broker is asked until it has it: a commit is not awaited.
    let mut committed = None;
    for _ in 0..400 {
        committed = cluster.committed("readers", "commits", 1).await;
        if committed.is_some() {
            break;
        }
    }
    assert_eq!(committed, Some(5));
}

//! The semantics of `GroupMember`, whoever implements it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use swiftwater_kafka::{
    CommittedOffset, GroupEvent, GroupMember, GroupProtocol, Kafka, KafkaErrorKind, MemberOptions,
    TopicPartition,
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::timeout,
};

use crate::cluster::{Cluster, PATIENCE};

type Partitions = BTreeSet<TopicPartition>;
type Commits = Vec<(TopicPartition, u64, String)>;

/// The members of one group, and the partitions that each may use. No partition may be used by two.
struct Group {
    kafka: Arc<dyn Kafka>,
    options: MemberOptions,
    owners: watch::Sender<BTreeMap<TopicPartition, String>>,
}

/// A member that a task runs.
struct Running {
    name: String,
    kafka: Arc<dyn Kafka>,
    group: String,
    commands: mpsc::UnboundedSender<Command>,
    events: Arc<Mutex<Vec<GroupEvent>>>,
    task: JoinHandle<()>,
}

enum Command {
    Subscribe(Vec<String>),
    Commit(Commits),
    /// After the next revocation, wait for another command before calling `next`.
    WaitAfterRevocation,
    GoOn,
    Leave,
}

fn partitions(topics: &[(&str, u32)]) -> Partitions {
    let of = |(topic, count): &(&str, u32)| {
        let topic: Arc<str> = (*topic).into();
        (0..*count)
            .map(move |partition| TopicPartition::new(Arc::clone(&topic), partition))
            .collect::<Vec<_>>()
    };
    topics.iter().flat_map(of).collect()
}

/// A name of its own for each protocol.
fn named(name: &str, protocol: GroupProtocol) -> String {
    format!("{name}-{protocol:?}").to_lowercase()
}

/// Cases that run with both protocols at once.
macro_rules! with_both_protocols {
    ($($case:ident: $with:ident,)*) => {
        $(
            pub(crate) async fn $case(cluster: &dyn Cluster) {
                tokio::join!(
                    $with(cluster, GroupProtocol::Classic),
                    $with(cluster, GroupProtocol::Consumer),
                );
            }
        )*
    };
}
with_both_protocols! {
    members_share_partitions_evenly: share_evenly,
    third_member_disturbs_no_more_than_needed: disturb_little,
    partitions_of_a_member_that_leaves_go_to_the_rest: leave,
    member_without_partitions_leaves_at_once: leave_idle,
    revoked_partition_moves_after_the_next_call: move_after_release,
    commit_is_read_back_with_its_text: commit_texts,
    static_member_comes_back_to_its_partitions: come_back,
    earlier_static_member_of_a_name_fails: fail_with_a_name,
    subscription_can_change: change_subscription,
    new_partitions_are_assigned: grow,
}

impl Group {
    fn new(cluster: &dyn Cluster, group: &str, topics: &[&str], protocol: GroupProtocol) -> Group {
        let options = MemberOptions {
            group: group.to_owned(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            instance_id: None,
            client_id: None,
            session_timeout: Duration::from_secs(6),
            protocol,
        };
        Group { kafka: cluster.kafka(), options, owners: watch::Sender::new(BTreeMap::new()) }
    }

    /// Starts a member of this `client.id`.
    fn start(&self, name: &str) -> Running {
        self.start_with(name, MemberOptions { client_id: Some(name.to_owned()), ..self.options.clone() })
    }

    fn start_static(&self, name: &str) -> Running {
        let options = MemberOptions { instance_id: Some(name.to_owned()), ..self.options.clone() };
        self.start_with(name, options)
    }

    fn start_with(&self, name: &str, options: MemberOptions) -> Running {
        let member = self.kafka.member(&options).unwrap();
        let (commands, received) = mpsc::unbounded_channel();
        let events: Arc<Mutex<Vec<GroupEvent>>> = Arc::default();
        let runner = Runner {
            name: name.to_owned(),
            owners: self.owners.clone(),
            events: Arc::clone(&events),
            member,
            commands: received,
            waits_after_revocation: false,
        };
        let (kafka, group) = (Arc::clone(&self.kafka), self.options.group.clone());
        Running { name: name.to_owned(), kafka, group, commands, events, task: tokio::spawn(runner.run()) }
    }

    /// Waits until the owners of partitions are as wanted, by the partitions of each member.
    async fn until(
        &self,
        is_wanted: impl Fn(&BTreeMap<&str, Partitions>) -> bool,
    ) -> BTreeMap<String, Partitions> {
        let by_member = |owners: &BTreeMap<TopicPartition, String>| {
            let mut members: BTreeMap<String, Partitions> = BTreeMap::new();
            for (partition, name) in owners {
                members.entry(name.clone()).or_default().insert(partition.clone());
            }
            members
        };
        let mut owners = self.owners.subscribe();
        let reached = owners.wait_for(|owners| {
            let members = by_member(owners);
            is_wanted(&members.iter().map(|(name, partitions)| (name.as_str(), partitions.clone())).collect())
        });
        match timeout(PATIENCE, reached).await {
            Ok(reached) => by_member(&reached.unwrap()),
            Err(_) => panic!("the group has in the end: {:?}", by_member(&self.owners.borrow())),
        }
    }

    /// Waits until so many members have these partitions between them, evenly.
    async fn until_even(&self, all: &Partitions, members: usize) -> BTreeMap<String, Partitions> {
        self.until(|owners| {
            let sizes: Vec<usize> = owners.values().map(BTreeSet::len).collect();
            let owned: usize = sizes.iter().sum();
            sizes.len() == members
                && owned == all.len()
                && owners.values().flatten().all(|partition| all.contains(partition))
                && sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1
        })
        .await
    }
}

impl Running {
    fn send(&self, command: Command) {
        assert!(self.commands.send(command).is_ok(), "the member runs");
    }

    fn events(&self) -> Vec<GroupEvent> {
        self.events.lock().unwrap().clone()
    }

    /// The number of partitions that were revoked so far.
    fn revoked(&self) -> usize {
        let revoked = |event: &GroupEvent| match event {
            GroupEvent::Revoked(partitions) => partitions.len(),
            _ => 0,
        };
        self.events().iter().map(revoked).sum()
    }

    async fn committed(&self, partitions: Vec<TopicPartition>) -> Vec<Option<CommittedOffset>> {
        self.kafka.group_offsets(&self.group, &partitions).await.unwrap()
    }

    async fn leave(self) {
        self.send(Command::Leave);
        timeout(PATIENCE, self.task).await.unwrap().unwrap();
    }

    /// Drops the member.
    async fn end(self) {
        drop(self.commands);
        timeout(PATIENCE, self.task).await.unwrap().unwrap();
    }
}

/// The task of a member.
struct Runner {
    name: String,
    owners: watch::Sender<BTreeMap<TopicPartition, String>>,
    events: Arc<Mutex<Vec<GroupEvent>>>,
    member: Box<dyn GroupMember>,
    commands: mpsc::UnboundedReceiver<Command>,
    waits_after_revocation: bool,
}

impl Runner {
    async fn run(mut self) {
        let mut revoked = Vec::new();
        loop {
            self.release(&revoked);
            revoked.clear();
            let event = tokio::select! {
                event = self.member.next() => event,
                command = self.commands.recv() => match command {
                    Some(Command::Leave) => {
                        self.release_all();
                        return self.member.leave().await;
                    }
                    Some(command) => {
                        self.obey(command).await;
                        continue;
                    }
                    None => {
                        self.release_all();
                        return;
                    }
                },
            };
            self.events.lock().unwrap().push(event.clone());
            match event {
                GroupEvent::Assigned(partitions) => self.add(&partitions),
                GroupEvent::Revoked(partitions) => {
                    revoked = partitions;
                    if std::mem::take(&mut self.waits_after_revocation) {
                        while let Some(command) = self.commands.recv().await {
                            if matches!(command, Command::GoOn) {
                                break;
                            }
                            self.obey(command).await;
                        }
                    }
                }
                GroupEvent::Lost(partitions) => self.release(&partitions),
                GroupEvent::Waiting(error) => println!("{} waits: {error}", self.name),
                GroupEvent::Failed(_) => return self.release_all(),
            }
        }
    }

    async fn obey(&mut self, command: Command) {
        match command {
            Command::Subscribe(topics) => self.member.subscribe(&topics),
            Command::Commit(offsets) => self.member.commit(&offsets),
            Command::WaitAfterRevocation => self.waits_after_revocation = true,
            Command::GoOn | Command::Leave => {}
        }
    }

    fn add(&self, partitions: &[TopicPartition]) {
        self.owners.send_modify(|owners| {
            for partition in partitions {
                let before = owners.insert(partition.clone(), self.name.clone());
                assert_eq!(before, None, "{partition:?} is assigned to {}", self.name);
            }
        });
    }

    fn release(&self, partitions: &[TopicPartition]) {
        if !partitions.is_empty() {
            self.owners.send_modify(|owners| owners.retain(|partition, _| !partitions.contains(partition)));
        }
    }

    fn release_all(&self) {
        self.owners.send_modify(|owners| owners.retain(|_, name| *name != self.name));
    }
}

/// The event that is searched, when a member has had it.
async fn had<T>(member: &Running, search: impl Fn(&GroupEvent) -> Option<T>) -> T {
    let found = timeout(PATIENCE, async {
        loop {
            if let Some(found) = member.events().iter().find_map(&search) {
                return found;
            }
            tokio::task::yield_now().await;
        }
    });
    found.await.unwrap_or_else(|_| panic!("{} has had {:?}", member.name, member.events()))
}

async fn share_evenly(cluster: &dyn Cluster, protocol: GroupProtocol) {
    let (a, b) = (&named("shared-a", protocol), &named("shared-b", protocol));
    cluster.make_topic(a, 4).await;
    cluster.make_topic(b, 2).await;
    let all = partitions(&[(a, 4), (b, 2)]);
    let group = Group::new(cluster, a, &[a, b], protocol);
    let one = group.start("one");
    group.until(|owners| owners.get("one") == Some(&all)).await;
    let two = group.start("two");
    let owners = group.until_even(&all, 2).await;
    let described = cluster.kafka().group(a).await.unwrap();
    assert_eq!(described.len(), 2, "{described:?}");
    for member in described {
        let partitions: Partitions = member.partitions.iter().cloned().collect();
        assert_eq!(owners.get(&member.client_id), Some(&partitions), "{member:?}");
        assert!(member.instance_id.is_none() && !member.id.is_empty() && member.host.starts_with('/'));
    }
    one.end().await;
    two.end().await;
}

async fn disturb_little(cluster: &dyn Cluster, protocol: GroupProtocol) {
    let topic = &named("third", protocol);
    cluster.make_topic(topic, 6).await;
    let all = partitions(&[(topic, 6)]);
    let group = Group::new(cluster, topic, &[topic], protocol);
    let one = group.start("one");
    group.until_even(&all, 1).await;
    let two = group.start("two");
    let before = group.until_even(&all, 2).await;
    assert_eq!((one.revoked(), two.revoked()), (3, 0));
    let three = group.start("three");
    let after = group.until_even(&all, 3).await;
    assert_eq!((one.revoked(), two.revoked(), three.revoked()), (4, 1, 0));
    for name in ["one", "two"] {
        assert!(after[name].is_subset(&before[name]), "{before:?} {after:?}");
    }
    for member in [one, two, three] {
        member.end().await;
    }
}

async fn leave(cluster: &dyn Cluster, protocol: GroupProtocol) {
    let topic = &named("leaving", protocol);
    cluster.make_topic(topic, 6).await;
    let all = partitions(&[(topic, 6)]);
    let group = Group::new(cluster, topic, &[topic], protocol);
    let (one, two, three) = (group.start("one"), group.start("two"), group.start("three"));
    group.until_even(&all, 3).await;
    three.leave().await;
    group.until_even(&all, 2).await;
    two.end().await;
    group.until(|owners| owners.get("one") == Some(&all)).await;
    one.leave().await;
    assert_eq!(cluster.kafka().group(topic).await, Ok(Vec::new()));
}

/// A member that leaves is not waited for until its session ends, whether it has partitions or not.
async fn leave_idle(cluster: &dyn Cluster, protocol: GroupProtocol) {
    let topic = &named("idle", protocol);
    cluster.make_topic(topic, 1).await;
    let all = partitions(&[(topic, 1)]);
    let group = Group::new(cluster, topic, &[topic], protocol);
    let busy = group.start("busy");
    group.until(|owners| owners.get("busy") == Some(&all)).await;
    let kafka = cluster.kafka();
    let members = async |count: usize| {
        let reached = timeout(group.options.session_timeout / 2, async {
            loop {
                let members = kafka.group(topic).await.unwrap();
                if members.len() == count {
                    return;
                }
                tokio::task::yield_now().await;
            }
        });
        let members = reached.await.map_err(|_| ());
        assert_eq!(members, Ok(()), "the group has {:?}", kafka.group(topic).await);
    };
    for _ in 0..3 {
        let idle = group.start("idle");
        members(2).await;
        idle.leave().await;
        members(1).await;
    }
    busy.leave().await;
    members(0).await;
}

async fn move_after_release(cluster: &dyn Cluster, protocol: GroupProtocol) {
    let topic = &named("moving", protocol);
    cluster.make_topic(topic, 2).await;
    let all = partitions(&[(topic, 2)]);
    let group = Group::new(cluster, topic, &[topic], protocol);
    let one = group.start("one");
    group.until_even(&all, 1).await;
    one.send(Command::WaitAfterRevocation);
    let two = group.start("two");
    // The table of owners fails if the second member is assigned what the first one has not released.
    let revoked = had(&one, |event| match event {
        GroupEvent::Revoked(partitions) => Some(partitions.clone()),
        _ => None,
    });
    let revoked = revoked.await;
    assert_eq!(revoked.len(), 1);
    for round in 0..20 {
        one.send(Command::Commit(vec![(revoked[0].clone(), round, format!("round {round}"))]));
        one.committed(revoked.clone()).await;
    }
    assert_eq!(two.events(), [], "{protocol:?}");
    one.send(Command::GoOn);
    group.until_even(&all, 2).await;
    assert_eq!(two.events(), [GroupEvent::Assigned(revoked.clone())]);
    // The commit precedes the release.
    assert_eq!(two.committed(revoked.clone()).await, [Some((19, "round 19".to_owned()))]);
    // It is not the first one's any more.
    one.send(Command::Commit(vec![(revoked[0].clone(), 5, String::new())]));
    let is_refused = |event: &GroupEvent| match event {
        GroupEvent::Waiting(error) => {
            error.to_string().contains("is not assigned to this member").then_some(())
        }
        _ => None,
    };
    had(&one, is_refused).await;
    assert_eq!(two.committed(revoked).await, [Some((19, "round 19".to_owned()))]);
    one.end().await;
    two.end().await;
}

async fn commit_texts(cluster: &dyn Cluster, protocol: GroupProtocol) {
    let topic = &named("texts", protocol);
    cluster.make_topic(topic, 3).await;
    let all = partitions(&[(topic, 3)]);
    let group = Group::new(cluster, topic, &[topic], protocol);
    let one = group.start("one");
    group.until_even(&all, 1).await;
    let at = |partition| TopicPartition::new(topic.as_str(), partition);
    let text = "é\"{}\n".repeat(300);
    one.send(Command::Commit(vec![(at(2), 7, text.clone()), (at(0), 0, String::new())]));
    one.send(Command::Commit(vec![(at(2), 8, text.clone())]));
    one.leave().await;
    let two = group.start("two");
    group.until_even(&all, 1).await;
    let committed = two.committed(vec![at(0), at(1), at(2), at(0)]).await;
    let nothing = Some((0, String::new()));
    assert_eq!(committed, [nothing.clone(), None, Some((8, text)), nothing]);
    two.end().await;
}

async fn come_back(cluster: &dyn Cluster, protocol: GroupProtocol) {
    let topic = &named("static", protocol);
    cluster.make_topic(topic, 4).await;
    let all = partitions(&[(topic, 4)]);
    let group = Group::new(cluster, topic, &[topic], protocol);
    let one = group.start_static("one");
    let two = group.start_static("two");
    let before = group.until_even(&all, 2).await;
    let events = two.events();
    one.leave().await;
    group.until(|owners| !owners.contains_key("one")).await;
    let one = group.start_static("one");
    let after = group.until_even(&all, 2).await;
    assert_eq!(after, before);
    assert_eq!(two.events(), events);
    let described = cluster.kafka().group(topic).await.unwrap();
    let names: BTreeSet<Option<String>> = described.into_iter().map(|member| member.instance_id).collect();
    assert_eq!(names, BTreeSet::from([Some("one".to_owned()), Some("two".to_owned())]));
    one.end().await;
    two.end().await;
}

async fn fail_with_a_name(cluster: &dyn Cluster, protocol: GroupProtocol) {
    let topic = &named("same-name", protocol);
    cluster.make_topic(topic, 2).await;
    let all = partitions(&[(topic, 2)]);
    let group = Group::new(cluster, topic, &[topic], protocol);
    let one = group.start_static("same");
    group.until_even(&all, 1).await;
    // It may be assigned what the first one has not noticed to have lost: it has a table of its own.
    let other = Group::new(cluster, topic, &[topic], protocol);
    let two = other.start_static("same");
    // The later one takes the name with the classic protocol, and does not get it with the other one.
    let failed = match protocol {
        GroupProtocol::Classic => &one,
        GroupProtocol::Consumer => &two,
    };
    let error = had(failed, |event| match event {
        GroupEvent::Failed(error) => Some(error.clone()),
        _ => None,
    });
    let error = error.await;
    assert!(error.to_string().contains("`same`"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("instance_id")), "{error:?}");
    one.end().await;
    two.end().await;
}

async fn change_subscription(cluster: &dyn Cluster, protocol: GroupProtocol) {
    let (a, b) = (&named("change-a", protocol), &named("change-b", protocol));
    cluster.make_topic(a, 2).await;
    cluster.make_topic(b, 2).await;
    let group = Group::new(cluster, a, &[a], protocol);
    let one = group.start("one");
    for topics in [&[a][..], &[b], &[a, b]] {
        let all = partitions(&topics.iter().map(|topic| (topic.as_str(), 2)).collect::<Vec<_>>());
        one.send(Command::Subscribe(topics.iter().map(|topic| topic.to_string()).collect()));
        group.until(|owners| owners.get("one") == Some(&all)).await;
    }
    one.end().await;
}

async fn grow(cluster: &dyn Cluster, protocol: GroupProtocol) {
    let topic = &named("growing", protocol);
    cluster.make_topic(topic, 2).await;
    let group = Group::new(cluster, topic, &[topic], protocol);
    let (one, two) = (group.start("one"), group.start("two"));
    group.until_even(&partitions(&[(topic, 2)]), 2).await;
    cluster.add_partitions(topic, 4).await;
    group.until_even(&partitions(&[(topic, 4)]), 2).await;
    one.end().await;
    two.end().await;
}

pub(crate) async fn unknown_topic_is_waited_for(cluster: &dyn Cluster) {
    cluster.make_topic("here", 1).await;
    // The broker may have the topic of an earlier run.
    let name = &format!("not-yet-{}", cluster.kafka().topic("here").await.unwrap().id);
    let group = Group::new(cluster, name, &["here", name], GroupProtocol::Classic);
    let one = group.start("one");
    let here = partitions(&[("here", 1)]);
    group.until(|owners| owners.get("one") == Some(&here)).await;
    let is_reported = |event: &GroupEvent| match event {
        GroupEvent::Waiting(error) => {
            let is_unknown = error.kind() == &KafkaErrorKind::UnknownTopic;
            (is_unknown && error.to_string().contains(&format!("`{name}`"))).then_some(())
        }
        _ => None,
    };
    had(&one, is_reported).await;
    cluster.kafka().create_topic(name, 1, &[]).await.unwrap();
    let both = partitions(&[("here", 1), (name, 1)]);
    group.until(|owners| owners.get("one") == Some(&both)).await;
    assert_eq!(one.revoked(), 0);
    one.end().await;
}

pub(crate) async fn unknown_group_has_no_members(cluster: &dyn Cluster) {
    assert_eq!(cluster.kafka().group("there-is-none").await, Ok(Vec::new()));
}

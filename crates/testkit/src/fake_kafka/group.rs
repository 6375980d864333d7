//! Consumer groups of a [`FakeKafka`].
//!
//! The broker's side has a target for each member, which changes at once when members, subscriptions or topics do. The
//! member's side moves towards the target with each call of `next`: it first returns what is revoked, and is assigned a
//! partition only when no other member has it. Sessions end by [`FakeKafka::expire`] alone.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use async_trait::async_trait;
use swiftwater_kafka::{
    GroupEvent, GroupMember, GroupProtocol, KafkaError, KafkaErrorKind, MemberDescription, MemberOptions,
    TopicPartition,
};
use tokio::sync::watch;

use super::{FakeKafka, State, unknown_topic, unreachable};

/// A group. Members have numbers, which grow and are not used again.
#[derive(Debug, Default)]
pub(super) struct Group {
    members: BTreeMap<u64, Member>,
    members_made: u64,
    /// Members whose name as a static member another one has now.
    fenced: HashSet<u64>,
}

/// A member as the broker knows it.
#[derive(Debug)]
struct Member {
    client: String,
    instance_id: Option<String>,
    /// A static member that has ended, and whose session has not.
    has_ended: bool,
    topics: BTreeSet<String>,
    /// The partitions that it may have in the end.
    target: BTreeSet<TopicPartition>,
    /// The partitions that it was assigned and has not released.
    owned: BTreeSet<TopicPartition>,
}

impl Group {
    fn is_owned_by_another(&self, member: u64, partition: &TopicPartition) -> bool {
        self.members.iter().any(|(number, other)| *number != member && other.owned.contains(partition))
    }

    /// Computes the targets anew: each member keeps what it has, partitions without a member go to those with the fewest, and
    /// the members with the most give some to those with the fewest until they differ by one at most.
    fn rebalance(&mut self, partitions: &BTreeSet<TopicPartition>) {
        let mut free = partitions.clone();
        for member in self.members.values_mut() {
            let topics = &member.topics;
            member
                .target
                .retain(|partition| partitions.contains(partition) && topics.contains(&*partition.topic));
            for partition in &member.target {
                free.remove(partition);
            }
        }
        for partition in free {
            if let Some(member) = self.fewest_for(&partition)
                && let Some(member) = self.members.get_mut(&member)
            {
                member.target.insert(partition);
            }
        }
        while let Some((partition, from, to)) = self.next_move() {
            for (member, has_it) in [(from, false), (to, true)] {
                let Some(member) = self.members.get_mut(&member) else { continue };
                if has_it {
                    member.target.insert(partition.clone());
                } else {
                    member.target.remove(&partition);
                }
            }
        }
    }

    /// The member with the fewest partitions of those that read a topic; the first to have joined of several.
    fn fewest_for(&self, partition: &TopicPartition) -> Option<u64> {
        let readers = self.members.iter().filter(|(_, member)| member.topics.contains(&*partition.topic));
        readers.min_by_key(|(number, member)| (member.target.len(), **number)).map(|(number, _)| *number)
    }

    /// A partition whose move makes the group more even, with its member and its next one: the last partition of the
    /// fullest member that has such a one.
    fn next_move(&self) -> Option<(TopicPartition, u64, u64)> {
        let mut fullest: Vec<_> = self.members.iter().collect();
        fullest.sort_by_key(|(number, member)| (usize::MAX - member.target.len(), **number));
        for (from, member) in fullest {
            for partition in member.target.iter().rev() {
                let to = self.fewest_for(partition)?;
                if self.members[&to].target.len() + 1 < member.target.len() {
                    return Some((partition.clone(), *from, to));
                }
            }
        }
        None
    }
}

impl State {
    /// All partitions of the topics that members of a group read.
    fn partitions_of(&self, group: &str) -> BTreeSet<TopicPartition> {
        let members = self.groups.get(group).into_iter().flat_map(|group| group.members.values());
        let topics: BTreeSet<&String> = members.flat_map(|member| &member.topics).collect();
        let partitions = topics.into_iter().flat_map(|name| {
            let count = self.topics.get(name).map_or(0, |topic| topic.partitions.len() as u32);
            (0..count).map(|partition| TopicPartition::new(name.as_str(), partition))
        });
        partitions.collect()
    }

    fn rebalance(&mut self, group: &str) {
        let partitions = self.partitions_of(group);
        if let Some(group) = self.groups.get_mut(group) {
            group.rebalance(&partitions);
        }
    }

    /// Computes the targets of all groups anew, after a change of topics.
    pub(super) fn rebalance_all(&mut self) {
        let groups: Vec<String> = self.groups.keys().cloned().collect();
        for group in groups {
            self.rebalance(&group);
        }
    }

    pub(super) fn has_members(&self, group: &str) -> bool {
        self.groups.get(group).is_some_and(|group| !group.members.is_empty())
    }

    /// Adds a member; its number. A static member takes the place of the one of the same name.
    fn join(
        &mut self,
        options: &MemberOptions,
        client: &str,
        topics: &BTreeSet<String>,
    ) -> Result<u64, KafkaError> {
        let group = self.groups.entry(options.group.clone()).or_default();
        let same_name = |(_, member): &(&u64, &Member)| {
            options.instance_id.is_some() && member.instance_id == options.instance_id
        };
        let before = group.members.iter().find(same_name).map(|(number, _)| *number);
        let mut member = Member {
            client: client.to_owned(),
            instance_id: options.instance_id.clone(),
            has_ended: false,
            topics: topics.clone(),
            target: BTreeSet::new(),
            owned: BTreeSet::new(),
        };
        if let Some(number) = before {
            let is_released = group.members[&number].has_ended;
            if options.protocol == GroupProtocol::Consumer && !is_released {
                return Err(fenced(options));
            }
            if let Some(before) = group.members.remove(&number) {
                member.target = before.target;
            }
            if !is_released {
                group.fenced.insert(number);
            }
        }
        group.members_made += 1;
        let number = group.members_made;
        group.members.insert(number, member);
        self.rebalance(&options.group);
        Ok(number)
    }

    /// Removes a member. A static one remains, as one that has ended.
    fn leave(&mut self, group: &str, number: u64) {
        let Some(found) = self.groups.get_mut(group) else { return };
        match found.members.get_mut(&number) {
            Some(member) if member.instance_id.is_some() => member.has_ended = true,
            _ => {
                found.members.remove(&number);
            }
        }
        self.rebalance(group);
    }

    /// Ends the sessions of a client's members.
    pub(super) fn expire(&mut self, client: &str) {
        for group in self.groups.values_mut() {
            group.members.retain(|_, member| member.client != client);
        }
        self.rebalance_all();
    }

    pub(super) fn describe(&self, group: &str) -> Vec<MemberDescription> {
        let Some(group) = self.groups.get(group) else { return Vec::new() };
        let describe = |(number, member): (&u64, &Member)| {
            let is_assigned = |partition: &&TopicPartition| !group.is_owned_by_another(*number, partition);
            MemberDescription {
                id: format!("{}-{number:04}", member.client),
                instance_id: member.instance_id.clone(),
                client_id: member.client.clone(),
                host: "/127.0.0.1".to_owned(),
                partitions: member.target.iter().filter(is_assigned).cloned().collect(),
            }
        };
        let mut members: Vec<MemberDescription> = group.members.iter().map(describe).collect();
        members.sort_by(|one, other| one.id.cmp(&other.id));
        members
    }
}

fn fenced(options: &MemberOptions) -> KafkaError {
    let name = options.instance_id.as_deref().unwrap_or_default();
    let text = format!("another member of group `{}` at Kafka `fake` has the name `{name}`", options.group);
    KafkaError::new(KafkaErrorKind::Other, text)
        .with_hint("Two programs have the same `instance_id`: end one of them, or give it another name.")
}

/// The member's side of a membership.
#[derive(Debug)]
pub(super) struct FakeMember {
    kafka: FakeKafka,
    options: MemberOptions,
    client: String,
    topics: BTreeSet<String>,
    /// None before it has joined, and after its session has ended.
    number: Option<u64>,
    owned: BTreeSet<TopicPartition>,
    /// Of those, the ones that were returned as revoked.
    revoked: BTreeSet<TopicPartition>,
    /// Commits of a client that is frozen.
    commits: Vec<(TopicPartition, u64, String)>,
    /// Errors of commits.
    errors: VecDeque<KafkaError>,
    failure: Option<KafkaError>,
    reported_away: bool,
    /// The unknown topics that were reported.
    reported_topics: BTreeSet<String>,
    version: watch::Receiver<u64>,
}

impl FakeMember {
    pub(super) fn new(kafka: &FakeKafka, options: &MemberOptions) -> FakeMember {
        FakeMember {
            kafka: kafka.clone(),
            client: options.client_id.clone().unwrap_or_else(|| kafka.client.to_string()),
            topics: options.topics.iter().cloned().collect(),
            options: options.clone(),
            number: None,
            owned: BTreeSet::new(),
            revoked: BTreeSet::new(),
            commits: Vec::new(),
            errors: VecDeque::new(),
            failure: None,
            reported_away: false,
            reported_topics: BTreeSet::new(),
            version: kafka.shared.version.subscribe(),
        }
    }

    /// True if nothing of what it sends arrives.
    fn is_cut_off(&self, state: &State) -> bool {
        state.is_away(&self.kafka.client) || state.is_away(&self.client)
    }

    fn is_frozen(&self, state: &State) -> bool {
        state.is_frozen(&self.kafka.client) || state.is_frozen(&self.client)
    }

    fn poll(&mut self) -> Option<GroupEvent> {
        let kafka = self.kafka.clone();
        let mut state = kafka.lock();
        if self.is_frozen(&state) {
            return None;
        }
        self.write_commits(&mut state);
        for partition in std::mem::take(&mut self.revoked) {
            self.owned.remove(&partition);
        }
        if let Some(failure) = &self.failure {
            return Some(GroupEvent::Failed(failure.clone()));
        }
        if self.is_cut_off(&state) {
            let was_reported = std::mem::replace(&mut self.reported_away, true);
            return (!was_reported).then(|| GroupEvent::Waiting(unreachable()));
        }
        self.reported_away = false;
        let version = state.version;
        let event = self.step(&mut state);
        if state.version != version {
            kafka.shared.version.send_replace(state.version);
        }
        event
    }

    /// The next event of a member whose broker is there.
    fn step(&mut self, state: &mut State) -> Option<GroupEvent> {
        if let Some(lost) = self.check_session(state) {
            return Some(lost);
        }
        let number = match self.number {
            Some(number) => number,
            None => match state.join(&self.options, &self.client, &self.topics) {
                Ok(number) => {
                    state.version += 1;
                    *self.number.insert(number)
                }
                Err(error) => {
                    self.failure = Some(error.clone());
                    return Some(GroupEvent::Failed(error));
                }
            },
        };
        if let Some(error) = self.errors.pop_front() {
            return Some(GroupEvent::Waiting(error));
        }
        let group = state.groups.get_mut(&self.options.group)?;
        let member = group.members.get_mut(&number)?;
        let is_changed = member.owned != self.owned || member.topics != self.topics;
        if is_changed {
            member.owned.clone_from(&self.owned);
            member.topics.clone_from(&self.topics);
            state.rebalance(&self.options.group);
            state.version += 1;
        }
        let group = state.groups.get_mut(&self.options.group)?;
        let target = group.members.get(&number)?.target.clone();
        let revoked: BTreeSet<TopicPartition> = self.owned.difference(&target).cloned().collect();
        if !revoked.is_empty() {
            self.revoked = revoked;
            return Some(GroupEvent::Revoked(self.revoked.iter().cloned().collect()));
        }
        let added = target.difference(&self.owned);
        let added: Vec<TopicPartition> =
            added.filter(|partition| !group.is_owned_by_another(number, partition)).cloned().collect();
        if !added.is_empty() {
            self.owned.extend(added.iter().cloned());
            group.members.get_mut(&number)?.owned.clone_from(&self.owned);
            return Some(GroupEvent::Assigned(added));
        }
        self.missing_topic(state)
    }

    /// Ends the membership if its session has ended, or another member has its name.
    fn check_session(&mut self, state: &State) -> Option<GroupEvent> {
        let number = self.number?;
        let group = state.groups.get(&self.options.group)?;
        if group.members.contains_key(&number) {
            return None;
        }
        self.number = None;
        if group.fenced.contains(&number) {
            let error = fenced(&self.options);
            self.failure = Some(error.clone());
            return Some(GroupEvent::Failed(error));
        }
        let lost: Vec<TopicPartition> = std::mem::take(&mut self.owned).into_iter().collect();
        (!lost.is_empty()).then_some(GroupEvent::Lost(lost))
    }

    /// Reports an unknown topic once.
    fn missing_topic(&mut self, state: &State) -> Option<GroupEvent> {
        self.reported_topics.retain(|topic| !state.topics.contains_key(topic));
        let is_new =
            |topic: &&String| !state.topics.contains_key(*topic) && !self.reported_topics.contains(*topic);
        let missing = self.topics.iter().find(is_new)?.clone();
        self.reported_topics.insert(missing.clone());
        Some(GroupEvent::Waiting(unknown_topic(&missing)))
    }

    /// Writes the commits, or adds the reason why they are not written.
    fn write_commits(&mut self, state: &mut State) {
        let commits = std::mem::take(&mut self.commits);
        let is_member = self.number.is_some_and(|number| {
            let group = state.groups.get(&self.options.group);
            group.is_some_and(|group| group.members.contains_key(&number))
        });
        let error = if commits.is_empty() {
            None
        } else if self.is_cut_off(state) {
            Some(unreachable())
        } else if !is_member || commits.iter().any(|(partition, ..)| !self.owned.contains(partition)) {
            let text = format!(
                "offsets are not committed: a partition is not assigned to this member of group `{}`",
                self.options.group
            );
            Some(KafkaError::new(KafkaErrorKind::Other, text))
        } else {
            None
        };
        if let Some(error) = error {
            if self.errors.back() != Some(&error) {
                self.errors.push_back(error);
            }
            return;
        }
        for (partition, next, text) in commits {
            let place = (self.options.group.clone(), partition.topic.to_string(), partition.partition);
            state.commits.insert(place, (next, text));
        }
    }

    /// Ends the membership. A client that cannot reach the broker, or is frozen, does not leave: its session ends later.
    fn end(&mut self) {
        let Some(number) = self.number.take() else { return };
        let kafka = self.kafka.clone();
        kafka.change(|state| {
            let is_away = self.is_cut_off(state) || self.is_frozen(state);
            if !is_away {
                state.leave(&self.options.group, number);
            }
        });
    }
}

#[async_trait]
impl GroupMember for FakeMember {
    async fn next(&mut self) -> GroupEvent {
        loop {
            self.version.borrow_and_update();
            if let Some(event) = self.poll() {
                return event;
            }
            // The sender is a part of `self.kafka`, and so lives.
            let _ = self.version.changed().await;
        }
    }

    fn subscribe(&mut self, topics: &[String]) {
        self.topics = topics.iter().cloned().collect();
    }

    fn commit(&mut self, offsets: &[(TopicPartition, u64, String)]) {
        self.commits.extend_from_slice(offsets);
        let kafka = self.kafka.clone();
        let mut state = kafka.lock();
        if !self.is_frozen(&state) {
            self.write_commits(&mut state);
        }
    }

    async fn leave(mut self: Box<Self>) {
        self.kafka.until_thawed(&self.client).await;
        self.end();
    }
}

impl Drop for FakeMember {
    fn drop(&mut self) {
        self.end();
    }
}

//! Calls to the cluster beside reading and writing: the description of a topic, its creation, the offsets of places in
//! partitions, and the members and offsets of a group.
//!
//! A call is started on a queue of its own, which wakes the caller when the answer is there; nothing blocks.

use std::{ffi::CStr, slice, sync::Arc};

use rdkafka_sys as sys;

use super::{
    errors::{Code, Place},
    native::{Handle, PartitionList, Queue, Wake, c_text, elements, text_at, text_in, topic_partitions},
};
use crate::{
    CommittedOffset, Isolation, KafkaError, KafkaErrorKind, MemberDescription, OffsetAt, Topic, TopicId,
    TopicPartition, connection::configuration,
};

/// The time that a broker has to answer, connecting included.
pub(super) const CALL_TIMEOUT_MS: i32 = 15_000;

/// The time of a call about a group in librdkafka, the longest that it accepts: the caller must give it up earlier, and end
/// the client. See `GroupCallGuard`.
const GROUP_CALL_TIMEOUT_MS: i32 = 3_600_000;

/// The answer to a call about a group.
pub(super) enum GroupAnswer<T> {
    Found(T),
    /// The coordinator of the group is not known, or does not serve so far: call again.
    NotReady(KafkaError),
}

/// The outcome of a call about a group.
pub(super) type GroupResult<T> = Result<GroupAnswer<T>, KafkaError>;

/// A call that waits for its answer.
pub(super) struct Call {
    queue: Queue,
}

/// The answer to a call.
struct Answer {
    raw: *mut sys::rd_kafka_event_t,
}

impl Drop for Answer {
    fn drop(&mut self) {
        // SAFETY: it is alive, and what was read of it is copied.
        unsafe { sys::rd_kafka_event_destroy(self.raw) }
    }
}

struct CallOptions {
    raw: *mut sys::rd_kafka_AdminOptions_t,
}

impl CallOptions {
    fn new(handle: &Handle, call: sys::rd_kafka_admin_op_t) -> CallOptions {
        CallOptions::with_timeout(handle, call, CALL_TIMEOUT_MS)
    }

    fn with_timeout(handle: &Handle, call: sys::rd_kafka_admin_op_t, timeout_ms: i32) -> CallOptions {
        // SAFETY: the handle is alive, and the timeout is in the range of the client; its text needs no buffer.
        unsafe {
            let raw = sys::rd_kafka_AdminOptions_new(handle.raw(), call);
            let mut reason = [0; 128];
            sys::rd_kafka_AdminOptions_set_request_timeout(
                raw,
                timeout_ms,
                reason.as_mut_ptr(),
                reason.len(),
            );
            CallOptions { raw }
        }
    }
}

impl Drop for CallOptions {
    fn drop(&mut self) {
        // SAFETY: it is alive, and the client has copied it.
        unsafe { sys::rd_kafka_AdminOptions_destroy(self.raw) }
    }
}

impl Call {
    /// Asks for a topic's description. It does not create the topic.
    pub(super) fn describe(handle: &Arc<Handle>, topic: &CStr, wake: Wake) -> Call {
        let queue = Queue::new(handle, wake);
        let options = CallOptions::new(handle, sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
        let mut names = [topic.as_ptr()];
        // SAFETY: the client copies the names and the options.
        unsafe {
            let topics = sys::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len());
            sys::rd_kafka_DescribeTopics(handle.raw(), topics, options.raw, queue.raw());
            sys::rd_kafka_TopicCollection_destroy(topics);
        }
        Call { queue }
    }

    /// Asks for a new topic.
    pub(super) fn create(
        handle: &Arc<Handle>,
        name: &str,
        partitions: u32,
        properties: &[(&str, &str)],
        wake: Wake,
    ) -> Result<Call, KafkaError> {
        let topic = c_text(name, "topic")?;
        let texts = properties.iter().map(|(name, value)| Ok((c_text(name, name)?, c_text(value, name)?)));
        let texts = texts.collect::<Result<Vec<_>, KafkaError>>()?;
        let mut reason = [0; 256];
        // SAFETY: the topic is a C string, and the buffer has the stated length. -1: as many replicas as by default.
        let new = unsafe {
            let (text, length) = (reason.as_mut_ptr(), reason.len());
            sys::rd_kafka_NewTopic_new(topic.as_ptr(), partitions as i32, -1, text, length)
        };
        if new.is_null() {
            return Err(configuration(format!("`{name}` cannot be made: {}", text_in(&reason))));
        }
        let queue = Queue::new(handle, wake);
        let options = CallOptions::new(handle, sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_CREATETOPICS);
        // SAFETY: the client copies the texts, the topic and the options.
        unsafe {
            for (name, value) in &texts {
                sys::rd_kafka_NewTopic_set_config(new, name.as_ptr(), value.as_ptr());
            }
            let mut topics = [new];
            sys::rd_kafka_CreateTopics(handle.raw(), topics.as_mut_ptr(), 1, options.raw, queue.raw());
            sys::rd_kafka_NewTopic_destroy(new);
        }
        Ok(Call { queue })
    }

    /// Asks for the offsets of places, each in another partition.
    pub(super) fn offsets(
        handle: &Arc<Handle>,
        topic: &CStr,
        places: &[(u32, OffsetAt)],
        isolation: Isolation,
        wake: Wake,
    ) -> Call {
        let queue = Queue::new(handle, wake);
        let options = CallOptions::new(handle, sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTOFFSETS);
        let places = places.iter().map(|(partition, place)| {
            let offset = match place {
                OffsetAt::Earliest => sys::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_EARLIEST as i64,
                OffsetAt::Latest => sys::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_LATEST as i64,
                // Negative ones have other meanings; there are no messages before 1970.
                OffsetAt::Timestamp(millis) => (*millis).max(0),
            };
            (*partition, offset)
        });
        let list = PartitionList::new(topic, places);
        let level = match isolation {
            Isolation::ReadCommitted => {
                sys::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED
            }
            Isolation::ReadUncommitted => {
                sys::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_UNCOMMITTED
            }
        };
        // SAFETY: the client copies the list and the options. The level is valid for this call, so it returns no error.
        unsafe {
            let fault = sys::rd_kafka_AdminOptions_set_isolation_level(options.raw, level);
            if !fault.is_null() {
                sys::rd_kafka_error_destroy(fault);
            }
            sys::rd_kafka_ListOffsets(handle.raw(), list.raw(), options.raw, queue.raw());
        }
        Call { queue }
    }

    /// The answer, or the error of the whole call; `None` while it is awaited.
    fn answer(&self, place: Place<'_>) -> Option<Result<Answer, KafkaError>> {
        // SAFETY: the queue is alive, and the event is owned by the answer.
        let (answer, code, text) = unsafe {
            let raw = sys::rd_kafka_queue_poll(self.queue.raw(), 0);
            if raw.is_null() {
                return None;
            }
            let code = Code(sys::rd_kafka_event_error(raw) as i32);
            (Answer { raw }, code, text_at(sys::rd_kafka_event_error_string(raw)))
        };
        Some(if code == Code::NONE { Ok(answer) } else { Err(place.error(code, &text)) })
    }

    /// The description that [`Call::describe`] asked for.
    pub(super) fn topic(&self, place: Place<'_>) -> Option<Result<Topic, KafkaError>> {
        let answer = match self.answer(place)? {
            Ok(answer) => answer,
            Err(error) => return Some(Err(error)),
        };
        // SAFETY: the parts of the answer live as long as it does.
        unsafe {
            let result = sys::rd_kafka_event_DescribeTopics_result(answer.raw);
            let mut count = 0;
            let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
            if topics.is_null() || count == 0 {
                return Some(Err(place.error(Code(3), "")));
            }
            let topic = *topics;
            let error = sys::rd_kafka_TopicDescription_error(topic);
            if !error.is_null() {
                let code = Code(sys::rd_kafka_error_code(error) as i32);
                if code != Code::NONE {
                    return Some(Err(place.error(code, &text_at(sys::rd_kafka_error_string(error)))));
                }
            }
            let id = sys::rd_kafka_TopicDescription_topic_id(topic);
            let high = sys::rd_kafka_Uuid_most_significant_bits(id) as u64;
            let low = sys::rd_kafka_Uuid_least_significant_bits(id) as u64;
            let mut partitions = 0;
            sys::rd_kafka_TopicDescription_partitions(topic, &raw mut partitions);
            let id = TopicId(u128::from(high) << 64 | u128::from(low));
            Some(Ok(Topic { id, partitions: partitions as u32 }))
        }
    }

    /// The outcome of [`Call::create`]; a topic that exists is no error.
    pub(super) fn created(&self, place: Place<'_>) -> Option<Result<(), KafkaError>> {
        let answer = match self.answer(place)? {
            Ok(answer) => answer,
            Err(error) => return Some(Err(error)),
        };
        // SAFETY: the parts of the answer live as long as it does.
        let (code, text) = unsafe {
            let result = sys::rd_kafka_event_CreateTopics_result(answer.raw);
            let mut count = 0;
            let topics = sys::rd_kafka_CreateTopics_result_topics(result, &raw mut count);
            if topics.is_null() || count == 0 {
                return Some(Err(place.timeout()));
            }
            let code = Code(sys::rd_kafka_topic_result_error(*topics) as i32);
            (code, text_at(sys::rd_kafka_topic_result_error_string(*topics)))
        };
        Some(match code {
            Code::NONE | Code::TOPIC_EXISTS => Ok(()),
            code => Err(place.error(code, &text)),
        })
    }

    /// Asks for the properties of a topic.
    pub(super) fn properties(handle: &Arc<Handle>, topic: &CStr, wake: Wake) -> Call {
        let queue = Queue::new(handle, wake);
        let options = CallOptions::new(handle, sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
        let kind = sys::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_TOPIC;
        // SAFETY: the topic is a C string. The client copies the resource and the options.
        unsafe {
            let mut resources = [sys::rd_kafka_ConfigResource_new(kind, topic.as_ptr())];
            sys::rd_kafka_DescribeConfigs(
                handle.raw(),
                resources.as_mut_ptr(),
                resources.len(),
                options.raw,
                queue.raw(),
            );
            sys::rd_kafka_ConfigResource_destroy(resources[0]);
        }
        Call { queue }
    }

    /// The value of one of the properties that [`Call::properties`] asked for; none if the topic does not have it.
    pub(super) fn property(
        &self,
        name: &str,
        place: Place<'_>,
    ) -> Option<Result<Option<String>, KafkaError>> {
        let answer = match self.answer(place)? {
            Ok(answer) => answer,
            Err(error) => return Some(Err(error)),
        };
        // SAFETY: the parts of the answer live as long as it does.
        unsafe {
            let result = sys::rd_kafka_event_DescribeConfigs_result(answer.raw);
            let mut count = 0;
            let resources = sys::rd_kafka_DescribeConfigs_result_resources(result, &raw mut count);
            if resources.is_null() || count == 0 {
                return Some(Err(place.timeout()));
            }
            let resource = *resources;
            let code = Code(sys::rd_kafka_ConfigResource_error(resource) as i32);
            if code != Code::NONE {
                let text = text_at(sys::rd_kafka_ConfigResource_error_string(resource));
                return Some(Err(place.error(code, &text)));
            }
            let entries = sys::rd_kafka_ConfigResource_configs(resource, &raw mut count);
            let entries = if entries.is_null() { &[][..] } else { slice::from_raw_parts(entries, count) };
            let found = entries.iter().find(|entry| text_at(sys::rd_kafka_ConfigEntry_name(**entry)) == name);
            Some(Ok(found.map(|entry| text_at(sys::rd_kafka_ConfigEntry_value(*entry)))))
        }
    }

    /// The offsets that [`Call::offsets`] asked for, by partition; -1 if no message has the timestamp or a later one.
    pub(super) fn partition_offsets(&self, place: Place<'_>) -> Option<Result<Vec<(u32, i64)>, KafkaError>> {
        let answer = match self.answer(place)? {
            Ok(answer) => answer,
            Err(error) => return Some(Err(error)),
        };
        let mut offsets = Vec::new();
        // SAFETY: the parts of the answer live as long as it does.
        unsafe {
            let result = sys::rd_kafka_event_ListOffsets_result(answer.raw);
            let mut count = 0;
            let infos = sys::rd_kafka_ListOffsets_result_infos(result, &raw mut count);
            let infos = if infos.is_null() { &[][..] } else { slice::from_raw_parts(infos, count) };
            for info in infos {
                let partition = &*sys::rd_kafka_ListOffsetsResultInfo_topic_partition(*info);
                let code = Code(partition.err as i32);
                if code != Code::NONE {
                    return Some(Err(place.error(code, "")));
                }
                offsets.push((partition.partition as u32, partition.offset));
            }
        }
        Some(Ok(offsets))
    }

    /// Asks for the members of a group.
    pub(super) fn group(handle: &Arc<Handle>, group: &CStr, wake: Wake) -> Call {
        let queue = Queue::new(handle, wake);
        let call = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS;
        let options = CallOptions::with_timeout(handle, call, GROUP_CALL_TIMEOUT_MS);
        let mut names = [group.as_ptr()];
        // SAFETY: the client copies the names and the options.
        unsafe {
            let (names, count) = (names.as_mut_ptr(), names.len());
            sys::rd_kafka_DescribeConsumerGroups(handle.raw(), names, count, options.raw, queue.raw());
        }
        Call { queue }
    }

    /// The members that [`Call::group`] asked for; none if there is no such group.
    pub(super) fn members(&self, place: Place<'_>) -> Option<GroupResult<Vec<MemberDescription>>> {
        let answer = match self.answer(place)? {
            Ok(answer) => answer,
            Err(error) => return Some(not_ready(error)),
        };
        // SAFETY: the parts of the answer live as long as it does.
        unsafe {
            let result = sys::rd_kafka_event_DescribeConsumerGroups_result(answer.raw);
            let mut count = 0;
            let groups = sys::rd_kafka_DescribeConsumerGroups_result_groups(result, &raw mut count);
            if groups.is_null() || count == 0 {
                return Some(Err(place.timeout()));
            }
            let group = *groups;
            let error = sys::rd_kafka_ConsumerGroupDescription_error(group);
            if !error.is_null() {
                let code = Code(sys::rd_kafka_error_code(error) as i32);
                return Some(match code {
                    Code::UNKNOWN_GROUP => Ok(GroupAnswer::Found(Vec::new())),
                    code => not_ready(place.error(code, &text_at(sys::rd_kafka_error_string(error)))),
                });
            }
            let count = sys::rd_kafka_ConsumerGroupDescription_member_count(group);
            let members = (0..count)
                .map(|index| description(sys::rd_kafka_ConsumerGroupDescription_member(group, index)));
            let mut members: Vec<MemberDescription> = members.collect();
            members.sort_by(|one, other| one.id.cmp(&other.id));
            Some(Ok(GroupAnswer::Found(members)))
        }
    }

    /// Asks for the offsets that a group has committed, of partitions of which no two are the same.
    pub(super) fn committed(
        handle: &Arc<Handle>,
        group: &CStr,
        partitions: &[TopicPartition],
        wake: Wake,
    ) -> Call {
        let queue = Queue::new(handle, wake);
        let call = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS;
        let options = CallOptions::with_timeout(handle, call, GROUP_CALL_TIMEOUT_MS);
        let list = PartitionList::of_offsets(partitions.iter().map(|partition| (partition, 0, "")));
        // SAFETY: the client copies the group, the list and the options.
        unsafe {
            let mut wanted = [sys::rd_kafka_ListConsumerGroupOffsets_new(group.as_ptr(), list.raw())];
            let (groups, count) = (wanted.as_mut_ptr(), wanted.len());
            sys::rd_kafka_ListConsumerGroupOffsets(handle.raw(), groups, count, options.raw, queue.raw());
            sys::rd_kafka_ListConsumerGroupOffsets_destroy(wanted[0]);
        }
        Call { queue }
    }

    /// The offsets that [`Call::committed`] asked for.
    pub(super) fn committed_offsets(
        &self,
        place: Place<'_>,
    ) -> Option<GroupResult<Vec<(TopicPartition, CommittedOffset)>>> {
        let answer = match self.answer(place)? {
            Ok(answer) => answer,
            Err(error) => return Some(not_ready(error)),
        };
        let mut offsets = Vec::new();
        // SAFETY: the parts of the answer live as long as it does.
        unsafe {
            let result = sys::rd_kafka_event_ListConsumerGroupOffsets_result(answer.raw);
            let mut count = 0;
            let groups = sys::rd_kafka_ListConsumerGroupOffsets_result_groups(result, &raw mut count);
            if groups.is_null() || count == 0 {
                return Some(Err(place.timeout()));
            }
            let error = sys::rd_kafka_group_result_error(*groups);
            if !error.is_null() {
                let code = Code(sys::rd_kafka_error_code(error) as i32);
                return Some(match code {
                    Code::UNKNOWN_GROUP => Ok(GroupAnswer::Found(offsets)),
                    code => not_ready(place.error(code, &text_at(sys::rd_kafka_error_string(error)))),
                });
            }
            for element in elements(sys::rd_kafka_group_result_partitions(*groups)) {
                let topic = text_at(element.topic);
                let code = Code(element.err as i32);
                if code != Code::NONE {
                    return Some(Err(Place { topic: &topic, ..place }.error(code, "")));
                }
                // Negative if there is none.
                let Ok(next) = u64::try_from(element.offset) else { continue };
                let text = match element.metadata.is_null() {
                    true => &[][..],
                    false => slice::from_raw_parts(element.metadata.cast::<u8>(), element.metadata_size),
                };
                let partition = TopicPartition::new(topic, element.partition as u32);
                offsets.push((partition, (next, String::from_utf8_lossy(text).into_owned())));
            }
        }
        Some(Ok(GroupAnswer::Found(offsets)))
    }
}

/// The error of a call about a group: whether to call again.
fn not_ready<T>(error: KafkaError) -> GroupResult<T> {
    match error.kind() {
        KafkaErrorKind::Unreachable => Ok(GroupAnswer::NotReady(error)),
        _ => Err(error),
    }
}

/// A member's description.
///
/// # Safety
///
/// `member` is alive.
unsafe fn description(member: *const sys::rd_kafka_MemberDescription_t) -> MemberDescription {
    // SAFETY: as promised by the caller; the texts are null or C strings.
    unsafe {
        let instance_id = sys::rd_kafka_MemberDescription_group_instance_id(member);
        let assignment = sys::rd_kafka_MemberDescription_assignment(member);
        let mut partitions = match assignment.is_null() {
            true => Vec::new(),
            false => topic_partitions(sys::rd_kafka_MemberAssignment_partitions(assignment)),
        };
        partitions.sort();
        MemberDescription {
            id: text_at(sys::rd_kafka_MemberDescription_consumer_id(member)),
            instance_id: (!instance_id.is_null()).then(|| text_at(instance_id)),
            client_id: text_at(sys::rd_kafka_MemberDescription_client_id(member)),
            host: text_at(sys::rd_kafka_MemberDescription_host(member)),
            partitions,
        }
    }
}

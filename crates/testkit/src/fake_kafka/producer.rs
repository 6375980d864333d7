//! Producers of a [`FakeKafka`], with their transactions and their failures.

use async_trait::async_trait;
use swiftwater_kafka::{
    KafkaError, KafkaErrorKind, MessagePosition, NewMessage, Partitioner, Producer, ProducerOptions,
    SendError,
};

use super::{FakeKafka, FakeMessage, FakeTransaction, State, TransactionState, unknown_topic};

/// A failure of a call that sends messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendFault {
    /// Some of the messages are written, so many at most; with a transaction it stays open.
    Partly(usize),
    /// All messages are written and committed, and the acknowledgement is lost.
    AckLost,
}

/// A name under which transactions are written.
#[derive(Debug, Default)]
pub(super) struct Transactional {
    /// The number of producers of this name so far: the last one may write.
    epoch: u64,
    open: Option<FakeTransaction>,
}

/// A producer; `epoch` is none until it is open, and after a failure.
#[derive(Debug)]
pub(super) struct FakeProducer {
    kafka: FakeKafka,
    options: ProducerOptions,
    epoch: Option<u64>,
}

impl FakeProducer {
    pub(super) fn new(kafka: &FakeKafka, options: &ProducerOptions) -> FakeProducer {
        FakeProducer { kafka: kafka.clone(), options: options.clone(), epoch: None }
    }
}

#[async_trait]
impl Producer for FakeProducer {
    async fn open(&mut self) -> Result<(), KafkaError> {
        let id = self.options.transactional_id.clone();
        let topics = &self.options.topics;
        self.kafka.until_thawed(&self.kafka.client).await;
        let opened = self.kafka.change(|state| {
            state.check_call(&self.kafka.client)?;
            if let Some(topic) = topics.iter().find(|topic| !state.topics.contains_key(&***topic)) {
                return Err(unknown_topic(topic));
            }
            let Some(id) = id else { return Ok(0) };
            let transactional = state.transactionals.entry(id).or_default();
            transactional.epoch += 1;
            let epoch = transactional.epoch;
            if let Some(open) = transactional.open.take() {
                state.end_transaction(open, TransactionState::Aborted);
            }
            Ok(epoch)
        });
        self.epoch = Some(opened?);
        Ok(())
    }

    async fn send(&mut self, messages: &[NewMessage]) -> Result<Vec<MessagePosition>, SendError> {
        self.kafka.until_thawed(&self.kafka.client).await;
        let epoch = self.epoch.take().ok_or_else(|| failed("the producer is not open"))?;
        let client = &self.kafka.client;
        let sent = self.kafka.change(|state| {
            state.check_call(client)?;
            state.send(messages, &self.options, epoch)
        });
        if !matches!(sent, Err(SendError::Failed(_))) {
            self.epoch = Some(epoch);
        }
        sent
    }
}

fn failed(text: &str) -> SendError {
    SendError::Failed(KafkaError::new(KafkaErrorKind::Other, text))
}

impl State {
    fn send(
        &mut self,
        messages: &[NewMessage],
        options: &ProducerOptions,
        epoch: u64,
    ) -> Result<Vec<MessagePosition>, SendError> {
        let too_large = self.too_large(messages);
        if !too_large.is_empty() {
            return Err(SendError::TooLarge(too_large));
        }
        let mut transaction = None;
        if let Some(id) = &options.transactional_id {
            if self.transactionals[id].epoch != epoch {
                return Err(failed("another producer writes under this name"));
            }
            transaction = Some(self.begin());
        }
        let fault = self.topic_fault(messages).or_else(|| self.send_faults.pop_front());
        let count = match fault {
            Some(SendFault::Partly(count)) => count.min(messages.len()),
            _ => messages.len(),
        };
        let mut written = Vec::with_capacity(count);
        for message in &messages[..count] {
            written.push(self.write(message, options.partitioner, transaction)?);
        }
        if let (Some(id), Some(transaction)) = (&options.transactional_id, transaction) {
            match fault {
                Some(SendFault::Partly(_)) => {
                    self.transactionals.entry(id.clone()).or_default().open = Some(transaction);
                }
                Some(SendFault::AckLost) | None => {
                    self.end_transaction(transaction, TransactionState::Committed);
                }
            }
        }
        match fault {
            Some(SendFault::Partly(_)) => Err(failed("some messages are not written")),
            Some(SendFault::AckLost) => Err(failed("no acknowledgement")),
            None => Ok(written),
        }
    }

    /// The failure that a call with these messages is to have, by their topic.
    fn topic_fault(&mut self, messages: &[NewMessage]) -> Option<SendFault> {
        let topic = &messages.first()?.topic;
        let place = self.topic_faults.iter().position(|(of, ..)| **of == **topic)?;
        match &mut self.topic_faults[place].1 {
            0 => Some(self.topic_faults.remove(place).2),
            after => {
                *after -= 1;
                None
            }
        }
    }

    /// Writes a message of a producer to the partition that it names, or that its key has.
    fn write(
        &mut self,
        message: &NewMessage,
        partitioner: Partitioner,
        transaction: Option<FakeTransaction>,
    ) -> Result<MessagePosition, KafkaError> {
        let now = self.now;
        let unknown = || unknown_topic(&message.topic);
        let topic = self.topics.get_mut(&*message.topic).ok_or_else(unknown)?;
        let count = topic.partitions.len() as u32;
        let chosen = message.partition.or_else(|| partitioner.partition(message.key.as_deref(), count));
        let number = chosen.unwrap_or_else(|| {
            topic.without_key += 1;
            topic.without_key % count
        });
        let partition = topic.partitions.get_mut(number as usize).ok_or_else(unknown)?;
        let headers = message.headers.iter();
        let appended = topic.has_append_time.then_some(now.unwrap_or(0));
        let message = FakeMessage {
            key: message.key.as_ref().map(|key| key.to_vec()),
            value: message.value.as_ref().map(|value| value.to_vec()),
            headers: headers
                .map(|(name, value)| (name.to_string(), Some(value.as_bytes().to_vec())))
                .collect(),
            timestamp: now,
        };
        let offset = partition.push(transaction, appended, Some(message));
        Ok(MessagePosition {
            partition: number,
            offset: Some(offset),
            timestamp: partition.entry(offset).timestamp(),
        })
    }

    /// The messages that exceed what their topic accepts.
    fn too_large(&self, messages: &[NewMessage]) -> Vec<usize> {
        let is_too_large = |message: &NewMessage| {
            let topic = self.topics.get(&*message.topic);
            topic.is_some_and(|topic| message.batch_bytes() > topic.message_bytes_max)
        };
        let indexed = messages.iter().enumerate();
        indexed.filter(|(_, message)| is_too_large(message)).map(|(index, _)| index).collect()
    }
}

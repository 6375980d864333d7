//! Parses the source of a stream, `FROM KAFKA (…)`, and its changes; the target of a sink, `INTO KAFKA (…)`.

use super::super::{Parsed, Parser};
use crate::{
    ddl::{KafkaOption, KafkaSource, KafkaTarget, KafkaTargetOption, StreamChange},
    source::Fault,
};

impl Parser<'_> {
    /// `KAFKA (topic = 'orders', …)`, behind FROM.
    pub(super) fn kafka_source(&mut self) -> Parsed<KafkaSource> {
        let span = self.span();
        self.expect_word("KAFKA")?;
        let (mut source, mut spans) = (KafkaSource::new(), Vec::new());
        let names = (KafkaOption::of as fn(&str) -> _, KafkaOption::text as fn(_) -> _);
        self.options(names, |option, value| source.set(option, value), &mut spans)?;
        if !spans.iter().any(|(option, _)| *option == KafkaOption::Topic) {
            let fault = Fault::at(span, "`FROM KAFKA` needs a topic");
            return Err(fault.hint("Write FROM KAFKA (topic = 'orders')."));
        }
        // A value that was refused is no option that is missing.
        if self.faults.is_empty()
            && let Err((message, hint)) = source.options.check_schemas()
        {
            return Err(Fault::at(span, message).hint(hint));
        }
        Ok(source)
    }

    /// `KAFKA (topic = 'totals', …)`, behind INTO.
    pub(super) fn kafka_target(&mut self) -> Parsed<KafkaTarget> {
        let span = self.span();
        self.expect_word("KAFKA")?;
        let (mut target, mut spans) = (KafkaTarget::default(), Vec::new());
        let names = (KafkaTargetOption::of as fn(&str) -> _, KafkaTargetOption::text as fn(_) -> _);
        self.options(names, |option, value| target.set(option, value), &mut spans)?;
        if !spans.iter().any(|(option, _)| *option == KafkaTargetOption::Topic) {
            let fault = Fault::at(span, "`INTO KAFKA` needs a topic");
            return Err(fault.hint("Write INTO KAFKA (topic = 'totals')."));
        }
        Ok(target)
    }

    /// `(option = value, …)`, behind SET KAFKA.
    pub(super) fn kafka_changes(&mut self) -> Parsed<StreamChange> {
        let (mut source, mut spans) = (KafkaSource::new(), Vec::new());
        let names = (KafkaOption::of as fn(&str) -> _, KafkaOption::text as fn(_) -> _);
        let start = self.at + 1;
        self.options(names, |option, value| source.set(option, value), &mut spans)?;
        if let Some((option, _)) = spans.iter().find(|(option, _)| !option.can_change()) {
            let span = self.tokens[start].span;
            let fault = Fault::at(span, format!("`{}` of a stream cannot be changed", option.text()));
            return Err(fault.hint(match option {
                KafkaOption::Paused => "Write ALTER STREAM name PAUSE, or RESUME.",
                _ => "Create another stream, with this topic and start.",
            }));
        }
        Ok(StreamChange::SetKafka(source.options))
    }
}

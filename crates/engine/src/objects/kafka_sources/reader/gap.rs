//! Messages that the broker deleted before they were read: the partition stops, or goes on behind them.

use std::ops::Range;

use swiftwater_lang::ddl::{Ddl, OnGap, SkipPartition};

use super::{Positions, Run, SourceError};

impl Run<'_> {
    /// Messages were deleted before they were read.
    pub(super) async fn gap(
        &mut self,
        partition: u32,
        wanted: u64,
        has: Range<u64>,
    ) -> Result<(), SourceError> {
        let source = self.reader.source();
        let topic = self.kafka.topic(&source.topic).await?;
        let stream = self.reader.entry.create.name.as_str();
        if topic.id != self.topic.id {
            return Err(SourceError::Changed(source.topic.to_string()));
        }
        let (lost, resumed) = (has.start.saturating_sub(wanted), has.start);
        let (text, remedy) = match lost {
            // Offsets are given a second time: they cannot be told from those that were read.
            0 => (
                format!(
                    "offset {wanted} is beyond the end of the partition, {}: its brokers have lost messages",
                    has.end
                ),
                "Create another stream that begins at the end of the partition".to_owned(),
            ),
            lost => (
                format!("{lost} messages from offset {wanted} on were deleted before they were read"),
                format!("To read on from offset {resumed}: {}", self.skip_statement(partition, resumed)),
            ),
        };
        if lost == 0 || self.on_gap() == OnGap::Stop {
            tracing::error!(stream, partition, "{text}; the partition is not read any more. {remedy}");
            self.reader.update(partition, |progress| {
                progress.is_stopped = true;
                progress.error = Some(format!("{text}. {remedy}"));
            });
            return Ok(());
        }
        tracing::warn!(stream, partition, "{text}; reading goes on at offset {resumed}");
        self.positions.record(self.topic.id, partition, resumed);
        self.consumer.assign(partition, resumed);
        self.reader.update(partition, |progress| progress.position = resumed);
        self.reader.count_lost(&self.shared, partition, lost);
        Ok(())
    }

    /// The statement that lets a partition go on at an offset.
    fn skip_statement(&self, partition: u32, to: u64) -> Ddl {
        let name = self.reader.entry.create.name.clone();
        Ddl::SkipPartition(SkipPartition { name, if_exists: false, partition, to })
    }

    /// The treatment of such messages.
    pub(super) fn on_gap(&self) -> OnGap {
        self.reader.source().options.on_gap(matches!(self.positions, Positions::Stored(_)))
    }
}

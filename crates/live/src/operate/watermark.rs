//! How far the events' own time has come, for queries that joined at different offsets.

use swiftwater_event::Millis;

/// The latest event time since each epoch began.
#[derive(Debug, Clone, Default)]
pub struct Peaks {
    /// For epochs up to the one named, and after the one named before it: the latest time since. Epochs ascend, times
    /// strictly descend: an epoch whose latest time is no earlier than that of those before it has caught up with them.
    peaks: Vec<(u64, Millis)>,
}

impl Peaks {
    /// Takes in a time of an epoch; epochs come in order.
    pub fn advance(&mut self, epoch: u64, latest: Millis) {
        match self.peaks.last_mut() {
            Some((of, peak)) if *of >= epoch => *peak = latest.max(*peak),
            _ => self.peaks.push((epoch, latest)),
        }
        while let [.., (_, before), (_, last)] = self.peaks[..]
            && last >= before
        {
            self.peaks.remove(self.peaks.len() - 2);
        }
    }

    /// The latest time since an epoch began; none before its first event with a time.
    pub fn since(&self, epoch: u64) -> Option<Millis> {
        let place = self.peaks.partition_point(|(of, _)| *of < epoch);
        self.peaks.get(place).map(|(_, peak)| *peak)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn peaks_are_those_of_all_times_since(
            mut times in proptest::collection::vec((0u64..10, -50i64..50), 0..40), epoch in 0u64..12,
        ) {
            times.sort_by_key(|(epoch, _)| *epoch);
            let mut peaks = Peaks::default();
            times.iter().for_each(|&(epoch, time)| peaks.advance(epoch, time));
            let latest = times.iter().filter(|(of, _)| *of >= epoch).map(|(_, time)| *time).max();
            prop_assert_eq!(peaks.since(epoch), latest);
            prop_assert!(peaks.peaks.len() <= 10);
        }
    }
}

//! Leaves single matches out evenly where more come than a client wants.
//!
//! Each second brings as many tokens as records are wanted, and a record takes one. Of an emit with more records than there
//! are tokens, records at equal distances are taken.

/// The most time for which tokens are gathered, in nanoseconds: a quiet second does not let a burst of many seconds pass.
const GATHERED_NANOS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Thinning {
    per_second: f64,
    tokens: f64,
    looked_nanos: u64,
    /// Records that were left out so far.
    pub(super) left_out: u64,
}

impl Thinning {
    pub(super) fn new(per_second: u64, now_nanos: u64) -> Thinning {
        let per_second = per_second as f64;
        Thinning { per_second, tokens: per_second, looked_nanos: now_nanos, left_out: 0 }
    }

    /// The records of lines that are taken, each with its line's end.
    pub(super) fn taken(&mut self, text: &[u8], count: u64, now_nanos: u64) -> (Vec<u8>, u64) {
        let nanos = now_nanos.saturating_sub(self.looked_nanos).min(GATHERED_NANOS);
        self.looked_nanos = now_nanos.max(self.looked_nanos);
        self.tokens = (self.tokens + self.per_second * nanos as f64 / 1e9).min(self.per_second);
        let wanted = (self.tokens.max(0.0) as u64).min(count);
        self.tokens -= wanted as f64;
        self.left_out += count - wanted;
        if wanted == count {
            return (text.to_vec(), count);
        }
        let mut out = Vec::with_capacity(text.len() / (count / wanted.max(1)).max(1) as usize + 64);
        for (place, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            // The places at which another of the wanted records is due.
            let due = |place: u64| place * wanted / count;
            if due(place as u64 + 1) > due(place as u64) {
                out.extend_from_slice(line);
            }
        }
        (out, wanted)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// No second has more records than are wanted, two seconds' worth at the start apart; those taken are of the input,
        /// in its order, at distances that differ by at most one.
        #[test]
        fn records_are_left_out_evenly(
            per_second in 1_u64..200,
            emits in prop::collection::vec((0_u64..300, 0_u64..400_000_000), 1..60),
        ) {
            let (mut thinning, mut now, mut all, mut taken) = (Thinning::new(per_second, 0), 0, 0, 0);
            for (count, nanos) in emits {
                now += nanos;
                let text: String = (0..count).map(|n| format!("{n}\n")).collect();
                let (kept, kept_count) = thinning.taken(text.as_bytes(), count, now);
                let lines: Vec<u64> =
                    std::str::from_utf8(&kept).unwrap().lines().map(|line| line.parse().unwrap()).collect();
                prop_assert_eq!(lines.len() as u64, kept_count);
                let steps: Vec<u64> = lines.windows(2).map(|pair| pair[1] - pair[0]).collect();
                prop_assert!(steps.iter().max().unwrap_or(&1) - steps.iter().min().unwrap_or(&1) <= 1);
                prop_assert!(lines.windows(2).all(|pair| pair[0] < pair[1]));
                all += count;
                taken += kept_count;
                prop_assert!(taken as f64 <= per_second as f64 * (1.0 + now as f64 / 1e9) + 1e-6);
            }
            prop_assert_eq!(taken + thinning.left_out, all);
        }
    }

    #[test]
    fn what_is_wanted_passes_whole() {
        let mut thinning = Thinning::new(10, 0);
        assert_eq!(thinning.taken(b"1\n2\n", 2, 0), (b"1\n2\n".to_vec(), 2));
        let (_, taken) = thinning.taken(b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n", 10, 0);
        assert_eq!((taken, thinning.left_out), (8, 2));
    }
}

//! Shrinks a failing case until a person can read it.

/// The fewest of `items` found for which `fails` still holds, by leaving out ever smaller runs of them (Zeller and
/// Hildebrandt, "Simplifying and isolating failure-inducing input", 2002, without its complements). Returns `items`
/// themselves if they do not fail. Calls `fails` O(n log n) times when few are needed.
pub fn fewest<T: Clone>(items: &[T], mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut kept = items.to_vec();
    if !fails(&kept) {
        return kept;
    }
    let mut run = kept.len().div_ceil(2);
    while run > 0 {
        let mut at = 0;
        while at < kept.len() {
            let mut fewer = kept.clone();
            fewer.drain(at..(at + run).min(kept.len()));
            if fails(&fewer) {
                kept = fewer;
            } else {
                at += run;
            }
        }
        run = if run == 1 { 0 } else { run.div_ceil(2) };
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_fails_is_kept() {
        let items: Vec<u32> = (0..1000).collect();
        assert_eq!(fewest(&items, |kept| kept.contains(&17) && kept.contains(&512)), [17, 512]);
        assert_eq!(fewest(&items, |kept| !kept.is_empty()).len(), 1);
        assert_eq!(fewest(&items, |_| true), [0; 0]);
    }

    #[test]
    fn what_does_not_fail_stays() {
        assert_eq!(fewest(&[1, 2], |_| false), [1, 2]);
    }
}

//! Proposes the known name that an unknown one may have been meant to be, for the hints of errors.

/// The one of `candidates` that `word` may have been meant to be: one or two letters apart.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const WORD_CHARS_MAX: usize = 40;
    let word: Vec<char> = word.chars().flat_map(char::to_lowercase).take(WORD_CHARS_MAX).collect();
    let near_enough = match word.len() {
        0..=2 => return None,
        3..=5 => 1,
        _ => 2,
    };
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(distance, _)| *distance <= near_enough)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one into the other ("optimal string
/// alignment").
fn distance(word: &[char], candidate: &str) -> usize {
    let candidate: Vec<char> = candidate.chars().flat_map(char::to_lowercase).collect();
    if word.len().abs_diff(candidate.len()) > 2 {
        return usize::MAX;
    }
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=candidate.len()).collect();
    for (i, a) in word.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in candidate.iter().enumerate() {
            let mut best = (last[j + 1] + 1).min(row[j] + 1).min(last[j] + usize::from(a != b));
            if i > 0 && j > 0 && *a == candidate[j - 1] && word[i - 1] == *b {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[candidate.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_proposed() {
        fn check(word: &str, expected: Option<&str>) {
            assert_eq!(did_you_mean(word, ["SELECT", "FROM", "WHERE", "SUM"]), expected, "{word}");
        }
        check("SELCET", Some("SELECT"));
        check("selct", Some("SELECT"));
        check("form", Some("FROM"));
        check("WEHRE", Some("WHERE"));
        check("sun", Some("SUM"));
        check("carrier", None);
        check("su", None);
    }
}

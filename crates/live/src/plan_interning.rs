//! Shares what many standing queries have in common.
//!
//! Most queries of an application come from a few templates: they differ in the constants of their filters. All but the
//! conditions and the residual is then the same value, and the paths of conditions are few. Both are stored once. So a
//! query that waits takes some 1 KB with all its tables. Knows nothing of who asks.

use std::{
    collections::{HashMap, HashSet},
    fmt::{self, Write},
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Arc, Weak},
};

use swiftwater_event::Path;
use swiftwater_lang::plan::Query;

use crate::{StandingQuery, standing::SharedPlan};

/// Tables are looked through for what is gone when they have so many entries, or twice as many as were left then.
const LOOK_THROUGH_MIN: usize = 1024;

/// The common parts of the queries that stand. It keeps none of them: what no query has any more is gone.
#[derive(Debug, Default)]
pub struct PlanInterner {
    by_hash: HashMap<u64, Weak<SharedPlan>>,
    /// Paths of conditions: as many as are looked at, not as there are queries.
    paths: HashSet<Path>,
    hasher: RandomState,
    look_through_at: usize,
    look_through_paths_at: usize,
}

/// Hashes what is written to it.
struct HashWriter<H>(H);

impl<H: Hasher> Write for HashWriter<H> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

impl PlanInterner {
    /// The query, sharing what it has in common with others. Its plan no longer tells its texts, nor its filter.
    /// All queries must be compiled with sketches of the same sizes.
    pub fn share(&mut self, query: StandingQuery) -> StandingQuery {
        let StandingQuery { mut common, mut filter, residual } = query;
        for condition in &mut filter.conditions {
            self.share_path(&mut condition.want.path);
        }
        let Some(own) = Arc::get_mut(&mut common) else {
            return StandingQuery { common, filter, residual };
        };
        strip(&mut own.plan);
        let mut writer = HashWriter(self.hasher.build_hasher());
        // Writing to a hasher cannot fail.
        let _ = write!(writer, "{:?}", own.plan);
        let hash = writer.0.finish();
        // Numbers are equal that are written differently; the hash is of what is written, so it tells them apart.
        match self.by_hash.get(&hash).and_then(Weak::upgrade) {
            Some(there) if there.plan == own.plan => {
                return StandingQuery { common: there, filter, residual };
            }
            // Another one with this hash: it has the place, and this query shares with nobody.
            Some(_) => {}
            None => {
                self.by_hash.insert(hash, Arc::downgrade(&common));
            }
        }
        if self.by_hash.len() >= self.look_through_at.max(LOOK_THROUGH_MIN) {
            self.by_hash.retain(|_, common| common.strong_count() > 0);
            self.look_through_at = self.by_hash.len() * 2;
        }
        StandingQuery { common, filter, residual }
    }

    fn share_path(&mut self, path: &mut Path) {
        match self.paths.get(path) {
            Some(there) => *path = there.clone(),
            None => {
                if self.paths.len() >= self.look_through_paths_at.max(LOOK_THROUGH_MIN) {
                    self.paths.retain(Path::is_shared);
                    self.look_through_paths_at = self.paths.len() * 2;
                }
                self.paths.insert(path.clone());
            }
        }
    }
}

/// Removes the parts that do not matter for the compiled query. Lateral views are compiled with the part of the
/// filter that reads their columns, so theirs stays.
fn strip(plan: &mut Query) {
    let nothing: Arc<str> = Arc::default();
    if plan.views.is_empty() {
        plan.filter = None;
    }
    plan.text = Arc::clone(&nothing);
    plan.printed = Arc::clone(&nothing);
    let mut inner = plan.outer.as_deref_mut();
    while let Some(outer) = inner {
        outer.text = Arc::clone(&nothing);
        outer.printed = Arc::clone(&nothing);
        inner = outer.outer.as_deref_mut();
    }
}

#[cfg(test)]
mod tests {
    use swiftwater_lang::{Dialect, ParseOptions, parse};

    use super::*;

    fn shared(commons: &mut PlanInterner, text: &str) -> StandingQuery {
        let plan = parse(text, &ParseOptions::new(Dialect::Native, 0)).expect(text).query;
        commons.share(StandingQuery::compile(plan).expect(text))
    }

    #[test]
    fn queries_of_one_template_share_all_but_their_filters() {
        let mut commons = PlanInterner::default();
        let first = shared(&mut commons, "SELECT a, b + 1 FROM STREAM() WHERE k = 'x'");
        let second = shared(&mut commons, "SELECT a, b + 1 FROM STREAM() WHERE k = 'y' AND c > 2");
        assert!(Arc::ptr_eq(&first.common, &second.common));
        assert_ne!(first.filter.hash, second.filter.hash);
        for other in [
            "SELECT a, b + 2 FROM STREAM() WHERE k = 'x'",
            "SELECT a, b + 1 FROM STREAM() WHERE k = 'x' LIMIT 1",
            "SELECT a, b + 1 FROM STREAM(other) WHERE k = 'x'",
            "SELECT a, b + 1 FROM STREAM() LATERAL VIEW EXPLODE(l) AS e WHERE k = 'x'",
            "SELECT a FROM (SELECT a, b + 1 FROM STREAM() WHERE k = 'x')",
        ] {
            assert!(!Arc::ptr_eq(&first.common, &shared(&mut commons, other).common), "{other}");
        }
    }

    #[test]
    fn filters_over_lateral_views_are_kept_apart() {
        let mut commons = PlanInterner::default();
        let of = |commons: &mut PlanInterner, value: u32| {
            let text = format!("SELECT e FROM STREAM() LATERAL VIEW EXPLODE(l) AS e WHERE e = {value}");
            shared(commons, &text)
        };
        let (first, second) = (of(&mut commons, 1), of(&mut commons, 2));
        assert!(!Arc::ptr_eq(&first.common, &second.common));
        assert!(Arc::ptr_eq(&first.common, &of(&mut commons, 1).common));
    }

    #[test]
    fn what_no_query_has_is_gone() {
        let mut commons = PlanInterner::default();
        for number in 1..5 * LOOK_THROUGH_MIN {
            shared(&mut commons, &format!("SELECT a FROM STREAM() LIMIT {number}"));
        }
        assert!(commons.by_hash.len() <= LOOK_THROUGH_MIN);
        for number in 1..5 * LOOK_THROUGH_MIN {
            shared(&mut commons, &format!("SELECT a FROM STREAM() WHERE a{number} = 1"));
        }
        assert!(commons.paths.len() <= LOOK_THROUGH_MIN);
    }
}

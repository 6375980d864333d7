//! The index over all standing queries of a stream: one immutable value, shared by all shards and replaced as a whole.
//!
//! It has levels of very different sizes, as a log-structured merge tree has (O'Neil et al., 1996): three fresh levels
//! of 16, 64 and 256 queries, full levels that wait to be merged, a middle level and the main level. Adding a query
//! rebuilds the smallest level. A full level is merged into the next larger one. A caller that adds a query never merges
//! more than a few hundred queries.
//!
//! Waiting levels are merged by a [`Rebuild`], on any thread; the runtime's indexer thread runs it. As a rule it merges
//! them into the middle level. It merges them with the main level in five cases: more than 512 queries, and more than a
//! sixteenth of the main level, are outside it; more than 512 queries, and more than half of all, have ended; the decode
//! plans have many paths of ended queries; the access predicates have drifted ([`statistics`](super::statistics)); or no
//! query has changed for a second or two. Meanwhile queries are added and ended as usual.
//!
//! A query that ended is a bit in a page of 4,096 beside its level, and a change copies one page
//! ([`ended`](super::ended)). A rebuild leaves ended queries out and reuses their places. Queries that end while a level
//! is built are carried over by comparing pages. The same thread frees a replaced level, once no shard uses it
//! ([`ReplacedLevels`]).

use std::sync::Arc;

use swiftwater_event::{DecodePlan, Decoded, Want};

use super::{
    ended::EndedSet,
    entry::{Entry, wants_of_all, wants_when_late},
    find::{Finder, MatchInput, Matched, Matches},
    index_segment::{BuildEffort, IndexEntry, IndexSegment},
    statistics::Statistics,
};
use crate::{expr::Scratch, operate::SlicePlan, standing::StandingQuery};

/// A query's number in its engine: never used again.
pub type QueryNumber = u64;

/// The queries that stand on a stream.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// Decoded of every event.
    pub(crate) all: Arc<DecodePlan>,
    /// Decoded of events that matched a query with a late body.
    pub(crate) late: Arc<DecodePlan>,
    /// The levels into which queries are added, the smallest first.
    fresh: [Level; FRESH],
    /// The merged results of the largest of these, each time that it was full.
    waiting: Vec<Level>,
    /// Merged of what waited since the main level was built.
    middle: Level,
    /// The main level, of any size.
    main: Level,
    pub(crate) statistics: Arc<Statistics>,
    /// A rebuild was handed out and is not yet back: what it is built of stays as it is until then.
    rebuilding: Option<PendingMerge>,
    /// Much is decoded for queries that have ended: the next rebuild makes new plans.
    is_wasteful: bool,
    /// Queries from this number on do not stand yet; none: all do.
    begun_before: Option<QueryNumber>,
}

/// A part and who has ended of it.
#[derive(Debug, Clone, Default)]
struct Level {
    part: Arc<IndexSegment>,
    ended: EndedSet,
}

/// A merge that was started and has not returned.
#[derive(Debug, Clone, Copy)]
struct PendingMerge {
    /// Number of the waiting levels that are merged, from the first on.
    waiting: usize,
    main: bool,
}

/// Levels into which queries are added.
const FRESH: usize = 3;
/// Maximum queries of each of them. The first is rebuilt for every query added, the second for every 16th, the third for
/// every 64th: some 15 queries are built again for one that is added, and never more than a few hundred at once.
const FRESH_MAX: [usize; FRESH] = [16, 64, 256];
/// Number of levels that may wait; beyond it, the thread that adds a query merges them, if no [`Rebuild`] was asked
/// for.
const WAITING_MAX: usize = 32;
/// The main level is built anew when what stands before it is more than this, and more than this part of it.
const BEFORE_MAIN_MAX: usize = 512;
const BEFORE_MAIN_SHARE: usize = 16;
/// Wants that may be left over of queries that have ended, besides half of all.
const WANTS_LEFT_MAX: usize = 16;

/// A level that is to be built anew: take it to any thread, and what it makes to [`Index::rebuilt`].
#[derive(Debug)]
pub struct Rebuild {
    sources: MergeInputs,
    statistics: Arc<Statistics>,
    /// The plans to bind to, as they are or made anew.
    plans: Option<[Arc<DecodePlan>; 2]>,
}

/// The levels that a merge reads.
#[derive(Debug, Clone)]
struct MergeInputs {
    waiting: Vec<Level>,
    middle: Level,
    /// The main level; none: the middle level is built.
    main: Option<Level>,
}

/// The result of a [`Rebuild`].
#[derive(Debug)]
pub struct Rebuilt {
    part: Arc<IndexSegment>,
    /// New plans, if new ones were made.
    plans: Option<[Arc<DecodePlan>; 2]>,
    /// The wants of every event that some query in the part has.
    wanted: Vec<bool>,
    sources: MergeInputs,
}

/// The replaced levels. Dropping the last reference frees its parts, which takes a while for large ones: so it is
/// dropped outside of urgent work, once nobody else has it.
#[derive(Debug)]
pub struct ReplacedLevels(MergeInputs);

impl Level {
    fn standing(&self) -> impl Iterator<Item = &Arc<Entry>> {
        let stands = |&(place, _): &(usize, _)| !self.ended.has(place as u32);
        self.part.entries().iter().enumerate().filter(stands).map(|(_, entry)| entry)
    }

    /// Queries whose event time advances while the stream is idle.
    fn idle(&self) -> impl Iterator<Item = &Entry> {
        let places = self.part.idle.iter().filter(|&&place| !self.ended.has(place));
        places.map(|&place| &*self.part.entries()[place as usize])
    }

    fn filed(&self) -> impl Iterator<Item = IndexEntry> {
        let places = 0..self.part.entries().len();
        places.filter(|&place| !self.ended.has(place as u32)).map(|place| self.part.filed(place))
    }

    fn len(&self) -> usize {
        self.part.entries().len() - self.ended.len()
    }
}

impl MergeInputs {
    fn levels(&self) -> impl Iterator<Item = &Level> {
        self.main.iter().chain([&self.middle]).chain(&self.waiting)
    }
}

impl ReplacedLevels {
    /// True if nobody else has anything of it.
    pub fn is_unused(&self) -> bool {
        self.0.levels().all(|level| Arc::strong_count(&level.part) == 1)
    }
}

impl Rebuild {
    /// Builds; some microseconds a query.
    pub fn run(self) -> Rebuilt {
        let Rebuild { sources, statistics, plans } = self;
        let mut filed: Vec<IndexEntry> = sources.levels().flat_map(Level::filed).collect();
        filed.sort_by_key(|filed| filed.entry.number);
        let (made, wanted) = match plans {
            Some([all, _]) => {
                let mut wanted = vec![false; all.wants().len()];
                filed.iter().for_each(|filed| record_wanted(&filed.entry, &mut wanted));
                (None, wanted)
            }
            None => {
                let entries = || filed.iter().map(|filed| &filed.entry);
                let all = DecodePlan::new(entries().flat_map(|entry| wants_of_all(&entry.query).cloned()));
                let late =
                    DecodePlan::new(entries().flat_map(|entry| wants_when_late(&entry.query).cloned()));
                for filed in &mut filed {
                    filed.entry = Arc::new(filed.entry.rebound(&all, &late));
                }
                let wanted = vec![true; all.wants().len()];
                (Some([Arc::new(all), Arc::new(late)]), wanted)
            }
        };
        let part =
            Arc::new(IndexSegment::build(filed, statistics.latest().as_deref(), BuildEffort::Thorough));
        Rebuilt { part, plans: made, wanted, sources }
    }
}

impl Rebuilt {
    /// The levels that it replaces.
    pub fn replaced(&self) -> ReplacedLevels {
        ReplacedLevels(self.sources.clone())
    }
}

/// Records the wants of every event that a query has.
fn record_wanted(entry: &Entry, wanted: &mut [bool]) {
    entry.columns_of_all().iter().for_each(|column| wanted[column.0 as usize] = true);
}

impl Index {
    /// The same index and one query more.
    #[must_use]
    pub fn with(&self, number: QueryNumber, query: &Arc<StandingQuery>) -> Index {
        self.with_slices(number, query, &Arc::default())
    }

    /// The same index and one query more; its groups are cut into slices as `slices` says.
    #[must_use]
    pub fn with_slices(
        &self,
        number: QueryNumber,
        query: &Arc<StandingQuery>,
        slices: &Arc<SlicePlan>,
    ) -> Index {
        let mut index = self.clone();
        index.all = extended(&self.all, wants_of_all(query));
        index.late = extended(&self.late, wants_when_late(query));
        let entry = Arc::new(Entry::new(number, query, slices, &index.all, &index.late));
        let mut filed = vec![IndexEntry { entry, access: None }];
        for (level, most) in FRESH_MAX.into_iter().enumerate() {
            filed.extend(std::mem::take(&mut index.fresh[level]).filed());
            let is_full = filed.len() > most;
            if is_full && level + 1 < FRESH {
                continue;
            }
            let built = index.level_of(filed);
            match is_full {
                true => index.waiting.push(built),
                false => index.fresh[level] = built,
            }
            break;
        }
        if index.waiting.len() - index.handed_out() < WAITING_MAX {
            return index;
        }
        match index.rebuilding {
            Some(_) => {
                let rest = index.waiting.split_off(index.handed_out());
                let filed = rest.iter().flat_map(Level::filed).collect();
                let merged = index.level_of(filed);
                index.waiting.push(merged);
                index
            }
            None => {
                let main = index.before_main() * 4 > index.main.len();
                let rebuild = index.start_merge(false, main);
                index.rebuilt(rebuild.run())
            }
        }
    }

    /// Number of the waiting levels that are being merged.
    fn handed_out(&self) -> usize {
        self.rebuilding.map_or(0, |handed| handed.waiting)
    }

    /// Queries that wait for the main level, those that have ended too.
    fn before_main(&self) -> usize {
        self.waiting.iter().chain([&self.middle]).map(|level| level.part.entries().len()).sum()
    }

    /// All levels.
    fn levels(&self) -> impl Iterator<Item = &Level> {
        self.fresh.iter().chain(&self.waiting).chain([&self.middle, &self.main])
    }

    fn level_of(&self, mut filed: Vec<IndexEntry>) -> Level {
        filed.sort_unstable_by_key(|filed| filed.entry.number);
        let part =
            Arc::new(IndexSegment::build(filed, self.statistics.latest().as_deref(), BuildEffort::Quick));
        Level { part, ended: EndedSet::default() }
    }

    /// The same index without one query.
    #[must_use]
    pub fn without(&self, number: QueryNumber) -> Index {
        let mut index = self.clone();
        let of_level = {
            let (fresh, waiting) = (index.fresh.iter_mut(), index.waiting.iter_mut());
            let mut all = fresh.chain(waiting).chain([&mut index.middle, &mut index.main]).enumerate();
            all.find_map(|(at, Level { part, ended })| {
                let place = part.place_of(number).filter(|&place| !ended.has(place))?;
                ended.insert(place);
                Some((at, ended.len() * 2 > part.entries().len()))
            })
        };
        // A small part is rebuilt when half of it has ended; others elsewhere.
        if let Some((at, true)) = of_level
            && at < FRESH
        {
            let filed = index.fresh[at].filed().collect();
            index.fresh[at] = index.level_of(filed);
        }
        let handed_out = index.handed_out();
        let mut place = 0;
        index.waiting.retain(|level| {
            place += 1;
            place <= handed_out || level.len() > 0
        });
        if index.is_empty() {
            // No query is left; the present rebuild will find nothing that it fits.
            return Index { statistics: index.statistics, ..Index::default() };
        }
        index
    }

    /// The same index for events that came before the queries from this number on began: these match none of them.
    #[must_use]
    pub fn before(&self, number: QueryNumber) -> Index {
        Index { begun_before: Some(number), ..self.clone() }
    }

    /// The next rebuild, if one is due and none is under way. It can run on any thread; its result is passed to
    /// [`rebuilt`](Index::rebuilt) of the index at that time.
    pub fn rebuild(&mut self) -> Option<Rebuild> {
        self.is_rebuild_due().then(|| {
            let main = self.is_main_due();
            self.start_merge(false, main)
        })
    }

    /// True if it is time for a [`rebuild`](Index::rebuild), and none is under way.
    pub fn is_rebuild_due(&self) -> bool {
        self.rebuilding.is_none() && (self.waiting.len() > 1 || self.is_main_due())
    }

    /// True if the main level should be built anew.
    fn is_main_due(&self) -> bool {
        let before = self.before_main();
        let has_grown = before > BEFORE_MAIN_MAX && before * BEFORE_MAIN_SHARE > self.main.len();
        let ended: usize =
            self.waiting.iter().chain([&self.middle, &self.main]).map(|level| level.ended.len()).sum();
        let has_shrunk = ended > BEFORE_MAIN_MAX && ended > self.len();
        has_grown || has_shrunk || self.is_wasteful || self.statistics.has_drifted(self.expected())
    }

    /// True if more queries stand before the main level than are worth a look-up of their own.
    pub fn is_in_parts(&self) -> bool {
        let all: usize = self.levels().map(Level::len).sum();
        all - self.main.len() > FRESH_MAX[0]
    }

    /// Does the same as [`rebuild`](Index::rebuild), for all queries, due or not; none only while one is under way.
    pub fn rebuild_now(&mut self) -> Option<Rebuild> {
        self.rebuilding.is_none().then(|| self.start_merge(true, true))
    }

    /// Candidates that an event is expected to have.
    fn expected(&self) -> f64 {
        self.levels().map(|level| level.part.expected).sum()
    }

    /// Starts to merge what waits, or all; into the main level, or the middle one.
    fn start_merge(&mut self, all: bool, main: bool) -> Rebuild {
        // New plans are for all who stand.
        let replans = main && std::mem::take(&mut self.is_wasteful);
        if all || replans {
            let fresh = self.fresh.iter_mut().map(std::mem::take).filter(|level| level.len() > 0);
            self.waiting.extend(fresh);
        }
        if main {
            self.statistics.has_settled();
        }
        self.rebuilding = Some(PendingMerge { waiting: self.waiting.len(), main });
        Rebuild {
            sources: MergeInputs {
                waiting: self.waiting.clone(),
                middle: self.middle.clone(),
                main: main.then(|| self.main.clone()),
            },
            statistics: Arc::clone(&self.statistics),
            plans: (!replans).then(|| [Arc::clone(&self.all), Arc::clone(&self.late)]),
        }
    }

    /// The same queries, with what was built anew in place of what it was built from.
    #[must_use]
    pub fn rebuilt(&self, built: Rebuilt) -> Index {
        let Rebuilt { part, plans, mut wanted, sources } = built;
        let mut index = self.clone();
        let is_same = |level: &Level, other: &Level| Arc::ptr_eq(&level.part, &other.part);
        let is_of_this =
            index.rebuilding.is_some_and(|handed| {
                handed.waiting == sources.waiting.len() && handed.main == sources.main.is_some()
            }) && index.waiting.iter().zip(&sources.waiting).all(|(level, other)| is_same(level, other))
                && is_same(&index.middle, &sources.middle)
                && sources.main.iter().all(|main| is_same(&index.main, main));
        if !is_of_this {
            // All queries that it was built of have ended.
            return index;
        }
        // Queries that ended meanwhile are marked as ended in the new part, too.
        let mut ended = EndedSet::default();
        let mut carry_over = |now: &Level, then: &Level| {
            let places = now.ended.since(&then.ended);
            let numbers = places.map(|place| now.part.entries()[place as usize].number);
            numbers.filter_map(|number| part.place_of(number)).for_each(|place| ended.insert(place));
        };
        index.waiting.drain(..sources.waiting.len()).zip(&sources.waiting).for_each(|(now, then)| {
            carry_over(&now, then);
        });
        carry_over(&std::mem::take(&mut index.middle), &sources.middle);
        if let Some(main) = &sources.main {
            carry_over(&index.main, main);
            index.main = Level { part, ended };
        } else {
            index.middle = Level { part, ended };
        }
        index.rebuilding = None;
        if let Some([all, late]) = plans {
            // Queries that came meanwhile are bound to the old plans; they are few.
            (index.all, index.late) = (all, late);
            let meanwhile = index.fresh.iter().chain(&index.waiting);
            let entries: Vec<Arc<Entry>> = meanwhile.flat_map(|level| level.standing().cloned()).collect();
            for entry in &entries {
                index.all = extended(&index.all, wants_of_all(&entry.query));
                index.late = extended(&index.late, wants_when_late(&entry.query));
            }
            let rebound = |entry: &Arc<Entry>| IndexEntry {
                entry: Arc::new(entry.rebound(&index.all, &index.late)),
                access: None,
            };
            let rebound: Vec<IndexEntry> = entries.iter().map(rebound).collect();
            index.fresh.fill(Level::default());
            index.waiting.clear();
            if !rebound.is_empty() {
                let level = index.level_of(rebound);
                index.waiting.push(level);
            }
        }
        if sources.main.is_some() {
            wanted.resize(index.all.wants().len(), false);
            let meanwhile = index.fresh.iter().chain(&index.waiting);
            meanwhile.flat_map(Level::standing).for_each(|entry| record_wanted(entry, &mut wanted));
            let left = wanted.iter().filter(|is_wanted| !**is_wanted).count();
            index.is_wasteful = left > WANTS_LEFT_MAX.max(index.all.wants().len() / 2);
        }
        index
    }

    /// Finds the matches of a batch.
    pub(crate) fn find<'p>(
        &'p self,
        input: &MatchInput<'_>,
        finder: &'p mut Finder,
        scratch: &mut Scratch,
    ) -> Matches<'p> {
        let parts = self.levels().map(|level| (&*level.part, &level.ended));
        let matches = finder.find(parts, input, scratch);
        self.statistics.count(input.decoded.rows as u64, matches.hits);
        matches
    }

    /// True if a query that was found has begun for the events that found it.
    pub(crate) fn has_begun(&self, found: &Matched<'_>) -> bool {
        self.begun_before.is_none_or(|begun| found.number < begun)
    }

    /// The shortest `IDLE AFTER` of all queries, in milliseconds; none if no query has one.
    pub fn idle_after_ms(&self) -> Option<u64> {
        self.levels().filter_map(|level| level.part.idle_after_ms).min()
    }

    /// The numbers of the queries that have one.
    pub fn idle_numbers(&self) -> impl Iterator<Item = QueryNumber> {
        self.idle().map(|entry| entry.number)
    }

    /// The queries that have one and have begun.
    pub(crate) fn idle(&self) -> impl Iterator<Item = &Entry> {
        let begun_before = self.begun_before;
        let all = self.levels().flat_map(Level::idle);
        all.filter(move |entry| begun_before.is_none_or(|begun| entry.number < begun))
    }

    /// Queries that stand.
    pub fn len(&self) -> usize {
        self.levels().map(Level::len).sum()
    }

    /// True if no query is running.
    pub fn is_empty(&self) -> bool {
        self.levels().all(|level| level.len() == 0)
    }

    /// Queries that every event is tested for, those that have ended since the last rebuild among them. Each has a share
    /// of work that a batch costs whatever its size.
    pub fn scanned(&self) -> usize {
        self.levels().map(|level| level.part.scanned()).sum()
    }

    /// Bytes held, about, without the compiled queries.
    pub fn bytes(&self) -> usize {
        self.levels().map(|level| level.part.bytes()).sum()
    }

    /// The paths decoded of every event.
    pub fn wants(&self) -> &[Want] {
        self.all.wants()
    }

    /// Observes decoded events (by this index's [`plan`](Index::plan)) as a sample of the stream: access predicates
    /// are chosen by them from now on. Shards show it samples by themselves.
    pub fn observe(&self, decoded: &Decoded) {
        self.statistics.store_sample(&self.all, decoded.clone());
    }

    /// The plan by which events are decoded for [`matches`](Index::matches).
    pub fn plan(&self) -> &DecodePlan {
        &self.all
    }
}

/// The matches of queries and events alone, for benchmarks and tests of the matcher.
#[derive(Debug, Default)]
pub struct Matching {
    finder: Finder,
    scratch: Scratch,
}

impl Matching {
    /// Calls `each` for each query with a match, with the rows that it matches, ascending. The batch must have been
    /// decoded by the index's own [`plan`](Index::plan). Queries of samples see the rows as the first events of their
    /// source.
    pub fn matches(&mut self, index: &Index, decoded: &Decoded, mut each: impl FnMut(QueryNumber, &[u32])) {
        let input = MatchInput { decoded, now: 0, place: &u64::from, nanos: &|| 0 };
        for found in index.find(&input, &mut self.finder, &mut self.scratch).iter() {
            if !found.rows.is_empty() && index.has_begun(&found) {
                each(found.number, found.rows);
            }
        }
    }
}

/// The plan with these wants too; columns that it has keep their places.
fn extended<'w>(plan: &Arc<DecodePlan>, wants: impl Iterator<Item = &'w Want>) -> Arc<DecodePlan> {
    let new: Vec<&Want> = wants.filter(|want| plan.find(want).is_none()).collect();
    if new.is_empty() {
        return Arc::clone(plan);
    }
    Arc::new(DecodePlan::new(plan.wants().iter().chain(new).cloned()))
}

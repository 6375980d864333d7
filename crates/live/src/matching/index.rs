//! The index over all standing queries of a stream: one immutable value, shared by all shards and replaced as a whole.
//!
//! It is made of parts of very different sizes, as a log-structured merge tree is (O'Neil et al., 1996): a query is
//! added by rebuilding the smallest, which is merged into the next larger one when it is full, and so on. The largest is
//! not rebuilt where a query is added, but by whoever asks for a [`Rebuild`], on any thread, while smaller parts take
//! what comes. A query that ended is a bit beside its part, until a rebuild leaves it out and its place is given to
//! others.

use std::sync::Arc;

use swiftwater_event::{DecodePlan, Decoded, Want};

use super::{
    ended::Ended,
    entry::{Entry, wants_of_all, wants_when_late},
    find::{Finder, MatchInput, Matched, Matches},
    part::Part,
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
    levels: [Level; LEVELS],
    pub(crate) statistics: Arc<Statistics>,
    /// A rebuild was handed out and is not yet back: the last two levels stay as they are until then.
    is_rebuilding: bool,
    /// Much is decoded for queries that have ended: the next rebuild makes new plans.
    is_wasteful: bool,
    /// Queries from this number on do not stand yet; none: all do.
    begun_before: Option<QueryNumber>,
}

/// A part and who has ended of it.
#[derive(Debug, Clone, Default)]
struct Level {
    part: Arc<Part>,
    ended: Ended,
}

/// Levels, the smallest first.
const LEVELS: usize = 5;
/// What a rebuild merges into the main level.
const FROZEN: usize = 3;
/// As large as it has to be.
const MAIN: usize = 4;
/// What the levels hold into which queries are added. The first is rebuilt for every query added, the second for every
/// 32nd, the third for every 512th: some 30 queries are built again for one that is added.
const LEVEL_MAX: [usize; FROZEN] = [32, 512, 4096];
/// The third may hold so many times as many before the main level is rebuilt where a query is added, if nobody has
/// asked for a [`Rebuild`] till then.
const PATIENCE: usize = 4;
/// Wants that may be left over of queries that have ended, besides half of all.
const WANTS_LEFT_MAX: usize = 16;

/// A main level that is to be built anew: take it to any thread, and what it makes to [`Index::rebuilt`].
#[derive(Debug)]
pub struct Rebuild {
    frozen: Level,
    main: Level,
    statistics: Arc<Statistics>,
    /// The plans to bind to, as they are or made anew.
    plans: Option<[Arc<DecodePlan>; 2]>,
}

/// What a [`Rebuild`] made.
#[derive(Debug)]
pub struct Rebuilt {
    part: Arc<Part>,
    /// New plans, if new ones were made.
    plans: Option<[Arc<DecodePlan>; 2]>,
    frozen: Level,
    main: Level,
}

impl Level {
    fn standing(&self) -> impl Iterator<Item = &Arc<Entry>> {
        let stands = |&(place, _): &(usize, _)| !self.ended.has(place as u32);
        self.part.entries().iter().enumerate().filter(stands).map(|(_, entry)| entry)
    }

    fn into_standing(self) -> Vec<Arc<Entry>> {
        self.standing().cloned().collect()
    }

    fn len(&self) -> usize {
        self.part.entries().len() - self.ended.len()
    }
}

impl Rebuild {
    /// Builds; some microseconds a query.
    pub fn run(self) -> Rebuilt {
        let Rebuild { frozen, main, statistics, plans } = self;
        let mut entries: Vec<Arc<Entry>> = main.standing().chain(frozen.standing()).cloned().collect();
        entries.sort_by_key(|entry| entry.number);
        let made = match plans {
            Some(_) => None,
            None => {
                let all =
                    DecodePlan::new(entries.iter().flat_map(|entry| wants_of_all(&entry.query).cloned()));
                let late =
                    DecodePlan::new(entries.iter().flat_map(|entry| wants_when_late(&entry.query).cloned()));
                for entry in &mut entries {
                    *entry = Arc::new(entry.rebound(&all, &late));
                }
                Some([Arc::new(all), Arc::new(late)])
            }
        };
        let part = Arc::new(Part::build(entries, statistics.latest().as_deref()));
        Rebuilt { part, plans: made, frozen, main }
    }
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
        let mut entries = vec![Arc::new(Entry::new(number, query, slices, &index.all, &index.late))];
        for (level, most) in LEVEL_MAX.into_iter().enumerate() {
            entries.extend(std::mem::take(&mut index.levels[level]).standing().cloned());
            if entries.len() <= most || level + 1 == FROZEN {
                index.levels[level] = index.level_of(entries);
                break;
            }
        }
        if index.levels[FROZEN - 1].part.entries().len() > LEVEL_MAX[FROZEN - 1] * PATIENCE
            && !index.is_rebuilding
        {
            let rebuild = index.hand_out(false);
            return index.rebuilt(rebuild.run());
        }
        index
    }

    fn level_of(&self, mut entries: Vec<Arc<Entry>>) -> Level {
        entries.sort_unstable_by_key(|entry| entry.number);
        let part = Arc::new(Part::build(entries, self.statistics.latest().as_deref()));
        Level { part, ended: Ended::default() }
    }

    /// The same index without one query.
    #[must_use]
    pub fn without(&self, number: QueryNumber) -> Index {
        let mut index = self.clone();
        for level in 0..LEVELS {
            let Level { part, ended } = &mut index.levels[level];
            let Some(place) = part.place_of(number).filter(|&place| !ended.has(place)) else { continue };
            ended.insert(place);
            // A small part is rebuilt when half of it has ended; the main one elsewhere.
            if level < FROZEN - 1 && ended.len() * 2 > part.entries().len() {
                let entries = index.levels[level].standing().cloned().collect();
                index.levels[level] = index.level_of(entries);
            }
            break;
        }
        if index.is_empty() {
            // Nobody wants anything any more; what is being rebuilt will find nothing that it fits.
            return Index { statistics: index.statistics, ..Index::default() };
        }
        index
    }

    /// The same index for events that came before the queries from this number on began: these match none of them.
    #[must_use]
    pub fn before(&self, number: QueryNumber) -> Index {
        Index { begun_before: Some(number), ..self.clone() }
    }

    /// What is to be built anew, if it is time and nothing is under way: take it to any thread, and what comes of it
    /// to [`rebuilt`](Index::rebuilt) of the index that then is.
    pub fn rebuild(&mut self) -> Option<Rebuild> {
        self.is_rebuild_due().then(|| self.hand_out(false))
    }

    /// Whether it is time for a [`rebuild`](Index::rebuild), and none is under way.
    pub fn is_rebuild_due(&self) -> bool {
        if self.is_rebuilding {
            return false;
        }
        let before = self.levels[FROZEN - 1].part.entries().len();
        let has_grown = before > LEVEL_MAX[1] && before * 16 > self.levels[MAIN].len();
        let ended: usize =
            [FROZEN - 1, FROZEN, MAIN].iter().map(|&level| self.levels[level].ended.len()).sum();
        let has_shrunk = ended > LEVEL_MAX[1] && ended > self.len();
        has_grown || has_shrunk || self.is_wasteful || self.statistics.has_drifted(self.expected())
    }

    /// Whether more queries stand before the main level than are worth a look-up of their own.
    pub fn is_in_parts(&self) -> bool {
        self.levels[..FROZEN].iter().map(Level::len).sum::<usize>() > LEVEL_MAX[0]
    }

    /// As [`rebuild`](Index::rebuild), whether it is time or not; none only while one is under way.
    pub fn rebuild_now(&mut self) -> Option<Rebuild> {
        (!self.is_rebuilding).then(|| self.hand_out(true))
    }

    /// Candidates that an event is expected to have.
    fn expected(&self) -> f64 {
        self.levels.iter().map(|level| level.part.expected).sum()
    }

    /// Of the level before the main one, or of all.
    fn hand_out(&mut self, all: bool) -> Rebuild {
        self.is_rebuilding = true;
        self.statistics.has_settled();
        // New plans are for all who stand.
        let replans = std::mem::take(&mut self.is_wasteful);
        self.levels[FROZEN] = if all || replans {
            let levels = &mut self.levels[..=FROZEN];
            let entries = levels.iter_mut().flat_map(|level| std::mem::take(level).into_standing()).collect();
            self.level_of(entries)
        } else {
            std::mem::take(&mut self.levels[FROZEN - 1])
        };
        Rebuild {
            frozen: self.levels[FROZEN].clone(),
            main: self.levels[MAIN].clone(),
            statistics: Arc::clone(&self.statistics),
            plans: (!replans).then(|| [Arc::clone(&self.all), Arc::clone(&self.late)]),
        }
    }

    /// The same queries, with what was built anew in place of what it was built from.
    #[must_use]
    pub fn rebuilt(&self, built: Rebuilt) -> Index {
        let Rebuilt { part, plans, frozen, main } = built;
        let mut index = self.clone();
        let is_of_this = Arc::ptr_eq(&index.levels[FROZEN].part, &frozen.part)
            && Arc::ptr_eq(&index.levels[MAIN].part, &main.part);
        if !is_of_this {
            // All queries that it was built of have ended.
            return index;
        }
        // Who has ended meanwhile has ended in what was built, too.
        let mut ended = Ended::default();
        for (level, then) in [(FROZEN, &frozen), (MAIN, &main)] {
            let Level { part: old, ended: now } = std::mem::take(&mut index.levels[level]);
            let numbers = now.since(&then.ended).map(|place| old.entries()[place as usize].number);
            numbers.filter_map(|number| part.place_of(number)).for_each(|place| ended.insert(place));
        }
        index.levels[MAIN] = Level { part, ended };
        index.is_rebuilding = false;
        if let Some([all, late]) = plans {
            // Queries that came meanwhile are bound to the old plans; they are few.
            (index.all, index.late) = (all, late);
            let entries: Vec<Arc<Entry>> =
                index.levels[..FROZEN].iter().flat_map(|level| level.standing().cloned()).collect();
            for entry in &entries {
                index.all = extended(&index.all, wants_of_all(&entry.query));
                index.late = extended(&index.late, wants_when_late(&entry.query));
            }
            index.levels[..FROZEN].fill(Level::default());
            let rebound =
                entries.iter().map(|entry| Arc::new(entry.rebound(&index.all, &index.late))).collect();
            index.levels[FROZEN - 1] = index.level_of(rebound);
        }
        index.is_wasteful = index.wants_left() > WANTS_LEFT_MAX.max(index.all.wants().len() / 2);
        index
    }

    /// Wants of every event that nobody has any more.
    fn wants_left(&self) -> usize {
        let mut is_wanted = vec![false; self.all.wants().len()];
        for entry in self.levels.iter().flat_map(Level::standing) {
            entry.columns_of_all().iter().for_each(|column| is_wanted[column.0 as usize] = true);
        }
        is_wanted.iter().filter(|is_wanted| !**is_wanted).count()
    }

    /// What a batch matches.
    pub(crate) fn find<'p>(
        &'p self,
        input: &MatchInput<'_>,
        finder: &'p mut Finder,
        scratch: &mut Scratch,
    ) -> Matches<'p> {
        let parts = self.levels.iter().map(|level| (&*level.part, &level.ended));
        let matches = finder.find(parts, input, scratch);
        self.statistics.count(input.decoded.rows as u64, matches.hits);
        matches
    }

    /// Whether a query that was found has begun for the events that found it.
    pub(crate) fn has_begun(&self, found: &Matched<'_>) -> bool {
        self.begun_before.is_none_or(|begun| found.number < begun)
    }

    /// Queries that stand.
    pub fn len(&self) -> usize {
        self.levels.iter().map(Level::len).sum()
    }

    /// Whether no query stands.
    pub fn is_empty(&self) -> bool {
        self.levels.iter().all(|level| level.len() == 0)
    }

    /// Queries that every event is tested for, those that have ended since the last rebuild among them. Each has a share
    /// of work that a batch costs whatever its size.
    pub fn scanned(&self) -> usize {
        self.levels.iter().map(|level| level.part.scanned()).sum()
    }

    /// Bytes held, about, without the compiled queries.
    pub fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.part.bytes()).sum()
    }

    /// The paths decoded of every event.
    pub fn wants(&self) -> &[Want] {
        self.all.wants()
    }

    /// Takes decoded events (by this index's [`plan`](Index::plan)) for what is usual on the stream: access predicates
    /// are chosen by them from now on. Shards show it samples by themselves.
    pub fn look_at(&self, decoded: &Decoded) {
        self.statistics.keep(&self.all, decoded.clone());
    }

    /// The plan by which events are decoded for [`matches`](Index::matches).
    pub fn plan(&self) -> &DecodePlan {
        &self.all
    }
}

/// Which queries match which events of a batch, and nothing else: what a benchmark or a test of the matcher alone asks.
#[derive(Debug, Default)]
pub struct Matching {
    finder: Finder,
    scratch: Scratch,
}

impl Matching {
    /// Tells each query with a match, with the rows that it matches, ascending. The batch must have been decoded by the
    /// index's own [`plan`](Index::plan). Queries of samples see the rows as the first events of their source.
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

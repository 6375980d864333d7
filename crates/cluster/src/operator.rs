//! Queries that a worker computes as one: they match the same events and make the same of them, and differ in when they begin and end.
//!
//! Events are matched and folded once. The line of time is cut wherever a slice of one of the queries begins or ends; queries with the
//! same cuts are of one class, and a slice is made once for the class.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use swiftwater_event::Millis;
use swiftwater_live::{CutCounts, Series, SliceBoundaries, SlicePlan, StandingQuery};

use crate::{DistributedQuery, NodeName, OperatorKey, QueryNumber};

/// The number of an operator in its worker, never used again.
pub(crate) type OperatorNumber = u64;

/// The number of a class in its operator.
pub(crate) type ClassNumber = u64;

/// Queries that are computed as one.
pub(crate) struct Operator {
    pub(crate) key: OperatorKey,
    /// The query by which events are matched.
    pub(crate) query: Arc<StandingQuery>,
    pub(crate) plan: Arc<SlicePlan>,
    pub(crate) has_groups: bool,
    /// The longest slice of a window; none: a query's slice is as long as its life.
    span_ms: Option<u64>,
    counts: CutCounts,
    pub(crate) cuts: SliceBoundaries,
    is_cut_anew: bool,
    is_untold: bool,
    /// The nodes that serve its queries.
    pub(crate) servers: BTreeMap<NodeName, BTreeSet<QueryNumber>>,
    pub(crate) classes: Classes,
    /// The beginnings of its queries.
    pub(crate) begins: BTreeSet<(Millis, QueryNumber)>,
    /// The numbers of records after which queries are over, and of the queries with each; and of the queries that are not.
    limits: BTreeMap<u64, usize>,
    unlimited: usize,
}

/// The classes of an operator whose results are groups.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    all: BTreeMap<ClassNumber, Class>,
    numbers: HashMap<SliceBoundaries, ClassNumber>,
    by_series: BTreeMap<Series, BTreeSet<ClassNumber>>,
    next: ClassNumber,
    /// Those from this number on were opened since partitions were told.
    new_from: ClassNumber,
}

/// Queries with the same cuts.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) cuts: SliceBoundaries,
    /// The queries of each node, by their beginnings.
    members: BTreeMap<NodeName, BTreeSet<(Millis, QueryNumber)>>,
    ends: Option<Millis>,
}

impl Class {
    /// The nodes that serve a query which sees the events of a slice that begins at this time.
    pub(crate) fn servers_at(&self, start: Millis) -> impl Iterator<Item = &NodeName> {
        let is_seen = self.ends.is_none_or(|ends| start < ends);
        let begun =
            move |of: &BTreeSet<(Millis, QueryNumber)>| of.first().is_some_and(|first| first.0 <= start);
        self.members.iter().filter(move |(_, of)| is_seen && begun(of)).map(|(server, _)| server)
    }
}

impl Classes {
    /// The number of the class with these cuts.
    pub(crate) fn number(&self, cuts: &SliceBoundaries) -> Option<ClassNumber> {
        self.numbers.get(cuts).copied()
    }

    pub(crate) fn get(&self, number: ClassNumber) -> Option<&Class> {
        self.all.get(&number)
    }

    /// True if partitions were not told of it.
    pub(crate) fn is_new(&self, number: ClassNumber) -> bool {
        number >= self.new_from
    }

    /// The classes that have a cut after one time and not after another.
    pub(crate) fn cut_between(&self, after: Millis, until: Millis) -> BTreeSet<ClassNumber> {
        let mut found = BTreeSet::new();
        let mut from = Some(Series { every: 0, phase: 0 });
        while let Some((first, _)) = from.and_then(|from| self.by_series.range(from..).next()) {
            let every = first.every;
            let of = |phases: std::ops::RangeInclusive<u64>| {
                let (start, end) = phases.into_inner();
                self.by_series.range(Series { every, phase: start }..=Series { every, phase: end })
            };
            let (low, high) =
                (Series::new(every, after.saturating_add(1)).phase, Series::new(every, until).phase);
            if until.abs_diff(after) >= every {
                found.extend(of(0..=every - 1).flat_map(|(_, classes)| classes));
            } else if low <= high {
                found.extend(of(low..=high).flat_map(|(_, classes)| classes));
            } else {
                found.extend(of(low..=every - 1).chain(of(0..=high)).flat_map(|(_, classes)| classes));
            }
            from = every.checked_add(1).map(|every| Series { every, phase: 0 });
        }
        found
    }

    fn add(&mut self, query: &DistributedQuery, server: &NodeName) {
        let number = match self.numbers.get(&query.cuts) {
            Some(number) => *number,
            None => {
                self.next += 1;
                self.numbers.insert(query.cuts.clone(), self.next);
                for series in query.cuts.series() {
                    self.by_series.entry(*series).or_default().insert(self.next);
                }
                self.next
            }
        };
        let class = self.all.entry(number).or_insert_with(|| Class {
            cuts: query.cuts.clone(),
            members: BTreeMap::new(),
            ends: query.ends,
        });
        class.members.entry(NodeName::clone(server)).or_default().insert((query.begins, query.number));
    }

    /// Answers the class if it is gone with the query.
    fn remove(&mut self, query: &DistributedQuery, server: &NodeName) -> Option<ClassNumber> {
        let number = self.number(&query.cuts)?;
        let class = self.all.get_mut(&number)?;
        if let Some(of) = class.members.get_mut(server) {
            of.remove(&(query.begins, query.number));
            if of.is_empty() {
                class.members.remove(server);
            }
        }
        if !class.members.is_empty() {
            return None;
        }
        self.all.remove(&number);
        self.numbers.remove(&query.cuts);
        for series in query.cuts.series() {
            if let Some(classes) = self.by_series.get_mut(series) {
                classes.remove(&number);
                if classes.is_empty() {
                    self.by_series.remove(series);
                }
            }
        }
        Some(number)
    }
}

impl Operator {
    pub(crate) fn new(query: &DistributedQuery) -> Operator {
        Operator {
            key: query.operator,
            query: Arc::clone(&query.matched),
            plan: Arc::new(SlicePlan::new(query.cuts.clone())),
            has_groups: query.has_groups(),
            span_ms: query.span_ms,
            counts: CutCounts::default(),
            cuts: SliceBoundaries::default(),
            is_cut_anew: false,
            is_untold: true,
            servers: BTreeMap::new(),
            classes: Classes::default(),
            begins: BTreeSet::new(),
            limits: BTreeMap::new(),
            unlimited: 0,
        }
    }

    pub(crate) fn add(&mut self, query: &DistributedQuery, server: &NodeName) {
        self.servers.entry(NodeName::clone(server)).or_default().insert(query.number);
        self.begins.insert((query.begins, query.number));
        match query.records_max {
            Some(most) => *self.limits.entry(most).or_default() += 1,
            None => self.unlimited += 1,
        }
        if self.has_groups {
            self.counts.add(&query.cuts);
            self.classes.add(query, server);
            self.is_cut_anew = true;
        }
    }

    /// Answers the class that is gone with the query.
    pub(crate) fn remove(&mut self, query: &DistributedQuery, server: &NodeName) -> Option<ClassNumber> {
        if let Some(of) = self.servers.get_mut(server) {
            of.remove(&query.number);
            if of.is_empty() {
                self.servers.remove(server);
            }
        }
        self.begins.remove(&(query.begins, query.number));
        match query.records_max {
            None => self.unlimited -= 1,
            Some(most) => {
                if let Some(count) = self.limits.get_mut(&most) {
                    *count -= 1;
                    if *count == 0 {
                        self.limits.remove(&most);
                    }
                }
            }
        }
        if self.has_groups {
            self.counts.remove(&query.cuts);
            self.is_cut_anew = true;
            return self.classes.remove(query, server);
        }
        None
    }

    /// True if partitions were never told of queries of it.
    pub(crate) fn is_new(&self) -> bool {
        self.is_untold
    }

    /// Partitions were told of its queries.
    pub(crate) fn told(&mut self) {
        self.is_untold = false;
        self.classes.new_from = self.classes.next + 1;
    }

    /// The most records of a partition that one of its queries needs from its beginning on, besides those that need all.
    pub(crate) fn records_max(&self) -> u64 {
        self.limits.last_key_value().map_or(0, |(most, _)| *most)
    }

    /// True if none of its queries needs all records.
    pub(crate) fn is_limited(&self) -> bool {
        self.unlimited == 0
    }

    /// True if its queries have windows over groups.
    pub(crate) fn has_windows(&self) -> bool {
        self.span_ms.is_some()
    }

    /// The first beginning of its queries.
    pub(crate) fn first_begin(&self) -> Millis {
        self.begins.first().map_or(Millis::MIN, |first| first.0)
    }

    /// Cuts events from now on as its present queries need it.
    pub(crate) fn cut(&mut self) {
        if std::mem::take(&mut self.is_cut_anew) {
            self.cuts = self.counts.cuts();
            self.plan.begin(0, self.cuts.clone(), 0);
        }
    }

    /// No slice that ends after this time began before the answer.
    pub(crate) fn open_at(&self, time: Millis) -> Millis {
        let begins = self.begins.first().map_or(time, |first| first.0);
        match self.span_ms {
            Some(span) => time.saturating_sub_unsigned(span).max(begins),
            None => begins,
        }
    }
}

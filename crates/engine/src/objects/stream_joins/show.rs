//! Describes joins: `SHOW JOINS`, `SHOW CREATE JOIN`, `DESCRIBE JOIN`.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use swiftwater_lang::ddl::Ddl;
use swiftwater_sql::SqlError;

use super::{Join, join::Counts};
use crate::{
    answer::{table, texts},
    durable::history::History,
    error::sql::from_engine,
    status::JoinsMetrics,
};

impl History {
    pub(crate) fn show_joins(&self) -> RecordBatch {
        self.joins_table(&self.all_joins())
    }

    pub(crate) fn describe_join(&self, name: &str) -> Result<RecordBatch, SqlError> {
        self.with_catalog(|catalog| catalog.join(name).map(drop)).map_err(from_engine)?;
        let joins = self.all_joins().into_iter().filter(|join| join.name() == name);
        Ok(self.joins_table(&joins.collect::<Vec<_>>()))
    }

    pub(crate) fn show_create_join(&self, name: &str) -> Result<RecordBatch, SqlError> {
        let create = self.with_catalog(|catalog| catalog.join(name).map(|entry| entry.create.clone()));
        let text = Ddl::CreateJoin(create.map_err(from_engine)?).to_string();
        Ok(table([("join", texts([name])), ("statement", texts([&*text]))]))
    }

    pub(crate) fn joins_metrics(&self) -> JoinsMetrics {
        let mut all = JoinsMetrics::default();
        for join in self.all_joins() {
            let count = |of: fn(&Counts) -> &AtomicU64| of(&join.counts).load(Ordering::Relaxed);
            all.joins += 1;
            all.pairs += count(|counts| &counts.pairs);
            all.kept_events += count(|counts| &counts.kept_events);
            all.kept_bytes += count(|counts| &counts.kept_bytes);
            all.late += count(|counts| &counts.late);
            all.ahead += count(|counts| &counts.ahead);
            all.failing += u64::from(join.failing().is_some());
        }
        all
    }

    fn joins_table(&self, joins: &[Arc<Join>]) -> RecordBatch {
        let synced = self.log.horizons().synced.0;
        let numbers = |of: fn(&Counts) -> &AtomicU64| -> ArrayRef {
            let values = joins.iter().map(|join| of(&join.counts).load(Ordering::Relaxed) as i64);
            Arc::new(Int64Array::from_iter_values(values))
        };
        let names = |of: fn(&Join) -> &str| texts(joins.iter().map(|join| of(join)));
        let created = joins.iter().map(|join| join.entry.created);
        let behind = joins.iter().map(|join| {
            let position = join.counts.position.load(Ordering::Relaxed);
            synced.saturating_sub(position) as i64
        });
        let failing = joins.iter().map(|join| join.failing().map(|failing| failing.why));
        table([
            ("join", names(Join::name)),
            ("left", names(|join| join.entry.create.sides[0].as_str())),
            ("right", names(|join| join.entry.create.sides[1].as_str())),
            ("stream", names(|join| join.entry.create.target.as_str())),
            ("created", Arc::new(TimestampMillisecondArray::from_iter_values(created).with_timezone("UTC"))),
            ("pairs", numbers(|counts| &counts.pairs)),
            ("waiting", numbers(|counts| &counts.waiting)),
            ("refused", numbers(|counts| &counts.refused)),
            ("late", numbers(|counts| &counts.late)),
            ("ahead", numbers(|counts| &counts.ahead)),
            ("untimed", numbers(|counts| &counts.untimed)),
            ("passed_over", numbers(|counts| &counts.passed_over)),
            ("kept_events", numbers(|counts| &counts.kept_events)),
            ("kept_bytes", numbers(|counts| &counts.kept_bytes)),
            ("held_bytes", numbers(|counts| &counts.held_bytes)),
            ("behind_bytes", Arc::new(Int64Array::from_iter_values(behind)) as ArrayRef),
            ("failing", Arc::new(failing.collect::<StringArray>())),
        ])
    }
}

//! Describes alerts: `SHOW ALERTS`, `SHOW CREATE ALERT`, `DESCRIBE ALERT`.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use swiftwater_lang::ddl::Ddl;
use swiftwater_sql::SqlError;

use super::{Alert, alert::Counts};
use crate::{
    answer::{table, texts},
    durable::history::History,
    error::sql::from_engine,
};

impl History {
    pub(crate) fn show_alerts(&self) -> RecordBatch {
        alerts_table(&self.all_alerts())
    }

    pub(crate) fn describe_alert(&self, name: &str) -> Result<RecordBatch, SqlError> {
        self.with_catalog(|catalog| catalog.alert(name).map(drop)).map_err(from_engine)?;
        let alerts = self.all_alerts().into_iter().filter(|alert| alert.name() == name);
        Ok(alerts_table(&alerts.collect::<Vec<_>>()))
    }

    pub(crate) fn show_create_alert(&self, name: &str) -> Result<RecordBatch, SqlError> {
        let create = self.with_catalog(|catalog| catalog.alert(name).map(|entry| entry.create.clone()));
        let text = Ddl::CreateAlert(create.map_err(from_engine)?).to_string();
        Ok(table([("alert", texts([name])), ("statement", texts([&*text]))]))
    }

    /// Alerts at work, keys that meet their conditions, and alerts that do not go on.
    pub(crate) fn alerts_metrics(&self) -> (u64, u64, u64) {
        let alerts = self.all_alerts();
        let met = alerts.iter().map(|alert| alert.counts.met.load(Ordering::Relaxed)).sum();
        let failing = alerts.iter().filter(|alert| alert.failing().is_some()).count();
        (alerts.len() as u64, met, failing as u64)
    }
}

fn alerts_table(alerts: &[Arc<Alert>]) -> RecordBatch {
    let numbers = |of: fn(&Counts) -> &AtomicU64| -> ArrayRef {
        let values = alerts.iter().map(|alert| of(&alert.counts).load(Ordering::Relaxed) as i64);
        Arc::new(Int64Array::from_iter_values(values))
    };
    let some = |of: fn(&Alert) -> Option<String>| -> ArrayRef {
        Arc::new(alerts.iter().map(|alert| of(alert)).collect::<StringArray>())
    };
    let created = alerts.iter().map(|alert| alert.entry.created);
    table([
        ("alert", texts(alerts.iter().map(|alert| alert.name()))),
        // One of its own has no name.
        ("view", some(|alert| alert.entry.create.view().map(str::to_owned))),
        ("query", some(|alert| alert.entry.create.query().map(str::to_owned))),
        ("condition", texts(alerts.iter().map(|alert| &*alert.entry.create.condition))),
        ("target", some(|alert| Some(alert.entry.create.target.to_string()))),
        ("created", Arc::new(TimestampMillisecondArray::from_iter_values(created).with_timezone("UTC"))),
        ("firing", numbers(|counts| &counts.met)),
        ("position", numbers(|counts| &counts.position)),
        ("messages", numbers(|counts| &counts.messages)),
        ("refused", numbers(|counts| &counts.refused)),
        ("dead", numbers(|counts| &counts.dead)),
        ("passed_over", numbers(|counts| &counts.passed_over)),
        ("failing", some(Alert::failing)),
    ])
}

//! Describes saved objects: `SHOW SAVED QUERIES` and its like, `SHOW CREATE SAVED QUERY`.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use swiftwater_catalog::kind::saved::SavedEntry;
use swiftwater_lang::ddl::{Ddl, SavedKind, SavedName};
use swiftwater_sql::SqlError;

use crate::{
    answer::{table, texts},
    error::sql::from_engine,
    objects::saved::title_of,
    shared::Shared,
};

impl Shared {
    pub(crate) fn show_saved(&self, kind: SavedKind) -> RecordBatch {
        let entries = self.saved_list(kind, "", None, usize::MAX).entries;
        let time = |of: fn(&SavedEntry) -> i64| -> ArrayRef {
            let times = entries.iter().map(|entry| of(entry));
            Arc::new(TimestampMillisecondArray::from_iter_values(times).with_timezone("UTC"))
        };
        let number = |of: fn(&SavedEntry) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(entries.iter().map(|entry| of(entry))))
        };
        let optional = |of: &dyn Fn(&SavedEntry) -> Option<String>| -> ArrayRef {
            Arc::new(entries.iter().map(|entry| of(entry)).collect::<StringArray>())
        };
        let title = |entry: &SavedEntry| match kind {
            SavedKind::Query => None,
            _ => title_of(&entry.create.text),
        };
        table([
            ("name", texts(entries.iter().map(|entry| &*entry.create.name.name))),
            ("title", optional(&title)),
            ("comment", optional(&|entry| entry.create.comment.as_deref().map(str::to_owned))),
            ("revision", number(|entry| entry.revision as i64)),
            ("bytes", number(|entry| entry.bytes() as i64)),
            ("created", time(|entry| entry.created)),
            ("changed", time(|entry| entry.changed)),
        ])
    }

    pub(crate) fn show_create_saved(&self, name: &SavedName) -> Result<RecordBatch, SqlError> {
        let entry = self.saved(name).map_err(from_engine)?;
        let text = Ddl::CreateSaved(entry.create.clone()).to_string();
        Ok(table([("name", texts([&*entry.create.name.name])), ("statement", texts([&*text]))]))
    }
}

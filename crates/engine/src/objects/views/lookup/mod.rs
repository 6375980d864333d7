//! Lookup joins: resolves the names that a query joins with to views and tables.
//!
//! Names are resolved when the query is planned. Its step requests rows when it has events. Views answer from memory and disk
//! ([`view_rows`]); tables are in memory ([`crate::objects::lookup_join`]). A view that joins waits until the joined objects
//! count all earlier events ([`freshness`]).

mod freshness;
mod view_rows;

pub(super) use freshness::{Awaited, WaitError};

use std::sync::Arc;

use swiftwater_catalog::kind::lookup_join::TableColumns;
use swiftwater_event::Type;
use swiftwater_lang::{Joined, ParseOptions, joined_names};
use swiftwater_runtime::JoinSources;

use super::View;
use crate::{durable::history::History, objects::lookup_join::JoinedTable};
use view_rows::ViewRows;

/// The views and tables that a query may be joined with.
#[derive(Default)]
pub(crate) struct Sources {
    /// The joined objects for planning and running.
    pub(crate) sources: JoinSources,
    views: Vec<Arc<View>>,
    tables: Vec<Arc<JoinedTable>>,
}

impl History {
    /// The tables and views that the text of a query joins, as far as they exist; tables only if they are in memory.
    pub(crate) fn sources_of(&self, text: &str, options: &ParseOptions<'_>) -> Sources {
        let mut found = Sources::default();
        for name in joined_names(text, options) {
            if let Ok(view) = self.view(&name) {
                let id = u64::from(view.id());
                let (key, columns) = (Some(view.query.key_columns()), view.columns.clone());
                found.sources.known.push(Joined { name, id, key, columns });
                let rows = ViewRows::new(Arc::clone(&view), Arc::clone(&self.clock));
                found.sources.rows.push((id, Arc::new(rows)));
                found.views.push(view);
            } else if let Some(table) = self.objects.joined_tables.lock().get(&name).cloned() {
                let (id, columns) = (table.id, table.columns.clone());
                found.sources.known.push(Joined { name, id, key: None, columns });
                found.sources.rows.push((id, Arc::<JoinedTable>::clone(&table)));
                found.tables.push(table);
            }
        }
        found
    }
}

impl Sources {
    /// True if there is nothing to join with.
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.known.is_empty()
    }

    /// The columns of the tables, by the tables' names.
    pub(crate) fn columns_of_tables(&self) -> Vec<TableColumns> {
        let columns_of = |table: &Arc<JoinedTable>| {
            let columns = table.columns.iter().map(|(name, ty)| (name.clone(), ty.to_string()));
            (table.name.clone(), columns.collect())
        };
        self.tables.iter().map(columns_of).collect()
    }
}

impl History {
    /// Restores joined tables from the catalog, without the store.
    pub(crate) fn restore_joined(&self, tables: &[TableColumns]) {
        for (name, columns) in tables {
            let typed =
                |(name, ty): &(Box<str>, String)| (name.clone(), Type::parse(ty).unwrap_or(Type::Any));
            self.joined_table(name, columns.iter().map(typed).collect());
        }
    }
}

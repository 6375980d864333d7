//! What a query's names stand for.

use std::sync::Arc;

use swiftwater_catalog::kind::lookup_join::TableColumns;
use swiftwater_event::Type;
use swiftwater_lang::{Joined, ParseOptions, joined_names};
use swiftwater_live::StandingQuery;

use super::{tables::JoinedTable, view_rows::ViewRows};
use crate::{
    history::{durable::History, views::View},
    stream::lock,
};

/// What a query may be joined with.
#[derive(Default)]
pub(crate) struct JoinSources {
    /// As planning needs to know it.
    pub(crate) known: Vec<Joined>,
    pub(super) views: Vec<Arc<View>>,
    pub(super) tables: Vec<Arc<JoinedTable>>,
}

impl History {
    /// What the text of a query names in joins, as far as it is there; tables, as far as they are held in memory.
    pub(crate) fn join_sources(&self, text: &str, options: &ParseOptions<'_>) -> JoinSources {
        let mut sources = JoinSources::default();
        for name in joined_names(text, options) {
            if let Ok(view) = self.view(&name) {
                sources.known.push(Joined {
                    name,
                    id: u64::from(view.id()),
                    key: Some(view.query.key_columns()),
                    columns: view.columns.clone(),
                });
                sources.views.push(view);
            } else if let Some(table) = lock(&self.joined_tables).get(&name).cloned() {
                sources.known.push(Joined { name, id: table.id, key: None, columns: table.columns.clone() });
                sources.tables.push(table);
            }
        }
        sources
    }

    /// Gives a compiled query what it is joined with.
    pub(crate) fn attach_joined(&self, sources: &JoinSources, query: &StandingQuery) {
        for join in query.joins() {
            if let Some(view) = sources.views.iter().find(|view| u64::from(view.id()) == join.id) {
                join.give(Arc::new(ViewRows::new(Arc::clone(view), Arc::clone(&self.clock))));
            }
            if let Some(table) = sources.tables.iter().find(|table| table.id == join.id) {
                join.give(Arc::<JoinedTable>::clone(table));
            }
        }
    }
}

impl JoinSources {
    /// Whether there is nothing to be joined with.
    pub(in crate::history) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The columns of the tables, by the tables' names.
    pub(in crate::history) fn columns_of_tables(&self) -> Vec<TableColumns> {
        let columns_of = |table: &Arc<JoinedTable>| {
            let columns = table.columns.iter().map(|(name, ty)| (name.clone(), ty.to_string()));
            (table.name.clone(), columns.collect())
        };
        self.tables.iter().map(columns_of).collect()
    }
}

impl History {
    /// Lets tables be joined as they were when they were written down, wherever their store is.
    pub(in crate::history) fn know_joined(&self, tables: &[TableColumns]) {
        for (name, columns) in tables {
            let typed =
                |(name, ty): &(Box<str>, String)| (name.clone(), Type::parse(ty).unwrap_or(Type::Any));
            self.joined_table(name, columns.iter().map(typed).collect());
        }
    }
}

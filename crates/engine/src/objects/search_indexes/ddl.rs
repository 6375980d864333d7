//! CREATE, ALTER and DROP SEARCH INDEX, and the end of an index with its table.

use swiftwater_catalog::Change;
use swiftwater_lang::ddl::{AlterSearchIndex, CreateSearchIndex, Ddl, RebuildSearchIndex};

use super::columns::named_columns;
use crate::{
    EngineError,
    ddl::{Context, LoggedAsWritten, Planned, Statement},
    durable::history::History,
};

impl Statement for CreateSearchIndex {
    type Prepared = ();

    async fn prepare(
        &self,
        Context { history, shared }: Context<'_>,
        _: &Ddl,
    ) -> Result<Option<Planned<()>>, EngineError> {
        let is_new = history.with_catalog(|catalog| catalog.search_indexes().of(&self.table).is_none());
        let columns = match is_new {
            true => {
                let declared = self.definition.columns.iter().map(|(column, _)| column);
                let named = declared.chain(&self.definition.defaults).map(|column| &**column);
                let named: Vec<&str> = named.collect();
                history.indexed_columns(shared, &self.table, &named).await?
            }
            false => Vec::new(),
        };
        // The change has the names of the columns as the table has them.
        let change = history.with_catalog(|catalog| catalog.check_create_index(self, &columns))?;
        Ok(change.map(|change| Planned { change, prepared: () }))
    }

    async fn apply_effect(&self, Context { history, .. }: Context<'_>, (): ()) -> Result<(), EngineError> {
        history.update_index(&self.table).await;
        Ok(())
    }
}

impl Statement for AlterSearchIndex {
    type Prepared = ();

    async fn prepare(
        &self,
        Context { history, shared }: Context<'_>,
        _: &Ddl,
    ) -> Result<Option<Planned<()>>, EngineError> {
        history.with_catalog(|catalog| catalog.search_indexes().get(&self.table).map(drop))?;
        let named = named_columns(&self.changes);
        let columns = history.indexed_columns(shared, &self.table, &named).await?;
        let change = history.with_catalog(|catalog| catalog.check_alter_index(self, &columns))?;
        Ok(change.map(|change| Planned { change, prepared: () }))
    }

    async fn apply_effect(&self, Context { history, .. }: Context<'_>, (): ()) -> Result<(), EngineError> {
        history.update_index(&self.table).await;
        Ok(())
    }
}

/// `DROP SEARCH INDEX`.
pub(crate) struct DropSearchIndex<'d>(pub(crate) &'d str);

impl LoggedAsWritten for DropSearchIndex<'_> {
    async fn apply_effect(&self, Context { history, .. }: Context<'_>) -> Result<(), EngineError> {
        history.update_index(self.0).await;
        Ok(())
    }
}

impl History {
    /// Builds the index files of a range of time again; returns true if there are any.
    pub(crate) async fn rebuild_index(&self, rebuild: &RebuildSearchIndex) -> Result<bool, EngineError> {
        self.with_catalog(|catalog| catalog.search_indexes().get(&rebuild.table).map(drop))?;
        Ok(self.rebuild_index_files(rebuild).await)
    }

    /// Drops the search index of a plain table that is gone. If the log cannot record that, the next start does.
    pub(crate) async fn drop_index_of(&self, table: &str) {
        if self.with_catalog(|catalog| catalog.search_indexes().of(table).is_none()) {
            return;
        }
        let drop = Ddl::DropSearchIndex { table: table.into(), if_exists: true };
        if let Err(error) = self.record(Change::Ddl(drop.to_string())).await {
            tracing::warn!(table, %error, "the search index of a dropped table is deleted from the log later");
            self.change_catalog(|catalog| catalog.forget_index(table));
        }
        self.update_index(table).await;
    }
}

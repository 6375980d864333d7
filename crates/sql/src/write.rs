//! Runs statements that change tables: `CREATE TABLE`, `INSERT`, `DROP TABLE`; and `DESCRIBE`.

use std::sync::Arc;

use arrow::compute::can_cast_types;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::{Column, DataFusionError};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::{DdlStatement, Expr, LogicalPlan, LogicalPlanBuilder, cast};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    CreateTable, Ident, Insert, ObjectName, ObjectNamePart, Statement as SqlStatement, TableObject,
};

use crate::answer::Command;
use crate::meaning;
use crate::names::{Names, find_column, of_system};
use crate::run::{Outcome, Planned, Run, count, nothing, one, outcome, table_of_columns};
use crate::storable::{storable, written_down};
use crate::text::place_of_span;
use crate::watched::{elsewhere, rows_for_elsewhere};
use crate::whole::{is_cut, whole};
use crate::{Dialect, ErrorKind, SqlError, TableKind};

impl Run {
    /// `INSERT INTO t [(columns)] query`, `INSERT OVERWRITE [TABLE] t query`.
    ///
    /// Columns are filled by position, or as they are named; values are cast to the types of their columns, numbers to whole
    /// ones only if they are. In the spark dialect a table that is not there is made.
    pub(crate) async fn insert(&self, insert: Insert, names: Arc<Names>) -> Result<Outcome, SqlError> {
        let TableObject::TableName(target) = &insert.table else {
            return Err(SqlError::invalid("rows can be inserted into a table only"));
        };
        check_insert(&insert)?;
        let (ident, found) = names.target(target)?;
        let Some(source) = insert.source else {
            return Err(SqlError::invalid("INSERT needs a query or VALUES").at(place_of_span(ident.span)));
        };
        if insert.overwrite && found.as_deref().and_then(|name| names.kind(name)) == Some(TableKind::Stream) {
            return Err(SqlError::invalid(format!(
                "`{}` is a stream, whose events cannot be overwritten",
                ident.value
            ))
            .at(place_of_span(ident.span))
            .with_hint("INSERT INTO adds events; a table made by CREATE TABLE can be overwritten."));
        }
        let query = Statement::Statement(Box::new(SqlStatement::Query(source)));
        let planned = self.plan(query, Arc::clone(&names)).await?;
        if found.is_none() && self.options.dialect == Dialect::Spark {
            let schema = storable(planned.plan.schema().as_arrow())?;
            let rows =
                self.rows_for(&planned, &schema, &insert.columns, &insert.after_columns, ident).await?;
            let rows = rows_for_elsewhere(&self.watch, rows);
            let making = self.tables.create_table(&ident.value, schema, Some(rows), true);
            if let Some(rows) = elsewhere(making).await? {
                return Ok(outcome(Command::Insert, count(rows)?));
            }
        }
        let name = match found {
            Some(name) => name,
            // Another statement has made it meanwhile.
            None if self.options.dialect == Dialect::Spark => ident.value.clone(),
            None => return Err(names.missing(ident, &ident.value)),
        };
        let schema = self.tables.insertable(&name).await?.ok_or_else(|| {
            SqlError::invalid(format!("nothing can be inserted into `{name}`")).at(place_of_span(ident.span))
        })?;
        let rows = self.rows_for(&planned, &schema, &insert.columns, &insert.after_columns, ident).await?;
        let rows = rows_for_elsewhere(&self.watch, rows);
        let rows = elsewhere(self.tables.insert(&name, rows, insert.overwrite)).await?;
        Ok(outcome(Command::Insert, count(rows)?))
    }

    /// The rows of a query for the columns of a target that a statement names, or for all.
    async fn rows_for(
        &self,
        planned: &Planned,
        target: &SchemaRef,
        columns: &[ObjectName],
        after: &[Ident],
        ident: &Ident,
    ) -> Result<SendableRecordBatchStream, SqlError> {
        let named = !(columns.is_empty() && after.is_empty());
        let columns = target_columns(target, columns, after)?;
        self.cast_rows(planned, target, &columns, named, ident).await
    }

    /// Starts a query with its columns as those of a target.
    async fn cast_rows(
        &self,
        planned: &Planned,
        target: &SchemaRef,
        columns: &[usize],
        named: bool,
        ident: &Ident,
    ) -> Result<SendableRecordBatchStream, SqlError> {
        let schema = planned.plan.schema();
        let given = schema.fields().len();
        // Without names fewer values than columns are a mistake more often than they are meant.
        if given != columns.len() {
            let wanted: Vec<&str> =
                columns.iter().map(|&index| target.field(index).name().as_str()).collect();
            let what = if named { "columns are named" } else { "columns are in the table" };
            return Err(SqlError::invalid(format!(
                "{given} values are given for `{}`, but {} {what}",
                ident.value,
                columns.len()
            ))
            .at(place_of_span(ident.span))
            .with_hint(format!("Columns are: {}.", wanted.join(", "))));
        }
        let mut expressions = Vec::with_capacity(given);
        for ((qualifier, field), &index) in schema.iter().zip(columns) {
            let wanted = target.field(index);
            let column = Expr::Column(Column::from((qualifier, field)));
            let column = match (field.data_type(), wanted.data_type()) {
                (from, into) if from == into => column,
                (from, into) if is_cut(from, into) => whole(column, wanted.name(), into),
                (from, into) if meaning::may_leave_range(from, into) => {
                    meaning::in_range(column, into.clone())
                }
                (_, into) => cast(column, into.clone()),
            };
            expressions.push(column.alias(wanted.name()));
        }
        let plan = LogicalPlanBuilder::from(planned.plan.clone()).project(expressions)?.build()?;
        self.open(planned, &plan).await
    }

    /// `CREATE TABLE [IF NOT EXISTS] t (columns)`, `CREATE TABLE [IF NOT EXISTS] t AS query`.
    pub(crate) async fn create_table(
        &self,
        create: CreateTable,
        names: Arc<Names>,
    ) -> Result<Outcome, SqlError> {
        let idents: Vec<Ident> = create.name.0.iter().filter_map(ObjectNamePart::as_ident).cloned().collect();
        let place = idents.first().and_then(|ident| place_of_span(ident.span));
        let name = match names.target(&create.name)? {
            (_, Some(existing)) if create.if_not_exists => {
                tracing::debug!(table = %existing, "table exists already");
                return Ok(outcome(Command::CreateTable, count(0)?));
            }
            (_, Some(existing)) if self.tables.was_made_here(&existing).await? => {
                return Ok(outcome(Command::CreateTable, count(0)?));
            }
            (_, Some(existing)) => {
                return Err(SqlError::new(ErrorKind::Conflict, format!("table `{existing}` already exists"))
                    .at(place)
                    .with_hint("INSERT OVERWRITE replaces its rows; DROP TABLE takes it away."));
            }
            (ident, None) => ident.value.clone(),
        };
        if create.or_replace || create.temporary {
            return Err(SqlError::invalid("a table is neither replaced nor temporary")
                .at(place)
                .with_hint("INSERT OVERWRITE replaces rows; DROP TABLE takes a table away."));
        }
        let if_not_exists = create.if_not_exists;
        let has_query = create.query.is_some();
        let statement = Statement::Statement(Box::new(SqlStatement::CreateTable(create)));
        let planned = self.plan(statement, names).await?;
        let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(table)) = &planned.plan else {
            return Err(SqlError::internal("a table was not planned as one"));
        };
        if !table.constraints.is_empty() || !table.column_defaults.is_empty() {
            return Err(SqlError::invalid("a table has no constraints and no defaults")
                .at(place)
                .with_hint("Streams have them: CREATE STREAM."));
        }
        let input = Arc::clone(&table.input);
        let schema = input.schema().as_arrow();
        let schema = if has_query { storable(schema) } else { written_down(schema) };
        let schema = schema.map_err(|error| error.at(place))?;
        let rows = if has_query {
            let planned = Planned { plan: input.as_ref().clone(), ..planned };
            Some(self.rows_for(&planned, &schema, &[], &[], &Ident::new(&name)).await?)
        } else {
            None
        };
        let rows = rows.map(|rows| rows_for_elsewhere(&self.watch, rows));
        let made = elsewhere(self.tables.create_table(&name, schema, rows, if_not_exists)).await?;
        Ok(outcome(Command::CreateTable, count(made.unwrap_or(0))?))
    }

    /// `DROP TABLE [IF EXISTS] a, b`.
    pub(crate) async fn drop_tables(
        &self,
        dropped: &[ObjectName],
        if_exists: bool,
        names: &Names,
    ) -> Result<Outcome, SqlError> {
        let mut found = Vec::new();
        for name in dropped {
            match names.target(name)? {
                (_, None) if if_exists => {}
                (ident, None) if self.tables.was_dropped_here(&ident.value) => {}
                (ident, None) => return Err(names.missing(ident, &ident.value)),
                (ident, Some(name)) => match names.kind(&name) {
                    Some(TableKind::Table) => found.push(name),
                    _ => {
                        return Err(SqlError::invalid(format!("`{name}` is not a table of rows"))
                            .at(place_of_span(ident.span))
                            .with_hint("DROP STREAM and DROP MATERIALIZED VIEW drop the others."));
                    }
                },
            }
        }
        for name in found {
            self.tables.drop_table(&name).await?;
        }
        Ok(outcome(Command::DropTable, nothing()))
    }

    /// `DESCRIBE t`.
    pub(crate) async fn describe(&self, name: &ObjectName, names: &Names) -> Result<Outcome, SqlError> {
        if let Some(system) = of_system(name)
            && let Some(table) = self.tables.system_table(&system).await?
        {
            return Ok(outcome(Command::Query, one(table_of_columns(&table.schema())?)));
        }
        let (ident, found) = names.target(name)?;
        let Some(found) = found else {
            return Err(names.missing(ident, &ident.value));
        };
        let Some(described) = self.tables.described(&found).await? else {
            return Err(names.missing(ident, &found));
        };
        Ok(outcome(Command::Query, one(table_of_columns(&described)?)))
    }
}

/// Returns true if values of a type can be inserted into a column of another, provided that each value fits.
pub fn can_be_inserted(from: &DataType, into: &DataType) -> bool {
    from == into || can_cast_types(from, into)
}

/// The columns of the target that the values are for, in order.
fn target_columns(schema: &Schema, columns: &[ObjectName], after: &[Ident]) -> Result<Vec<usize>, SqlError> {
    let named: Vec<&Ident> = columns
        .iter()
        .filter_map(|name| name.0.last().and_then(ObjectNamePart::as_ident))
        .chain(after)
        .collect();
    if named.is_empty() {
        return Ok((0..schema.fields().len()).collect());
    }
    let mut indices = Vec::with_capacity(named.len());
    for ident in named {
        let index = find_column(schema, ident)?;
        if indices.contains(&index) {
            return Err(SqlError::invalid(format!("column `{}` is named twice", ident.value))
                .at(place_of_span(ident.span)));
        }
        indices.push(index);
    }
    Ok(indices)
}

/// Clauses that other systems have and this one has not are refused, never passed over.
fn check_insert(insert: &Insert) -> Result<(), SqlError> {
    let foreign = [
        ("ON CONFLICT", insert.on.is_some()),
        ("RETURNING", insert.returning.is_some()),
        ("PARTITION", insert.partitioned.as_ref().is_some_and(|columns| !columns.is_empty())),
        ("SET", !insert.assignments.is_empty()),
        ("REPLACE", insert.replace_into || insert.or.is_some()),
        ("IGNORE", insert.ignore),
        ("OUTPUT", insert.output.is_some()),
        ("FORMAT", insert.format_clause.is_some() || insert.settings.is_some()),
    ];
    match foreign.iter().find(|(_, given)| *given) {
        Some((clause, _)) => Err(DataFusionError::NotImplemented(format!("{clause} of INSERT")).into()),
        None => Ok(()),
    }
}

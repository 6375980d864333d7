//! One run of statements, from its text to the last row: who executes each statement, and how a query becomes a stream.
//!
//! A statement of the engine goes to [`OtherStatements`](crate::OtherStatements). A query is rewritten in its syntax
//! tree (forms, meaning, names), planned over table snapshots that are taken once, rewritten as a plan (three-valued
//! logic, correlation, meaning), optimized, guarded and started.
//!
//! A run may have tables of its own ([`RunOptions::tables`]). With them, the statements of a job read only new events,
//! if the job asks for that.
//!
//! A plan that exceeds its memory limit before its first row is planned once more, with operators that spill
//! ([`Aim::Memory`]).

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, IntervalMonthDayNano, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::{FetchType, LogicalPlan, SkipType};
use datafusion::physical_plan::execute_stream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{ObjectType, Statement as SqlStatement};
use futures_util::{StreamExt, stream};
use tokio::sync::{mpsc, oneshot};

use crate::answer::{AnswerHead, Command, Item};
use crate::cancellation::timeout_error;
use crate::column_roles::column_roles;
use crate::correlation::marked;
use crate::error::{STATEMENTS, state};
use crate::first_batch_barrier::groups_together;
use crate::guarded::guard;
use crate::ignored::none_ignored;
use crate::large_results::check_digests;
use crate::membership::in_three_values;
use crate::names::{Names, not_all_known, resolve_columns, resolve_tables};
use crate::session::PlanGoal;
use crate::sliced::sliced;
use crate::sql::Inner;
use crate::stoppable::stoppable;
use crate::text::{StatementText, split};
use crate::watched::{RunMonitor, elsewhere};
use crate::{
    ColumnRole, ErrorKind, Parameter, Progress, RunMode, RunOptions, SqlError, Tables, copy,
    duplicate_columns, grouping, meaning, partitioned, plan_size, set, standard_forms,
};

/// A run of statements at work.
pub(crate) struct Run {
    pub(crate) inner: Arc<Inner>,
    /// Source of its tables, and destination of its rows.
    pub(crate) tables: Arc<dyn Tables>,
    pub(crate) options: RunOptions,
    pub(crate) progress: Arc<Progress>,
    pub(crate) watch: Arc<RunMonitor>,
    /// Receiver of the answer's columns, sent once.
    pub(crate) head: Option<oneshot::Sender<Result<AnswerHead, SqlError>>>,
    pub(crate) rows: mpsc::Sender<Item>,
    /// Room for how it ended, which is told however many rows wait for their reader.
    pub(crate) end: mpsc::OwnedPermit<Item>,
}

/// The result of a statement.
pub(crate) struct Outcome {
    pub(crate) command: Command,
    pub(crate) rows: SendableRecordBatchStream,
    /// The roles of the columns, of a query.
    pub(crate) roles: Vec<ColumnRole>,
}

/// A query that is planned, with what is needed to plan it once more with other joins.
pub(crate) struct Planned {
    pub(crate) plan: LogicalPlan,
    pub(crate) state: SessionState,
    pub(crate) names: Arc<Names>,
    pub(crate) resolved: HashMap<String, Arc<dyn TableProvider>>,
}

impl Run {
    /// Runs the text, within the time it has, and tells the reader how it ended.
    pub(crate) async fn run_to_the_end(mut self, text: &str, duration_max: Option<Duration>) {
        let watch = Arc::clone(&self.watch);
        let all = Box::pin(async {
            tokio::select! {
                biased;
                end = self.all(text) => end,
                error = watch.memory_exceeded() => Err(error),
            }
        });
        let end = match duration_max {
            None => all.await,
            Some(duration) => match tokio::time::timeout(duration, all).await {
                Ok(end) => end,
                Err(_) => Err(timeout_error(duration)),
            },
        };
        self.progress.finish();
        match (end, self.head.take()) {
            (Err(error), Some(head)) => {
                // The caller no longer waits for the answer.
                let _ = head.send(Err(error));
            }
            (Err(error), None) => drop(self.end.send(Item::Failed(error))),
            (Ok(()), _) => drop(self.end.send(Item::End)),
        }
    }

    async fn all(&mut self, text: &str) -> Result<(), SqlError> {
        let _turn = match self.options.has_turn {
            true => None,
            false => Some(self.inner.turns.admit(self.options.client).await?),
        };
        let statements = split(text, self.options.dialect, &self.inner.options)?;
        let Some((last, before)) = statements.split_last() else {
            self.send_head(Ok(head(nothing().schema(), Command::Nothing)));
            return Ok(());
        };
        // A run of a statement tells it by what it does.
        let changes = self.options.mode != RunMode::Run && statements.iter().any(|text| self.changes(text));
        for statement in before {
            if let Some(distributed) = set::distributed(statement, self.options.dialect)? {
                self.options.distributed = distributed;
                continue;
            }
            let mut outcome = self.execute(statement).await?;
            while let Some(batch) = outcome.rows.next().await {
                batch.map_err(SqlError::from)?;
            }
        }
        if set::distributed(last, self.options.dialect)?.is_some() {
            self.send_head(Ok(AnswerHead { changes, ..head(nothing().schema(), Command::Other) }));
            return Ok(());
        }
        let outcome = self.execute(last).await?;
        self.stream_answer(outcome, changes).await
    }

    /// True if a statement changes something. One that cannot be read changes nothing.
    fn changes(&self, text: &StatementText) -> bool {
        if self.is_elsewhere(text) {
            return !matches!(text.words.first().map(String::as_str), Some("SHOW" | "DESCRIBE" | "DESC"));
        }
        match text.parse(self.options.dialect) {
            Ok(Statement::CopyTo(_)) => true,
            Ok(Statement::Statement(inner)) => matches!(
                *inner,
                SqlStatement::Insert(_) | SqlStatement::CreateTable(_) | SqlStatement::Drop { .. }
            ),
            Ok(_) | Err(_) => false,
        }
    }

    /// True if a statement is one of the engine.
    fn is_elsewhere(&self, text: &StatementText) -> bool {
        let words: Vec<&str> = text.words.iter().map(String::as_str).collect();
        self.options.others.as_ref().is_some_and(|others| others.takes(&words))
    }

    fn send_head(&mut self, head: Result<AnswerHead, SqlError>) {
        if let Some(sender) = self.head.take() {
            // The receiver may be gone; then the task is about to be ended.
            let _ = sender.send(head);
        }
    }

    async fn stream_answer(&mut self, mut outcome: Outcome, changes: bool) -> Result<(), SqlError> {
        let roles = std::mem::take(&mut outcome.roles);
        self.send_head(Ok(AnswerHead {
            schema: outcome.rows.schema(),
            command: outcome.command,
            roles,
            changes,
        }));
        let mut left = self.options.rows_max;
        while let Some(batch) = outcome.rows.next().await {
            let batch = batch.map_err(SqlError::from)?;
            if batch.num_rows() == 0 {
                continue;
            }
            if let Some(left) = &mut left {
                *left = left.checked_sub(batch.num_rows() as u64).ok_or_else(|| {
                    SqlError::new(
                        ErrorKind::Limit,
                        format!("the answer has more than {} rows", self.options.rows_max.unwrap_or(0)),
                    )
                    .with_hint("Write a LIMIT, or aggregate.")
                })?;
            }
            self.progress.returned(batch.num_rows());
            self.watch.record_freed(batch.get_array_memory_size());
            if !self.send_rows(batch).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends rows to the reader, who has a certain time to read what was sent before; false if nobody reads any more.
    async fn send_rows(&self, batch: RecordBatch) -> Result<bool, SqlError> {
        let giving = self.rows.send(Item::Rows(batch));
        let Some(time) = self.inner.options.unread_max else { return Ok(giving.await.is_ok()) };
        match tokio::time::timeout(time, giving).await {
            Ok(given) => Ok(given.is_ok()),
            Err(_) => Err(SqlError::new(
                ErrorKind::Limit,
                format!("the client read nothing for {} ms, and other statements wait", time.as_millis()),
            )
            .with_hint("Read the rows as they arrive, or raise sql.unread_ms_max.")),
        }
    }

    async fn execute(&self, text: &StatementText) -> Result<Outcome, SqlError> {
        if self.options.mode == RunMode::ReadOnly && self.changes(text) {
            return Err(not_read_only(text));
        }
        if let Some(others) = self.options.others.as_ref().filter(|_| self.is_elsewhere(text)) {
            if self.options.mode == RunMode::Plan {
                others.check(&text.text).map_err(|error| moved(error, text))?;
                return Ok(outcome(Command::Other, nothing()));
            }
            let rows = elsewhere(others.run(&text.text)).await.map_err(|error| moved(error, text))?;
            return Ok(outcome(Command::Other, rows.map_or_else(nothing, one)));
        }
        let statement = text.parse(self.options.dialect)?;
        let names = Arc::new(Names::new(self.tables.names(), self.tables.names_all()));
        let end = match statement {
            statement if self.options.mode == RunMode::Plan && self.changes(text) => {
                Box::pin(self.check_change(statement, names)).await
            }
            Statement::CopyTo(copy) => Box::pin(self.copy(copy, names)).await,
            Statement::Explain(explain) if !is_query(&explain.statement) => {
                Err(SqlError::invalid("only queries can be explained")
                    .with_hint("Write EXPLAIN SELECT …, or EXPLAIN ANALYZE SELECT …."))
            }
            Statement::Explain(_) => Box::pin(self.query(statement, names)).await,
            Statement::CreateExternalTable(_) | Statement::Reset(_) => Err(refused(text)),
            Statement::Statement(inner) => match *inner {
                SqlStatement::Insert(insert) => Box::pin(self.insert(insert, names)).await,
                SqlStatement::CreateTable(create) => Box::pin(self.create_table(create, names)).await,
                SqlStatement::Drop { object_type: ObjectType::Table, if_exists, names: dropped, .. } => {
                    self.drop_tables(&dropped, if_exists, &names).await
                }
                SqlStatement::ShowTables { .. } if !names.is_whole() => Err(not_all_known()),
                SqlStatement::ShowTables { .. } => Ok(outcome(Command::Query, one(table_of_tables(&names)?))),
                SqlStatement::ExplainTable { table_name, .. } => self.describe(&table_name, &names).await,
                SqlStatement::Explain { ref statement, .. }
                    if !matches!(**statement, SqlStatement::Query(_)) =>
                {
                    Err(refused(text))
                }
                query @ (SqlStatement::Query(_)
                | SqlStatement::Explain { .. }
                | SqlStatement::ShowVariable { .. }
                | SqlStatement::ShowColumns { .. }
                | SqlStatement::ShowFunctions { .. }) => {
                    Box::pin(self.query(Statement::Statement(Box::new(query)), names)).await
                }
                _ => Err(refused(text)),
            },
        };
        // An error without a place gets the place of this statement.
        end.map_err(|error| {
            let error = not_a_text(error, text);
            if error.kind() == ErrorKind::Invalid { error.at(Some(text.place)) } else { error }
        })
    }

    /// Plans the query of a statement that changes something, if it has one.
    async fn check_change(&self, statement: Statement, names: Arc<Names>) -> Result<Outcome, SqlError> {
        let (command, query) = match statement {
            Statement::CopyTo(copy) => (
                Command::Copy,
                match copy.source {
                    CopyToSource::Query(query) => Some(query),
                    CopyToSource::Relation(_) => None,
                },
            ),
            Statement::Statement(inner) => match *inner {
                SqlStatement::Insert(insert) => (Command::Insert, insert.source),
                SqlStatement::CreateTable(create) => (Command::CreateTable, create.query),
                _ => (Command::DropTable, None),
            },
            _ => (Command::Other, None),
        };
        if let Some(query) = query {
            let query = Statement::Statement(Box::new(SqlStatement::Query(query)));
            let planned = self.plan(query, names).await?;
            planned.state.optimize(&planned.plan)?;
        }
        Ok(outcome(command, nothing()))
    }

    async fn query(&self, statement: Statement, names: Arc<Names>) -> Result<Outcome, SqlError> {
        let planned = self.plan(statement, names).await?;
        let roles = column_roles(&planned.plan);
        if self.options.mode == RunMode::Plan {
            // Such as `SELECT … INTO`, which has no physical plan.
            if matches!(planned.plan, LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_)) {
                return Err(SqlError::invalid("a query cannot change anything")
                    .with_hint("Write CREATE TABLE … AS SELECT …."));
            }
            guard(planned.state.optimize(&planned.plan)?, self.inner.options.memory_bytes_max)?;
            let schema = Arc::new(planned.plan.schema().as_arrow().clone());
            let rows = Box::pin(RecordBatchStreamAdapter::new(schema, stream::empty()));
            return Ok(Outcome { command: Command::Query, rows, roles });
        }
        let rows = self.open(&planned, &planned.plan).await?;
        let rows = match &planned.plan {
            LogicalPlan::Explain(explain) => {
                let rows = self.with_indexed_files(rows)?;
                match self.place_shown(&planned.state, &explain.plan).await? {
                    Some(place) => with_row(rows, ["distribution", &place])?,
                    None => rows,
                }
            }
            LogicalPlan::Analyze(_) => self.with_indexed_files(rows)?,
            _ => rows,
        };
        Ok(Outcome { roles, ..outcome(Command::Query, rows) })
    }

    /// The rows of an EXPLAIN, and one with the number of files that search indexes answered, if there are any.
    fn with_indexed_files(
        &self,
        rows: SendableRecordBatchStream,
    ) -> Result<SendableRecordBatchStream, SqlError> {
        match self.progress.indexed_files().paths().len() {
            0 => Ok(rows),
            files => {
                let text = format!("files whose rows a search index selects: {files}");
                with_row(rows, ["search_index", &text])
            }
        }
    }

    /// The place where a query runs; none if there is this node alone.
    #[cfg(feature = "distributed")]
    async fn place_shown(
        &self,
        state: &SessionState,
        plan: &LogicalPlan,
    ) -> Result<Option<String>, SqlError> {
        Box::pin(self.distribution_shown(state, plan)).await
    }

    #[cfg(not(feature = "distributed"))]
    async fn place_shown(
        &self,
        _state: &SessionState,
        _plan: &LogicalPlan,
    ) -> Result<Option<String>, SqlError> {
        Ok(None)
    }

    /// A session whose scans report the files that search indexes answer.
    fn session(
        &self,
        names: &Arc<Names>,
        resolved: HashMap<String, Arc<dyn TableProvider>>,
        goal: PlanGoal,
    ) -> Result<SessionState, SqlError> {
        let mut state = self.inner.sessions.session(&self.tables, names, resolved, goal)?;
        state.config_mut().set_extension(Arc::clone(self.progress.indexed_files()));
        Ok(state)
    }

    /// Plans a statement over snapshots of its tables.
    pub(crate) async fn plan(
        &self,
        mut statement: Statement,
        names: Arc<Names>,
    ) -> Result<Planned, SqlError> {
        none_ignored(&mut statement)?;
        plan_size::check(&statement)?;
        standard_forms::rewrite(&mut statement)?;
        meaning::rewrite(&mut statement, self.options.dialect)?;
        let reads = resolve_tables(&mut statement, &names)?;
        let mut resolved = HashMap::with_capacity(reads.tables.len());
        for wanted in &reads.tables {
            let table = self.tables.table(&wanted.name, wanted.at).await?;
            let table = table.ok_or_else(|| {
                SqlError::new(ErrorKind::NotFound, format!("table `{}` no longer exists", wanted.name))
            })?;
            resolved.insert(wanted.key.clone(), table);
        }
        let schemas: HashMap<String, SchemaRef> =
            resolved.iter().map(|(key, table)| (key.clone(), table.schema())).collect();
        resolve_columns(&mut statement, &reads, &schemas, &self.options.parameters)?;
        duplicate_columns::name_apart(&mut statement, &schemas);
        let state = self.session(&names, resolved.clone(), PlanGoal::Speed)?;
        let plan = match Box::pin(state.statement_to_plan(statement.clone())).await {
            Ok(plan) => plan,
            Err(error) => return Err(self.planning_error(error, &statement)),
        };
        let plan = bind(plan, &self.options.parameters)?;
        let plan = marked(in_three_values(plan)?)?;
        let plan = meaning::checked(plan, self.options.dialect)?;
        let plan = duplicate_columns::columns_apart(plan)?;
        Ok(Planned { plan, state, names, resolved })
    }

    fn planning_error(&self, error: DataFusionError, statement: &Statement) -> SqlError {
        let lacks_group = error.to_string().contains("must be in GROUP BY");
        let error = SqlError::from(error);
        if !lacks_group {
            return error;
        }
        let place = error.place();
        let columns = grouping::ungrouped(statement, &|name| self.inner.sessions.is_aggregate(name));
        match columns.as_slice() {
            [] => error,
            [column] => {
                SqlError::invalid(format!("column `{column}` is neither in GROUP BY nor in an aggregate"))
                    .with_state(state::UNGROUPED)
                    .at(place)
                    .with_hint(format!("Add GROUP BY {column}, or use it in an aggregate."))
            }
            columns => SqlError::invalid(format!(
                "columns `{}` are neither in GROUP BY nor in an aggregate",
                columns.join("`, `")
            ))
            .with_state(state::UNGROUPED)
            .at(place)
            .with_hint(format!("Add GROUP BY {}, or use them in aggregates.", columns.join(", "))),
        }
    }

    /// Starts a plan, up to its first rows.
    ///
    /// Hash joins do not spill, and sorts of many partitions share the memory. A plan that passes the limit before its
    /// first row is made again with merge joins and fewest partitions: dearer, so it is not the first choice.
    pub(crate) async fn open(
        &self,
        planned: &Planned,
        plan: &LogicalPlan,
    ) -> Result<SendableRecordBatchStream, SqlError> {
        match self.start(&planned.state, plan, PlanGoal::Speed).await? {
            StartOutcome::Rows(rows) => return Ok(rows),
            StartOutcome::OutOfMemory(error) => tracing::debug!(%error, "planning again for little memory"),
        }
        let state = self.session(&planned.names, planned.resolved.clone(), PlanGoal::Memory)?;
        if let LogicalPlan::Copy(copy) = plan {
            copy::remove_partial_files(copy)?;
        }
        match self.start(&state, plan, PlanGoal::Memory).await? {
            StartOutcome::Rows(rows) => Ok(rows),
            StartOutcome::OutOfMemory(error) => Err(SqlError::from(error)),
        }
    }

    async fn start(
        &self,
        state: &SessionState,
        plan: &LogicalPlan,
        goal: PlanGoal,
    ) -> Result<StartOutcome, SqlError> {
        let mut state = Cow::Borrowed(state);
        if has_window(plan)? {
            // DataFusion 55 pushes a LIMIT through windows into the grouping below: `count(*) OVER ()` would count less.
            let settings = state.to_mut().config_mut().options_mut();
            settings.optimizer.enable_topk_aggregation = false;
            settings.optimizer.enable_distinct_aggregation_soft_limit = false;
        }
        check_digests(plan)?;
        if has_large_limit(plan)? {
            state.to_mut().config_mut().options_mut().optimizer.enable_topk_aggregation = false;
        }
        let optimized = guard(state.optimize(plan)?, self.inner.options.memory_bytes_max)?;
        let physical =
            Box::pin(state.query_planner().create_physical_plan(&optimized, state.as_ref())).await?;
        #[cfg(feature = "distributed")]
        if goal == PlanGoal::Speed
            && let Some(rows) = Box::pin(self.open_divided(&state, plan, &physical)).await?
        {
            return Ok(StartOutcome::Rows(rows));
        }
        #[cfg(not(feature = "distributed"))]
        let _ = goal;
        let plan = stoppable(sliced(groups_together(partitioned::in_runs(physical, plan)?))?)?;
        self.progress.begin(&plan);
        let mut rows = execute_stream(Arc::clone(&plan), state.task_ctx())?;
        let schema = rows.schema();
        let first = match rows.next().await {
            Some(Err(error)) if SqlError::is_out_of_memory(&error) => {
                return Ok(StartOutcome::OutOfMemory(error));
            }
            Some(Err(error)) => return Err(SqlError::from(error)),
            Some(Ok(first)) => Some(Ok(first)),
            None => None,
        };
        let all = stream::iter(first).chain(rows);
        Ok(StartOutcome::Rows(Box::pin(RecordBatchStreamAdapter::new(schema, all))))
    }
}

/// The rows of an EXPLAIN, and another one; the rows alone if they are of another form.
fn with_row(rows: SendableRecordBatchStream, row: [&str; 2]) -> Result<SendableRecordBatchStream, SqlError> {
    let schema = rows.schema();
    let is_of_texts = schema.fields().iter().all(|field| *field.data_type() == DataType::Utf8);
    if schema.fields().len() != 2 || !is_of_texts {
        return Ok(rows);
    }
    let columns = row.map(|text| Arc::new(StringArray::from(vec![text])) as ArrayRef);
    let row = RecordBatch::try_new(Arc::clone(&schema), columns.into()).map_err(DataFusionError::from)?;
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.chain(stream::iter([Ok(row)])))))
}

enum StartOutcome {
    Rows(SendableRecordBatchStream),
    OutOfMemory(DataFusionError),
}

/// Rows that a LIMIT may ask for where DataFusion 55 keeps the first groups alone: it makes room for ten times as many before it has
/// seen any, and asks no pool, so `LIMIT 1000000000` would end the process.
const FIRST_GROUPS_MAX: usize = 10_000;

/// Returns true if a LIMIT, with its OFFSET, is larger, or is not known yet.
fn has_large_limit(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            found |= match (limit.get_skip_type(), limit.get_fetch_type()) {
                (Ok(SkipType::Literal(skip)), Ok(FetchType::Literal(fetch))) => {
                    skip.saturating_add(fetch.unwrap_or(0)) > FIRST_GROUPS_MAX
                }
                _ => true,
            };
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn has_window(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Window(_));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn is_query(statement: &Statement) -> bool {
    matches!(statement, Statement::Statement(inner) if matches!(**inner, SqlStatement::Query(_)))
}

/// Checks that a statement is one of those that are run here; an error otherwise.
pub(crate) fn check_kind(statement: &Statement, text: &StatementText) -> Result<(), SqlError> {
    let is_run = match statement {
        Statement::CopyTo(_) | Statement::Explain(_) => true,
        Statement::CreateExternalTable(_) | Statement::Reset(_) => false,
        Statement::Statement(inner) => matches!(
            **inner,
            SqlStatement::Query(_)
                | SqlStatement::Insert(_)
                | SqlStatement::CreateTable(_)
                | SqlStatement::Drop { object_type: ObjectType::Table, .. }
                | SqlStatement::Explain { .. }
                | SqlStatement::ExplainTable { .. }
                | SqlStatement::ShowTables { .. }
                | SqlStatement::ShowVariable { .. }
                | SqlStatement::ShowColumns { .. }
                | SqlStatement::ShowFunctions { .. }
        ),
    };
    if is_run { Ok(()) } else { Err(refused(text)) }
}

/// Adds a hint to the error for an unknown column that is written `"so"`: how a text is written.
fn not_a_text(error: SqlError, text: &StatementText) -> SqlError {
    if error.state() != state::NO_COLUMN {
        return error;
    }
    let message = error.to_string();
    let name = message.strip_prefix("no column `").and_then(|rest| rest.strip_suffix('`'));
    let columns = error.hint().map(|hint| format!(" {hint}")).unwrap_or_default();
    let is_text = |name: &&str| {
        // A column of other letters is meant, rather.
        let is_column = columns.split([' ', ',', '.']).any(|column| column.eq_ignore_ascii_case(name));
        !is_column && text.text.contains(&format!("\"{name}\""))
    };
    match name.map(|name| name.trim_matches('"')).filter(is_text) {
        Some(name) => {
            let hint = format!("Write text in single quotes: '{name}'.{columns}");
            error.with_hint(hint)
        }
        None => error,
    }
}

fn refused(text: &StatementText) -> SqlError {
    // The second word of others is a name, and not as it was written.
    let count = match text.words.first().map(String::as_str) {
        Some("CREATE") if text.words.get(1).is_some_and(|word| word == "OR") => 4,
        Some("CREATE" | "DROP" | "ALTER" | "SHOW" | "TRUNCATE") => 2,
        _ => 1,
    };
    let words = text.words.iter().take(count).map(String::as_str).collect::<Vec<_>>().join(" ");
    let error =
        SqlError::invalid(format!("`{words}` is not a supported statement")).with_state(state::NOT_SUPPORTED);
    let of_views = text.words.iter().take(4).any(|word| matches!(word.as_str(), "VIEW" | "VIEWS"));
    let changes_rows = matches!(words.as_str(), "UPDATE" | "DELETE" | "MERGE" | "TRUNCATE TABLE");
    let sets_zone = text.words.first().is_some_and(|word| word == "SET")
        && text.words.iter().any(|word| matches!(word.as_str(), "ZONE" | "TIMEZONE"));
    error.at(Some(text.place)).with_hint(if sets_zone {
        "Times are in UTC. For local times, write ts AT TIME ZONE 'Europe/Berlin'."
    } else if changes_rows {
        "Single rows and events cannot be changed. INSERT OVERWRITE t SELECT … replaces all rows of a table, and \
         DROP TABLE deletes it."
    } else if of_views {
        "Views are materialized: CREATE MATERIALIZED VIEW, SHOW VIEWS, DESCRIBE VIEW, DROP VIEW. A job cannot \
         contain these statements."
    } else {
        STATEMENTS
    })
}

/// Places that another told count from the beginning of its statement.
fn moved(error: SqlError, text: &StatementText) -> SqlError {
    match error.place() {
        None => error,
        Some(place) => {
            let column = if place.line == 1 { place.column + text.place.column - 1 } else { place.column };
            let mut moved = SqlError::new(error.kind(), error.to_string())
                .with_state(error.state())
                .at(Some(crate::Place { line: place.line + text.place.line - 1, column }));
            if let Some(hint) = error.hint() {
                moved = moved.with_hint(hint);
            }
            moved.with_source(error)
        }
    }
}

/// Binds the values of `$1`, `$2`, …, as the types that their places require.
fn bind(plan: LogicalPlan, parameters: &[Parameter]) -> Result<LogicalPlan, SqlError> {
    let wanted = plan.get_parameter_types()?;
    if wanted.is_empty() {
        return Ok(plan);
    }
    let mut values = Vec::with_capacity(parameters.len());
    for (index, parameter) in parameters.iter().enumerate() {
        let name = format!("${}", index + 1);
        let value = scalar(parameter).map_err(|error| {
            SqlError::invalid(format!("parameter {name} is not a list of one type")).with_source(error)
        })?;
        values.push(match wanted.get(&name) {
            Some(Some(ty)) => fitted(value, ty).map_err(|error| {
                let told = format!("parameter {name} is not a valid {}", crate::type_name(ty));
                SqlError::invalid(told).with_state(state::INVALID_TEXT).with_source(error)
            })?,
            _ => value,
        });
    }
    if let Some(missing) =
        (values.len() + 1..=wanted.len()).find(|number| wanted.contains_key(&format!("${number}")))
    {
        return Err(SqlError::invalid(format!("there is no value for ${missing}"))
            .with_hint(format!("Give {} parameters.", wanted.len())));
    }
    Ok(plan.with_param_values(values)?)
}

fn scalar(parameter: &Parameter) -> Result<ScalarValue, DataFusionError> {
    Ok(match parameter {
        Parameter::Null => ScalarValue::Null,
        Parameter::Boolean(value) => ScalarValue::Boolean(Some(*value)),
        Parameter::Long(value) => ScalarValue::Int64(Some(*value)),
        Parameter::Double(value) => ScalarValue::Float64(Some(*value)),
        Parameter::Text(value) => ScalarValue::Utf8(Some(value.clone())),
        Parameter::Decimal(digits, scale) => {
            ScalarValue::Decimal128(Some(*digits), DECIMAL128_MAX_PRECISION, *scale)
        }
        Parameter::Binary(bytes) => ScalarValue::Binary(Some(bytes.clone())),
        Parameter::Date(days) => ScalarValue::Date32(Some(*days)),
        Parameter::Time(micros) => ScalarValue::Time64Microsecond(Some(*micros)),
        Parameter::Timestamp { micros, is_utc } => {
            ScalarValue::TimestampMicrosecond(Some(*micros), is_utc.then(|| "+00:00".into()))
        }
        Parameter::Interval { months, days, nanos } => {
            ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(*months, *days, *nanos)))
        }
        Parameter::List(values) => {
            let values = values.iter().map(scalar).collect::<Result<Vec<_>, _>>()?;
            let types = values.iter().map(ScalarValue::data_type);
            let ty = types.into_iter().find(|ty| *ty != DataType::Null).unwrap_or(DataType::Null);
            let values =
                values.iter().map(|value| value.cast_to(&ty)).collect::<Result<Vec<_>, DataFusionError>>()?;
            ScalarValue::List(ScalarValue::new_list(&values, &ty, true))
        }
    })
}

/// The value as the type that is wanted where it stands, if it is the same there: 2.5 does not become 2 because it is
/// compared with a whole number. Text has no type of its own, and must be what is wanted.
fn fitted(value: ScalarValue, wanted: &DataType) -> Result<ScalarValue, DataFusionError> {
    let cast = value.cast_to(wanted);
    if matches!(value, ScalarValue::Utf8(_)) {
        return cast;
    }
    Ok(match cast {
        Ok(cast) if cast.cast_to(&value.data_type()).is_ok_and(|back| back == value) => cast,
        _ => value,
    })
}

fn head(schema: SchemaRef, command: Command) -> AnswerHead {
    AnswerHead { schema, command, roles: Vec::new(), changes: false }
}

fn not_read_only(text: &StatementText) -> SqlError {
    let words = text.words.iter().take(2).map(String::as_str).collect::<Vec<_>>().join(" ");
    SqlError::invalid(format!("`{words}` changes something, and the request is read-only"))
        .at(Some(text.place))
        .with_hint("Leave out `read_only` to run it.")
}

pub(crate) fn outcome(command: Command, rows: SendableRecordBatchStream) -> Outcome {
    Outcome { command, rows, roles: Vec::new() }
}

pub(crate) fn one(batch: RecordBatch) -> SendableRecordBatchStream {
    Box::pin(RecordBatchStreamAdapter::new(batch.schema(), stream::iter([Ok(batch)])))
}

pub(crate) fn nothing() -> SendableRecordBatchStream {
    Box::pin(RecordBatchStreamAdapter::new(Arc::new(Schema::empty()), stream::empty()))
}

/// The answer of a statement that writes: how many rows.
pub(crate) fn count(rows: u64) -> Result<SendableRecordBatchStream, SqlError> {
    let schema = Arc::new(Schema::new(vec![Field::new("rows", DataType::Int64, false)]));
    let rows = Int64Array::from(vec![i64::try_from(rows).unwrap_or(i64::MAX)]);
    let batch = RecordBatch::try_new(schema, vec![Arc::new(rows)]).map_err(DataFusionError::from)?;
    Ok(one(batch))
}

fn table_of_tables(names: &Names) -> Result<RecordBatch, SqlError> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("table_name", DataType::Utf8, false),
        Field::new("table_type", DataType::Utf8, false),
    ]));
    let tables = StringArray::from_iter_values(names.all().iter().map(|(name, _)| name));
    let kinds = StringArray::from_iter_values(names.all().iter().map(|(_, kind)| kind.as_str()));
    Ok(RecordBatch::try_new(schema, vec![Arc::new(tables), Arc::new(kinds)])
        .map_err(DataFusionError::from)?)
}

/// The rows that `DESCRIBE` returns for columns.
pub(crate) fn table_of_columns(schema: &Schema) -> Result<RecordBatch, SqlError> {
    let told = Arc::new(Schema::new(vec![
        Field::new("column_name", DataType::Utf8, false),
        Field::new("data_type", DataType::Utf8, false),
        Field::new("is_nullable", DataType::Utf8, false),
    ]));
    let fields = schema.fields();
    let names = StringArray::from_iter_values(fields.iter().map(|field| field.name()));
    let types = StringArray::from_iter_values(fields.iter().map(|field| crate::type_name(field.data_type())));
    let nullable = StringArray::from_iter_values(
        fields.iter().map(|field| if field.is_nullable() { "YES" } else { "NO" }),
    );
    let batch = RecordBatch::try_new(told, vec![Arc::new(names), Arc::new(types), Arc::new(nullable)]);
    Ok(batch.map_err(DataFusionError::from)?)
}

//! Creates DataFusion's sessions: one for each statement, from one template.
//!
//! A statement has its own memory pool, catalog and start time. All statements share the object stores, the caches of
//! file metadata and the directory for spilled data.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::DataType;
use async_trait::async_trait;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList, SchemaProvider,
    TableProvider,
};
use datafusion::common::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::context::SessionConfig;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::TrackConsumersPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateBuilder};
use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::logical_expr::TableType;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::sql::sqlparser::ast::{DataType as SqlType, ObjectNamePart};
use swiftwater_sketch::SketchSizes;

use crate::contradictions::skip_contradictions;
use crate::date_comparisons::compare_dates;
use crate::dictionary_group_by::DictionaryGroupBy;
use crate::distinct_rewrite::DistinctRewrite;
use crate::information::{self, Information};
use crate::memory::StatementPool;
use crate::names::{CATALOG, Names, PG_CATALOG, SCHEMA, SYSTEM};
use crate::one_row_first::OneRowFirst;
use crate::planning_watched::planning_watched;
use crate::short_string_compare::ShortStringCompare;
use crate::spill_rules::SpillRules;
use crate::without_constants::WithoutConstants;
use crate::{SqlError, SqlFunction, SqlFunctionKind, SqlOptions, TableKind, Tables, unique_keys};

/// Consumers of memory that an error names.
const CONSUMERS_TOLD: std::num::NonZeroUsize = std::num::NonZeroUsize::new(3).expect("three is not zero");
/// Files of spilled data that are merged at once; more are merged in several rounds.
const SPILL_FILES_MERGED: usize = 16;
/// The rule of DataFusion's that decides which sorts and partitions there are.
const DECIDES_ON_SORTS: &str = "EnsureRequirements";
/// Bytes that a sort reserves to merge its spilled runs, where the limit allows it.
const SORT_RESERVATION_BYTES: usize = 10 << 20;

/// The parts from which sessions are made.
pub(crate) struct Sessions {
    template: SessionState,
    runtime: Arc<RuntimeEnv>,
    memory_bytes_max: usize,
}

/// The purpose of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanGoal {
    /// Speed: joins by hash tables, which must fit into memory; a sort for each partition.
    Speed,
    /// Little memory: joins by sorting both sides, which spills, whole sorts, distinct values as groups, and nothing in partitions that
    /// would share the memory.
    Memory,
}

impl Sessions {
    pub(crate) fn new(options: &SqlOptions, threads: usize) -> Result<Sessions, SqlError> {
        let mode = match &options.spill_directory {
            Some(directory) => {
                std::fs::create_dir_all(directory).map_err(|error| {
                    SqlError::new(
                        crate::ErrorKind::Unavailable,
                        format!("the directory for spilled data `{}` cannot be created", directory.display()),
                    )
                    .with_source(error)
                })?;
                DiskManagerMode::Directories(vec![directory.clone()])
            }
            None => DiskManagerMode::OsTmpDirectory,
        };
        let disk = DiskManagerBuilder::default()
            .with_mode(mode)
            .with_max_temp_directory_size(options.spill_bytes_max)
            .with_max_spill_merge_fan_in(SPILL_FILES_MERGED);
        let runtime = RuntimeEnvBuilder::new().with_disk_manager_builder(disk).build_arc()?;
        let mut config = SessionConfig::new()
            .with_default_catalog_and_schema(CATALOG, SCHEMA)
            .with_create_default_catalog_and_schema(false)
            // There is one of our own.
            .with_information_schema(false)
            .with_target_partitions(threads)
            .with_batch_size(options.batch_rows.max(1));
        let settings = config.options_mut();
        settings.sql_parser.enable_ident_normalization = false;
        settings.sql_parser.collect_spans = true;
        // Logical plans derive from a condition that a value is not null, as in CASE WHEN a = b THEN a ELSE 0 END;
        // physical plans do not.
        settings.execution.skip_physical_aggregate_schema_check = true;
        settings.execution.time_zone = Some(crate::meaning::UTC.to_owned());
        // A sort of each partition keeps this much back, and all of them must leave room to sort in.
        settings.execution.sort_spill_reservation_bytes =
            SORT_RESERVATION_BYTES.min(options.memory_bytes_max / (4 * threads.max(1)));
        let mut template = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(Arc::clone(&runtime))
            .with_default_features()
            .with_optimizer_rules(compare_dates(skip_contradictions(crate::sums::exactly(
                &unique_keys::rules(),
            ))))
            .with_relation_planners(vec![Arc::new(unique_keys::Relations)])
            .with_query_planner(Arc::new(unique_keys::Planner))
            .with_physical_optimizer_rules(physical_rules())
            .with_physical_optimizer_rule(Arc::new(DictionaryGroupBy))
            .with_physical_optimizer_rule(Arc::new(ShortStringCompare))
            .with_type_planner(Arc::new(Types));
        crate::map_keys::register(&mut template);
        let mut template = template.build();
        for aggregate in swiftwater_sketch::datafusion::aggregates(SketchSizes::default()) {
            template.register_udaf(Arc::new(aggregate))?;
        }
        crate::json_functions::register(&mut template)?;
        crate::postgres::register(&mut template)?;
        crate::search::register(&mut template)?;
        crate::meaning::register(&mut template)?;
        crate::sums::register(&mut template)?;
        crate::large_results::register(&mut template, options.memory_bytes_max)?;
        Ok(Sessions { template, runtime, memory_bytes_max: options.memory_bytes_max })
    }

    /// The session from which others are made.
    #[cfg(feature = "distributed")]
    pub(crate) fn template(&self) -> &SessionState {
        &self.template
    }

    /// The runtime of a statement: its memory, and what all statements share.
    pub(crate) fn statement_runtime(&self) -> DataFusionResult<Arc<RuntimeEnv>> {
        let pool = TrackConsumersPool::new(StatementPool::new(self.memory_bytes_max), CONSUMERS_TOLD);
        RuntimeEnvBuilder::from_runtime_env(&self.runtime).with_memory_pool(Arc::new(pool)).build_arc()
    }

    /// The settings of a statement.
    pub(crate) fn config(&self, goal: PlanGoal) -> SessionConfig {
        let mut config = self.template.config().clone();
        if goal == PlanGoal::Memory {
            let settings = config.options_mut();
            settings.optimizer.prefer_hash_join = false;
            settings.optimizer.repartition_sorts = false;
            // With one, merge joins are not planned at all.
            settings.execution.target_partitions = 2;
            // Spilled runs are merged from a batch of each file.
            let rows = config.batch_size() / 8;
            config = config.with_batch_size(rows.max(1));
        }
        config
    }

    /// A session whose tables are those given, under the names given, and all others by their own names.
    pub(crate) fn session(
        &self,
        tables: &Arc<dyn Tables>,
        names: &Arc<Names>,
        resolved: HashMap<String, Arc<dyn TableProvider>>,
        aim: PlanGoal,
    ) -> Result<SessionState, SqlError> {
        let runtime = self.statement_runtime()?;
        let schema = StatementSchema { tables: Arc::clone(tables), names: Arc::clone(names), resolved };
        let schemas: [(&str, Arc<dyn SchemaProvider>); 3] = [
            (SCHEMA, Arc::new(schema)),
            (SYSTEM, Arc::new(SystemSchema(Arc::clone(tables)))),
            (PG_CATALOG, crate::postgres::pg_catalog()?),
        ];
        let catalog = || -> DataFusionResult<MemoryCatalogProvider> {
            let catalog = MemoryCatalogProvider::new();
            for (name, schema) in &schemas {
                catalog.register_schema(name, Arc::clone(schema))?;
            }
            Ok(catalog)
        };
        // The tables that it lists are in a separate catalog: one that contained itself would never be freed.
        let told = MemoryCatalogProviderList::new();
        told.register_catalog(CATALOG.to_owned(), Arc::new(catalog()?));
        let others = InformationSchemaProvider::new(Arc::new(told))
            .with_table_functions(self.template.table_functions().clone());
        let information = Information::new(others, Arc::clone(tables), Arc::clone(names));
        let catalog = catalog()?;
        catalog.register_schema(information::NAME, Arc::new(information))?;
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(CATALOG.to_owned(), Arc::new(catalog));
        let config = self.config(aim);
        let state = SessionStateBuilder::new_from_existing(self.template.clone())
            .with_config(config)
            .with_runtime_env(runtime)
            .with_catalog_list(Arc::new(catalogs))
            .with_physical_optimizer_rule(Arc::new(SpillRules(aim)))
            .with_optimizer_rule(Arc::new(DistinctRewrite(aim)))
            .build();
        let mut state = planning_watched(state);
        state.mark_start_execution();
        Ok(state)
    }

    pub(crate) fn is_aggregate(&self, function: &str) -> bool {
        self.template.aggregate_functions().contains_key(&function.to_lowercase())
    }

    /// All functions with their help, by name.
    pub(crate) fn described_functions(&self) -> Vec<SqlFunction> {
        // An aggregate that takes the place of one of DataFusion's has the same help.
        let originals = all_default_aggregate_functions();
        let original = |name: &str| {
            originals
                .iter()
                .find(|function| function.name() == name)
                .and_then(|function| function.documentation())
        };
        let scalar = self.template.scalar_functions().iter().map(|(name, function)| {
            SqlFunction::new(name, SqlFunctionKind::Scalar, function.documentation())
        });
        let aggregate = self.template.aggregate_functions().iter().map(|(name, function)| {
            let help = function.documentation().or_else(|| original(name));
            SqlFunction::new(name, SqlFunctionKind::Aggregate, help)
        });
        let window = self.template.window_functions().iter().map(|(name, function)| {
            SqlFunction::new(name, SqlFunctionKind::Window, function.documentation())
        });
        let mut all: Vec<SqlFunction> = scalar.chain(aggregate).chain(window).collect();
        all.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        all.dedup_by(|one, other| one.name == other.name);
        all
    }

    /// Names of all functions, for completion.
    pub(crate) fn functions(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .template
            .scalar_functions()
            .keys()
            .chain(self.template.aggregate_functions().keys())
            .chain(self.template.window_functions().keys())
            .cloned()
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// DataFusion's physical rules, with those of ours that must precede the decision on sorts and partitions.
fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    let place = rules.iter().position(|rule| rule.name() == DECIDES_ON_SORTS).unwrap_or(0);
    let ours: [Arc<dyn PhysicalOptimizerRule + Send + Sync>; 2] =
        [Arc::new(OneRowFirst), Arc::new(WithoutConstants)];
    rules.splice(place..place, ours);
    rules
}

/// The tables of one statement: those that it reads are snapshots taken once; information_schema asks for the rest.
struct StatementSchema {
    tables: Arc<dyn Tables>,
    names: Arc<Names>,
    resolved: HashMap<String, Arc<dyn TableProvider>>,
}

impl fmt::Debug for StatementSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatementSchema").field("resolved", &self.resolved.len()).finish_non_exhaustive()
    }
}

#[async_trait]
impl SchemaProvider for StatementSchema {
    fn table_names(&self) -> Vec<String> {
        self.names.all().iter().map(|(name, _)| name.clone()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        match self.resolved.get(name) {
            Some(table) => Ok(Some(Arc::clone(table))),
            None if self.names.kind(name).is_some() => Ok(self.tables.table(name, None).await?),
            None => Ok(None),
        }
    }

    async fn table_type(&self, name: &str) -> DataFusionResult<Option<TableType>> {
        Ok(self.names.kind(name).map(|kind| match kind {
            TableKind::Stream | TableKind::Table => TableType::Base,
            TableKind::View => TableType::View,
        }))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.resolved.contains_key(name) || self.names.kind(name).is_some()
    }
}

/// The schema of the engine's own tables.
struct SystemSchema(Arc<dyn Tables>);

impl fmt::Debug for SystemSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemSchema").finish_non_exhaustive()
    }
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        self.0.system_names().iter().map(|name| (*name).to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        Ok(self.0.system_table(name).await?)
    }

    async fn table_type(&self, name: &str) -> DataFusionResult<Option<TableType>> {
        Ok(self.table_exist(name).then_some(TableType::View))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.0.system_names().contains(&name)
    }
}

/// The names of types that live queries know, beside SQL's.
#[derive(Debug)]
struct Types;

impl TypePlanner for Types {
    fn plan_type(&self, sql_type: &SqlType) -> DataFusionResult<Option<DataType>> {
        let SqlType::Custom(name, modifiers) = sql_type else {
            return Ok(None);
        };
        let ([ObjectNamePart::Identifier(ident)], true) = (name.0.as_slice(), modifiers.is_empty()) else {
            return Ok(None);
        };
        Ok(match ident.value.to_ascii_uppercase().as_str() {
            "LONG" => Some(DataType::Int64),
            "STRING" => Some(DataType::Utf8View),
            _ => None,
        })
    }
}

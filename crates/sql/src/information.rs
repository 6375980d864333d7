//! `information_schema`: DataFusion's own, except `columns`, which follows PostgreSQL and includes nullability.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::information_schema::{INFORMATION_SCHEMA, InformationSchemaProvider};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::TableType;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures_util::stream;

use crate::names::{CATALOG, Names, SCHEMA, SYSTEM};
use crate::postgres::postgres_type_name;
use crate::{SqlError, Tables};

/// Its own name, for catalogs.
pub(crate) const NAME: &str = INFORMATION_SCHEMA;
const COLUMNS: &str = "columns";

/// The schema.
#[derive(Debug)]
pub(crate) struct Information {
    others: InformationSchemaProvider,
    columns: Columns,
}

impl Information {
    pub(crate) fn new(
        others: InformationSchemaProvider,
        tables: Arc<dyn Tables>,
        names: Arc<Names>,
    ) -> Information {
        Information { others, columns: Columns { schema: schema(), tables, names } }
    }
}

#[async_trait]
impl SchemaProvider for Information {
    fn table_names(&self) -> Vec<String> {
        self.others.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if name != COLUMNS {
            return self.others.table(name).await;
        }
        let table = StreamingTable::try_new(schema(), vec![Arc::new(self.columns.clone())])?;
        Ok(Some(Arc::new(table)))
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        self.others.table_type(name).await
    }

    fn table_exist(&self, name: &str) -> bool {
        self.others.table_exist(name)
    }
}

fn schema() -> SchemaRef {
    let text = |name: &str, nullable: bool| Field::new(name, DataType::Utf8, nullable);
    let number = |name: &str, nullable: bool| Field::new(name, DataType::Int64, nullable);
    Arc::new(Schema::new(vec![
        text("table_catalog", false),
        text("table_schema", false),
        text("table_name", false),
        text("column_name", false),
        number("ordinal_position", false),
        text("column_default", true),
        text("is_nullable", false),
        text("data_type", false),
        number("character_maximum_length", true),
        number("character_octet_length", true),
        number("numeric_precision", true),
        number("numeric_precision_radix", true),
        number("numeric_scale", true),
        number("datetime_precision", true),
        text("interval_type", true),
        text("udt_name", false),
    ]))
}

/// The table `columns`.
#[derive(Clone)]
struct Columns {
    schema: SchemaRef,
    tables: Arc<dyn Tables>,
    names: Arc<Names>,
}

impl fmt::Debug for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Columns").finish_non_exhaustive()
    }
}

impl PartitionStream for Columns {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let columns = self.clone();
        let rows = stream::once(async move { columns.rows().await });
        Box::pin(RecordBatchStreamAdapter::new(schema(), rows))
    }
}

impl Columns {
    async fn rows(&self) -> Result<RecordBatch> {
        let mut all: Vec<(&str, String, SchemaRef)> = Vec::new();
        for (name, _) in self.names.all() {
            if let Some(told) = self.tables.described(name).await? {
                all.push((SCHEMA, name.clone(), told));
            }
        }
        for name in self.tables.system_names() {
            if let Some(table) = self.tables.system_table(name).await? {
                all.push((SYSTEM, (*name).to_owned(), table.schema()));
            }
        }
        let rows: Vec<(&str, &str, usize, &Field)> = all
            .iter()
            .flat_map(|(schema, table, told)| {
                let fields = told.fields().iter().enumerate();
                fields.map(move |(place, field)| (*schema, table.as_str(), place, field.as_ref()))
            })
            .collect();
        let text = |told: &dyn Fn(&Field) -> &'static str| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| told(row.3))))
        };
        let number = |told: &dyn Fn(&DataType) -> Option<i64>| -> ArrayRef {
            Arc::new(rows.iter().map(|row| told(row.3.data_type())).collect::<Int64Array>())
        };
        let names = |names: Vec<&str>| -> ArrayRef { Arc::new(StringArray::from_iter_values(names)) };
        let none = || -> ArrayRef { Arc::new(StringArray::new_null(rows.len())) };
        let ordinals = Int64Array::from_iter_values(rows.iter().map(|row| row.2 as i64 + 1));
        let columns = vec![
            names(vec![CATALOG; rows.len()]),
            names(rows.iter().map(|row| row.0).collect()),
            names(rows.iter().map(|row| row.1).collect()),
            names(rows.iter().map(|row| row.3.name().as_str()).collect()),
            Arc::new(ordinals),
            none(),
            text(&|field| if field.is_nullable() { "YES" } else { "NO" }),
            text(&|field| match postgres_type_name(field.data_type()) {
                list if list.ends_with("[]") => "ARRAY",
                name => name,
            }),
            number(&|_| None),
            number(&|_| None),
            number(&|ty| precision(ty).map(|(digits, _, _)| digits)),
            number(&|ty| precision(ty).map(|(_, radix, _)| radix)),
            number(&|ty| precision(ty).and_then(|(_, _, scale)| scale)),
            number(&|ty| match ty {
                DataType::Date32 | DataType::Date64 => Some(0),
                DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) => Some(6),
                _ => None,
            }),
            none(),
            text(&|field| udt_name(postgres_type_name(field.data_type()))),
        ];
        let batch = RecordBatch::try_new(schema(), columns);
        Ok(batch.map_err(|error| {
            SqlError::internal("the columns of all tables cannot be listed").with_source(error)
        })?)
    }
}

/// The digits of a numeric type, their base, and the digits behind the point.
fn precision(ty: &DataType) -> Option<(i64, i64, Option<i64>)> {
    Some(match ty {
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => (i64::from(*digits), 10, Some(i64::from(*scale))),
        DataType::UInt64 => (20, 10, Some(0)),
        _ => match postgres_type_name(ty) {
            "smallint" => (16, 2, Some(0)),
            "integer" => (32, 2, Some(0)),
            "bigint" => (64, 2, Some(0)),
            "real" => (24, 2, None),
            "double precision" => (53, 2, None),
            _ => return None,
        },
    })
}

/// The name that PostgreSQL has for a type within.
fn udt_name(name: &'static str) -> &'static str {
    match name {
        "boolean" => "bool",
        "smallint" => "int2",
        "integer" => "int4",
        "bigint" => "int8",
        "real" => "float4",
        "double precision" => "float8",
        "time without time zone" => "time",
        "timestamp without time zone" => "timestamp",
        "timestamp with time zone" => "timestamptz",
        "boolean[]" => "_bool",
        "smallint[]" => "_int2",
        "integer[]" => "_int4",
        "bigint[]" => "_int8",
        "real[]" => "_float4",
        "double precision[]" => "_float8",
        "numeric[]" => "_numeric",
        "text[]" => "_text",
        "date[]" => "_date",
        "timestamp without time zone[]" => "_timestamp",
        "timestamp with time zone[]" => "_timestamptz",
        same => same,
    }
}

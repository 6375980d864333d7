//! Derives the specification of a stream's table from the stream's declaration.

use std::time::Duration;

use swiftwater_event::{Primitive, Type};
use swiftwater_lang::ddl::{CreateStream, PartitionBy};
use swiftwater_live::columns::InferredColumn;
use swiftwater_store::{ColumnSpec, Partitioning, TableSpec};

/// The table of a stream. Its time column is the watermark's, where that is a TIMESTAMP.
pub(crate) fn table_spec(create: &CreateStream, found: &[InferredColumn]) -> TableSpec {
    let columns = create.columns.iter().map(|column| ColumnSpec {
        name: column.name.clone(),
        ty: column.ty.clone(),
        // Events stored before a column was declared may lack it.
        nullable: true,
    });
    let found = found.iter().map(|column| ColumnSpec {
        name: column.name.clone(),
        ty: column.ty.clone(),
        nullable: true,
    });
    let is_time = |name: &str| {
        let column = create.column(name).map(|place| &create.columns[place]);
        column.is_some_and(|column| matches!(column.ty, Type::Primitive(Primitive::Timestamp(_))))
    };
    let watermark = create.watermark.as_ref().map(|watermark| watermark.column.clone());
    TableSpec {
        time_column: watermark.filter(|name| is_time(name)),
        partition_by: match &create.options.partition_by {
            None | Some(PartitionBy::None) => Partitioning::None,
            Some(PartitionBy::Day) => Partitioning::Day,
            Some(PartitionBy::Hour) => Partitioning::Hour,
            Some(PartitionBy::Columns(names)) => Partitioning::Columns(names.clone()),
        },
        retention: create.options.retention_ms.map(Duration::from_millis),
        ..TableSpec::new(create.name.as_str(), columns.chain(found).collect())
    }
}

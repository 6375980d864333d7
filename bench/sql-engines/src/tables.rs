//! The eight tables of TPC-H: their columns, and their rows as CSV.

use std::io::Write;

use anyhow::{Context, bail};
use datafusion::arrow::{
    array::{RecordBatch, RecordBatchReader},
    csv::WriterBuilder,
    datatypes::{DataType, Schema},
};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

/// The tables, with their rows per unit of the scale factor; about so many for `lineitem`.
pub(crate) const TABLES: [(&str, f64); 8] = [
    ("region", 0.0),
    ("nation", 0.0),
    ("supplier", 10_000.0),
    ("customer", 150_000.0),
    ("part", 200_000.0),
    ("partsupp", 800_000.0),
    ("orders", 1_500_000.0),
    ("lineitem", 6_000_000.0),
];

/// The batches of one of `parts` parts of a table, which are numbered from 1.
pub(crate) fn batches(
    table: &str,
    scale: f64,
    part: i32,
    parts: i32,
) -> anyhow::Result<Box<dyn RecordBatchReader>> {
    Ok(match table {
        "region" => Box::new(RegionArrow::new(RegionGenerator::new(scale, part, parts))),
        "nation" => Box::new(NationArrow::new(NationGenerator::new(scale, part, parts))),
        "supplier" => Box::new(SupplierArrow::new(SupplierGenerator::new(scale, part, parts))),
        "customer" => Box::new(CustomerArrow::new(CustomerGenerator::new(scale, part, parts))),
        "part" => Box::new(PartArrow::new(PartGenerator::new(scale, part, parts))),
        "partsupp" => Box::new(PartSuppArrow::new(PartSuppGenerator::new(scale, part, parts))),
        "orders" => Box::new(OrderArrow::new(OrderGenerator::new(scale, part, parts))),
        "lineitem" => Box::new(LineItemArrow::new(LineItemGenerator::new(scale, part, parts))),
        _ => bail!("TPC-H has no table `{table}`"),
    })
}

/// The statement that creates a table.
pub(crate) fn create_table(table: &str, schema: &Schema) -> anyhow::Result<String> {
    let mut columns = Vec::new();
    for field in schema.fields() {
        let kind = match field.data_type() {
            DataType::Int64 => "BIGINT".to_owned(),
            DataType::Int32 => "INTEGER".to_owned(),
            DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
            DataType::Date32 => "DATE".to_owned(),
            DataType::Utf8View => "TEXT".to_owned(),
            other => bail!("no type of SQL for {other}, of column `{}`", field.name()),
        };
        columns.push(format!("{} {kind}", field.name()));
    }
    Ok(format!("CREATE TABLE {table} ({})", columns.join(", ")))
}

/// The rows of a batch as CSV without a header.
pub(crate) fn csv(batch: &RecordBatch) -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut writer = WriterBuilder::new().with_header(false).build(&mut out);
    writer.write(batch).context("rows as CSV")?;
    drop(writer);
    out.flush()?;
    Ok(out)
}

//! The specification of a table: columns, partitions, retention.

use std::time::Duration;

use arrow_schema::{DataType, Field};
use swiftwater_event::{Primitive, StreamName, Type};

use crate::{
    error::{Result, StoreError},
    schema,
};

/// The stream's offset of a row's event: LONG.
pub const OFFSET_COLUMN: &str = "_offset";
/// Arrival time of a row's event: TIMESTAMP, UTC, microseconds.
pub const TIME_COLUMN: &str = "_time";
/// The text of an event that the columns do not say whole, else null: STRING.
pub const EVENT_COLUMN: &str = "_event";
/// The day of the time column, UTC, in tables partitioned by day or hour: DATE.
pub const DAY_COLUMN: &str = "_day";
/// The hour of the day, UTC, in tables partitioned by hour: INTEGER.
pub const HOUR_COLUMN: &str = "_hour";

/// Columns that a table can be partitioned by, at most.
pub const PARTITION_COLUMNS_MAX: usize = 4;

/// One declared column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Its name; names that begin with `_` and mean something to the store are refused.
    pub name: Box<str>,
    /// Its type. [`Type::Any`] is stored as text.
    pub ty: Type,
    /// True if it may be null.
    pub nullable: bool,
}

/// The partitioning of a table's files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Partitioning {
    /// No partitions: files are in the order of arrival.
    #[default]
    None,
    /// Partitions by the UTC day of the time column, in the column `_day`.
    Day,
    /// Partitions by the UTC hour of the time column, in the columns `_day` and `_hour`.
    Hour,
    /// Partitions by the values of declared columns, up to [`PARTITION_COLUMNS_MAX`].
    Columns(Vec<Box<str>>),
}

/// A stream's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSpec {
    /// The stream's name.
    pub name: Box<str>,
    /// Declared columns, in order. `_offset` and `_time` stand before them, `_event` after.
    pub columns: Vec<ColumnSpec>,
    /// The column that partitions and retention go by; a TIMESTAMP. The arrival time where there is none.
    pub time_column: Option<Box<str>>,
    /// Partitioning of the files. It cannot be altered.
    pub partition_by: Partitioning,
    /// Time for which rows are kept, by the time column: a file is deleted when its youngest row is older. `None` is
    /// for ever.
    pub retention: Option<Duration>,
}

/// A name that can stand in a path of any store.
pub(crate) fn check_name(name: &str) -> Result<()> {
    StreamName::new(name).map(|_| ()).map_err(|fault| StoreError::Spec {
        table: fault.name.as_str().into(),
        why: format!("its name cannot be stored: {}", fault.why).into(),
    })
}

impl TableSpec {
    /// A table of these columns, not partitioned, kept for ever.
    pub fn new(name: &str, columns: Vec<ColumnSpec>) -> TableSpec {
        TableSpec {
            name: name.into(),
            columns,
            time_column: None,
            partition_by: Partitioning::None,
            retention: None,
        }
    }

    pub(crate) fn check(&self, columns_max: usize) -> Result<()> {
        check_name(&self.name)?;
        let fault = |why: String| Err(StoreError::Spec { table: self.name.clone(), why: why.into() });
        if self.columns.len() + 3 > columns_max {
            let columns = self.columns.len() + 3;
            return Err(StoreError::TooManyColumns { table: self.name.clone(), columns, columns_max });
        }
        let own = [OFFSET_COLUMN, TIME_COLUMN, EVENT_COLUMN, DAY_COLUMN, HOUR_COLUMN];
        let mut seen = std::collections::HashSet::new();
        for column in &self.columns {
            if column.name.is_empty() || own.iter().any(|own| own.eq_ignore_ascii_case(&column.name)) {
                return fault(format!("a column cannot be named `{}`", column.name));
            }
            // Delta Lake and Parquet readers take names that differ in letter case alone for one.
            if !seen.insert(column.name.to_lowercase()) {
                return fault(format!("column `{}` occurs twice, ignoring case", column.name));
            }
        }
        let find = |name: &str| self.columns.iter().find(|column| *column.name == *name);
        if let Some(name) = &self.time_column {
            match find(name) {
                Some(column) if matches!(column.ty, Type::Primitive(Primitive::Timestamp(_))) => {}
                Some(_) => return fault(format!("time column `{name}` is not a TIMESTAMP")),
                None if **name == *TIME_COLUMN => {}
                None => return fault(format!("time column `{name}` is not one of its columns")),
            }
        }
        if let Partitioning::Columns(names) = &self.partition_by {
            if names.is_empty() || names.len() > PARTITION_COLUMNS_MAX {
                return fault(format!("it must be partitioned by 1 to {PARTITION_COLUMNS_MAX} columns"));
            }
            for name in names {
                match find(name).map(|column| &column.ty) {
                    Some(Type::Primitive(
                        Primitive::Boolean | Primitive::Integer | Primitive::Long | Primitive::String,
                    )) => {}
                    Some(ty) => return fault(format!("it cannot be partitioned by `{name}`, a {ty}")),
                    None => return fault(format!("partition column `{name}` is not one of its columns")),
                }
            }
        }
        Ok(())
    }

    /// The columns that files are told apart by.
    pub(crate) fn partition_columns(&self) -> Vec<Box<str>> {
        match &self.partition_by {
            Partitioning::None => Vec::new(),
            Partitioning::Day => vec![DAY_COLUMN.into()],
            Partitioning::Hour => vec![DAY_COLUMN.into(), HOUR_COLUMN.into()],
            Partitioning::Columns(names) => names.clone(),
        }
    }

    /// All columns as Arrow has them, system columns included; those made from the time column last.
    pub(crate) fn fields(&self) -> Vec<Field> {
        let mut fields = vec![
            Field::new(OFFSET_COLUMN, DataType::Int64, false),
            Field::new(TIME_COLUMN, schema::timestamp(), false),
        ];
        for column in &self.columns {
            fields.push(Field::new(column.name.to_string(), arrow_type(&column.ty), column.nullable));
        }
        fields.push(Field::new(EVENT_COLUMN, DataType::Utf8View, true));
        if matches!(self.partition_by, Partitioning::Day | Partitioning::Hour) {
            fields.push(Field::new(DAY_COLUMN, DataType::Date32, true));
        }
        if self.partition_by == Partitioning::Hour {
            fields.push(Field::new(HOUR_COLUMN, DataType::Int32, true));
        }
        fields
    }
}

/// The Arrow type of columns for values of a type.
pub fn arrow_type(ty: &Type) -> DataType {
    match ty {
        Type::Any => DataType::Utf8View,
        Type::Primitive(primitive) => match primitive {
            Primitive::Boolean => DataType::Boolean,
            Primitive::Integer => DataType::Int32,
            Primitive::Long => DataType::Int64,
            Primitive::Float => DataType::Float32,
            Primitive::Double => DataType::Float64,
            Primitive::String => DataType::Utf8View,
            Primitive::Timestamp(_) => schema::timestamp(),
        },
        Type::List(element) => schema::list(arrow_type(element), true),
        Type::Map(value) => schema::map(DataType::Utf8View, arrow_type(value), true),
    }
}

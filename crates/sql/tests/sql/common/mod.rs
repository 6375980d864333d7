//! Tables in memory, with all their versions, and helpers to query them.

#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow::array::{BooleanArray, Float32Array, Int32Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::datasource::MemTable;
use futures_util::{StreamExt, TryStreamExt};
use swiftwater_sql::forms::{Form, FormWriter};
use swiftwater_sql::{
    At, ErrorKind, RunOptions, SchemaRef, SendableRecordBatchStream, Sql, SqlError, SqlOptions, TableKind,
    TableProvider, Tables,
};

/// Commit n of a table has this time, in milliseconds: n seconds after the turn of the millennium.
pub(crate) const EPOCH: i64 = 946_684_800_000;

/// Partitions of each table, so that plans have inputs to merge.
const PARTITIONS: usize = 3;

struct Table {
    kind: TableKind,
    schema: SchemaRef,
    /// Rows after each commit; the first is empty.
    versions: Vec<Vec<RecordBatch>>,
}

/// Tables of nothing but memory.
#[derive(Default)]
pub(crate) struct MemoryTables {
    tables: Mutex<BTreeMap<String, Table>>,
    /// Tables of other kinds, which are only read.
    providers: Mutex<BTreeMap<String, Arc<dyn TableProvider>>>,
}

impl MemoryTables {
    pub(crate) fn put(&self, name: &str, kind: TableKind, schema: SchemaRef, batches: Vec<RecordBatch>) {
        let table = Table { kind, schema, versions: vec![Vec::new(), batches] };
        self.tables.lock().unwrap().insert(name.to_owned(), table);
    }

    pub(crate) fn put_provider(&self, name: &str, provider: Arc<dyn TableProvider>) {
        let table = Table { kind: TableKind::View, schema: provider.schema(), versions: Vec::new() };
        self.tables.lock().unwrap().insert(name.to_owned(), table);
        self.providers.lock().unwrap().insert(name.to_owned(), provider);
    }
}

#[async_trait]
impl Tables for MemoryTables {
    fn names(&self) -> Vec<(String, TableKind)> {
        self.tables.lock().unwrap().iter().map(|(name, table)| (name.clone(), table.kind)).collect()
    }

    async fn table(&self, name: &str, at: Option<At>) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
        if let Some(provider) = self.providers.lock().unwrap().get(name) {
            return Ok(Some(Arc::clone(provider)));
        }
        let tables = self.tables.lock().unwrap();
        let Some(table) = tables.get(name) else {
            return Ok(None);
        };
        let last = table.versions.len() as i64 - 1;
        let version = match at {
            None => last,
            Some(At::Version(version)) => version,
            Some(At::Timestamp(millis)) => (millis - EPOCH).div_euclid(1000).min(last),
        };
        let Some(batches) = usize::try_from(version).ok().and_then(|version| table.versions.get(version))
        else {
            return Err(SqlError::new(ErrorKind::NotFound, format!("no version {version} of `{name}`")));
        };
        let mut partitions: Vec<Vec<RecordBatch>> = vec![Vec::new(); PARTITIONS];
        for (index, batch) in batches.iter().enumerate() {
            partitions[index % PARTITIONS].push(batch.clone());
        }
        Ok(Some(Arc::new(MemTable::try_new(Arc::clone(&table.schema), partitions)?)))
    }

    async fn insertable(&self, name: &str) -> Result<Option<SchemaRef>, SqlError> {
        let tables = self.tables.lock().unwrap();
        Ok(tables
            .get(name)
            .filter(|table| table.kind != TableKind::View)
            .map(|table| Arc::clone(&table.schema)))
    }

    async fn create_table(
        &self,
        name: &str,
        schema: SchemaRef,
        rows: Option<SendableRecordBatchStream>,
        if_not_exists: bool,
    ) -> Result<Option<u64>, SqlError> {
        let rows = match rows {
            Some(rows) => rows.try_collect::<Vec<_>>().await?,
            None => Vec::new(),
        };
        let mut tables = self.tables.lock().unwrap();
        if tables.contains_key(name) {
            return if if_not_exists {
                Ok(None)
            } else {
                Err(SqlError::new(ErrorKind::Conflict, format!("table `{name}` already exists")))
            };
        }
        let made = rows.iter().map(|batch| batch.num_rows() as u64).sum();
        let table = Table { kind: TableKind::Table, schema, versions: vec![rows] };
        tables.insert(name.to_owned(), table);
        Ok(Some(made))
    }

    async fn drop_table(&self, name: &str) -> Result<(), SqlError> {
        match self.tables.lock().unwrap().remove(name) {
            Some(_) => Ok(()),
            None => Err(SqlError::new(ErrorKind::NotFound, format!("no table `{name}`"))),
        }
    }

    async fn insert(
        &self,
        name: &str,
        mut rows: SendableRecordBatchStream,
        overwrite: bool,
    ) -> Result<u64, SqlError> {
        let mut batches = Vec::new();
        while let Some(batch) = rows.next().await {
            batches.push(batch?);
        }
        let mut tables = self.tables.lock().unwrap();
        let Some(table) = tables.get_mut(name) else {
            return Err(SqlError::new(ErrorKind::NotFound, format!("no table `{name}`")));
        };
        let inserted = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let mut all = if overwrite { Vec::new() } else { table.versions.last().cloned().unwrap_or_default() };
        for batch in batches {
            let columns = table.schema.fields().iter().map(|field| {
                let given = batch.column_by_name(field.name()).cloned();
                given.unwrap_or_else(|| arrow::array::new_null_array(field.data_type(), batch.num_rows()))
            });
            let columns = columns.collect();
            all.push(
                RecordBatch::try_new(Arc::clone(&table.schema), columns)
                    .map_err(|error| SqlError::new(ErrorKind::Invalid, error.to_string()))?,
            );
        }
        table.versions.push(all);
        Ok(inserted)
    }
}

/// Seeded chance: splitmix64.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

const METROS: [(&str, &str); 10] = [
    ("Seattle", "Washington"),
    ("Portland", "Oregon"),
    ("Los Angeles", "California"),
    ("San Diego", "California"),
    ("Phoenix", "Arizona"),
    ("Houston", "Texas"),
    ("Chicago", "Illinois"),
    ("New York", "New York"),
    ("Boston", "Massachusetts"),
    ("Miami", "Florida"),
];

/// Events of the smart home, as the published load test has them, in several batches.
pub(crate) fn smart_home(tables: &MemoryTables, seed: u64, batches: usize, rows: usize) {
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("house_id", DataType::Int32, true),
        Field::new("metro_area", DataType::Utf8, true),
        Field::new("state", DataType::Utf8, true),
        Field::new("device_id", DataType::Int32, true),
        Field::new("power_reading", DataType::Float32, true),
        Field::new("is_peak", DataType::Boolean, true),
    ]));
    let mut chance = Chance(seed);
    let batches = (0..batches)
        .map(|_| {
            let metros: Vec<(&str, &str)> =
                (0..rows).map(|_| METROS[chance.below(METROS.len() as u64) as usize]).collect();
            let houses: Vec<i32> = (0..rows).map(|_| 1 + chance.below(21) as i32).collect();
            let devices: Vec<i32> = (0..rows).map(|_| 1 + chance.below(7) as i32).collect();
            let powers: Vec<f32> = (0..rows)
                .map(|_| {
                    chance.below(1 << 20) as f32 / (1 << 20) as f32 * (1 + chance.below(10)) as f32 * 100.0
                })
                .collect();
            let peaks: Vec<bool> = (0..rows).map(|_| chance.below(2) == 0).collect();
            RecordBatch::try_new(
                Arc::clone(&schema),
                vec![
                    Arc::new(Int32Array::from(houses)),
                    Arc::new(StringArray::from_iter_values(metros.iter().map(|(metro, _)| *metro))),
                    Arc::new(StringArray::from_iter_values(metros.iter().map(|(_, state)| *state))),
                    Arc::new(Int32Array::from(devices)),
                    Arc::new(Float32Array::from(powers)),
                    Arc::new(BooleanArray::from(peaks)),
                ],
            )
            .unwrap()
        })
        .collect();
    tables.put("smartHomeData", TableKind::Stream, schema, batches);
}

/// Articles with the columns that the published queries ask for.
pub(crate) fn articles(tables: &MemoryTables, seed: u64, rows: usize) {
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("title", DataType::Utf8, true),
        Field::new("contributor_username", DataType::Utf8, true),
        Field::new("contributor_id", DataType::Int64, true),
        Field::new("length", DataType::Int32, true),
    ]));
    let mut chance = Chance(seed);
    let users: Vec<i64> = (0..rows).map(|_| chance.below(40) as i64).collect();
    let lengths: Vec<i32> = (0..rows).map(|_| chance.below(8000) as i32).collect();
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("Article {row}")))),
            Arc::new(StringArray::from_iter_values(users.iter().map(|user| format!("user{user}")))),
            Arc::new(Int64Array::from(users)),
            Arc::new(Int32Array::from(lengths)),
        ],
    )
    .unwrap();
    tables.put("wiki", TableKind::Stream, schema, vec![batch]);
}

/// A table of whole numbers and texts: `k` from 0 on in a scattered order, `g` = k mod 100, `s` of some 60 bytes.
pub(crate) fn numbers(tables: &MemoryTables, name: &str, batches: usize, rows: usize) {
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("g", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
    ]));
    let total = (batches * rows) as i64;
    // Odd and prime: it has no factor in common with a total that is no multiple of it.
    const STEP: i64 = 7_919;
    assert_ne!(total % STEP, 0);
    let batches = (0..batches)
        .map(|batch| {
            let keys: Vec<i64> = (0..rows).map(|row| ((batch * rows + row) as i64 * STEP) % total).collect();
            RecordBatch::try_new(
                Arc::clone(&schema),
                vec![
                    Arc::new(Int64Array::from(keys.clone())),
                    Arc::new(Int64Array::from_iter_values(keys.iter().map(|key| key % 100))),
                    Arc::new(StringArray::from_iter_values(keys.iter().map(|key| format!("{key:060}")))),
                ],
            )
            .unwrap()
        })
        .collect();
    tables.put(name, TableKind::Table, schema, batches);
}

/// SQL over tables in memory, with two threads.
pub(crate) fn sql(tables: Arc<MemoryTables>, options: SqlOptions) -> Sql {
    crate::start(SqlOptions { threads: 2, ..options }, tables)
}

/// All rows of an answer.
pub(crate) async fn batches(
    sql: &Sql,
    text: &str,
    options: RunOptions,
) -> Result<(SchemaRef, Vec<RecordBatch>), SqlError> {
    let mut answer = sql.run(text, options).await?;
    let mut batches = Vec::new();
    while let Some(batch) = answer.next().await {
        batches.push(batch?);
    }
    Ok((Arc::clone(answer.schema()), batches))
}

/// An answer in a form.
pub(crate) async fn written(
    sql: &Sql,
    text: &str,
    options: RunOptions,
    form: Form,
) -> Result<String, SqlError> {
    let (schema, batches) = batches(sql, text, options).await?;
    let mut out = Vec::new();
    let mut writer = FormWriter::new(form, &schema)?;
    writer.begin(&mut out);
    for batch in &batches {
        writer.batch(batch, &mut out)?;
    }
    writer.end(&mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

/// An answer as CSV, lines ended by `\n`.
pub(crate) async fn csv(sql: &Sql, text: &str, options: RunOptions) -> Result<String, SqlError> {
    Ok(written(sql, text, options, Form::Csv).await?.replace("\r\n", "\n"))
}

/// A runtime for a test; the statements have their own.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

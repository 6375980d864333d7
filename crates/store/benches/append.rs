//! Measures rows per second from Arrow to committed Delta, beside a bare loop that encodes the same batches with Parquet's
//! defaults and writes nothing: `cargo bench -p swiftwater-store`. Rounds alternate; each prints both and their ratio.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]
#![expect(clippy::unwrap_used, reason = "a benchmark may end early")]

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Int32Array, Int64Array, RecordBatch, StringViewArray,
    TimestampMicrosecondArray,
};
use parquet::arrow::ArrowWriter;
use swiftwater_event::{Clock, Offset, SystemClock, Type};
use swiftwater_store::{ColumnSpec, Rows, Store, StoreOptions, TableSpec};

const BATCH_ROWS: u64 = 8192;
const ROUNDS: usize = 5;

struct Seed(u64);

impl Seed {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn system(first: u64, count: u64) -> Vec<(&'static str, ArrayRef)> {
    let offsets = first..first + count;
    let times = offsets.clone().map(|offset| 1_767_225_600_000_000 + (offset / 1000 * 1000) as i64);
    vec![
        ("_offset", Arc::new(offsets.map(|offset| offset as i64).collect::<Int64Array>())),
        ("_time", Arc::new(TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC"))),
    ]
}

fn home(first: u64, seed: &mut Seed) -> RecordBatch {
    const METROS: [(&str, &str); 4] =
        [("Seattle", "WA"), ("Los Angeles", "CA"), ("San Francisco", "CA"), ("New York City", "NY")];
    let count = BATCH_ROWS as usize;
    let places: Vec<(&str, &str)> = (0..count).map(|_| METROS[seed.below(4) as usize]).collect();
    let numbers =
        |seed: &mut Seed, bound| (0..count).map(|_| 1 + seed.below(bound) as i32).collect::<Vec<_>>();
    let mut columns = system(first, BATCH_ROWS);
    columns.push(("house_id", Arc::new(Int32Array::from(numbers(seed, 21)))));
    columns.push((
        "metro_area",
        Arc::new(StringViewArray::from_iter_values(places.iter().map(|place| place.0))),
    ));
    columns.push(("state", Arc::new(StringViewArray::from_iter_values(places.iter().map(|place| place.1)))));
    columns.push(("device_id", Arc::new(Int32Array::from(numbers(seed, 7)))));
    let power = (0..count)
        .map(|_| seed.below(1 << 24) as f32 / (1 << 24) as f32 * (1 + seed.below(10)) as f32 * 100.0);
    columns.push(("power_reading", Arc::new(power.collect::<Float32Array>())));
    columns
        .push(("is_peak", Arc::new((0..count).map(|_| Some(seed.below(2) == 0)).collect::<BooleanArray>())));
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Texts of 3.5 KB of words that repeat as those of a language do.
fn article(first: u64, seed: &mut Seed) -> RecordBatch {
    let rows = 256;
    let word = |seed: &mut Seed| {
        let rank = seed.below(1 << 7) * seed.below(1 << 7);
        format!("w{rank:x} ")
    };
    let text = |seed: &mut Seed| {
        let mut text = String::new();
        while text.len() < 3400 {
            text.push_str(&word(seed));
        }
        text
    };
    let mut columns = system(first, rows);
    let titles: Vec<String> = (0..rows).map(|_| word(seed)).collect();
    let texts: Vec<String> = (0..rows).map(|_| text(seed)).collect();
    columns.push(("title", Arc::new(StringViewArray::from_iter_values(titles))));
    columns.push(("text", Arc::new(StringViewArray::from_iter_values(texts))));
    RecordBatch::try_from_iter(columns).unwrap()
}

fn bare(batches: &[RecordBatch]) {
    let mut writer = ArrowWriter::try_new(Vec::new(), batches[0].schema(), None).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.close().unwrap();
}

async fn stored(name: &str, columns: &[(&str, Type)], batches: &[RecordBatch]) -> f64 {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions::at(directory.path().to_str().unwrap());
    let store = Store::open(options, Arc::new(SystemClock::new())).await.unwrap();
    let column =
        |(name, ty): &(&str, Type)| ColumnSpec { name: (*name).into(), ty: ty.clone(), nullable: true };
    let table = store.open_table(TableSpec::new(name, columns.iter().map(column).collect())).await.unwrap();
    let mut first = 0;
    for batch in batches {
        table.append(Rows { first: Offset(first), batch: batch.clone() }).await.unwrap();
        first += batch.num_rows() as u64;
    }
    table.flush().await.unwrap();
    let bytes = table.status().file_bytes as f64 / first as f64;
    store.close().await;
    bytes
}

fn measure(name: &str, columns: &[(&str, Type)], batches: &[RecordBatch]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let clock = SystemClock::new();
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let texts: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
    for round in 0..ROUNDS {
        let start = clock.monotonic_nanos();
        bare(batches);
        let middle = clock.monotonic_nanos();
        let bytes = runtime.block_on(stored(name, columns, batches));
        let end = clock.monotonic_nanos();
        let (bare, store) = ((middle - start) as f64 / 1e9, (end - middle) as f64 / 1e9);
        println!(
            "{name} round {round}: committed {:.2} M rows/s, {:.0} MB/s of columns, {bytes:.2} bytes a row; \
             bare encoding {:.2} M rows/s; ratio {:.2}",
            rows as f64 / store / 1e6,
            texts as f64 / store / 1e6,
            rows as f64 / bare / 1e6,
            bare / store,
        );
    }
}

fn main() {
    let mut seed = Seed(7);
    let homes: Vec<RecordBatch> = (0..512).map(|part| home(part * BATCH_ROWS, &mut seed)).collect();
    let columns = [
        ("house_id", Type::INTEGER),
        ("metro_area", Type::STRING),
        ("state", Type::STRING),
        ("device_id", Type::INTEGER),
        ("power_reading", Type::FLOAT),
        ("is_peak", Type::BOOLEAN),
    ];
    measure("smart-home", &columns, &homes);
    drop(homes);
    let articles: Vec<RecordBatch> = (0..256).map(|part| article(part * 256, &mut seed)).collect();
    measure("articles", &[("title", Type::STRING), ("text", Type::STRING)], &articles);
}

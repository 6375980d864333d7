//! Measures how fast events are generated, in bytes per second.

use divan::{Bencher, counter::BytesCount};
use swiftwater_generate::{LogsSettings, SwipesSettings, TelecomSettings, Workload};

const EVENTS: usize = 10_000;

fn main() {
    divan::main();
}

fn measure(bencher: Bencher<'_, '_>, workload: Workload) {
    let mut events = workload.begin(1).expect("the settings are in their ranges");
    let mut out = Vec::new();
    (0..EVENTS).for_each(|_| events.push(&mut out));
    let bytes = out.len();
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        out.clear();
        (0..EVENTS).for_each(|_| events.push(&mut out));
        out.len()
    });
}

#[divan::bench]
fn smart_home(bencher: Bencher<'_, '_>) {
    measure(bencher, Workload::SmartHome);
}

#[divan::bench]
fn articles(bencher: Bencher<'_, '_>) {
    measure(bencher, Workload::Articles);
}

#[divan::bench]
fn logs(bencher: Bencher<'_, '_>) {
    measure(bencher, Workload::Logs(LogsSettings::default()));
}

#[divan::bench]
fn swipes(bencher: Bencher<'_, '_>) {
    measure(bencher, Workload::Swipes(SwipesSettings::default()));
}

#[divan::bench]
fn telecom(bencher: Bencher<'_, '_>) {
    measure(bencher, Workload::Telecom(TelecomSettings::default()));
}

#[divan::bench]
fn telecom_flows(bencher: Bencher<'_, '_>) {
    measure(bencher, Workload::Telecom(TelecomSettings { flows: true, ..TelecomSettings::default() }));
}

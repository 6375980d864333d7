//! Speed of the division of text into tokens.

use divan::counter::BytesCount;
use swiftwater_text::{Analyzer, AnalyzerScratch};

const LINE: &str = "2026-01-01T00:00:00Z ERROR [worker-7] Request /api/orders/4711 failed: connection refused by upstream \
                    10.0.0.12:8080 after 1500ms traceId=4bf92f3577b34da6a3ce929d0e0e4736 ";

fn main() {
    divan::main();
}

fn count(bencher: divan::Bencher, text: &str) {
    let (analyzer, mut scratch) = (Analyzer::default(), AnalyzerScratch::default());
    bencher.counter(BytesCount::of_str(text)).bench_local(|| {
        let mut tokens = 0;
        analyzer.for_each_token(divan::black_box(text), &mut scratch, |_| tokens += 1);
        tokens
    });
}

#[divan::bench]
fn lines_of_logs(bencher: divan::Bencher) {
    count(bencher, &LINE.repeat(100));
}

#[divan::bench]
fn cyrillic(bencher: divan::Bencher) {
    count(bencher, &"Соединение с Сервером прервано, повторная попытка через 5 секунд. ".repeat(200));
}

#[divan::bench]
fn japanese(bencher: divan::Bencher) {
    count(bencher, &"東京都のサーバーへの接続がタイムアウトしました。".repeat(200));
}

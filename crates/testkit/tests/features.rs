//! Tests that one build of the dependencies serves the binary, the tests and the benchmarks. Each of them has the same
//! features whether `swiftwater-cli` is built alone or the whole workspace with its tests.
//!
//! Cargo unites the features of the packages that one command builds. A feature that only a test enables would compile that
//! dependency and all its dependents once more, DataFusion among them. Such a feature belongs in the workspace's
//! `Cargo.toml` instead.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

/// Packages with their features as `cargo tree` resolves them.
fn features(of: &[&str], edges: &str) -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--prefix", "none", "--format", "{p}|{f}", "--edges", edges])
        .args(of)
        .output()
        .expect("cargo is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    let mut packages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines() {
        let Some((package, features)) = line.split_once('|') else { continue };
        let features =
            features.trim_end_matches("(*)").trim().split(',').filter(|feature| !feature.is_empty());
        packages.entry(package.to_owned()).or_default().extend(features.map(str::to_owned));
    }
    packages
}

/// The features that tests or benchmarks alone switch on, among the packages that both trees have.
fn switched_on_by_tests(
    binary: &BTreeMap<String, BTreeSet<String>>,
    all: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let more = |(package, features): (&String, &BTreeSet<String>)| {
        let more: Vec<&String> = all.get(package)?.difference(features).collect();
        (!more.is_empty()).then(|| format!("{package}: tests or benchmarks alone switch on {more:?}"))
    };
    binary.iter().filter_map(more).collect()
}

#[test]
fn binary_tests_and_benchmarks_share_one_build_of_the_dependencies() {
    let binary = features(&["-p", "swiftwater-cli"], "normal,no-proc-macro");
    let all = features(&["--workspace"], "normal,dev,no-proc-macro");
    assert!(binary.len() > 200, "only {} packages were found", binary.len());
    let mut faults = switched_on_by_tests(&binary, &all);
    // Procedural macros are built for the host, and Cargo does not unite their features with those of the target. What the
    // target has, too, is left out, as the tree does not tell the two apart.
    let mut binary_macros = features(&["-p", "swiftwater-cli"], "normal");
    binary_macros.retain(|package, _| !all.contains_key(package));
    assert!(binary_macros.keys().any(|package| package.starts_with("syn ")), "{binary_macros:?}");
    faults.extend(switched_on_by_tests(&binary_macros, &features(&["--workspace"], "normal,dev")));
    assert!(faults.is_empty(), "{}\nSwitch them on in the workspace's Cargo.toml.", faults.join("\n"));
}

/// The dependencies that a binary without history does not have: storage, SQL, and clients of other servers.
const OF_HISTORY: [&str; 17] = [
    "arrow-ipc",
    "aws-",
    "datafusion",
    "deltalake",
    "fjall",
    "object_store",
    "openssl",
    "parquet",
    "reqwest",
    "ring",
    "rustls",
    "sqlparser",
    "swiftwater-engine",
    "swiftwater-log",
    "swiftwater-sql",
    "swiftwater-store",
    "tonic",
];

#[test]
fn binary_without_history_has_nothing_that_only_history_needs() {
    let packages = features(&["-p", "swiftwater-cli", "--no-default-features"], "normal,build");
    assert!(packages.keys().any(|package| package.starts_with("swiftwater-runtime ")), "{packages:?}");
    let of_history = |package: &&String| OF_HISTORY.iter().any(|start| package.starts_with(start));
    let found: Vec<&String> = packages.keys().filter(of_history).collect();
    assert!(found.is_empty(), "{found:?}");
    let all = features(&["-p", "swiftwater-cli"], "normal,build");
    assert!(all.keys().any(|package| package.starts_with("datafusion ")), "the names are those of packages");
}

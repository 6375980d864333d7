//! Links the system's RocksDB.

fn main() {
    println!("cargo::rustc-link-lib=dylib=rocksdb");
}

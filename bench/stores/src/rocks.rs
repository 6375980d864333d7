//! RocksDB through its C interface (`rocksdb/c.h`): only the functions that views would need.

#![allow(non_camel_case_types, reason = "the names are those of the C interface")]

use std::{
    ffi::{CString, c_char, c_int, c_uchar, c_void},
    path::Path,
    ptr,
};

use anyhow::bail;

type handle = *mut c_void;

unsafe extern "C" {
    fn rocksdb_options_create() -> handle;
    fn rocksdb_options_set_create_if_missing(options: handle, value: c_uchar);
    fn rocksdb_options_set_write_buffer_size(options: handle, bytes: usize);
    fn rocksdb_options_set_compression(options: handle, kind: c_int);
    fn rocksdb_options_set_block_based_table_factory(options: handle, table: handle);
    fn rocksdb_options_set_max_background_jobs(options: handle, jobs: c_int);
    fn rocksdb_block_based_options_create() -> handle;
    fn rocksdb_block_based_options_set_block_cache(table: handle, cache: handle);
    fn rocksdb_block_based_options_set_filter_policy(table: handle, policy: handle);
    fn rocksdb_filterpolicy_create_bloom_full(bits: f64) -> handle;
    fn rocksdb_cache_create_lru(bytes: usize) -> handle;
    fn rocksdb_open(options: handle, path: *const c_char, error: *mut *mut c_char) -> handle;
    fn rocksdb_close(db: handle);
    fn rocksdb_writeoptions_create() -> handle;
    fn rocksdb_writeoptions_set_sync(options: handle, value: c_uchar);
    fn rocksdb_readoptions_create() -> handle;
    fn rocksdb_writebatch_create() -> handle;
    fn rocksdb_writebatch_destroy(batch: handle);
    fn rocksdb_writebatch_put(batch: handle, key: *const c_char, key_len: usize, value: *const c_char, value_len: usize);
    fn rocksdb_write(db: handle, options: handle, batch: handle, error: *mut *mut c_char);
    fn rocksdb_get(
        db: handle,
        options: handle,
        key: *const c_char,
        key_len: usize,
        value_len: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_char;
    fn rocksdb_free(pointer: *mut c_void);
}

/// None, as views have it.
const NO_COMPRESSION: c_int = 0;

/// An open database. Its options live as long as the process: there are few.
pub struct Rocks {
    db: handle,
    write: handle,
    read: handle,
}

fn check(error: *mut c_char) -> anyhow::Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: RocksDB gives a text that ends with a zero, which is ours now.
    let text = unsafe { std::ffi::CStr::from_ptr(error) }.to_string_lossy().into_owned();
    // SAFETY: it came from RocksDB's allocator.
    unsafe { rocksdb_free(error.cast()) };
    bail!("{text}")
}

impl Rocks {
    pub fn open(path: &Path, cache_bytes: usize, buffer_bytes: usize) -> anyhow::Result<Rocks> {
        let path = CString::new(path.to_string_lossy().as_bytes())?;
        let mut error = ptr::null_mut();
        // SAFETY: every handle comes from the call that makes its kind; the path ends with a zero.
        let rocks = unsafe {
            let (options, table) = (rocksdb_options_create(), rocksdb_block_based_options_create());
            rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(cache_bytes));
            rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(10.0));
            rocksdb_options_set_block_based_table_factory(options, table);
            rocksdb_options_set_create_if_missing(options, 1);
            rocksdb_options_set_write_buffer_size(options, buffer_bytes);
            rocksdb_options_set_compression(options, NO_COMPRESSION);
            rocksdb_options_set_max_background_jobs(options, 2);
            let write = rocksdb_writeoptions_create();
            rocksdb_writeoptions_set_sync(write, 1);
            let db = rocksdb_open(options, path.as_ptr(), &raw mut error);
            Rocks { db, write, read: rocksdb_readoptions_create() }
        };
        check(error)?;
        Ok(rocks)
    }

    pub fn commit<'c>(&self, changes: impl Iterator<Item = (&'c [u8], &'c [u8])>, position: u64) -> anyhow::Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: the batch is of this call; RocksDB copies what is put into it.
        unsafe {
            let batch = rocksdb_writebatch_create();
            for (key, value) in changes {
                rocksdb_writebatch_put(batch, key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len());
            }
            let (key, value) = (b"\0position", position.to_be_bytes());
            rocksdb_writebatch_put(batch, key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len());
            rocksdb_write(self.db, self.write, batch, &raw mut error);
            rocksdb_writebatch_destroy(batch);
        }
        check(error)
    }

    pub fn get(&self, key: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
        let (mut len, mut error) = (0, ptr::null_mut());
        // SAFETY: the key's bytes are there during the call, which writes `len` and `error`.
        let value = unsafe {
            rocksdb_get(self.db, self.read, key.as_ptr().cast(), key.len(), &raw mut len, &raw mut error)
        };
        check(error)?;
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: RocksDB gives `len` bytes that are ours now.
        let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len) }.to_vec();
        // SAFETY: they came from its allocator.
        unsafe { rocksdb_free(value.cast()) };
        Ok(Some(bytes))
    }
}

impl Drop for Rocks {
    fn drop(&mut self) {
        // SAFETY: it is open, and nobody uses it any more.
        unsafe { rocksdb_close(self.db) };
    }
}

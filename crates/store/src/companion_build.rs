//! Writes the companion of a data file: from its rows, or from the companions of the files that were merged into it.
//!
//! Runs on a thread that waits for the store itself. A companion is uploaded in parts while it is written, so none is in memory as
//! a whole, and has its name when it is whole.

use std::{
    io::{self, Write},
    sync::Arc,
};

use futures_util::StreamExt;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload, path::Path};
use parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};
use swiftwater_event::causes;
use tokio::runtime::Handle;
use tracing::warn;

use crate::{
    companions::{
        CompanionBytes, CompanionFault, CompanionFile, CompanionFormat, ObjectBytes, companion_path,
    },
    encode::PART_BYTES,
    error::{Result, StoreError},
    layout::Layout,
    load::TableLocation,
    maintenance::{rows_at_once, with_partition},
    read::ObjectReader,
    table_version::FileEntry,
};

/// An object that is being written.
struct Upload {
    store: Arc<dyn ObjectStore>,
    path: Path,
    runtime: Handle,
    buffer: Vec<u8>,
    parts: Option<Box<dyn MultipartUpload>>,
}

impl Upload {
    fn new(place: &TableLocation, path: Path, runtime: &Handle) -> Upload {
        let (store, runtime) = (Arc::clone(&place.store), runtime.clone());
        Upload { store, path, runtime, buffer: Vec::new(), parts: None }
    }

    fn send_part(&mut self) -> object_store::Result<()> {
        let part = PutPayload::from(std::mem::take(&mut self.buffer));
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => none.insert(self.runtime.block_on(self.store.put_multipart(&self.path))?),
        };
        self.runtime.block_on(parts.put_part(part))
    }

    /// Gives the object its name.
    fn finish(&mut self) -> object_store::Result<()> {
        if self.parts.is_some() && !self.buffer.is_empty() {
            self.send_part()?;
        }
        let bytes = std::mem::take(&mut self.buffer);
        match &mut self.parts {
            Some(parts) => self.runtime.block_on(parts.complete()).map(drop),
            None => self.runtime.block_on(self.store.put(&self.path, PutPayload::from(bytes))).map(drop),
        }
    }

    /// Takes back what was sent. Vacuum removes what is left.
    fn abort(mut self) {
        if let Some(parts) = &mut self.parts {
            let _ = self.runtime.block_on(parts.abort());
        }
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PART_BYTES {
            self.send_part().map_err(io::Error::other)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The companions of a table's files, as they are written.
pub(crate) struct CompanionWriter<'w> {
    pub(crate) format: &'w dyn CompanionFormat,
    pub(crate) place: &'w TableLocation,
    pub(crate) layout: &'w Layout,
    pub(crate) runtime: &'w Handle,
}

impl CompanionWriter<'_> {
    fn path(&self, file: &CompanionFile) -> Path {
        companion_path(self.place, self.format.definition(), &file.path)
    }

    /// Builds the companion of a file from its rows.
    pub(crate) fn build(&self, file: &Arc<FileEntry>, described: &CompanionFile) -> Result<()> {
        self.runtime.block_on(self.place.check())?;
        let mut upload = Upload::new(self.place, self.path(described), self.runtime);
        let written = self.build_into(file, described, &mut upload).and_then(|()| {
            self.runtime.block_on(self.place.check())?;
            upload.finish().map_err(StoreError::store("writing a search index file"))
        });
        if written.is_err() {
            upload.abort();
        }
        written
    }

    fn build_into(
        &self,
        file: &Arc<FileEntry>,
        described: &CompanionFile,
        out: &mut dyn Write,
    ) -> Result<()> {
        let (layout, runtime) = (self.layout, self.runtime);
        let failed = StoreError::parquet("reading a file to index it");
        let mut builder = self.format.builder(&layout.schema);
        let places = builder.places();
        let store = Arc::new(self.place.checked(std::slice::from_ref(file)));
        let reader = ObjectReader { store, path: self.place.file(&file.add.path), size: file.add.size };
        let stream = runtime.block_on(ParquetRecordBatchStreamBuilder::new(reader)).map_err(&failed)?;
        let rows = rows_at_once(stream.metadata());
        let is_read = |name: &str| places.iter().any(|place| layout.schema.field(*place).name() == name);
        let roots = stream.parquet_schema().root_schema().get_fields().iter().enumerate();
        let read = roots.filter(|(_, field)| is_read(field.name())).map(|(number, _)| number);
        let mask = ProjectionMask::roots(stream.parquet_schema(), read.collect::<Vec<_>>());
        let mut batches = stream.with_projection(mask).with_batch_size(rows).build().map_err(&failed)?;
        let failed_building = |error: io::Error| {
            let (table, file, error) = (&self.place.table, &*described.path, causes(&error));
            warn!(%table, file, error, "a search index file cannot be built; the server retries");
            StoreError::Task("building a search index file")
        };
        while let Some(batch) = runtime.block_on(batches.next()) {
            let batch = with_partition(&batch.map_err(&failed)?, layout, file)?;
            let arrays =
                places.iter().map(|place| layout.column(*place, &batch)).collect::<Result<Vec<_>>>()?;
            builder.add(&arrays, batch.num_rows()).map_err(failed_building)?;
        }
        builder.finish(described, out).map_err(failed_building)
    }

    /// Writes the companion of a file from those of other files, whose rows one behind the other are its rows. False, or a fault:
    /// it is to be built from the rows.
    pub(crate) fn merge(
        &self,
        sources: &[CompanionFile],
        file: &CompanionFile,
    ) -> std::result::Result<bool, CompanionFault> {
        let unavailable = |error: &dyn std::error::Error| CompanionFault::Unavailable(causes(error));
        self.runtime.block_on(self.place.check()).map_err(|error| unavailable(&error))?;
        let mut opened: Vec<(Arc<dyn CompanionBytes>, CompanionFile)> = Vec::with_capacity(sources.len());
        for source in sources {
            let bytes = ObjectBytes::open(self.place, self.path(source), self.runtime)?;
            opened.push((Arc::new(bytes), source.clone()));
        }
        let mut upload = Upload::new(self.place, self.path(file), self.runtime);
        let merged = self.format.merge(&self.layout.schema, &opened, file, &mut upload);
        let written = merged.and_then(|is_merged| {
            if is_merged {
                self.runtime.block_on(self.place.check()).map_err(|error| unavailable(&error))?;
                upload.finish().map_err(|error| unavailable(&error))?;
            }
            Ok(is_merged)
        });
        if !matches!(written, Ok(true)) {
            upload.abort();
        }
        written
    }
}

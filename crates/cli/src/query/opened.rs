//! Opens the input of a query that runs in this process, and reports on it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anyhow::Context;
use swiftwater_runtime::{ErrorKind, InputError, InputSource, InputSummary, RuntimeError};

use super::WRONG_QUERY;
use crate::{
    args::InputForm,
    exit::Failure,
    ingest::{DeclaredFields, form::CsvFaults, send},
    input_file::{self, Counted, Packing, Place, StopReading},
    output::grouped,
    stdio::complain,
};

/// An input, and how far it was read as it lies there, where that is not what the engine sees.
pub(crate) struct Opened {
    pub(crate) source: InputSource,
    pub(crate) bytes: Option<u64>,
    pub(crate) read: Option<Arc<AtomicU64>>,
    /// Its format, and the known faults of its records.
    pub(crate) form: (InputForm, CsvFaults),
}

/// Opens an input; a file of JSON that is not packed is looked at where it lies. CSV and Parquet, detected by a file's name,
/// are read as `swiftwater ingest` reads them; `declared` has the types of CSV values.
pub(crate) fn open(place: &Place, stop: &StopReading, declared: &DeclaredFields) -> anyhow::Result<Opened> {
    let form = match place {
        Place::Stdin => InputForm::Json,
        Place::File(path) => InputForm::of(path),
    };
    if form != InputForm::Json {
        let (read, faults) = (Arc::default(), CsvFaults::default());
        let input = send::open(place, form, true, (stop, declared), (&read, &faults))?;
        let source = InputSource::Reader(input.reader);
        return Ok(Opened { source, bytes: input.bytes, read: Some(read), form: (form, faults) });
    }
    let form = (form, CsvFaults::default());
    if let Place::File(path) = place
        && let Some(bytes) = input_file::map(path)?
    {
        return Ok(Opened {
            bytes: Some(bytes.len() as u64),
            source: InputSource::Bytes(bytes),
            read: None,
            form,
        });
    }
    let input = input_file::open(place, stop)?;
    if input.packing == Packing::None {
        return Ok(Opened {
            source: InputSource::Reader(input.reader),
            bytes: input.bytes,
            read: None,
            form,
        });
    }
    let read = Arc::default();
    let unpacked = input.packing.unpack(Counted::new(input.reader, &read));
    let reader = unpacked.with_context(|| format!("cannot unpack {}", place.name()))?;
    Ok(Opened { source: InputSource::Reader(reader), bytes: input.bytes, read: Some(read), form })
}

/// Number of bytes of the input read, as stored there.
pub(crate) fn read_so_far(read: Option<&Arc<AtomicU64>>, looked_at: u64) -> u64 {
    read.map_or(looked_at, |read| read.load(Ordering::Relaxed))
}

/// A query that was not run to the end of its input.
pub(crate) fn failed(error: InputError, place: &Place) -> Failure {
    match error {
        InputError::Engine(error) => refused(error),
        InputError::Read(error) => {
            anyhow::Error::new(error).context(format!("cannot read {} to its end", place.name())).into()
        }
    }
}

/// A query that is not run.
pub(crate) fn refused(error: RuntimeError) -> Failure {
    let code = if error.kind() == ErrorKind::Invalid { WRONG_QUERY } else { 1 };
    let hint = match &error {
        RuntimeError::Limit { setting, .. } => {
            let variable = setting.replace('.', "__").to_uppercase();
            format!("\nThe limit is SWIFTWATER_{variable} in the environment.")
        }
        _ => error.hint().map_or_else(String::new, |hint| format!("\n{hint}")),
    };
    Failure::coded(code, anyhow::anyhow!("{error}{hint}"))
}

/// Reports the rejected events.
pub(crate) fn report_rejections(
    summary: &InputSummary,
    place: &Place,
    (form, faults): &(InputForm, CsvFaults),
) {
    if summary.rejected == 0 {
        return;
    }
    let all = summary.accepted + summary.rejected;
    complain(&format!("{} of {} events were rejected:", grouped(summary.rejected), grouped(all)));
    for rejection in &summary.rejections {
        let at = form.place(rejection.line, rejection.column);
        let message = faults.of(rejection.line).unwrap_or_else(|| rejection.message.clone());
        complain(&format!("  {}:{at}: {message}", place.name()));
    }
    if summary.rejections.len() < summary.rejected as usize {
        complain(&format!("  and {} more", grouped(summary.rejected - summary.rejections.len() as u64)));
    }
}

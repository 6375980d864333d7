//! Runs `COPY query TO 'file'`: writes Parquet, CSV or JSON files, under the configured roots only.
//!
//! It writes the file, or the directory of files, elsewhere under its root. The result gets its name when it is complete
//! and synced. A slash at the end of the name, or `PARTITIONED BY`, requests a directory.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, UInt64Array};
use arrow::datatypes::Field;
use datafusion::common::Column;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast};
use datafusion::sql::parser::{CopyToSource, CopyToStatement, Statement};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use futures_util::StreamExt;

use crate::answer::Command;
use crate::forms::{json_text, plain};
use crate::names::Names;
use crate::partitioned;
use crate::run::{Outcome, Run, count, outcome};
use crate::{ErrorKind, SqlError};

/// Formats that can be written, as `STORED AS` and as a file's extension.
const FORMATS: [&str; 6] = ["parquet", "csv", "json", "ndjson", "jsonl", "arrow"];

impl Run {
    pub(crate) async fn copy(
        &self,
        mut copy: CopyToStatement,
        names: Arc<Names>,
    ) -> Result<Outcome, SqlError> {
        let target = Target::of(&copy.target, &self.inner.options.output_roots)?;
        let extension = target.path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let format = copy.stored_as.as_deref().unwrap_or(extension).to_lowercase();
        if !FORMATS.contains(&format.as_str()) {
            return Err(SqlError::invalid(format!("`{format}` is not a file format")).with_hint(
                "End the file's name in .parquet, .csv or .json, or write STORED AS PARQUET, CSV or JSON.",
            ));
        }
        // A row a line, as DataFusion writes JSON in any case.
        let format = if matches!(format.as_str(), "ndjson" | "jsonl") { "json".to_owned() } else { format };
        copy.stored_as = Some(format.to_uppercase());
        let is_directory = target.is_directory || !copy.partitioned_by.is_empty();
        target.check_is_free(is_directory)?;
        let unfinished =
            PartialOutput::begin(&target, is_directory, &format).map_err(|error| target.unwritten(error))?;
        copy.target = unfinished
            .written
            .to_str()
            .ok_or_else(|| SqlError::invalid("the directory's name is not UTF-8"))?
            .to_owned();
        if let CopyToSource::Relation(name) = &copy.source {
            let (ident, found) = names.target(name)?;
            let Some(found) = found else {
                return Err(names.missing(ident, &ident.value));
            };
            copy.source =
                CopyToSource::Relation(ObjectName::from(vec![Ident { value: found, ..ident.clone() }]));
        }
        let mut planned = self.plan(Statement::CopyTo(copy), names).await?;
        if let LogicalPlan::Copy(copy) = &planned.plan
            && copy.partition_by.len() >= copy.input.schema().fields().len()
        {
            return Err(SqlError::invalid("PARTITIONED BY leaves no column for the files")
                .with_hint("Its columns become names of directories; select another column, too."));
        }
        planned.plan = match format.as_str() {
            "csv" => with_columns(planned.plan, nested_as_json)?,
            "parquet" | "arrow" => with_columns(planned.plan, plainly_typed)?,
            _ => planned.plan,
        };
        if let LogicalPlan::Copy(copy) = planned.plan {
            planned.plan = LogicalPlan::Copy(partitioned::sorted(copy)?);
        }
        let mut rows = self.open(&planned, &planned.plan).await?;
        let mut written = 0;
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(|error| cannot_be_written(error.into(), &format))?;
            let counts =
                batch.columns().first().and_then(|column| column.as_any().downcast_ref::<UInt64Array>());
            written += counts.map_or(0, |counts| counts.iter().flatten().sum::<u64>());
        }
        unfinished.finish(&target).await?;
        Ok(outcome(Command::Copy, count(written)?))
    }
}

/// Replaces the error for values that a format does not support: no data is damaged.
fn cannot_be_written(error: SqlError, format: &str) -> SqlError {
    match error.kind() {
        ErrorKind::Corrupt => {
            SqlError::invalid(format!("{format} cannot store this: {error}")).with_source(error)
        }
        _ => error,
    }
}

/// Removes the files of a first attempt, where another is to follow.
pub(crate) fn remove_partial_files(copy: &CopyTo) -> Result<(), SqlError> {
    let written = Path::new(&copy.output_url);
    if !written.is_dir() {
        return Ok(());
    }
    let emptied = fs::remove_dir_all(written).and_then(|()| fs::create_dir(written));
    emptied.map_err(|error| {
        SqlError::new(ErrorKind::Unavailable, "the files of the first attempt cannot be deleted")
            .with_source(error)
    })
}

/// Prefix of the directories of unfinished files under a root, one for each `COPY`.
const UNFINISHED: &str = ".unfinished-";

/// Takes away what a process that was killed left unfinished. No other process writes under these roots.
pub(crate) fn clear_unfinished(roots: &[PathBuf]) {
    for entry in roots.iter().filter_map(|root| fs::read_dir(root).ok()).flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            // If it cannot be taken away, it is in nobody's way.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A file, or a directory of files, that is being written. Drop removes the unfinished files.
struct PartialOutput {
    directory: PathBuf,
    /// The unfinished file or directory within `directory`.
    written: PathBuf,
}

impl PartialOutput {
    fn begin(target: &Target, is_directory: bool, format: &str) -> io::Result<PartialOutput> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let directory = target.root.join(format!("{UNFINISHED}{number}"));
        fs::create_dir_all(&directory)?;
        // DataFusion looks at the name: with an ending it is one file's, with a slash a directory's.
        let written = match is_directory {
            true => directory.join("files").join(""),
            false => directory.join(format!("file.{format}")),
        };
        let unfinished = PartialOutput { directory, written };
        if is_directory {
            // Without rows there are no files, and DataFusion makes no directory.
            fs::create_dir(&unfinished.written)?;
        }
        Ok(unfinished)
    }

    /// Renames the output to its final name.
    async fn finish(self, target: &Target) -> Result<(), SqlError> {
        let target = target.clone();
        let finished = tokio::task::spawn_blocking(move || {
            let done = (|| {
                sync(&self.written)?;
                let parent = target.path.parent().unwrap_or(&target.root);
                fs::create_dir_all(parent)?;
                fs::rename(&self.written, &target.path)?;
                // Directories that were made for it are as durable as it is.
                let mut above = parent.ancestors().take_while(|above| above.starts_with(&target.root));
                above.try_for_each(|above| File::open(above)?.sync_all())
            })();
            done.map_err(|error| target.unwritten(error))
        });
        finished.await.map_err(|error| SqlError::internal("a file's end was lost").with_source(error))?
    }
}

impl Drop for PartialOutput {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Writes a file, or all files of a directory, down to the disk.
fn sync(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        for entry in fs::read_dir(path)? {
            sync(&entry?.path())?;
        }
    }
    file.sync_all()
}

/// The copy, with other columns where `other` gives one for a column.
fn with_columns(plan: LogicalPlan, other: fn(&Field, Expr) -> Option<Expr>) -> Result<LogicalPlan, SqlError> {
    let copy = match plan {
        LogicalPlan::Copy(copy) => copy,
        plan => return Ok(plan),
    };
    let schema = copy.input.schema();
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (qualifier, field) in schema.iter() {
        let column = Expr::Column(Column::from((qualifier, field)));
        columns.push(match other(field, column.clone()) {
            Some(other) => other.alias_qualified(qualifier.cloned(), field.name()),
            None => column,
        });
    }
    let input = LogicalPlanBuilder::from(copy.input.as_ref().clone()).project(columns)?.build()?;
    Ok(LogicalPlan::Copy(CopyTo { input: Arc::new(input), ..copy }))
}

/// Lists, maps and structs as JSON texts, as answers in CSV have them: DataFusion writes none.
fn nested_as_json(field: &Field, column: Expr) -> Option<Expr> {
    field.data_type().is_nested().then(|| json_text().call(vec![column]))
}

/// Casts a column to a type that all readers support, as in answers; none if it has such a type.
fn plainly_typed(field: &Field, column: Expr) -> Option<Expr> {
    let ty = plain(field.data_type());
    (&ty != field.data_type()).then(|| cast(column, ty))
}

/// Destination of a `COPY`: a path without links, under one of the roots.
#[derive(Debug, Clone)]
struct Target {
    root: PathBuf,
    path: PathBuf,
    /// True if its name ends in a slash, and so is a directory.
    is_directory: bool,
}

impl Target {
    fn of(written: &str, roots: &[PathBuf]) -> Result<Target, SqlError> {
        let Some(first) = roots.first() else {
            return Err(SqlError::invalid("files cannot be written here")
                .with_hint("This server stores nothing; start it with --data DIR."));
        };
        let refused = |why: &str| {
            let roots: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
            SqlError::invalid(format!("`{written}` {why}"))
                .with_hint(format!("COPY writes under {} only.", roots.join(", ")))
        };
        if written.contains("://") {
            return Err(refused("is not the path of a local file"));
        }
        if written.contains(['*', '?', '[', '\0']) {
            return Err(refused("contains a character that is not allowed in a file's name"));
        }
        let path = first.join(written);
        if path.components().any(|component| matches!(component, Component::ParentDir)) {
            return Err(refused("leads upwards"));
        }
        let path = resolve(&path).map_err(|error| {
            SqlError::new(ErrorKind::Unavailable, format!("`{written}` cannot be looked up"))
                .with_source(error)
        })?;
        let below = |root: &PathBuf| {
            let root = root.canonicalize().ok()?;
            (path.starts_with(&root) && path != root).then_some(root)
        };
        let Some(root) = roots.iter().find_map(below) else {
            return Err(refused("is not in a directory that COPY may write to"));
        };
        let below = path.strip_prefix(&root).unwrap_or(&path);
        if below.to_string_lossy().starts_with(UNFINISHED) {
            return Err(refused("is reserved for files that are being written"));
        }
        Ok(Target { root, path, is_directory: written.ends_with('/') })
    }

    /// Refuses what would be mixed with other files, or take the place of them.
    fn check_is_free(&self, is_directory: bool) -> Result<(), SqlError> {
        let taken = |what: &str, hint: &str| {
            Err(SqlError::new(ErrorKind::Conflict, format!("`{}` is {what}", self.path.display()))
                .with_hint(hint))
        };
        match fs::read_dir(&self.path).map(Iterator::count) {
            Ok(_) if !is_directory => {
                taken("a directory", "For a directory of files, write a slash after the name.")
            }
            Ok(entries) if entries > 0 => {
                taken("a directory that is not empty", "Write to another one, or remove it first.")
            }
            Err(error) if is_directory && error.kind() == io::ErrorKind::NotADirectory => {
                taken("a file", "Write to another directory, or remove it first.")
            }
            _ => Ok(()),
        }
    }

    fn unwritten(&self, error: io::Error) -> SqlError {
        SqlError::new(ErrorKind::Unavailable, format!("`{}` cannot be written", self.path.display()))
            .with_source(error)
    }
}

/// The path with all links followed; what does not exist yet stays as it is written.
fn resolve(path: &Path) -> std::io::Result<PathBuf> {
    let mut missing = Vec::new();
    let mut known = path;
    loop {
        // A link that leads nowhere would be followed when the file is written.
        if known.symlink_metadata().is_ok() {
            let mut resolved = known.canonicalize()?;
            resolved.extend(missing.iter().rev());
            return Ok(resolved);
        }
        let (Some(parent), Some(name)) = (known.parent(), known.file_name()) else {
            return Ok(path.to_owned());
        };
        missing.push(name.to_owned());
        known = parent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_under_the_roots_only() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("out");
        std::fs::create_dir(&root).unwrap();
        let outside = directory.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        std::os::unix::fs::symlink(outside.join("nothing"), root.join("dangling")).unwrap();
        let roots = [root.clone()];
        let root = root.canonicalize().unwrap();

        let path = |written: &str| Target::of(written, &roots).unwrap().path;
        assert_eq!(path("a.csv"), root.join("a.csv"));
        assert_eq!(path("new/deep/a.csv"), root.join("new/deep/a.csv"));
        assert_eq!(path(root.join("b.csv").to_str().unwrap()), root.join("b.csv"));
        for refused in [
            "../outside/a.csv",
            "x/../../outside/a.csv",
            "link/a.csv",
            "dangling",
            "/etc/passwd",
            "s3://bucket/a.csv",
            "a*.csv",
            "",
            ".unfinished-0/a.csv",
        ] {
            assert!(Target::of(refused, &roots).is_err(), "{refused}");
        }
        assert!(Target::of("a.csv", &[]).is_err());
    }
}

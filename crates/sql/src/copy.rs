//! `COPY query TO 'file'`: Parquet, CSV or JSON files, under the configured roots only.
//!
//! A file is written under another name beside its own, and has its own when all of it is there. Directories of files, as
//! `PARTITIONED BY` makes them, are written in place.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, UInt64Array};
use datafusion::common::Column;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::{CopyToSource, CopyToStatement, Statement};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use futures_util::StreamExt;

use crate::answer::Command;
use crate::forms::json_text;
use crate::names::Names;
use crate::run::{Outcome, Run, count, outcome};
use crate::{ErrorKind, SqlError};

/// What can be written, as `STORED AS` and as a file's extension.
const FORMATS: [&str; 6] = ["parquet", "csv", "json", "ndjson", "jsonl", "arrow"];

impl Run {
    pub(crate) async fn copy(
        &self,
        mut copy: CopyToStatement,
        names: Arc<Names>,
    ) -> Result<Outcome, SqlError> {
        let target = target(&copy.target, &self.inner.options.output_roots)?;
        let extension = target.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let format = copy.stored_as.as_deref().unwrap_or(extension).to_lowercase();
        if !FORMATS.contains(&format.as_str()) {
            return Err(SqlError::invalid(format!("`{format}` is no format to write")).with_hint(
                "End the file's name in .parquet, .csv or .json, or write STORED AS PARQUET, CSV or JSON.",
            ));
        }
        // A row a line, as DataFusion writes JSON in any case.
        let format = if matches!(format.as_str(), "ndjson" | "jsonl") { "json".to_owned() } else { format };
        copy.stored_as = Some(format.to_uppercase());
        let unfinished = copy.partitioned_by.is_empty().then(|| Unfinished::of(&target)).flatten();
        let written_to = unfinished.as_ref().map_or(&target, |unfinished| &unfinished.path);
        copy.target = written_to
            .to_str()
            .ok_or_else(|| SqlError::invalid("the file's name is no text in UTF-8"))?
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
            return Err(SqlError::invalid("PARTITIONED BY leaves no column for the files").with_hint(
                "The columns that it names are the names of directories; write another column too.",
            ));
        }
        if format == "csv" {
            planned.plan = nested_as_json(planned.plan)?;
        }
        let mut rows = self.open(&planned, &planned.plan).await?;
        let mut written = 0;
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(|error| cannot_be_written(error.into(), &format))?;
            let counts =
                batch.columns().first().and_then(|column| column.as_any().downcast_ref::<UInt64Array>());
            written += counts.map_or(0, |counts| counts.iter().flatten().sum::<u64>());
        }
        if let Some(unfinished) = &unfinished {
            std::fs::rename(&unfinished.path, &target).map_err(|error| {
                SqlError::new(ErrorKind::Unavailable, format!("`{}` cannot be written", target.display()))
                    .with_source(error)
            })?;
        }
        Ok(outcome(Command::Copy, count(written)?))
    }
}

/// What a format cannot hold is not damaged.
fn cannot_be_written(error: SqlError, format: &str) -> SqlError {
    match error.kind() {
        ErrorKind::Corrupt => {
            SqlError::invalid(format!("{format} cannot hold this: {error}")).with_source(error)
        }
        _ => error,
    }
}

/// A file that is being written. What is left of it when this is dropped goes away.
struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    /// None where DataFusion makes a directory of files.
    fn of(target: &Path) -> Option<Unfinished> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let name = target.file_name()?.to_str()?;
        if target.extension().is_none() || target.is_dir() || target.to_str()?.ends_with('/') {
            return None;
        }
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        // Its ending stays: DataFusion looks at it.
        let name = format!("unfinished-{}-{number}-{name}", std::process::id());
        Some(Unfinished { path: target.with_file_name(name) })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Most often it has its own name by now.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Lists, maps and structs as JSON texts, as answers in CSV have them: DataFusion writes none.
fn nested_as_json(plan: LogicalPlan) -> Result<LogicalPlan, SqlError> {
    let copy = match plan {
        LogicalPlan::Copy(copy) => copy,
        other => return Ok(other),
    };
    let schema = copy.input.schema();
    if !schema.fields().iter().any(|field| field.data_type().is_nested()) {
        return Ok(LogicalPlan::Copy(copy));
    }
    let function = json_text();
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (qualifier, field) in schema.iter() {
        let column = Expr::Column(Column::from((qualifier, field)));
        columns.push(if field.data_type().is_nested() {
            function.call(vec![column]).alias_qualified(qualifier.cloned(), field.name())
        } else {
            column
        });
    }
    let input = LogicalPlanBuilder::from(copy.input.as_ref().clone()).project(columns)?.build()?;
    Ok(LogicalPlan::Copy(CopyTo { input: Arc::new(input), ..copy }))
}

/// Where a file may be written: a path without links, under one of the roots.
fn target(written: &str, roots: &[PathBuf]) -> Result<PathBuf, SqlError> {
    let Some(first) = roots.first() else {
        return Err(SqlError::invalid("files cannot be written here")
            .with_hint("Set sql.output_roots to the directories that COPY may write to."));
    };
    let refused = |why: &str| {
        let roots: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
        SqlError::invalid(format!("`{written}` {why}"))
            .with_hint(format!("COPY writes under {} only.", roots.join(", ")))
    };
    if written.contains("://") {
        return Err(refused("is no path of a local file"));
    }
    if written.contains(['*', '?', '[', '\0']) {
        return Err(refused("holds a character that is none of a file's name here"));
    }
    let path = first.join(written);
    if path.components().any(|component| matches!(component, Component::ParentDir)) {
        return Err(refused("leads upwards"));
    }
    let path = resolve(&path).map_err(|error| {
        SqlError::new(ErrorKind::Unavailable, format!("`{written}` cannot be looked up")).with_source(error)
    })?;
    let is_below =
        |root: &PathBuf| root.canonicalize().is_ok_and(|root| path.starts_with(&root) && path != root);
    if !roots.iter().any(is_below) {
        return Err(refused("is not under a directory that may be written to"));
    }
    // A directory is told by the slash at its end.
    Ok(if written.ends_with('/') { path.join("") } else { path })
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

        assert_eq!(target("a.csv", &roots).unwrap(), root.join("a.csv"));
        assert_eq!(target("new/deep/a.csv", &roots).unwrap(), root.join("new/deep/a.csv"));
        assert_eq!(target(root.join("b.csv").to_str().unwrap(), &roots).unwrap(), root.join("b.csv"));
        for refused in [
            "../outside/a.csv",
            "x/../../outside/a.csv",
            "link/a.csv",
            "dangling",
            "/etc/passwd",
            "s3://bucket/a.csv",
            "a*.csv",
            "",
        ] {
            assert!(target(refused, &roots).is_err(), "{refused}");
        }
        assert!(target("a.csv", &[]).is_err());
    }
}

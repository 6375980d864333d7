//! `swiftwater query`: queries a server or, for a file or standard input, the engine in this process.

mod bullet;
pub(crate) mod local;
pub(crate) mod opened;
mod remote;

pub(crate) use remote::{attach, kill};

use std::{
    fs,
    io::{self, BufWriter, Read, Write},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use swiftwater_event::Clock;
use swiftwater_runtime::QueryForm;

use crate::{
    args::{OutputForm, QueryArgs},
    exit::{Failure, Outcome},
    input_file::Place,
    output::{Form, Meta, form, terminal_size},
    stdio::{self, complain},
};

/// The exit status for a query that is wrong.
pub(crate) const WRONG_QUERY: u8 = 2;
/// The longest query that is read from a file.
const QUERY_FILE_BYTES_MAX: u64 = 64 << 20;

/// Runs the command.
pub(crate) fn run(args: &QueryArgs, clock: Arc<dyn Clock>) -> Outcome {
    let text = query_text(args)?;
    if QueryForm::of(&text) == QueryForm::Json && !args.parameters.is_empty() {
        let fault = "--parameter is for BQL: a JSON query contains its values";
        return Err(Failure::coded(WRONG_QUERY, anyhow::anyhow!(fault)));
    }
    stdio::exit_when_stdout_closes();
    match input(args).filter(|_| args.saved.is_none()) {
        Some(place) => local::run(args, &text, &place, clock),
        None => {
            refuse_input_flags(args)?;
            remote::run(args, &text)
        }
    }
}

fn query_text(args: &QueryArgs) -> anyhow::Result<String> {
    let Some(path) = &args.file else { return Ok(args.query.clone().unwrap_or_default()) };
    let place = Place::of(path);
    let mut text = String::new();
    let read = match &place {
        Place::Stdin => io::stdin().take(QUERY_FILE_BYTES_MAX).read_to_string(&mut text),
        Place::File(path) => {
            fs::File::open(path).and_then(|file| file.take(QUERY_FILE_BYTES_MAX).read_to_string(&mut text))
        }
    };
    read.with_context(|| format!("cannot read the query from {}", place.name()))?;
    Ok(text)
}

/// The values of the parameters: what is no JSON is text.
fn parameter_values(args: &QueryArgs) -> Vec<serde_json::Value> {
    let value = |text: &String| serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into());
    args.parameters.iter().map(value).collect()
}

/// The input of a query in this process. If neither input nor server is named, it is the output of the process before
/// us in a pipe.
fn input(args: &QueryArgs) -> Option<Place> {
    if let Some(path) = &args.input {
        return Some(Place::of(path));
    }
    let server_named = args.client.server.as_ref().is_some_and(|url| !url.is_empty());
    let stdin_taken = args.file.as_ref().is_some_and(|path| Place::of(path) == Place::Stdin);
    (!server_named && !stdin_taken && !args.detach && stdio::stdin_is_input()).then_some(Place::Stdin)
}

/// Flags that mean something only with an input are not quietly passed over without one.
fn refuse_input_flags(args: &QueryArgs) -> Result<(), Failure> {
    let given = [
        ("--types", args.types.is_some()),
        ("--schema", args.schema.is_some()),
        ("--shards", args.shards.is_some()),
        ("--time-field", args.time_field.is_some()),
        ("--strict", args.strict),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => {
            Err(anyhow::anyhow!("{flag} needs an input: add --input FILE, or pipe events in").into())
        }
        None => Ok(()),
    }
}

/// Writes an answer in the form that was asked for, and says at the end what is known about it.
struct Answer {
    form: Box<dyn Form>,
    kind: OutputForm,
    quiet: bool,
    /// Warnings that were printed before the answer began.
    told: Vec<String>,
    /// The last emit's.
    meta_text: String,
    meta: Meta,
}

impl Answer {
    fn new(output: Option<OutputForm>, quiet: bool) -> Answer {
        let terminal = stdio::stdout_is_terminal();
        let kind = output.unwrap_or(if terminal { OutputForm::Table } else { OutputForm::Ndjson });
        let out: Box<dyn Write> = Box::new(BufWriter::with_capacity(256 << 10, io::stdout()));
        Answer {
            form: form(kind, out, terminal.then(terminal_size)),
            kind,
            quiet,
            told: Vec::new(),
            meta_text: String::new(),
            meta: Meta::default(),
        }
    }

    /// Prints what an asker should know, at once: the query may match nothing, and then no answer ever says it.
    fn warn(&mut self, warnings: Vec<String>) {
        if !self.quiet {
            warnings.iter().for_each(|warning| complain(&format!("warning: {warning}")));
            self.told = warnings;
        }
    }

    fn emit(&mut self, records: &[u8], meta_text: &str, meta: Meta) -> Result<(), Failure> {
        let emit = crate::output::Emit { records, meta_text, meta: &meta };
        self.form.emit(&emit).map_err(Failure::output)?;
        self.meta_text.clear();
        self.meta_text.push_str(meta_text);
        self.meta = meta;
        Ok(())
    }

    /// Ends the output. The status is a failure if the query failed.
    fn end(mut self) -> Outcome {
        self.form.end(&self.meta_text).map_err(Failure::output)?;
        if let Some(error) = &self.meta.error {
            self.report_meta();
            let hint = error.hint.as_ref().map_or_else(String::new, |hint| format!("\n{hint}"));
            return Err(anyhow::anyhow!("the query failed: {}{hint}", error.message).into());
        }
        self.report_meta();
        Ok(ExitCode::SUCCESS)
    }

    fn report_meta(&self) {
        if self.quiet || self.meta_text.is_empty() {
            return;
        }
        if self.kind == OutputForm::Table {
            let meta = Meta { window: None, ..self.meta.clone() };
            complain(&meta.summary());
            let is_told = |warning: &String| self.told.iter().any(|told| told.starts_with(warning.as_str()));
            for warning in meta.warnings.iter().filter(|warning| !is_told(warning)) {
                complain(&format!("warning: {warning}"));
            }
        } else if !self.form.shows_meta() {
            complain(&self.meta_text);
        }
    }
}

/// Prints the text of a plan.
fn print_text(text: &str) -> Outcome {
    stdio::write_out(|out| writeln!(out, "{}", text.trim_end()))
}

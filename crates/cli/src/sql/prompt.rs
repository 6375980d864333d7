//! The SQL prompt: reads lines, with history, until a statement is complete.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use rustyline::{Config, Editor, error::ReadlineError, history::FileHistory};
use swiftwater_sql::Dialect;
use tokio::runtime::Runtime;

use super::{
    ask::{Asking, StatementOutcome},
    complete::Words,
};
use crate::{
    args::SqlForm,
    exit::{Failure, Outcome},
    stdio::complain,
};

/// Statements that the history keeps.
const HISTORY_MAX: usize = 10_000;
const HELP: &str = "\
Statements end with a semicolon. Tab completes, Ctrl-C cancels the running statement, Ctrl-D exits.
  \\d            the tables
  \\d NAME       the columns of a table
  \\o FORM       sets the format of answers: table, json, ndjson, csv
  \\q            exits
  \\?            prints this help
exit, quit and help are the same as \\q and \\?.";

pub(crate) fn run(runtime: &Runtime, asking: &mut Asking) -> Outcome {
    let config = Config::builder().max_history_size(HISTORY_MAX).context("cannot start the prompt")?.build();
    let mut editor: Editor<Words, FileHistory> =
        Editor::with_config(config).context("cannot start the prompt")?;
    let names = runtime.block_on(asking.names());
    editor.set_helper(Some(Words { dialect: Dialect::Native, names }));
    let history = history_file();
    if let Some(path) = &history {
        // There is none at first.
        let _ = editor.load_history(path);
    }
    complain("SQL over stored streams and tables; \\? prints help.");
    loop {
        let text = match editor.readline("sql> ") {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => {
                return Err(anyhow::Error::new(error).context("cannot read from the terminal").into());
            }
        };
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        // A history that cannot be kept keeps nobody from asking.
        let _ = editor.add_history_entry(text);
        let statement = match text.strip_prefix('\\').or_else(|| spelled_out(text)) {
            None => text.to_owned(),
            Some(command) => match meta(command, asking) {
                Meta::Ask(statement) => statement,
                Meta::Said(said) => {
                    complain(&said);
                    continue;
                }
                Meta::Leave => break,
            },
        };
        let mut out = io::stdout().lock();
        let asked = runtime.block_on(asking.execute(&statement, &mut out));
        out.flush().map_err(Failure::output)?;
        drop(out);
        match asked {
            Ok(StatementOutcome::Answered(told) | StatementOutcome::Refused(told)) => complain(&told),
            Ok(StatementOutcome::Cancelled) => complain("cancelled"),
            // The server may be there again for the next one.
            Err(failure) => complain(&failure.text()),
        }
        if changes_names(&statement) {
            let names = runtime.block_on(asking.names());
            if let Some(words) = editor.helper_mut() {
                words.names = names;
            }
        }
    }
    if let Some(path) = &history
        && let Err(error) = editor.save_history(path)
    {
        tracing::debug!(%error, "the history was not saved");
    }
    Ok(ExitCode::SUCCESS)
}

/// The command that a word means which stands alone, as other prompts have it.
pub(super) fn spelled_out(text: &str) -> Option<&'static str> {
    let word = text.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    match word.to_ascii_lowercase().as_str() {
        "exit" | "quit" => Some("q"),
        "help" => Some("?"),
        _ => None,
    }
}

/// The meaning of a line that begins with a backslash.
#[derive(Debug, PartialEq)]
enum Meta {
    Ask(String),
    Said(String),
    Leave,
}

fn meta(command: &str, asking: &mut Asking) -> Meta {
    let mut words = command.trim_end_matches(';').split_whitespace();
    match (words.next(), words.next()) {
        (Some("q"), None) => Meta::Leave,
        (Some("d"), None) => Meta::Ask("SHOW TABLES".to_owned()),
        (Some("d"), Some(name)) => Meta::Ask(format!("DESCRIBE {name}")),
        (Some("o"), Some(form)) => match form {
            "table" => chosen(asking, SqlForm::Table),
            "json" => chosen(asking, SqlForm::Json),
            "ndjson" => chosen(asking, SqlForm::Ndjson),
            "csv" => chosen(asking, SqlForm::Csv),
            other => Meta::Said(format!("no format `{other}`; formats are table, json, ndjson, csv")),
        },
        _ => Meta::Said(HELP.to_owned()),
    }
}

fn chosen(asking: &mut Asking, form: SqlForm) -> Meta {
    asking.form = form;
    Meta::Said("later answers have this format".to_owned())
}

fn changes_names(statement: &str) -> bool {
    let upper = statement.to_uppercase();
    ["CREATE", "DROP", "ALTER"].iter().any(|word| upper.contains(word))
}

/// `$XDG_STATE_HOME/swiftwater/sql_history`, whose directory is made.
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let directory = state.or_else(home)?.join("swiftwater");
    std::fs::create_dir_all(&directory).ok()?;
    Some(directory.join("sql_history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_prompts_are_commands_where_they_stand_alone() {
        for (text, command) in [
            ("exit", Some("q")),
            ("QUIT;", Some("q")),
            ("help ;", Some("?")),
            ("help me;", None),
            ("SELECT exit;", None),
            (";", None),
        ] {
            assert_eq!(spelled_out(text), command, "{text}");
        }
    }
}

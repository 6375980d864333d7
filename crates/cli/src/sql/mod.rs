//! `swiftwater sql`: runs statements over a server's stored data, from the command line or from a prompt.
//!
//! A text on the command line, from a file or through a pipe is sent as one. At a prompt, each statement is sent when its
//! `;` is typed. While a statement runs, its progress is shown on standard error, if that is a terminal; Ctrl-C ends it.

mod ask;
mod complete;
mod prompt;

use std::io::{self, Read, Write};
use std::process::ExitCode;

use anyhow::Context;

use crate::{
    args::{SqlArgs, SqlForm},
    client::Client,
    exit::{Failure, Outcome},
    signals::client_runtime,
    stdio::{complain, stdin_is_input, stdout_is_terminal},
};

use ask::{Asking, StatementOutcome};

/// The longest text that is read from a file or a pipe.
const TEXT_BYTES_MAX: u64 = 64 << 20;

pub(crate) fn run(args: &SqlArgs) -> Outcome {
    let client = Client::new(args.client.url())?;
    let runtime = client_runtime().context("cannot start")?;
    let form = args.output.unwrap_or(if stdout_is_terminal() { SqlForm::Table } else { SqlForm::Ndjson });
    let mut asking = Asking::new(client, form, args.spark, args.parameters.clone());
    let text = match (args.text.as_ref().or(args.command.as_ref()), &args.file) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) if path.as_os_str() == "-" => read(io::stdin().lock())?,
        (None, Some(path)) => {
            let file = std::fs::File::open(path);
            read(file.with_context(|| format!("cannot open `{}`", path.display()))?)?
        }
        (None, None) if stdin_is_input() => read(io::stdin().lock())?,
        (None, None) => return prompt::run(&runtime, &mut asking),
    };
    let mut out = io::stdout().lock();
    let asked = runtime.block_on(asking.execute(&text, &mut out))?;
    out.flush().map_err(Failure::output)?;
    match asked {
        StatementOutcome::Answered(told) => {
            if form == SqlForm::Table && stdout_is_terminal() {
                complain(&told);
            }
            Ok(ExitCode::SUCCESS)
        }
        StatementOutcome::Refused(why) => {
            complain(&why);
            Ok(ExitCode::from(2))
        }
        StatementOutcome::Cancelled => Ok(ExitCode::from(130)),
    }
}

fn read(input: impl Read) -> Result<String, Failure> {
    let mut text = String::new();
    let read =
        input.take(TEXT_BYTES_MAX + 1).read_to_string(&mut text).context("cannot read the statements")?;
    if read as u64 > TEXT_BYTES_MAX {
        return Err(Failure::coded(
            1,
            anyhow::anyhow!("the statements are longer than {TEXT_BYTES_MAX} bytes"),
        ));
    }
    Ok(text)
}

//! Recognises flags of other programs: the error names the equivalent flag of this one.

use std::ffi::OsString;

use clap::{
    Command, Error,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// Replaces clap's guess at an unknown flag by the flag that is meant, if it is known.
pub(crate) fn hinted(mut error: Error, command: &Command, typed: &[OsString]) -> Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    let words = typed.iter().filter_map(|word| word.to_str());
    let chosen = words.skip(1).find_map(|word| command.find_subcommand(word));
    let Some(meant) = chosen.and_then(|chosen| meant(flag, chosen)) else { return error };
    let mut tip = StyledStr::new();
    // Writing to a text does not fail.
    let _ = std::fmt::Write::write_str(&mut tip, &meant);
    error.remove(ContextKind::SuggestedArg);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    error
}

/// The answer to a flag that a command does not have: `--json` is a value of `--output`, as are the names of the other forms.
fn meant(flag: &str, command: &Command) -> Option<String> {
    let has = |long: &str| command.get_arguments().find(|argument| argument.get_long() == Some(long));
    let output = has("output")?;
    let word = flag.trim_start_matches('-').split('=').next().unwrap_or_default();
    let forms = output.get_possible_values();
    if let Some(form) = forms.iter().find(|form| form.matches(word, true)) {
        return Some(format!("use '--output {}' for this format", form.get_name()));
    }
    let names: Vec<&str> = forms.iter().map(clap::builder::PossibleValue::get_name).collect();
    let says = format!("the format is a value of '--output', which is one of {}", names.join(", "));
    ["format", "form"].contains(&word).then_some(says)
}

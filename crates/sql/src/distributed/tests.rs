//! The list of all operators, expressions and functions of this room, with the way in which each gets to another machine.

use std::collections::BTreeMap;
use std::path::Path;

/// The ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A message of its own.
    Message,
    /// Its name: sessions of all machines have it.
    Name,
    /// It is replaced before a plan is sent, and put back by the receiver, or made anew.
    Replaced,
    /// It is part of the last stage, which runs on the node that was asked.
    LastStage,
    /// It never gets into a plan that runs.
    Never,
}

use Way::{LastStage, Message, Name, Never, Replaced};

/// All of them, by trait and type.
const ALL: &[(&str, &str, Way)] = &[
    ("AggregateUDFImpl", "BoundStatistics", Message),
    ("AggregateUDFImpl", "Guarded", Message),
    ("AggregateUDFImpl", "SumAggregate", Message),
    ("AggregateUDFImpl", "UnboundStatistics", Never),
    ("ExecutionPlan", "FewGroupsExec", Message),
    ("ExecutionPlan", "FirstTogetherExec", LastStage),
    ("ExecutionPlan", "GeneratorExec", Replaced),
    ("ExecutionPlan", "PinnedExec", Message),
    ("ExecutionPlan", "PlainExec", Message),
    ("ExecutionPlan", "RunOnceExec", Message),
    ("ExecutionPlan", "SlicedExec", Message),
    ("ExecutionPlan", "StoppableExec", Replaced),
    ("ExecutionPlan", "StoredFilesExec", Message),
    ("PhysicalExpr", "CancellableCondition", Replaced),
    ("PhysicalExpr", "IsShortText", Replaced),
    ("ScalarUDFImpl", "AtTimeZone", Name),
    ("ScalarUDFImpl", "BoundSearch", Message),
    ("ScalarUDFImpl", "Bounded", Name),
    ("ScalarUDFImpl", "Checked", Name),
    ("ScalarUDFImpl", "CheckedFunction", Message),
    ("ScalarUDFImpl", "Concatenation", Message),
    ("ScalarUDFImpl", "EqualsAny", Name),
    ("ScalarUDFImpl", "Facet", Name),
    ("ScalarUDFImpl", "Guarded", Message),
    ("ScalarUDFImpl", "InRange", Message),
    ("ScalarUDFImpl", "JsonGet", Name),
    ("ScalarUDFImpl", "JsonText", Message),
    ("ScalarUDFImpl", "Length", Message),
    ("ScalarUDFImpl", "PgInfoFunction", Name),
    ("ScalarUDFImpl", "RegexpMatch", Name),
    ("ScalarUDFImpl", "Replacement", Name),
    ("ScalarUDFImpl", "SimilarToEscape", Name),
    ("ScalarUDFImpl", "Spread", Message),
    ("ScalarUDFImpl", "StepFunction", Message),
    ("ScalarUDFImpl", "StrftimeOnly", Name),
    ("ScalarUDFImpl", "TimestampText", Message),
    ("ScalarUDFImpl", "ToChar", Name),
    ("ScalarUDFImpl", "UnboundSearch", Never),
    ("ScalarUDFImpl", "Varchar", Name),
    ("ScalarUDFImpl", "Whole", Message),
];

/// Adds the implementations in the files below a directory.
fn add_implementations(directory: &Path, found: &mut BTreeMap<(String, String), usize>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_implementations(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text.lines().take_while(|line| *line != "mod tests {");
            for line in lines.filter_map(|line| line.strip_prefix("impl ")) {
                let Some((name, rest)) = line.split_once(" for ") else { continue };
                if ALL.iter().any(|(known, _, _)| *known == name) {
                    let ty = rest.trim_end_matches(['{', ' ']).to_owned();
                    *found.entry((name.to_owned(), ty)).or_default() += 1;
                }
            }
        }
    }
}

#[test]
fn each_operator_expression_and_function_has_a_way_to_other_machines() {
    let mut found = BTreeMap::new();
    add_implementations(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    let known = ALL.iter().map(|(name, ty, _)| ((*name).to_owned(), (*ty).to_owned()));
    let known: Vec<(String, String)> = known.collect();
    let lacking: Vec<_> = found.keys().filter(|found| !known.contains(found)).collect();
    assert!(
        lacking.is_empty(),
        "say in this list, and in codec.rs or functions.rs, how these travel: {lacking:?}"
    );
    let gone: Vec<_> = known.iter().filter(|known| !found.contains_key(known)).collect();
    assert!(gone.is_empty(), "these are listed, and there are none: {gone:?}");
    assert!(ALL.iter().any(|(_, _, way)| *way == Never) && ALL.iter().any(|(_, _, way)| *way == Replaced));
}

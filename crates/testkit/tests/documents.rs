//! Tests that the project's documents name no file that does not exist, and that the reference pages lack no setting, metric
//! or error.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("testkit lies in crates/testkit").to_owned()
}

/// The targets of `[text](target)` and `![text](target)` outside code blocks, with their lines from 1.
fn links(markdown: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut in_code = false;
    for (at, line) in markdown.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        let mut rest = line;
        while let Some(open) = rest.find("](") {
            rest = &rest[open + 2..];
            let Some(close) = rest.find(')') else { break };
            links.push((at + 1, &rest[..close]));
            rest = &rest[close..];
        }
    }
    links
}

/// The heading's anchor, as code hosts make it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn has_anchor(markdown: &str, wanted: &str) -> bool {
    markdown.lines().any(|line| line.starts_with('#') && anchor(line) == wanted)
}

/// The faults of the links of one document.
fn faults(document: &Path, markdown: &str) -> Vec<String> {
    let folder = document.parent().unwrap_or(Path::new("."));
    let mut faults = Vec::new();
    for (line, link) in links(markdown) {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (file, wanted) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
        let target = if file.is_empty() { document.to_owned() } else { folder.join(file) };
        let fault = if !target.exists() {
            "no such file"
        } else if let Some(wanted) = wanted
            && target.extension().is_some_and(|extension| extension == "md")
            && !has_anchor(&fs::read_to_string(&target).unwrap_or_default(), wanted)
        {
            "no such heading"
        } else {
            continue;
        };
        faults.push(format!("{}:{line}: `{link}`: {fault}", document.display()));
    }
    faults
}

/// Markdown files of the root, of `docs/` and of the rooms.
fn documents(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if path.is_dir() && depth > 0 && !name.starts_with('.') && name != "target" && name != "node_modules"
        {
            documents(&path, depth - 1, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

#[test]
fn documents_link_to_what_exists() {
    let mut found = Vec::new();
    documents(&root(), 4, &mut found);
    for expected in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        assert!(found.contains(&root().join(expected)), "no {expected}");
    }
    let faults: Vec<String> = found
        .iter()
        .flat_map(|document| faults(document, &fs::read_to_string(document).unwrap_or_default()))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn missing_file_is_found() {
    let document = root().join("README.md");
    let markdown = "# A heading\nsee [a](Cargo.toml), [b](no/such.file) and [c](https://example.org/x)\n";
    let found = faults(&document, markdown);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with("README.md:2: `no/such.file`: no such file"), "{found:?}");
}

#[test]
fn missing_heading_is_found() {
    let document = root().join("ARCHITECTURE.md");
    assert_eq!(faults(&document, "[x](CONTRIBUTING.md#build-and-run)"), [""; 0]);
    assert_eq!(faults(&document, "[x](CONTRIBUTING.md#no-such-heading)").len(), 1);
}

#[test]
fn links_in_code_are_no_links() {
    assert_eq!(links("```\n[a](b)\n```\n[c](d)"), [(4, "d")]);
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let docs = root().join("docs");
    let contents = fs::read_to_string(docs.join("SUMMARY.md")).expect("a table of contents");
    let mut pages = Vec::new();
    documents(&docs, 1, &mut pages);
    let missing: Vec<String> = pages
        .iter()
        .filter_map(|page| page.strip_prefix(&docs).ok())
        .map(|page| page.to_string_lossy().into_owned())
        .filter(|page| page != "SUMMARY.md" && !contents.contains(&format!("({page})")))
        .collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md lacks {missing:?}");
}

/// The names in the first column of a page's tables, without their backticks.
fn first_column(markdown: &str) -> Vec<&str> {
    let cells = markdown.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    cells.map(|(name, _)| name).collect()
}

#[test]
fn every_setting_is_in_the_reference_with_its_default() {
    let settings = fs::read_to_string(root().join("config/default.toml")).expect("the defaults");
    let page = fs::read_to_string(root().join("docs/reference/settings.md")).expect("the page");
    let (mut section, mut names, mut missing) = ("", Vec::new(), Vec::new());
    for line in settings.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
        } else if let Some((name, value)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            let row = format!("| `{section}.{name}` | `{value}` |");
            if !page.lines().any(|line| line.starts_with(&row)) {
                missing.push(row);
            }
            names.push(format!("{section}.{name}"));
        }
    }
    assert!(missing.is_empty(), "docs/reference/settings.md should have these rows:\n{}", missing.join("\n"));
    let unknown: Vec<&str> =
        first_column(&page).into_iter().filter(|name| !names.iter().any(|known| known == name)).collect();
    assert!(names.len() > 100 && unknown.is_empty(), "settings that do not exist: {unknown:?}");
}

#[test]
fn every_metric_is_in_the_reference() {
    let is_name = |text: &&str| {
        (text.starts_with("swiftwater_") || text.starts_with("process_"))
            && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    let page = fs::read_to_string(root().join("docs/reference/metrics.md")).expect("the page");
    let documented = first_column(&page);
    let mut served = Vec::new();
    for file in ["metrics.rs", "metrics/history.rs"] {
        let path = root().join("crates/server/src").join(file);
        let source = fs::read_to_string(&path).expect("the source of the metrics");
        served.extend(source.split('"').filter(is_name).map(str::to_owned));
    }
    assert!(served.len() > 70, "{} metrics", served.len());
    let missing: Vec<&String> = served.iter().filter(|name| !documented.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "docs/reference/metrics.md lacks {missing:?}");
    let unknown: Vec<&str> = documented
        .into_iter()
        .filter(|name| is_name(name) && !served.iter().any(|known| known == name))
        .collect();
    assert!(unknown.is_empty(), "metrics that are not served: {unknown:?}");
}

/// All Rust files of a folder and of those in it, as one text each.
fn sources(folder: &Path) -> Vec<String> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources.extend(self::sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(fs::read_to_string(&path).expect("a source is text"));
        }
    }
    sources
}

#[test]
fn every_problem_and_every_sqlstate_is_in_the_reference() {
    let page = fs::read_to_string(root().join("docs/reference/errors.md")).expect("the page");
    let mut missing = Vec::new();
    let mut count = 0;
    for source in sources(&root().join("crates/server/src")) {
        // The word is the first text of the call, or a variable.
        for call in source.split("Problem::new(").skip(1) {
            let word = call.split('"').nth(1).unwrap_or_default();
            let is_word = word.contains('-') && word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            count += usize::from(is_word);
            if is_word && !page.contains(&format!("`{word}`")) {
                missing.push(word.to_owned());
            }
        }
    }
    let errors =
        fs::read_to_string(root().join("crates/sql/src/error.rs")).expect("the source of SQL's errors");
    for line in errors.lines() {
        let code = line.split_once(": &str = \"").and_then(|(_, rest)| rest.strip_suffix("\";"));
        if let Some(code) = code.filter(|code| code.len() == 5) {
            count += 1;
            if !page.contains(&format!("| {code} |")) {
                missing.push(code.to_owned());
            }
        }
    }
    assert!(count > 40 && missing.is_empty(), "{count} found; docs/reference/errors.md lacks {missing:?}");
}

/// The line of the first example in a file's documentation that would be run: its block names no other language.
fn example_to_run(source: &str) -> Option<usize> {
    let mut in_block = false;
    for (at, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(language) = comment.and_then(|comment| comment.trim_start().strip_prefix("```")) else {
            continue;
        };
        let is_run =
            language.is_empty() || language.starts_with("rust") || language.starts_with("should_panic");
        if !in_block && is_run {
            return Some(at + 1);
        }
        in_block = !in_block;
    }
    None
}

#[test]
fn examples_that_would_not_be_run_are_found() {
    assert_eq!(example_to_run("/// ```text\n/// a\n/// ```\nfn f() {}\n//! ```\n//! g();"), Some(5));
    assert_eq!(example_to_run("    /// ```rust,no_run\n"), Some(1));
    assert_eq!(example_to_run("/// ```sql\n/// a\n/// ```\n"), None);
}

/// rustdoc looks for examples in each crate for some seconds, so the crates without any say so.
#[test]
fn crates_whose_examples_are_not_run_have_none() {
    let mut crates = 0;
    for entry in fs::read_dir(root().join("crates")).expect("there are crates").flatten() {
        let folder = entry.path();
        if !fs::read_to_string(folder.join("Cargo.toml")).is_ok_and(|text| text.contains("doctest = false")) {
            continue;
        }
        crates += 1;
        for text in sources(&folder.join("src")) {
            let name = folder.display();
            assert_eq!(
                example_to_run(&text),
                None,
                "{name}: `doctest = false` leaves an example out: {text}"
            );
        }
    }
    assert!(crates > 10, "{crates}");
}

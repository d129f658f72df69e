//! The documentation tells the truth: what it shows is what the program takes, names and does.
#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that it did not expect")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use leveret::config::Config;
use leveret::domain::park::Reason;
use leveret::telemetry::metrics::catalogue;

/// The languages of the clients' examples as fenced blocks name them, and the file that each block is an extract of.
const CLIENTS: [(&str, &str); 5] = [
    ("python", "examples/clients/python/publish_delayed.py"),
    ("javascript", "examples/clients/javascript/publish-delayed.js"),
    ("go", "examples/clients/go/main.go"),
    ("java", "examples/clients/java/src/main/java/PublishDelayed.java"),
    ("php", "examples/clients/php/publish-delayed.php"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn readme() -> String {
    read(&root().join("README.md"))
}

fn files(dir: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(dir)).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

/// Every page for people.
fn pages() -> Vec<PathBuf> {
    let pages =
        [".", "docs", "docs/adr", "docs/runbooks", "charts/leveret"].map(|dir| files(dir, "md")).concat();
    assert!(pages.len() >= 20, "not all pages found: {pages:?}");
    pages
}

/// The contents of the fenced blocks of a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(found) = line.strip_prefix("```") else { continue };
        let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        if found == language {
            blocks.push(block.join("\n"));
        }
    }
    blocks
}

/// The rows of the table with that head, as they are written.
fn rows(page: &str, head: &str) -> Vec<String> {
    let mut lines = page.lines().skip_while(|line| *line != head);
    assert!(lines.next().is_some(), "no table begins with {head}");
    lines.skip(1).take_while(|line| line.starts_with('|')).map(str::to_owned).collect()
}

#[test]
fn every_configuration_that_is_shown_is_valid() {
    let mut shown: Vec<_> =
        files("config", "yaml").iter().map(|path| (path.display().to_string(), read(path))).collect();
    assert!(!shown.is_empty(), "no file in config/");
    // The chart's pages show its values and what it renders: its own tests check these.
    for page in pages().into_iter().filter(|page| !page.starts_with(root().join("charts"))) {
        let found = blocks(&read(&page), "yaml");
        let is_readme = page == root().join("README.md");
        assert!(!is_readme || !found.is_empty(), "no configuration in the README");
        shown.extend(found.into_iter().map(|block| (page.display().to_string(), block)));
    }
    for (source, yaml) in shown {
        if let Err(errors) = Config::from_yaml(&yaml) {
            panic!("{source}:\n{errors}\n{yaml}");
        }
    }
}

#[test]
fn the_readme_lists_every_metric() {
    let expected: Vec<_> = catalogue()
        .iter()
        .map(|metric| {
            let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let labels = if labels.is_empty() { "none".to_owned() } else { labels.join(", ") };
            format!("| `{}` | {} | {labels} | {} |", metric.name, metric.kind.as_str(), metric.help)
        })
        .collect();
    let found = rows(&readme(), "| metric | type | labels | meaning |");
    assert!(found == expected, "the table of metrics should be:\n{}", expected.join("\n"));
}

#[test]
fn alerts_and_runbooks_name_metrics_that_exist() {
    let known: BTreeSet<_> = catalogue().iter().map(|metric| metric.name).collect();
    let alerts = root().join("charts/leveret/files/alerts.yaml");
    let mut found = BTreeSet::new();
    for file in [vec![alerts], files("docs/runbooks", "md")].concat() {
        let text = read(&file);
        for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            if word.starts_with("leveret_") || word.starts_with("process_") {
                let name = word.strip_suffix("_bucket").unwrap_or(word);
                assert!(known.contains(name), "{}: no metric {word}", file.display());
                found.insert(name.to_owned());
            }
        }
    }
    assert!(found.len() >= 10, "only {found:?}");
}

#[test]
fn the_readme_explains_every_reason() {
    let table = rows(&readme(), "| reason | what happened | what to do |");
    let found: Vec<_> = table.iter().map(|row| row.split('`').nth(1).unwrap_or_default()).collect();
    assert_eq!(found, Reason::ALL.map(Reason::as_str));
}

#[test]
fn what_the_readme_shows_of_clients_is_in_their_examples() {
    for (language, path) in CLIENTS {
        let source = read(&root().join(path));
        let lines: BTreeSet<_> = source.lines().map(str::trim).collect();
        let found = blocks(&readme(), language);
        assert_eq!(found.len(), 1, "{language}");
        for line in found.iter().flat_map(|block| block.lines()) {
            assert!(lines.contains(line.trim()), "{path} has no line {line:?}");
        }
    }
}

#[test]
fn the_tests_that_stand_for_promises_exist() {
    let page = read(&root().join("docs/reliability.md"));
    let named: Vec<_> = page.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("::")).collect();
    assert!(named.len() > 20, "only {} tests found", named.len());
    for (module, test) in named {
        let source = read(&root().join(format!("tests/it/{module}.rs")));
        assert!(source.contains(&format!("async fn {test}(broker")), "there is no test {module}::{test}");
    }
}

/// The targets of a page's links.
fn links(page: &str) -> impl Iterator<Item = &str> {
    page.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(|c: char| !c.is_alphanumeric() && !" -_".contains(c), "");
    kept.replace(' ', "-")
}

#[test]
fn links_lead_somewhere() {
    let mut count = 0;
    for page in pages() {
        let text = read(&page);
        for link in links(&text).filter(|link| !link.starts_with("https://")) {
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            assert!(target.exists(), "{}: nothing at {link}", page.display());
            let found = fragment.is_empty()
                || read(&target)
                    .lines()
                    .filter(|line| line.starts_with('#'))
                    .any(|line| anchor(line.trim_start_matches('#').trim()) == fragment);
            assert!(found, "{}: no heading for {link}", page.display());
            count += 1;
        }
    }
    assert!(count > 10, "only {count} links found");
}

//! The documentation tells the truth: what it shows is what the program takes, names and does.
#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that it did not expect")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use leveret::amqp::permissions::Permissions;
use leveret::cli;
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

/// The contents of the fenced blocks of a language, also of those that belong to an item of a list.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some((indent, found)) = line.split_once("```").filter(|(indent, _)| indent.trim().is_empty())
        else {
            continue;
        };
        let block = lines.by_ref().take_while(|line| line.trim() != "```");
        let block: Vec<_> = block.map(|line| line.strip_prefix(indent).unwrap_or(line)).collect();
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
fn alerts_dashboard_and_runbooks_name_metrics_that_exist() {
    let known: BTreeSet<_> = catalogue().iter().map(|metric| metric.name).collect();
    let alerts = root().join("charts/leveret/files/alerts.yaml");
    let mut found = BTreeSet::new();
    let dashboards = files("charts/leveret/files/dashboards", "json");
    assert!(!dashboards.is_empty(), "no dashboard");
    for file in [vec![alerts], dashboards, files("docs/runbooks", "md")].concat() {
        let text = read(&file);
        for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            if word.starts_with("leveret_") || word.starts_with("process_") {
                let parts = ["_bucket", "_sum", "_count"];
                let name = parts.iter().find_map(|part| word.strip_suffix(part)).unwrap_or(word);
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
fn the_readme_tells_the_permissions_that_are_enough() {
    let permissions = Permissions::least(&Config::default());
    let shown = blocks(&readme(), "sh");
    assert!(shown.contains(&permissions.to_string().trim_end().to_owned()), "{permissions}");
    for topic in permissions.topics {
        assert!(shown.contains(&topic.command().trim_end().to_owned()), "{topic:?}");
    }
}

/// The parts of each message of TLS that do not change are in the code.
#[test]
fn errors_of_tls_are_said_as_they_are_documented() {
    let said: String = ["src/tls/mod.rs", "src/tls/words.rs", "src/amqp/connection.rs"]
        .map(|file| read(&root().join(file)))
        .concat()
        .split("\\\n")
        .map(|line| line.trim_start())
        .collect::<String>()
        .replace("{who}", "the broker")
        .replace("{what}", "CERTIFICATE");
    let table = rows(&read(&root().join("docs/tls.md")), "| message | what to do | exit code |");
    assert!(table.len() > 12, "{table:?}");
    for row in table {
        let message = row.split('|').nth(1).unwrap_or_default();
        for part in message.split('`').skip(1).step_by(2).flat_map(|code| code.split('…')) {
            let part = part.replace("PRIVATE KEY", "CERTIFICATE");
            assert!(said.contains(part.trim()), "nothing says {part:?}");
        }
    }
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
    for (page, least) in [("reliability", 20), ("bad-input", 20), ("policies", 5)] {
        let page = read(&root().join(format!("docs/{page}.md")));
        let code = page.split('`').skip(1).step_by(2);
        let named: Vec<_> = code.filter_map(|code| code.rsplit_once("::")).collect();
        assert!(named.len() >= least, "only {} tests found", named.len());
        for (module, test) in named {
            let path = format!("tests/it/{}.rs", module.replace("::", "/"));
            assert!(
                read(&root().join(path)).contains(&format!("async fn {test}(broker")),
                "there is no test {module}::{test}"
            );
        }
    }
}

/// The simple commands of a shell script, each as its words. Knows quotes, comments and continued lines; what redirects is
/// taken for a command of its own.
fn commands(script: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut quote = None;
    let mut rest = script.chars().peekable();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(mark), _) if c == mark => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '\\') if rest.next_if_eq(&'\n').is_some() => {}
            (None, '#') if word.is_none() => while rest.next_if(|next| *next != '\n').is_some() {},
            (None, ' ' | '\n' | '|' | '&' | ';' | '(' | ')' | '<' | '>' | '`') => {
                words.extend(word.take());
                if c != ' ' {
                    commands.push(std::mem::take(&mut words));
                }
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    commands.push(words);
    commands.retain(|words| !words.is_empty());
    commands
}

/// The words from Leveret's name on, where a command runs it: by itself, with variables set, or in a container.
fn of_leveret(mut command: Vec<String>) -> Option<Vec<String>> {
    let after_dashes = command.iter().position(|word| word == "--").map_or(0, |at| at + 1);
    command.drain(..after_dashes);
    let before =
        |word: &String| word == "do" || word.split_once('=').is_some_and(|(name, _)| !name.contains('-'));
    let named = command.iter().position(|word| !before(word))?;
    command.drain(..named);
    let program = command.first()?;
    (program == "leveret" || program.ends_with("/leveret")).then_some(command)
}

/// What is wrong with a command line of Leveret's. One that is a `mention` in a sentence leaves out what is needed, and stands
/// for values by words in capitals. What the shell puts in is not known here.
fn misunderstood(words: &[String], mention: bool) -> Option<String> {
    let error = cli::command().try_get_matches_from(words).err()?;
    let capitals = |word: &String| word.chars().all(|c| c.is_ascii_uppercase());
    let put_in = words.iter().any(|word| word.contains('$'));
    let fine = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => mention,
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            put_in || mention && words.iter().any(capitals)
        }
        _ => false,
    };
    (!fine).then(|| format!("{words:?}: {error}"))
}

#[test]
fn command_lines_that_are_shown_are_understood() {
    let mut count = 0;
    let mut check = |source: &str, script: &str, mention: bool| {
        for words in commands(script).into_iter().filter_map(of_leveret) {
            if let Some(problem) = misunderstood(&words, mention) {
                panic!("{source}: {problem}");
            }
            count += 1;
        }
    };
    for page in pages() {
        let (source, text) = (page.display().to_string(), read(&page));
        for block in blocks(&text, "sh") {
            check(&source, &block, false);
        }
        let prose: Vec<_> = text.split("```").step_by(2).collect();
        for code in prose.iter().flat_map(|prose| prose.split('`').skip(1).step_by(2)) {
            if code.starts_with("leveret ") && !code.contains(['\n', '…']) {
                check(&source, code, true);
            }
        }
    }
    let mut commands = vec![cli::command()];
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().cloned());
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in help.replace("\\\n", "").lines().filter(|line| line.starts_with("  leveret ")) {
            let line = line.trim();
            check(command.get_name(), line.split_once("   ").map_or(line, |(line, _)| line), false);
        }
    }
    assert!(count > 60, "only {count} command lines found");
}

#[test]
fn a_command_line_is_found_wherever_it_stands() {
    let found = |script: &str| commands(script).into_iter().filter_map(of_leveret).collect::<Vec<_>>();
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        found("A='b c' target/release/leveret run # leveret no\nkubectl exec x -- leveret status | jq"),
        [words("target/release/leveret run"), words("leveret status")]
    );
    assert_eq!(
        found("leveret a \\\n  'b c' > file && leveret d"),
        [vec!["leveret".to_owned(), "a".into(), "b c".into()], words("leveret d")]
    );
    assert!(found("helm install delays charts/leveret --wait").is_empty());
    assert!(misunderstood(&words("leveret parked retry --reson unroutable"), true).is_some());
    assert!(misunderstood(&words("leveret parkd list"), true).is_some());
    assert!(misunderstood(&words("leveret parked retry"), false).is_some());
    assert!(misunderstood(&words("leveret parked retry --reason REASON"), true).is_none());
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

//! The checks of the fuzz targets, over the kept seeds and what can be made of them: what fuzzing has found once is never
//! missed again, without any tool.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first thing that it did not expect"
)]

#[path = "../fuzz/checks.rs"]
mod checks;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

type Check = fn(&[u8]);

/// The targets, each with what it checks.
const TARGETS: [(&str, Check); 6] = [
    ("bundle", checks::bundle),
    ("properties", checks::properties),
    ("rescue", checks::rescue),
    ("due", checks::due),
    ("config", checks::config),
    ("uri", checks::uri),
];

/// Tables are nested in some seeds, and read by recursion: as much as the program itself has.
const STACK: usize = 512 << 20;

fn fuzz_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(fuzz_dir().join("seeds").join(target)).unwrap();
    entries.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
}

fn with_deep_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(work).unwrap();
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn every_target_has_seeds_and_is_built() {
    let manifest = fs::read_to_string(fuzz_dir().join("Cargo.toml")).unwrap();
    let built: BTreeSet<_> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \"targets/")?.strip_suffix(".rs\""))
        .collect();
    assert_eq!(built, TARGETS.iter().map(|(name, _)| *name).collect());
    for (target, _) in TARGETS {
        assert!(seeds(target).len() >= 5, "{target}");
        assert!(fuzz_dir().join(format!("targets/{target}.rs")).exists(), "{target}");
    }
}

#[test]
fn seeds_pass() {
    with_deep_stack(|| {
        TARGETS.iter().for_each(|(target, check)| seeds(target).iter().for_each(|seed| check(seed)))
    });
}

/// One change of some bytes.
#[derive(Debug, Clone)]
enum Edit {
    Put(prop::sample::Index, Vec<u8>),
    Insert(prop::sample::Index, Vec<u8>),
    Cut(prop::sample::Index),
    Append(prop::sample::Index),
}

/// Bytes at which lengths, numbers, flags and texts turn.
fn telling() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 1..9),
        prop::sample::select(vec![
            b"\0".as_slice(),
            b"\xff",
            b"\x7f\xff\xff\xff",
            b"\xff\xff\xff\xff",
            b"-",
            b"9",
            b"%"
        ])
        .prop_map(<[u8]>::to_vec),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => (any::<prop::sample::Index>(), telling()).prop_map(|(at, bytes)| Edit::Put(at, bytes)),
        2 => (any::<prop::sample::Index>(), telling()).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        1 => any::<prop::sample::Index>().prop_map(Edit::Cut),
        1 => any::<prop::sample::Index>().prop_map(Edit::Append),
    ]
}

fn edited(seeds: &[Vec<u8>], seed: prop::sample::Index, edits: &[Edit]) -> Vec<u8> {
    let mut bytes = seed.get(seeds).clone();
    for edit in edits {
        let at = |index: &prop::sample::Index| index.index(bytes.len() + 1);
        match edit {
            Edit::Put(index, put) => {
                let at = at(index);
                let end = (at + put.len()).min(bytes.len());
                bytes.splice(at..end, put.iter().copied());
            }
            Edit::Insert(index, put) => {
                let at = at(index);
                bytes.splice(at..at, put.iter().copied());
            }
            Edit::Cut(index) => bytes.truncate(at(index)),
            Edit::Append(index) => bytes.extend(index.get(seeds)),
        }
    }
    bytes
}

fn pass_when_edited(target: &'static str, cases: u32) {
    let (_, check) = TARGETS.into_iter().find(|(name, _)| *name == target).unwrap();
    with_deep_stack(move || {
        let seeds = seeds(target);
        let mut runner =
            TestRunner::new(ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() });
        let strategy = (any::<prop::sample::Index>(), vec(edit(), 1..6));
        let result = runner.run(&strategy, |(seed, edits)| {
            check(&edited(&seeds, seed, &edits));
            Ok(())
        });
        if let Err(error) = result {
            panic!("{target}: {error}");
        }
    });
}

#[test]
fn edited_bundles_pass() {
    pass_when_edited("bundle", 500);
}

#[test]
fn edited_properties_pass() {
    pass_when_edited("properties", 3_000);
}

#[test]
fn edited_answers_of_a_broker_pass() {
    pass_when_edited("rescue", 1_000);
}

#[test]
fn edited_due_headers_pass() {
    pass_when_edited("due", 5_000);
}

#[test]
fn edited_configurations_pass() {
    pass_when_edited("config", 500);
}

#[test]
fn edited_uris_pass() {
    pass_when_edited("uri", 3_000);
}

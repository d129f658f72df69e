//! The bill of materials has all that is in the binary, with checksums and licences.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first thing that it did not expect"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const TARGET: &str = "x86_64-unknown-linux-gnu";

fn json_of(command: &mut Command) -> Value {
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The packages that Cargo has found for the binary, as `NAME-VERSION`; more than are needed with the features in use.
fn resolved() -> BTreeSet<String> {
    let metadata = ["metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET];
    let metadata = json_of(Command::new(env!("CARGO")).args(metadata));
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages.map(name_and_version).collect()
}

/// The packages whose code is in the binary, as `NAME-VERSION`: it has the paths of their sources, for its panics.
fn linked() -> BTreeSet<String> {
    let binary = std::fs::read(env!("CARGO_BIN_EXE_leveret")).unwrap();
    let text = String::from_utf8_lossy(&binary);
    let paths = text.split("/registry/src/").skip(1);
    // After the registry's name; what follows may be any other text.
    let names = paths.filter_map(|path| path.split('/').nth(1)?.split('\0').next());
    names.map(str::to_owned).collect()
}

fn name_and_version(package: &Value) -> String {
    format!("{}-{}", package["name"].as_str().unwrap(), package["version"].as_str().unwrap())
}

#[test]
fn every_package_of_the_binary_is_listed() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/sbom");
    let bill = json_of(Command::new(script).arg(TARGET));
    assert_eq!(bill["bomFormat"], "CycloneDX");
    let own = &bill["metadata"]["component"];
    assert_eq!(own["name"], "leveret");
    let components = bill["components"].as_array().unwrap();
    let all = || components.iter().chain([own]);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let listed: BTreeSet<_> = all().map(name_and_version).collect();
    assert_eq!(listed.len(), components.len() + 1, "a package is listed twice");
    let (linked, resolved) = (linked(), resolved());
    assert!(linked.len() > 50, "only {} packages found in the binary", linked.len());
    let missing: Vec<_> = linked.difference(&listed).collect();
    assert!(missing.is_empty(), "in the binary and not listed: {missing:?}");
    let unknown: Vec<_> = listed.difference(&resolved).collect();
    assert!(unknown.is_empty(), "listed and unknown to Cargo: {unknown:?}");

    let lock = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock")).unwrap();
    for one in components {
        let checksum = one["hashes"][0]["content"].as_str().unwrap();
        let locked = format!(
            "name = {}\nversion = {}\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum = \"{checksum}\"",
            one["name"], one["version"]
        );
        assert!(lock.contains(&locked), "{one}");
        assert!(!one["licenses"][0]["expression"].as_str().unwrap().contains('/'), "{one}");
    }
    let references: BTreeSet<_> = all().map(|one| text(&one["bom-ref"])).collect();
    for dependency in bill["dependencies"].as_array().unwrap() {
        let needs = dependency["dependsOn"].as_array().unwrap();
        assert!(references.contains(dependency["ref"].as_str().unwrap()), "{dependency}");
        assert!(needs.iter().all(|one| references.contains(one.as_str().unwrap())), "{dependency}");
    }
}

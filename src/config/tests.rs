//! The configuration as operators meet it: files, variables, and what they are told.

mod example;
mod loading;
mod refusals;

use std::net::SocketAddr;
use std::time::Duration;

use super::*;

/// The configuration of that YAML and those variables.
fn configure(yaml: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("leveret.yaml");
    std::fs::write(&path, yaml).unwrap();
    let variables = variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    load(Some(&path), variables)
}

fn accept(yaml: &str) -> Config {
    configure(yaml, &[]).unwrap_or_else(|errors| panic!("{yaml}\n{errors}"))
}

fn accept_env(variables: &[(&str, &str)]) -> Config {
    configure("", variables).unwrap_or_else(|errors| panic!("{variables:?}\n{errors}"))
}

/// Everything that is wrong, a line for each.
fn errors(yaml: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let errors = configure(yaml, variables).expect_err(yaml);
    errors.to_string().lines().map(str::to_owned).collect()
}

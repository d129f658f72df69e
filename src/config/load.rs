//! Where the configuration comes from. The precedence is flag, environment, file, default.

use std::path::{Path, PathBuf};

use super::env::{self, overlay};
use super::keys::ROOT;
use super::node::Node;
use super::problem::{ConfigErrors, Problems};
use super::reader::Field;
use super::{Config, read, rules};

/// Leveret's variables of the process's environment, for [`load`]. The one place that reads it.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    // Text that is not Unicode is no name and no value of Leveret's; what is left of it is refused by the checks.
    std::env::vars_os()
        .map(|(name, text)| (name.to_string_lossy().into_owned(), text.to_string_lossy().into_owned()))
        .filter(|(name, _)| name.starts_with(env::PREFIX))
}

/// The standard library's variable for the stack of threads, in bytes.
pub const THREAD_STACK: &str = "RUST_MIN_STACK";

/// Whether the environment says how large the stack of threads is.
#[must_use]
pub fn has_thread_stack() -> bool {
    std::env::var_os(THREAD_STACK).is_some()
}

/// The file that the configuration is in: `path`, else the one that `LEVERET_CONFIG` names, else none.
pub fn file(path: Option<&Path>, mut env: impl Iterator<Item = (String, String)>) -> Option<PathBuf> {
    let mut named = || env.find(|(name, text)| name == env::FILE && !text.is_empty());
    path.map(Path::to_owned).or_else(|| named().map(|(_, text)| PathBuf::from(text)))
}

/// Reads and checks the configuration: the file (`path`, else the one that `LEVERET_CONFIG` names, else none) with the
/// environment's overrides (`LEVERET_AMQP__URI`). Variables of other programs are ignored.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn load(
    path: Option<&Path>,
    env: impl Iterator<Item = (String, String)>,
) -> Result<Config, ConfigErrors> {
    let variables: Vec<_> = env.collect();
    let path = file(path, variables.iter().cloned());
    let yaml = match path.as_deref() {
        None => String::new(),
        // It would be shown.
        Some(path) if path.to_string_lossy().contains("://") => {
            let text = "must be the path of a file: a URI goes to LEVERET_AMQP__URI";
            return Err(ConfigErrors::one("--config or LEVERET_CONFIG", text));
        }
        Some(path) => std::fs::read_to_string(path).map_err(|error| {
            ConfigErrors::one(path.display().to_string(), format!("cannot read the file: {error}"))
        })?,
    };
    let file = path.map_or_else(String::new, |path| path.display().to_string());
    from_yaml(&yaml, variables.into_iter()).map_err(|error| match error {
        LoadError::Syntax(error) => ConfigErrors::one(file, format!("is not valid YAML: {error}")),
        LoadError::Invalid(errors) => errors,
    })
}

/// Why a text is no configuration.
enum LoadError {
    Syntax(serde_yaml::Error),
    Invalid(ConfigErrors),
}

fn from_yaml(yaml: &str, variables: impl Iterator<Item = (String, String)>) -> Result<Config, LoadError> {
    let mut root = Node::parse(yaml).map_err(LoadError::Syntax)?;
    let problems = Problems::default();
    overlay(&mut root, variables, &problems);
    let field = Field::root(&root, &problems);
    field.check_keys(&ROOT);
    let config = read::config(&field);
    rules::check(&config, &field);
    problems.unless_any(config).map_err(LoadError::Invalid)
}

impl Config {
    /// Reads and checks YAML text, without any environment.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn from_yaml(yaml: &str) -> Result<Self, ConfigErrors> {
        from_yaml(yaml, std::iter::empty()).map_err(|error| match error {
            LoadError::Syntax(error) => ConfigErrors::one("", format!("not valid YAML: {error}")),
            LoadError::Invalid(errors) => errors,
        })
    }
}

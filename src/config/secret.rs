//! Secrets: text that no log, error or debug output can show, and where it comes from.

use std::fmt;
use std::path::{Path, PathBuf};

/// What is shown in place of a secret.
pub(super) const MASK: &str = "***";

/// Text that is never printed: `Debug` and `Display` show `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps the text.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for the one place that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// Where a secret comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// Written in the configuration.
    Inline(Secret),
    /// The content of a file, without its last line break; read anew at each use, so that it can be rotated.
    File(PathBuf),
}

/// A file that holds a secret cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the secret file {path}")]
pub struct SecretError {
    /// The file.
    pub path: PathBuf,
    #[source]
    source: std::io::Error,
}

impl SecretSource {
    /// The secret as it is now.
    ///
    /// # Errors
    /// When the file cannot be read or is not UTF-8.
    pub fn read(&self) -> Result<Secret, SecretError> {
        match self {
            Self::Inline(secret) => Ok(secret.clone()),
            Self::File(path) => read_file(path),
        }
    }
}

/// The content of a secret file without its last line break.
pub(super) fn read_file(path: &Path) -> Result<Secret, SecretError> {
    let mut text =
        std::fs::read_to_string(path).map_err(|source| SecretError { path: path.to_owned(), source })?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(Secret(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let source = SecretSource::Inline(Secret::new("hunter2".to_owned()));
        assert_eq!(format!("{source:?}"), "Inline(***)");
        assert_eq!(Secret::new("hunter2".to_owned()).to_string(), "***");
    }

    #[test]
    fn a_file_is_read_at_each_use_without_its_last_line_break() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        let source = SecretSource::File(path.clone());
        assert!(source.read().unwrap_err().to_string().contains("password"));
        for (content, expected) in
            [("one\n", "one"), ("two\r\n", "two"), (" three ", " three "), ("four\n\n", "four\n")]
        {
            std::fs::write(&path, content).unwrap();
            assert_eq!(source.read().unwrap().expose(), expected);
        }
    }
}

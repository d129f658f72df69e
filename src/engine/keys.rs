//! Reads encryption keys from their files, anew for every session.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::config::{BundleConfig, Compression};
use crate::domain::codec::{Codec, KEY_BYTES, Key};

/// Why there is no codec.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read the key file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It holds something else.
    #[error("{} holds no key: it must be {KEY_BYTES} bytes in base64 or hexadecimal (openssl rand -base64 32)", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
}

/// The codec that a configuration asks for.
///
/// # Errors
/// Where a key file cannot be read, or holds no key.
pub fn codec(config: &BundleConfig) -> Result<Codec, KeyError> {
    Ok(Codec::new(config.compression == Compression::Zstd, keys(&config.key_files)?))
}

/// The keys in these files.
///
/// # Errors
/// Where a file cannot be read, or holds no key.
pub fn keys(files: &[PathBuf]) -> Result<Vec<Key>, KeyError> {
    files.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Result<Key, KeyError> {
    let text =
        std::fs::read(path).map_err(|source| KeyError::Unreadable { path: path.to_owned(), source })?;
    let text = text.trim_ascii();
    hexadecimal(text)
        .or_else(|| STANDARD.decode(text).ok())
        .and_then(|bytes| Key::new(&bytes))
        .ok_or_else(|| KeyError::NoKey { path: path.to_owned() })
}

/// 64 hexadecimal digits are valid base64 as well, but not of a key's length: this goes first.
fn hexadecimal(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() != 2 * KEY_BYTES {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    text.chunks_exact(2)
        .map(|pair| match pair {
            [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(content: &str) -> Result<Key, KeyError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        read(file.path())
    }

    #[test]
    fn base64_and_hexadecimal_are_the_same_key() {
        let base64 = key_of(&format!("{}\n", STANDARD.encode([0xab; KEY_BYTES]))).unwrap();
        let hexadecimal = key_of(&"aB".repeat(KEY_BYTES)).unwrap();
        assert_eq!(base64.id(), hexadecimal.id());
    }

    #[test]
    fn what_is_no_key_is_refused_without_being_shown() {
        for content in ["", "secret", &STANDARD.encode([1; 16]), &"ab".repeat(31)] {
            let error = key_of(content).unwrap_err().to_string();
            assert!(error.contains("holds no key") && !error.contains("secret"), "{error}");
        }
        assert!(matches!(read(Path::new("/nonexistent")), Err(KeyError::Unreadable { .. })));
    }
}

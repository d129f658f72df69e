//! Reads certificates and keys in PEM. No error shows any of what a file holds.

use std::path::Path;

use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::TlsError;

/// The certificates in a file, in their order; at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_slice_iter(&read(path)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| malformed(path, &error))?;
    if found.is_empty() {
        return Err(TlsError::Missing { path: path.to_owned(), what: "CERTIFICATE" });
    }
    Ok(found)
}

/// The private key in a file.
pub(super) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let pem = read(path)?;
    // PKCS #8 says it in the first line, the older formats in a line of their own.
    if [&b"BEGIN ENCRYPTED"[..], b"Proc-Type: 4,ENCRYPTED"].iter().any(|mark| holds(&pem, mark)) {
        return Err(TlsError::EncryptedKey(path.to_owned()));
    }
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| match error {
        Error::NoItemsFound => TlsError::Missing { path: path.to_owned(), what: "PRIVATE KEY" },
        error => malformed(path, &error),
    })
}

fn holds(text: &[u8], mark: &[u8]) -> bool {
    text.windows(mark.len()).any(|part| part == mark)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}

/// In words of its own: the parser's may repeat a line.
fn malformed(path: &Path, error: &Error) -> TlsError {
    let problem = match error {
        Error::MissingSectionEnd { .. } => "a section has no end",
        Error::IllegalSectionStart { .. } => "a section begins wrongly",
        Error::Base64Decode(_) => "a section is not base64",
        _ => "it is damaged",
    };
    TlsError::Malformed { path: path.to_owned(), problem: problem.to_owned() }
}

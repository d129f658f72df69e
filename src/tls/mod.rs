//! TLS, for AMQP and the management API alike: whom Leveret trusts, as whom it presents itself, and what a failed
//! handshake means in words. Opens no connection.

mod files;
pub mod words;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use crate::config::TlsConfig;

/// A certificate or key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds nothing of what it should.
    #[error("{path} holds no {what}: it must be PEM, with lines that say BEGIN {what}")]
    Missing {
        /// The file.
        path: PathBuf,
        /// `CERTIFICATE` or `PRIVATE KEY`.
        what: &'static str,
    },
    /// A file holds PEM that cannot be decoded.
    #[error("{path} cannot be read as PEM: {problem}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        problem: String,
    },
    /// A key needs a passphrase.
    #[error(
        "the key in {0} is encrypted, and Leveret takes no passphrase: decrypt it with `openssl pkey`, and let nobody \
         but Leveret read the file"
    )]
    EncryptedKey(PathBuf),
    /// Certificate and key are not a pair.
    #[error("the key in {key} is not that of the certificate in {cert}: replace both files together")]
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The client's certificate cannot be presented.
    #[error("cannot use the client certificate in {cert} with the key in {key}: {problem}")]
    Identity {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What the TLS library says.
        problem: String,
    },
    /// The system trusts nobody.
    #[error("the system has no certificates of authorities ({0}): install ca-certificates, or set a ca_file")]
    NoSystemRoots(String),
    /// The TLS library cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Library(#[from] rustls::Error),
}

/// The one provider of cryptography in the program: two in one graph would make rustls panic for want of a default.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The authorities that are trusted: those in the file, or the system's where there is none. Blocks while it reads.
///
/// # Errors
/// When the file has no certificate that can be used, or the system has none.
pub fn authorities(ca_file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    if let Some(path) = ca_file {
        return files::certificates(path);
    }
    // Single unreadable files are common and harmless as long as something is trusted.
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found.errors.first().map_or_else(|| "none are installed".to_owned(), ToString::to_string);
        return Err(TlsError::NoSystemRoots(why));
    }
    Ok(found.certs)
}

/// How to connect with these settings, with the files as they are now. Blocks while it reads them.
///
/// # Errors
/// When a file cannot be read or used.
pub fn client_config(settings: &TlsConfig) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    let (_, ignored) = roots.add_parsable_certificates(authorities(settings.ca_file.as_deref())?);
    if let Some(path) = settings.ca_file.as_ref().filter(|_| ignored > 0) {
        let problem = format!("{ignored} of its certificates cannot be decoded");
        return Err(TlsError::Malformed { path: path.clone(), problem });
    }
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let (Some(cert), Some(key)) = (&settings.cert_file, &settings.key_file) else {
        return Ok(Arc::new(builder.with_no_client_auth()));
    };
    let config = builder.with_client_auth_cert(files::certificates(cert)?, files::key(key)?);
    config.map(Arc::new).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => TlsError::Mismatch { cert: cert.clone(), key: key.clone() },
        error => TlsError::Identity { cert: cert.clone(), key: key.clone(), problem: error.to_string() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(settings: &TlsConfig) -> String {
        client_config(settings).unwrap_err().to_string()
    }

    #[test]
    fn a_file_that_is_not_what_it_should_be_is_named_with_its_fault() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file.pem");
        let trusting = TlsConfig { ca_file: Some(path.clone()), ..TlsConfig::default() };
        let name = path.display().to_string();
        assert!(refusal(&trusting).starts_with(&format!("cannot read {name}: ")));
        for (content, said) in [
            ("", "holds no CERTIFICATE"),
            ("hello", "holds no CERTIFICATE"),
            ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "holds no CERTIFICATE"),
            ("-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----\n", "cannot be read as PEM"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "1 of its certificates"),
        ] {
            std::fs::write(&path, content).unwrap();
            let refusal = refusal(&trusting);
            assert!(refusal.contains(&name) && refusal.contains(said), "{content}: {refusal}");
        }
        for (content, said) in [
            ("hello", "holds no PRIVATE KEY"),
            (
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
                "openssl pkey",
            ),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAA==\n-----END RSA PRIVATE KEY-----\n",
                "openssl pkey",
            ),
        ] {
            std::fs::write(&path, content).unwrap();
            let refusal = files::key(&path).unwrap_err().to_string();
            assert!(refusal.contains(&name) && refusal.contains(said), "{content}: {refusal}");
        }
    }
}

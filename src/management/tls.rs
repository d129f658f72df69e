//! Whom the client trusts, in the terms of its HTTP library.

use std::path::Path;

use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::tls::{TlsError, authorities, provider};

/// Trusts the certificates in the file alone, or the system's where there is none.
pub(super) fn config(ca_file: Option<&Path>) -> Result<TlsConfig, TlsError> {
    let roots: Vec<_> =
        authorities(ca_file)?.iter().map(|authority| Certificate::from_der(authority).to_owned()).collect();
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(provider())
        .build())
}

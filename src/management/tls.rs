//! Whom the client trusts, with the one crypto provider that the whole program uses: two in one graph would make
//! rustls panic for want of a default.

use std::sync::Arc;

use rustls::crypto::ring;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::ManagementError;

/// Trusts the certificates in `ca_pem` alone, or the system's where there is none.
pub(super) fn config(ca_pem: Option<&[u8]>) -> Result<TlsConfig, ManagementError> {
    let roots = match ca_pem {
        Some(pem) => own(pem)?,
        None => system()?,
    };
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build())
}

fn own(pem: &[u8]) -> Result<Vec<Certificate<'static>>, ManagementError> {
    let bad = |problem: String| ManagementError::BadCa { problem };
    let items = parse_pem(pem).collect::<Result<Vec<_>, _>>();
    let items = items.map_err(|error| bad(format!("the ca file is not pem ({error})")))?;
    let certificates: Vec<_> = items
        .into_iter()
        .filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(bad(
            "the ca file holds no certificate; it must be pem, with BEGIN CERTIFICATE lines".to_owned()
        ));
    }
    Ok(certificates)
}

fn system() -> Result<Vec<Certificate<'static>>, ManagementError> {
    // Single unreadable files are common and harmless as long as something is trusted.
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found.errors.first().map_or_else(|| "none are installed".to_owned(), ToString::to_string);
        let problem = format!("no system roots ({why}); install ca-certificates or name a ca file");
        return Err(ManagementError::BadCa { problem });
    }
    Ok(found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_certificate_is_refused() {
        for pem in ["", "hello", "-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----\n"] {
            let error = config(Some(pem.as_bytes())).unwrap_err();
            assert!(matches!(error, ManagementError::BadCa { .. }), "{pem}: {error:?}");
            assert!(error.to_string().contains("ca file"), "{error}");
        }
    }
}

//! What a failed handshake means, for whoever must mend it: which certificate, why, and what to do.

use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError};

/// What to do where names differ.
const RENAME: &str = "connect by a name that it has, or issue one for this name (subjectAltName)";

/// The other side of a connection, and what was configured for it.
#[derive(Debug, Clone, Copy)]
pub struct Peer<'a> {
    /// Who it is in a sentence: `the broker`.
    pub who: &'static str,
    /// The host that was connected to, by the name that its certificate must have.
    pub host: &'a str,
    /// Where its keys are in the configuration: `amqp.tls`.
    pub section: &'static str,
    /// The authorities that are trusted, where not the system's.
    pub ca_file: Option<&'a Path>,
    /// The client's certificate.
    pub cert_file: Option<&'a Path>,
}

impl Peer<'_> {
    /// What went wrong with TLS, if it is that which went wrong.
    #[must_use]
    pub fn explain(&self, error: &(dyn Error + 'static)) -> Option<String> {
        let who = self.who;
        Some(match tls_error(error)? {
            rustls::Error::InvalidCertificate(fault) => self.certificate(fault),
            rustls::Error::AlertReceived(alert) => self.alert(*alert),
            rustls::Error::InvalidMessage(_) => format!(
                "{who} does not speak TLS on this port: TLS has one of its own, usually 5671 for AMQP and 15671 for the \
                 management API"
            ),
            other => format!("the TLS handshake with {who} failed: {other}"),
        })
    }

    /// Its certificate is not accepted here.
    fn certificate(&self, fault: &CertificateError) -> String {
        let Self { who, host, section, .. } = self;
        match fault {
            CertificateError::Expired => format!("{who}'s certificate has expired: renew it there"),
            CertificateError::ExpiredContext { time, not_after } => format!(
                "{who}'s certificate expired at {}, and it is {} here: renew it there",
                moment(not_after),
                moment(time)
            ),
            CertificateError::NotValidYet => {
                format!("{who}'s certificate is not valid yet: check the clocks")
            }
            CertificateError::NotValidYetContext { time, not_before } => format!(
                "{who}'s certificate is valid from {} on, and it is {} here: check the clocks",
                moment(not_before),
                moment(time)
            ),
            CertificateError::UnknownIssuer => format!(
                "{who}'s certificate is signed by no authority that is trusted here, which are {}: set \
                 {section}.ca_file to the certificate of the authority that signed it",
                self.trusted()
            ),
            CertificateError::NotValidForName => {
                format!("{who}'s certificate is not for {host}: {RENAME}")
            }
            CertificateError::NotValidForNameContext { presented, .. } => {
                let mut names = String::new();
                for name in presented {
                    // Writing to a String cannot fail.
                    let _ = write!(names, "{}{}", if names.is_empty() { "" } else { ", " }, plain(name));
                }
                let names = if names.is_empty() { "no name".to_owned() } else { names };
                format!("{who}'s certificate is for {names}, and not for {host}: {RENAME}")
            }
            CertificateError::BadSignature => format!(
                "{who}'s certificate is not signed by the authority that it names, as {} know it: check \
                 {section}.ca_file",
                self.trusted()
            ),
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => format!(
                "{who}'s certificate may not be a server's: issue it one whose extendedKeyUsage has serverAuth"
            ),
            CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => format!(
                "{who}'s certificate is an authority's own (CA:TRUE), which may not be a server's: issue it one"
            ),
            CertificateError::Other(other) if other.to_string().contains("UnsupportedCertVersion") => {
                format!(
                    "{who}'s certificate is of X.509 version 1, which names no host: issue it one of version 3 with a \
                 subjectAltName"
                )
            }
            other => format!("{who}'s certificate cannot be accepted: {other}"),
        }
    }

    /// It ended the handshake, and said why.
    fn alert(&self, alert: AlertDescription) -> String {
        let Self { who, host, section, cert_file, .. } = self;
        let Some(cert) = cert_file.map(Path::display) else {
            return match alert {
                // TLS 1.2 has no better word for it.
                AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure => format!(
                    "{who} asks for a client certificate, and there is none: set {section}.cert_file and \
                     {section}.key_file ({alert:?})"
                ),
                AlertDescription::ProtocolVersion => self.no_version(),
                AlertDescription::UnrecognisedName => format!("{who} has no certificate for {host}"),
                other => format!("{who} ended the TLS handshake ({other:?}): its log says why"),
            };
        };
        match alert {
            AlertDescription::UnknownCA => format!(
                "{who} trusts no authority that signed the client certificate in {cert}: add the authority to the \
                 broker's ssl_options.cacertfile, or use a certificate of one that is there"
            ),
            AlertDescription::CertificateExpired => {
                format!("the client certificate in {cert} has expired, says {who}: renew it")
            }
            AlertDescription::CertificateRevoked => {
                format!("the client certificate in {cert} is revoked, says {who}: use another one")
            }
            AlertDescription::ProtocolVersion => self.no_version(),
            AlertDescription::UnrecognisedName => format!("{who} has no certificate for {host}"),
            other => format!(
                "{who} refuses the client certificate in {cert}, or something else of the handshake ({other:?}): its \
                 log says why"
            ),
        }
    }

    fn no_version(&self) -> String {
        let who = self.who;
        format!("{who} speaks no version of TLS that Leveret does (1.2 and 1.3): enable one there")
    }

    fn trusted(&self) -> String {
        self.ca_file.map_or_else(|| "the system's".to_owned(), |path| format!("those in {}", path.display()))
    }
}

/// The TLS library's error in a chain of errors.
fn tls_error<'e>(mut error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    loop {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // An I/O error passes over what it holds: its source is the source of that.
        let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        error = match held {
            Some(held) => held,
            None => error.source()?,
        };
    }
}

/// A name out of somebody's certificate, made harmless.
fn plain(name: &str) -> String {
    // The library quotes kinds of names as it prints them: DnsName("localhost").
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"').escape_debug().to_string()
}

fn moment(time: &UnixTime) -> String {
    i64::try_from(time.as_secs())
        .ok()
        .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok())
        .map_or_else(|| format!("{} s", time.as_secs()), |moment| moment.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::pki_types::ServerName;

    use super::*;

    fn peer<'a>(cert_file: Option<&'a Path>) -> Peer<'a> {
        Peer {
            who: "the broker",
            host: "rabbit",
            section: "amqp.tls",
            ca_file: Some(Path::new("/ca")),
            cert_file,
        }
    }

    fn said(error: rustls::Error, cert_file: Option<&Path>) -> String {
        let io = io::Error::new(io::ErrorKind::InvalidData, error);
        peer(cert_file).explain(&io).unwrap()
    }

    #[test]
    fn what_is_not_about_tls_is_left_to_others() {
        let error = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(peer(None).explain(&error), None);
        assert_eq!(peer(None).explain(&io::Error::other("no")), None);
    }

    #[test]
    fn a_certificate_that_is_not_accepted_is_told_with_what_to_do() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let name = ServerName::try_from("rabbit").unwrap();
        let presented = vec!["DnsName(\"localhost\")".to_owned(), "127.0.0.1".to_owned()];
        let cases = [
            (
                CertificateError::ExpiredContext { time: at(86_400), not_after: at(0) },
                "expired at 1970-01-01T00:00:00Z, and it is 1970-01-02T00:00:00Z here: renew it",
            ),
            (CertificateError::Expired, "has expired: renew it"),
            (
                CertificateError::NotValidYetContext { time: at(0), not_before: at(86_400) },
                "valid from 1970-01-02T00:00:00Z on, and it is 1970-01-01T00:00:00Z here: check the clocks",
            ),
            (CertificateError::UnknownIssuer, "those in /ca: set amqp.tls.ca_file to"),
            (
                CertificateError::NotValidForNameContext { expected: name, presented },
                "is for localhost, 127.0.0.1, and not for rabbit: connect by",
            ),
            (CertificateError::InvalidPurpose, "serverAuth"),
            (CertificateError::BadSignature, "check amqp.tls.ca_file"),
            (CertificateError::BadEncoding, "cannot be accepted"),
        ];
        for (fault, expected) in cases {
            let text = said(fault.into(), None);
            assert!(text.starts_with("the broker's certificate ") && text.contains(expected), "{text}");
        }
    }

    #[test]
    fn an_alert_is_told_by_what_was_sent() {
        let cert = Some(Path::new("/cert"));
        for (alert, cert_file, expected) in [
            (AlertDescription::CertificateRequired, None, "set amqp.tls.cert_file"),
            (AlertDescription::HandshakeFailure, None, "set amqp.tls.cert_file"),
            (AlertDescription::UnknownCA, cert, "/cert: add the authority"),
            (AlertDescription::CertificateExpired, cert, "/cert has expired"),
            (AlertDescription::CertificateRevoked, cert, "/cert is revoked"),
            (AlertDescription::BadCertificate, cert, "/cert, or something else"),
            (AlertDescription::ProtocolVersion, cert, "1.2 and 1.3"),
            (AlertDescription::ProtocolVersion, None, "1.2 and 1.3"),
            (AlertDescription::InternalError, None, "InternalError"),
        ] {
            let text = said(rustls::Error::AlertReceived(alert), cert_file);
            assert!(text.contains(expected), "{alert:?}: {text}");
        }
    }
}

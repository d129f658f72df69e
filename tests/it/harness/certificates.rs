//! A certificate authority for one test, by the `openssl` command.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::blocking;

/// A fresh authority whose files are in a directory.
pub(crate) struct Authority {
    directory: PathBuf,
    name: String,
}

/// PEM files of a certificate and its key.
pub(crate) struct Certificate {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

const NEW_KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
const DAYS: &str = "2";

impl Authority {
    /// Makes one.
    pub(crate) fn new(directory: &Path, name: &str) -> Self {
        let authority = Self { directory: directory.to_owned(), name: name.to_owned() };
        let subject = format!("/CN={name}");
        let (cert, key) = (authority.cert(), authority.file("key"));
        let extensions = authority.file("cnf");
        // The system's own configuration would add to the extensions, or not, as it pleases.
        let text = "[req]\ndistinguished_name = dn\nx509_extensions = ca\n[dn]\n[ca]\nbasicConstraints = critical,CA:TRUE\n\
                    keyUsage = critical,keyCertSign,cRLSign\nsubjectKeyIdentifier = hash\n";
        std::fs::write(&extensions, text).unwrap();
        let arguments = ["-config", text_of(&extensions), "-subj", &subject, "-days", DAYS];
        let files = ["-keyout", text_of(&key), "-out", text_of(&cert)];
        openssl(&[&["req", "-x509"], &NEW_KEY[..], &arguments, &files].concat());
        authority
    }

    /// Its own certificate: whoever trusts it trusts what it issues.
    pub(crate) fn cert(&self) -> PathBuf {
        self.file("pem")
    }

    /// Issues a certificate for a server on this machine, or for a client.
    pub(crate) fn issue(&self, common_name: &str) -> Certificate {
        let file = |extension: &str| self.file(&format!("{common_name}.{extension}"));
        let issued = Certificate { cert: file("pem"), key: file("key") };
        let (request, extensions) = (file("csr"), file("ext"));
        let text = "subjectAltName = DNS:localhost,IP:127.0.0.1\nextendedKeyUsage = serverAuth,clientAuth\n";
        std::fs::write(&extensions, text).unwrap();
        let subject = format!("/CN={common_name}");
        let config = self.file("cnf");
        let arguments = ["-config", text_of(&config), "-subj", &subject];
        let files = ["-keyout", text_of(&issued.key), "-out", text_of(&request)];
        openssl(&[&["req"], &NEW_KEY[..], &arguments, &files].concat());
        let (ca, ca_key) = (self.cert(), self.file("key"));
        let signer = ["-CA", text_of(&ca), "-CAkey", text_of(&ca_key), "-CAcreateserial", "-days", DAYS];
        let files =
            ["-in", text_of(&request), "-extfile", text_of(&extensions), "-out", text_of(&issued.cert)];
        openssl(&[&["x509", "-req"], &signer[..], &files].concat());
        issued
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.directory.join(format!("{}.{extension}", self.name))
    }
}

fn text_of(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn openssl(arguments: &[&str]) {
    let output = blocking(|| Command::new("openssl").args(arguments).stdin(Stdio::null()).output())
        .expect("the tests of TLS need the openssl command: install openssl");
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {}: {why}", arguments.join(" "));
}

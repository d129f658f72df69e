//! Certificate authorities for tests, by the `openssl` command.

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

/// What is to be in a certificate.
pub(crate) struct Wish<'a> {
    /// Its subject's only name.
    pub(crate) common_name: &'a str,
    /// Whom it is for, as OpenSSL writes it.
    pub(crate) names: &'a str,
    /// The first and the last moment that it is valid at, as `YYYYMMDDHHMMSSZ`.
    pub(crate) valid: (&'a str, &'a str),
}

impl Default for Wish<'_> {
    /// A server on this machine, or a client.
    fn default() -> Self {
        Self {
            common_name: "server",
            names: "DNS:localhost,IP:127.0.0.1",
            valid: ("20200101000000Z", "20491231235959Z"),
        }
    }
}

const NEW_KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
const DAYS: &str = "2";

impl Authority {
    /// Makes one.
    pub(crate) fn new(directory: &Path, name: &str) -> Self {
        let authority = Self { directory: directory.to_owned(), name: name.to_owned() };
        let subject = format!("/CN={name}");
        let (cert, key) = (authority.cert(), authority.file("key"));
        let config = authority.file("cnf");
        // The system's own configuration would add to the extensions, or not, as it pleases.
        let text = format!(
            "[req]\ndistinguished_name = dn\nx509_extensions = authority\n[dn]\n\
             [authority]\nbasicConstraints = critical,CA:TRUE\nkeyUsage = critical,keyCertSign,cRLSign\n\
             subjectKeyIdentifier = hash\n\
             [ca]\ndefault_ca = issuing\n[issuing]\ndatabase = {}\nnew_certs_dir = {}\nrand_serial = yes\n\
             default_md = sha256\npolicy = any\nunique_subject = no\n[any]\ncommonName = supplied\n",
            authority.file("index").display(),
            directory.display(),
        );
        std::fs::write(&config, text).unwrap();
        std::fs::write(authority.file("index"), "").unwrap();
        let arguments = ["-config", text_of(&config), "-subj", &subject, "-days", DAYS];
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
        self.issue_as(common_name, &Wish { common_name, ..Wish::default() })
    }

    /// Issues a certificate; `file` is what its files are called.
    pub(crate) fn issue_as(&self, file: &str, wish: &Wish<'_>) -> Certificate {
        let file = |extension: &str| self.file(&format!("{file}.{extension}"));
        let issued = Certificate { cert: file("pem"), key: file("key") };
        let (request, extensions) = (file("csr"), file("ext"));
        let text = format!("subjectAltName = {}\nextendedKeyUsage = serverAuth,clientAuth\n", wish.names);
        std::fs::write(&extensions, text).unwrap();
        let subject = format!("/CN={}", wish.common_name);
        let config = self.file("cnf");
        let arguments = ["-config", text_of(&config), "-subj", &subject];
        let files = ["-keyout", text_of(&issued.key), "-out", text_of(&request)];
        openssl(&[&["req"], &NEW_KEY[..], &arguments, &files].concat());
        let (ca, ca_key) = (self.cert(), self.file("key"));
        let signer = ["-config", text_of(&config), "-cert", text_of(&ca), "-keyfile", text_of(&ca_key)];
        let valid = ["-startdate", wish.valid.0, "-enddate", wish.valid.1];
        let files =
            ["-in", text_of(&request), "-extfile", text_of(&extensions), "-out", text_of(&issued.cert)];
        openssl(&[&["ca", "-batch", "-notext"], &signer[..], &valid, &files].concat());
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

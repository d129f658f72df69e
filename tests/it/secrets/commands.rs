//! The commands, with each secret in each place, right and wrong.

use std::path::Path;

use tempfile::TempDir;

use super::Written;
use crate::harness::certificates::Authority;
use crate::harness::cli::run;

/// Every command that takes a configuration and ends by itself: `run` where the configuration is refused.
const COMMANDS: [&[&str]; 9] = [
    &["validate"],
    &["print", "config"],
    &["print", "topology"],
    &["print", "permissions"],
    &["status"],
    &["parked", "list"],
    &["publish", "--routing-key", "q", "--body", "x"],
    &["healthcheck", "--timeout", "1s"],
    &["bench", "--messages", "1"],
];

/// Texts of 32 bytes, so that they may be encryption keys as well. None is in another one.
const INLINE: &str = "HushInline0123456789abcdefghijkl";
const IN_FILE: &str = "HushInFile0123456789abcdefghijkl";
const IN_ENVIRONMENT: &str = "HushEnvironment0123456789abcdefg";
const FOR_MANAGEMENT: &str = "HushManagement0123456789abcdefgh";

/// Needs no broker: nobody listens where these connect to.
pub(crate) fn commands_tell_no_secret() {
    let directory = tempfile::tempdir().unwrap();
    let mut written = Written::default();
    for (yaml, environment) in configurations(&directory) {
        let path = directory.path().join("leveret.yaml");
        std::fs::write(&path, &yaml).unwrap();
        let mut environment = environment;
        environment.push(("LEVERET_CONFIG", path.to_str().unwrap().to_owned()));
        environment.push(("LEVERET_ADMIN__LISTEN", "127.0.0.1:9".to_owned()));
        let variables: Vec<_> = environment.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let invalid = run(&variables, &["validate"]).code == 78;
        for command in COMMANDS.iter().copied().chain(invalid.then_some(&["run"][..])) {
            let from = format!("{command:?} with {yaml} and {environment:?}");
            written.add_command(&from, run(&variables, command));
        }
    }
    misuse(&mut written);
    let key = std::fs::read_to_string(directory.path().join("ca.client.key")).unwrap();
    let of_key = key.lines().nth(1).unwrap().to_owned();
    written.holds_none_of(&[INLINE, IN_FILE, IN_ENVIRONMENT, FOR_MANAGEMENT, &of_key]);

    // What was to be provoked was: connecting, each kind of error, and masks.
    for said in [
        "cannot connect to amqp://me@127.0.0.1:9/",
        "percent-encode the special characters",
        "an AMQP URI begins with",
        "must be the path of a file, and holds what belongs into one",
        "is not an AMQP URI",
        "holds no key",
        "is not that of the certificate",
        "is not host or host:port",
        "expected text, found a list",
        "unknown key",
        "unknown variable",
        "not valid YAML",
        "credentials go to username and password",
        "password: '***'",
        "me:***@",
        "amqp://***@",
    ] {
        written.holds(said);
    }
}

type Environment = Vec<(&'static str, String)>;

/// Configurations with secrets, and with them in places where they do not belong.
fn configurations(directory: &TempDir) -> Vec<(String, Environment)> {
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let authority = Authority::new(directory.path(), "ca");
    let (client, other) = (authority.issue("client"), authority.issue("other"));
    let shown = |path: &Path| path.display().to_string();
    let hosts = |rest: &str| format!("amqp: {{ hosts: ['127.0.0.1:9'], username: me, {rest} }}");
    let management =
        |rest: &str| format!("management: {{ url: 'http://127.0.0.1:9', username: me, {rest} }}");
    let password_file = file("password", IN_FILE);
    let in_yaml = [
        // Right, but for the broker that is not there.
        format!("amqp: {{ uri: 'amqp://me:{INLINE}@127.0.0.1:9/%2f' }}"),
        format!("amqp: {{ uri: ['amqp://me:{INLINE}@127.0.0.1:9', 'amqp://you:{INLINE}@127.0.0.1:9/v'] }}"),
        format!("amqp: {{ uri_file: {} }}", file("uri", &format!("amqp://me:{IN_FILE}@127.0.0.1:9\n"))),
        hosts(&format!("password: {INLINE}")),
        hosts(&format!("password_file: {password_file}")),
        format!(
            "{}\n{}",
            hosts(&format!("password: {INLINE}")),
            management(&format!("password: {FOR_MANAGEMENT}"))
        ),
        format!(
            "{}\n{}",
            hosts(&format!("password: {INLINE}")),
            management(&format!("password_file: {password_file}"))
        ),
        format!(
            "{}\nbundle: {{ key_files: [{}] }}",
            hosts(&format!("password: {INLINE}")),
            file("key", &hexadecimal(IN_FILE))
        ),
        // Wrong.
        format!("amqp: {{ uri: 'amqp://me:a/{INLINE}@127.0.0.1:9/%2f' }}"),
        format!("amqp: {{ uri: 'amqp://me:a#{INLINE}@127.0.0.1:9/%2f' }}"),
        format!("amqp: {{ uri: 'amqp://me:a%{INLINE}@127.0.0.1:9/%2f' }}"),
        format!("amqp: {{ uri: 'amqp://me:{INLINE}@@127.0.0.1:9/%2f' }}"),
        format!("amqp: {{ uri: 'amqp://me:{INLINE}@127.0.0.1:x/%2f' }}"),
        format!("amqp: {{ uri: 'me:{INLINE}@127.0.0.1' }}"),
        format!("amqp: {{ uri: {{ 'amqp://me:{INLINE}@h': }} }}"),
        format!("amqp: {{ url: 'amqp://me:{INLINE}@127.0.0.1' }}"),
        format!("amqp: {{ 'amqp://me:{INLINE}@127.0.0.1' }}"),
        format!("amqp: amqp://me:{INLINE}@127.0.0.1"),
        format!("amqp: {{ uri_file: 'amqp://me:{INLINE}@127.0.0.1' }}"),
        format!("amqp: {{ uri_file: {} }}", file("uris", &format!("\namqp://me:{IN_FILE}@h:x\n"))),
        format!("amqp: {{ hosts: ['me:{INLINE}@127.0.0.1:9'] }}"),
        format!("amqp: {{ uri: amqp://h, password: {INLINE} }}"),
        hosts(&format!("password: [{INLINE}]")),
        hosts(&format!("password: {{ a: {INLINE} }}")),
        hosts(&format!("password: {INLINE}, password_file: {password_file}")),
        hosts(&format!("password: {INLINE}\n}}]")),
        hosts(&format!("password: *{INLINE}")),
        hosts(&format!("passwd: {INLINE}")),
        hosts(&format!("password: \"{INLINE}\\q\"")),
        format!("management: {{ url: 'http://me:{FOR_MANAGEMENT}@127.0.0.1:9' }}"),
        management(&format!("password: [{FOR_MANAGEMENT}]")),
        format!("bundle: {{ key_files: ['{}'] }}", hexadecimal(INLINE)),
        format!("bundle: {{ key_files: [{}] }}", file("no-key", IN_FILE)),
        // A key of TLS that does not go with its certificate, one in place of a certificate, and one in place of a path.
        tls(&shown(&other.cert), &shown(&client.key)),
        tls(&shown(&client.key), &shown(&client.key)),
        format!(
            "amqp: {{ uri: 'amqps://h', tls: {{ cert_file: c, key_file: \"-----BEGIN PRIVATE KEY-----\\n{INLINE}\" }} }}"
        ),
    ];
    let plain = hosts(&format!("password: {INLINE}"));
    let in_environment = [
        ("LEVERET_AMQP__URI", format!("amqp://me:{IN_ENVIRONMENT}@127.0.0.1:9/%2f")),
        ("LEVERET_AMQP__URI", format!("amqp://me:{IN_ENVIRONMENT}/@127.0.0.1:9/%2f")),
        ("LEVERET_AMQP__URI", format!("{{ a: {IN_ENVIRONMENT} }}")),
        ("LEVERET_AMQP__URI__0", format!("me:{IN_ENVIRONMENT}")),
        ("LEVERET_AMQP__PASSWORD", IN_ENVIRONMENT.to_owned()),
        ("LEVERET_AMQP__PASSWORD", format!("\"{IN_ENVIRONMENT}")),
        ("LEVERET_AMQP__PASSWORT", IN_ENVIRONMENT.to_owned()),
        ("LEVERET_MANAGEMENT__PASSWORD", IN_ENVIRONMENT.to_owned()),
        ("LEVERET_AMQP_URI", format!("amqp://me:{IN_ENVIRONMENT}@127.0.0.1:9")),
    ];
    let in_yaml = in_yaml.into_iter().map(|yaml| (yaml, Vec::new()));
    in_yaml.chain(in_environment.into_iter().map(|variable| (plain.clone(), vec![variable]))).collect()
}

fn tls(cert: &str, key: &str) -> String {
    format!("amqp: {{ uri: 'amqps://127.0.0.1:9', tls: {{ cert_file: {cert}, key_file: {key} }} }}")
}

fn hexadecimal(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Command lines with a URI where none belongs.
fn misuse(written: &mut Written) {
    let uri = format!("amqp://me:{INLINE}@127.0.0.1:9");
    let no_uri = format!("me:{INLINE}@127.0.0.1:9");
    let lines: [&[&str]; 8] = [
        &["run", &uri],
        &["run", "--amqp", &uri],
        &["run", &format!("--amqp={uri}")],
        &["validate", "--config", &uri],
        &["bench", "--amqp", &uri, "--messages", "1"],
        &["bench", "--amqp", &no_uri, "--messages", "1"],
        &["bench", "--scheme", &uri],
        &["publish", "--delay", &uri],
    ];
    for line in lines {
        written.add_command(&format!("{line:?}"), run(&[], line));
    }
    written.add_command("a URI as LEVERET_CONFIG", run(&[("LEVERET_CONFIG", &uri)], &["validate"]));
}

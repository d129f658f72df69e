//! The sidecar: the real binary in a process of its own.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use leveret::config;
use tempfile::TempDir;

use super::clock::{self, Clock};
use super::metrics::Metrics;
use super::{blocking, eventually, http, users};

const READY_LIMIT: Duration = Duration::from_secs(60);
const EXIT_LIMIT: Duration = Duration::from_secs(60);

/// How to start a sidecar: what to connect to, and what else to configure.
pub(crate) struct Setup {
    uri: Option<String>,
    yaml: Option<String>,
    environment: Vec<(String, String)>,
    impersonator: bool,
}

impl Setup {
    /// Against the virtual host at `uri`, with the defaults and no file; as a user with no more than the permissions
    /// that it needs, unless the URI names another than the broker's administrator.
    pub(crate) fn new(uri: &str) -> Self {
        Self { uri: Some(uri.to_owned()), ..Self::of_file() }
    }

    /// Against what its configuration file names.
    pub(crate) fn of_file() -> Self {
        Self { uri: None, yaml: None, environment: Vec::new(), impersonator: false }
    }

    /// With this configuration file. The URI and the admin listener come from the environment, which goes before it.
    pub(crate) fn config(mut self, yaml: &str) -> Self {
        self.yaml = Some(yaml.to_owned());
        self
    }

    /// As a user that may also send with any `user_id`.
    pub(crate) fn impersonator(mut self) -> Self {
        self.impersonator = true;
        self
    }

    /// With this environment variable.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this wall clock.
    pub(crate) fn clock(self, clock: &Clock) -> Self {
        clock.environment().iter().fold(self, |setup, (name, value)| setup.env(name, value))
    }

    /// Starts it and waits until it is ready.
    pub(crate) async fn start(self) -> Leveret {
        let mut leveret = self.spawn();
        leveret.wait_until_ready().await;
        leveret
    }

    /// Starts it and waits for nothing: for a start that must fail, or that waits for its broker.
    pub(crate) fn spawn(self) -> Leveret {
        let directory = tempfile::Builder::new().prefix("leveret-run-").tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_leveret"));
        command.arg("run");
        let config = self.yaml.as_ref().map(|yaml| {
            let config = directory.path().join("leveret.yaml");
            std::fs::write(&config, yaml).unwrap();
            command.arg("--config").arg(&config);
            config
        });
        let given = self.uri.iter().map(|uri| ("LEVERET_AMQP__URI".to_owned(), uri.clone()));
        let loaded = config::load(config.as_deref(), self.environment.iter().cloned().chain(given));
        let uri = self.uri.map(|uri| match loaded {
            Ok(loaded) => users::as_sidecar(&uri, &loaded, self.impersonator),
            // One that is not valid never connects.
            Err(_) => uri,
        });
        let log = File::create(directory.path().join("log")).unwrap();
        let admin_port = free_port();
        let child = command
            .envs(uri.map(|uri| ("LEVERET_AMQP__URI", uri)))
            .env("LEVERET_ADMIN__LISTEN", format!("127.0.0.1:{admin_port}"))
            .envs(self.environment)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Leveret { child, directory, admin_port }
    }
}

/// A running sidecar; killed when it is dropped, and its log printed if the test has failed.
pub(crate) struct Leveret {
    child: Child,
    directory: TempDir,
    admin_port: u16,
}

impl Leveret {
    /// A sidecar against the virtual host at `uri` with this configuration file, ready.
    pub(crate) async fn start(uri: &str, yaml: &str) -> Self {
        Setup::new(uri).config(yaml).start().await
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The port of its admin listener on 127.0.0.1.
    pub(crate) fn admin_port(&self) -> u16 {
        self.admin_port
    }

    /// Waits until `/readyz` says yes; panics where the process ends before that.
    pub(crate) async fn wait_until_ready(&mut self) {
        self.wait_until_ready_within(READY_LIMIT).await;
    }

    /// The same where that may take longer.
    pub(crate) async fn wait_until_ready_within(&mut self, limit: Duration) {
        eventually("the sidecar is ready", limit, async || {
            let ended = self.child.try_wait().unwrap();
            assert_eq!(ended, None, "the sidecar ended before it was ready");
            self.is_ready().then_some(())
        })
        .await;
    }

    /// Whether `/readyz` says yes now.
    pub(crate) fn is_ready(&self) -> bool {
        self.get("/readyz").is_some_and(|(status, _)| status == 200)
    }

    /// GET from the admin listener: status and body, or None where nobody listens.
    pub(crate) fn get(&self, path: &str) -> Option<(u16, String)> {
        http::get(&format!("http://127.0.0.1:{}{path}", self.admin_port)).ok()
    }

    /// Its metrics, now.
    pub(crate) fn metrics(&self) -> Metrics {
        let (status, text) = self.get("/metrics").expect("the admin listener does not answer");
        assert_eq!(status, 200);
        Metrics::parse(&text)
    }

    /// All that it logged so far.
    pub(crate) fn log(&self) -> String {
        let bytes = std::fs::read(self.directory.path().join("log")).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Asks it to stop in good order.
    pub(crate) fn sigterm(&self) {
        self.signal("TERM");
    }

    /// Kills it.
    pub(crate) fn sigkill(&self) {
        self.signal("KILL");
    }

    /// Freezes it.
    pub(crate) fn sigstop(&self) {
        self.signal("STOP");
    }

    /// Lets a frozen one go on.
    pub(crate) fn sigcont(&self) {
        self.signal("CONT");
    }

    /// Waits until it has ended with this exit code; panics when it does not. What it logged.
    pub(crate) async fn expect_exit(&mut self, code: i32) -> String {
        assert_eq!(self.wait().await.code(), Some(code));
        self.log()
    }

    /// Waits until it has ended; panics when it does not.
    pub(crate) async fn wait(&mut self) -> ExitStatus {
        eventually("the sidecar ends", EXIT_LIMIT, async || self.child.try_wait().unwrap()).await
    }

    fn signal(&self, name: &str) {
        // The shell's own `kill`: a minimal system has no other.
        let script = format!("kill -{name} {}", self.pid());
        let status = blocking(|| Command::new("sh").args(["-c", &script]).status()).unwrap();
        assert!(status.success(), "{script}: {status}");
    }
}

impl Drop for Leveret {
    fn drop(&mut self) {
        // Only a process that has ended already cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
        clock::sweep(self.pid());
        if std::thread::panicking() {
            eprintln!("---- log of sidecar {} ----\n{}", self.pid(), self.log());
        }
    }
}

/// A port that nobody has, below the range from which the kernel takes ports for outgoing connections; claimed as
/// `scripts/broker-node` claims its own.
pub(super) fn free_port() -> u16 {
    let user = std::fs::metadata("/proc/self").unwrap().uid();
    let claims = std::env::temp_dir().join(format!("leveret-ports-{user}"));
    std::fs::create_dir_all(&claims).unwrap();
    std::iter::repeat_with(|| fastrand::u16(20_000..32_000))
        .filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .find(|port| std::fs::create_dir(claims.join(port.to_string())).is_ok())
        .unwrap()
}

//! Runs each test once for each selected broker, under the broker's real version: `delays::short::rabbitmq-4.3`.
//!
//! Only what can run is listed. No broker is a failure, never a silent pass.

use std::pin::Pin;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use super::broker::{Address, Broker, major_and_minor};
use super::node::Installation;
use super::settings::{self, Brokers};

/// A wait in a test ends before this; this is for the wait that nobody thought of.
const TEST_LIMIT: Duration = Duration::from_secs(300);
/// Tests mostly wait, but each may have a broker and several sidecars to itself.
const THREADS: usize = 3;

/// A test that runs on every broker.
pub(crate) struct Case {
    /// Its module and function.
    pub(crate) name: &'static str,
    /// Whether it stops, kills or alarms the broker, which it can do to none but its own.
    pub(crate) own_node: bool,
    /// Starts it.
    pub(crate) run: fn(&'static Broker) -> Pin<Box<dyn Future<Output = ()>>>,
}

/// The tests of a module. One that is not listed is dead code, so the compiler finds it.
///
/// `shared` tests use the broker that all share; `own_node` tests take a [`Broker::dedicated`] one.
macro_rules! cases {
    (shared: $($shared:ident),* $(; own_node: $($own:ident),*)?) => {
        &[
            $($crate::harness::runner::cases!(@one $shared, false),)*
            $($($crate::harness::runner::cases!(@one $own, true),)*)?
        ]
    };
    (@one $test:ident, $own_node:literal) => {
        $crate::harness::runner::Case {
            name: concat!(module_path!(), "::", stringify!($test)),
            own_node: $own_node,
            run: |broker| Box::pin($test(broker)),
        }
    };
}
pub(crate) use cases;

/// Runs what the command line selects, as the standard test harness would.
pub(crate) fn run(modules: &[&'static [Case]]) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let subjects = match settings::brokers().and_then(subjects) {
        Ok(subjects) => subjects,
        Err(error) => {
            eprintln!(
                "no broker to test on: {error}\n\nrun scripts/setup-broker, or see tests/it/harness/settings.rs"
            );
            return ExitCode::FAILURE;
        }
    };
    let cases = || modules.iter().copied().flatten();
    let trials = subjects.iter().flat_map(|subject| cases().map(|case| subject.trial(case))).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    for subject in subjects {
        subject.stop();
    }
    conclusion.exit_code()
}

fn subjects(brokers: Brokers) -> Result<Vec<&'static Subject>, String> {
    let leak = |label, source| &*Box::leak(Box::new(Subject { label, source, shared: OnceLock::new() }));
    match brokers {
        Brokers::Private(installations) => installations
            .into_iter()
            .map(|installation| Ok(leak(label(&installation.version()?)?, Source::Private(installation))))
            .collect(),
        Brokers::External { amqp, management_url } => {
            let broker = Broker::external(amqp.clone(), &management_url)?;
            let (major, minor) = broker.version();
            let source = Source::External { amqp, management_url };
            Ok(vec![leak(format!("external-rabbitmq-{major}.{minor}"), source)])
        }
    }
}

fn label(version: &str) -> Result<String, String> {
    let (major, minor) = major_and_minor(version)?;
    Ok(format!("rabbitmq-{major}.{minor}"))
}

/// A broker to run every test on; started by the first test that needs it.
struct Subject {
    label: String,
    source: Source,
    shared: OnceLock<Result<Broker, String>>,
}

enum Source {
    Private(Installation),
    External { amqp: Address, management_url: String },
}

impl Subject {
    fn trial(&'static self, case: &'static Case) -> Trial {
        let name = case.name.strip_prefix("it::").unwrap_or(case.name);
        let trial = Trial::test(format!("{name}::{}", self.label), || self.run(case));
        if self.can_run(case) {
            trial
        } else {
            trial.with_kind("not applicable to an external broker").with_ignored_flag(true)
        }
    }

    fn can_run(&self, case: &Case) -> bool {
        !case.own_node || matches!(self.source, Source::Private(_))
    }

    fn run(&'static self, case: &Case) -> Result<(), Failed> {
        if !self.can_run(case) {
            return Err(
                "it stops or alarms the broker, which it may not do to one that is not its own".into()
            );
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| Failed::from(format!("cannot start a runtime: {error}")))?;
        runtime.block_on(async {
            let broker = self.broker()?;
            let mut test = (case.run)(broker);
            let in_time = tokio::time::timeout(TEST_LIMIT, &mut test).await.is_ok();
            // The test is still there, so that what it holds sees the panic and prints its logs.
            assert!(in_time, "not finished after {TEST_LIMIT:?}");
            Ok(())
        })
    }

    fn broker(&'static self) -> Result<&'static Broker, &'static String> {
        self.shared
            .get_or_init(|| match &self.source {
                Source::Private(installation) => Broker::start(*installation, ""),
                Source::External { amqp, management_url } => Broker::external(amqp.clone(), management_url),
            })
            .as_ref()
    }

    /// Nothing drops a static, so what was started is stopped here.
    fn stop(&self) {
        if let (Source::Private(_), Some(Ok(broker))) = (&self.source, self.shared.get()) {
            broker.dispose();
        }
    }
}

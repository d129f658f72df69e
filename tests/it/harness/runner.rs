//! Runs each test once for each selected broker, under the broker's real version: `delays::short::rabbitmq-4.3`.
//!
//! Only what can run is listed. No broker is a failure, never a silent pass.

use std::pin::Pin;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use super::broker::{Address, Broker, major_and_minor};
use super::node::{Extra, Installation};
use super::settings::{self, Brokers};

/// All tests of a target, and how they are run.
pub(crate) struct Suite {
    /// Tests that need a broker.
    pub(crate) modules: Vec<&'static [Case]>,
    /// Tests that need none.
    pub(crate) units: Vec<Trial>,
    /// How many tests run at a time, unless the command line says it.
    pub(crate) threads: usize,
    /// A wait in a test ends before this; this is for the wait that nobody thought of.
    pub(crate) limit: Duration,
}

/// A test that runs on every broker that it can run on.
pub(crate) struct Case {
    /// Its module and function.
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    /// Starts it.
    pub(crate) run: fn(&'static Broker) -> Pin<Box<dyn Future<Output = ()>>>,
}

/// What a test must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// A broker, which it may share.
    Broker,
    /// A node of its own: it stops, kills or alarms it.
    OwnNode,
    /// Several, which form a cluster.
    Cluster,
}

/// The tests of a module. One that is not listed is dead code, so the compiler finds it.
///
/// `shared` tests use the broker that all share; `own_node` tests take a [`Broker::dedicated`] one, and `cluster` tests
/// put a [`super::cluster::Cluster`] around it.
macro_rules! cases {
    (shared: $($shared:ident),* $(; own_node: $($own:ident),*)? $(; cluster: $($cluster:ident),*)?) => {
        &[
            $($crate::harness::runner::cases!(@one $shared, Broker),)*
            $($($crate::harness::runner::cases!(@one $own, OwnNode),)*)?
            $($($crate::harness::runner::cases!(@one $cluster, Cluster),)*)?
        ]
    };
    (@one $test:ident, $needs:ident) => {
        $crate::harness::runner::Case {
            name: concat!(module_path!(), "::", stringify!($test)),
            needs: $crate::harness::runner::Needs::$needs,
            run: |broker| Box::pin($test(broker)),
        }
    };
}
pub(crate) use cases;

impl Suite {
    /// Runs what the command line selects, as the standard test harness would.
    pub(crate) fn run(self) -> ExitCode {
        let Self { modules, units: mut trials, threads, limit } = self;
        let mut arguments = Arguments::from_args();
        arguments.test_threads.get_or_insert(threads);
        let subjects = match settings::brokers().and_then(subjects) {
            Ok(subjects) => subjects,
            Err(error) => {
                eprintln!(
                    "no broker to test on: {error}\n\nrun scripts/setup-broker, or see tests/it/harness/settings.rs"
                );
                return ExitCode::FAILURE;
            }
        };
        for subject in &subjects {
            trials.extend(modules.iter().copied().flatten().filter_map(|case| subject.trial(case, limit)));
        }
        let conclusion = libtest_mimic::run(&arguments, trials);
        for subject in subjects {
            subject.stop();
        }
        conclusion.exit_code()
    }
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
    fn trial(&'static self, case: &'static Case, limit: Duration) -> Option<Trial> {
        // Whoever has a cluster should have left the 3 series: its metadata (Mnesia) is not made for crashes.
        if case.needs == Needs::Cluster && matches!(self.source, Source::Private(Installation::Installed)) {
            return None;
        }
        let name = case.name.split_once("::").map_or(case.name, |(_target, name)| name);
        let trial = Trial::test(format!("{name}::{}", self.label), move || self.run(case, limit));
        Some(if self.can_run(case) {
            trial
        } else {
            trial.with_kind("not applicable to an external broker").with_ignored_flag(true)
        })
    }

    fn can_run(&self, case: &Case) -> bool {
        case.needs == Needs::Broker || matches!(self.source, Source::Private(_))
    }

    fn run(&'static self, case: &Case, limit: Duration) -> Result<(), Failed> {
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
            let in_time = tokio::time::timeout(limit, &mut test).await.is_ok();
            // The test is still there, so that what it holds sees the panic and prints its logs.
            assert!(in_time, "not finished after {limit:?}");
            Ok(())
        })
    }

    fn broker(&'static self) -> Result<&'static Broker, &'static String> {
        self.shared
            .get_or_init(|| match &self.source {
                Source::Private(installation) => Broker::start(*installation, &Extra::default()),
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

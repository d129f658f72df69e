//! What breaks and when: made from a seed and nothing else, so that a run can be repeated.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;

use crate::harness::broker::Alarm;

/// Something that breaks. Replicas and nodes are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Replica(usize, ReplicaFault),
    Broker(BrokerFault),
    /// Of the fragile bridge.
    Target(TargetFault),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplicaFault {
    /// With SIGKILL.
    Killed,
    /// With SIGSTOP.
    Frozen,
    /// Its connections are closed, and new ones refused.
    CutOff,
    /// Its connections stay open and pass nothing.
    Stalled,
    /// What the broker sends to it is lost.
    Deaf,
    /// What it sends is lost.
    Mute,
    /// Its connections pass much less than there is to pass.
    Narrow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BrokerFault {
    /// With SIGKILL.
    NodeKilled(usize),
    /// The node that leads a queue, with SIGKILL.
    LeaderKilled(Led),
    /// A node is parted from the others. Clients reach all of them.
    NodeCutOff(usize),
    /// One node after the other, in good order.
    Restarted,
    /// With SIGKILL.
    AllKilled,
    Alarm(Alarm),
}

/// A queue of Leveret's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Led {
    Due,
    /// The level through which nearly everything passes.
    Level,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetFault {
    /// Nobody consumes its queue, which is soon full and then rejects.
    Full,
    /// Its exchange is deleted.
    Deleted,
}

/// A fault, since when, and for how long; what recovers by itself takes longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) at: Duration,
    pub(crate) fault: Fault,
    pub(crate) lasts: Duration,
}

/// What is there to break.
#[derive(Debug, Clone, Copy)]
pub(crate) struct World {
    pub(crate) replicas: usize,
    /// None, where the broker is somebody else's.
    pub(crate) nodes: usize,
}

/// How much breaks in which time.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    /// Of the whole run.
    pub(crate) length: Duration,
    /// Milliseconds from the end of a fault to the next.
    pub(crate) pause_ms: Range<u64>,
    /// Milliseconds that a fault lasts.
    pub(crate) lasts_ms: Range<u64>,
}

/// Time in which nothing has broken yet.
const FIRST: Duration = Duration::from_secs(3);
/// Of so many faults, one strikes while the one before lasts.
const TOGETHER: u8 = 4;

/// The faults of a run, in the order of their times. Every kind comes once before any comes again.
pub(crate) fn schedule(seed: u64, world: World, pace: &Pace) -> Vec<Step> {
    let mut rng = Rng::with_seed(seed);
    let ms = |rng: &mut Rng, range: &Range<u64>| Duration::from_millis(rng.u64(range.clone()));
    let (mut steps, mut round, mut at) = (Vec::new(), Vec::new(), FIRST);
    loop {
        let fault = round.pop().unwrap_or_else(|| {
            round = one_of_each(&mut rng, world);
            round.pop().expect("something can always break")
        });
        let lasts = ms(&mut rng, &pace.lasts_ms);
        if at + lasts > pace.length {
            return steps;
        }
        steps.push(Step { at, fault, lasts });
        let together = rng.u8(0..TOGETHER) == 0;
        at += if together { lasts.mul_f64(rng.f64()) } else { lasts + ms(&mut rng, &pace.pause_ms) };
    }
}

fn one_of_each(rng: &mut Rng, world: World) -> Vec<Fault> {
    let World { replicas, nodes } = world;
    let of_replicas = [
        ReplicaFault::Killed,
        ReplicaFault::Frozen,
        ReplicaFault::CutOff,
        ReplicaFault::Stalled,
        ReplicaFault::Deaf,
        ReplicaFault::Mute,
        ReplicaFault::Narrow,
    ]
    .map(|fault| Fault::Replica(rng.usize(0..replicas), fault));
    let of_targets = [TargetFault::Full, TargetFault::Deleted].map(Fault::Target);
    let mut faults = [of_replicas.as_slice(), &of_targets].concat();
    let mut of_broker = Vec::new();
    if nodes > 0 {
        of_broker.extend([Alarm::Memory, Alarm::Disk].map(BrokerFault::Alarm));
        of_broker.extend([BrokerFault::NodeKilled(rng.usize(0..nodes)), BrokerFault::Restarted]);
    }
    if nodes > 1 {
        of_broker.extend([Led::Due, Led::Level].map(BrokerFault::LeaderKilled));
        of_broker.extend([BrokerFault::NodeCutOff(rng.usize(0..nodes)), BrokerFault::AllKilled]);
    }
    faults.extend(of_broker.into_iter().map(Fault::Broker));
    rng.shuffle(&mut faults);
    faults
}

impl Fault {
    /// Its name, whichever replica or node it is that breaks.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Replica(_, ReplicaFault::Killed) => "replica killed",
            Self::Replica(_, ReplicaFault::Frozen) => "replica frozen",
            Self::Replica(_, ReplicaFault::CutOff) => "replica cut off",
            Self::Replica(_, ReplicaFault::Stalled) => "network of a replica stalled",
            Self::Replica(_, ReplicaFault::Deaf) => "replica deaf",
            Self::Replica(_, ReplicaFault::Mute) => "replica mute",
            Self::Replica(_, ReplicaFault::Narrow) => "network of a replica narrow",
            Self::Broker(BrokerFault::NodeKilled(_)) => "node killed",
            Self::Broker(BrokerFault::LeaderKilled(Led::Due)) => "leader of the due queue killed",
            Self::Broker(BrokerFault::LeaderKilled(Led::Level)) => "leader of a level killed",
            Self::Broker(BrokerFault::NodeCutOff(_)) => "node cut off",
            Self::Broker(BrokerFault::Restarted) => "nodes restarted",
            Self::Broker(BrokerFault::AllKilled) => "all nodes killed",
            Self::Broker(BrokerFault::Alarm(Alarm::Memory)) => "memory alarm",
            Self::Broker(BrokerFault::Alarm(Alarm::Disk)) => "disk alarm",
            Self::Target(TargetFault::Full) => "target full",
            Self::Target(TargetFault::Deleted) => "target deleted",
        }
    }

    /// Whether acknowledgements can be lost by it, so that what they were for comes again.
    pub(crate) fn may_double(self) -> bool {
        match self {
            Self::Replica(..) => true,
            Self::Broker(fault) => !matches!(fault, BrokerFault::Alarm(_)),
            Self::Target(_) => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match self {
            Self::Replica(number, _)
            | Self::Broker(BrokerFault::NodeKilled(number) | BrokerFault::NodeCutOff(number)) => {
                write!(f, " (number {})", number + 1)
            }
            _ => Ok(()),
        }
    }
}

pub(crate) mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::settings::Settings;

    const CLUSTER: World = World { replicas: 3, nodes: 3 };
    const KINDS: usize = 17;

    fn pace(minutes: u64) -> Pace {
        Pace { length: Duration::from_secs(60 * minutes), pause_ms: 5_000..30_000, lasts_ms: 1_000..40_000 }
    }

    fn kinds(world: World) -> BTreeSet<&'static str> {
        schedule(7, world, &pace(60)).iter().map(|step| step.fault.kind()).collect()
    }

    pub(crate) fn a_seed_decides_everything() {
        let schedule = |seed| schedule(seed, CLUSTER, &pace(60));
        for seed in 0..20 {
            assert_eq!(schedule(seed), schedule(seed));
            assert_ne!(schedule(seed), schedule(seed + 1));
        }
    }

    pub(crate) fn faults_are_in_order_and_within_the_run() {
        for seed in 0..200 {
            let steps = schedule(seed, CLUSTER, &pace(10));
            assert!(steps.is_sorted_by_key(|step| step.at));
            assert!(steps.iter().all(|step| step.at >= FIRST && step.at + step.lasts <= pace(10).length));
            assert!(steps.len() > 10, "only {} in ten minutes", steps.len());
        }
    }

    pub(crate) fn every_kind_comes_before_any_comes_again() {
        for seed in 0..200 {
            let steps = schedule(seed, CLUSTER, &pace(60));
            let first: BTreeSet<_> = steps.iter().take(KINDS).map(|step| step.fault.kind()).collect();
            assert_eq!(first.len(), KINDS);
        }
    }

    pub(crate) fn only_what_is_there_breaks() {
        assert_eq!(kinds(CLUSTER).len(), KINDS);
        assert_eq!(kinds(World { nodes: 1, ..CLUSTER }).len(), 13);
        let elsewhere = kinds(World { nodes: 0, ..CLUSTER });
        assert_eq!(elsewhere.len(), 9);
        assert!(!elsewhere.contains("node killed"));
        for step in schedule(7, CLUSTER, &pace(60)) {
            if let Fault::Replica(number, _)
            | Fault::Broker(BrokerFault::NodeKilled(number) | BrokerFault::NodeCutOff(number)) = step.fault
            {
                assert!(number < 3);
            }
        }
    }

    pub(crate) fn the_short_run_has_every_kind() {
        let Settings { seed, pace, .. } = Settings::short();
        for (nodes, expected) in [(1, 13), (3, KINDS)] {
            let steps = schedule(seed, World { nodes, ..CLUSTER }, &pace);
            let kinds: BTreeSet<_> = steps.iter().map(|step| step.fault.kind()).collect();
            assert_eq!(kinds.len(), expected, "{steps:#?}");
        }
    }

    pub(crate) fn some_faults_strike_together() {
        let steps = schedule(7, CLUSTER, &pace(60));
        let together = steps.windows(2).filter(|pair| pair[1].at < pair[0].at + pair[0].lasts).count();
        assert!(together > 0 && together < steps.len() / 2, "{together} of {}", steps.len());
    }
}

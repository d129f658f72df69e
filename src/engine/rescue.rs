//! The way out where a message in an ingress queue cannot be read: without it, that message would end one session after
//! another, and nothing else would be delivered.

use tracing::error;

use super::parking;
use super::{Shared, wall_clock};
use crate::amqp::sieve::Sieve;
use crate::amqp::topology::Names;
use crate::amqp::wire::WireError;
use crate::domain::park::Reason;

/// Messages of one queue that are looked at, at least: what cannot be read may stand behind what other replicas had.
const LEAST_LOOKED_AT: usize = 2_000;

/// Parks every unreadable message that is found in the ingress queues. Whether there was one.
pub(super) async fn run(shared: &Shared) -> bool {
    let mut parked = 0;
    let why = match look(shared, &mut parked).await {
        Ok(()) if parked > 0 => return true,
        Ok(()) => "no such message was found in an ingress queue".to_owned(),
        Err(error) => error.to_string(),
    };
    error!(
        parked,
        why,
        "cannot park what cannot be read; if this goes on, take the message out: see Limits in the README"
    );
    false
}

async fn look(shared: &Shared, parked: &mut u64) -> Result<(), WireError> {
    let names = Names::new(&shared.config.namespace);
    let prefetch = usize::from(shared.config.intake.prefetch);
    let mut sieve = Sieve::open(&shared.config.amqp).await?;
    for bridge in &shared.config.bridges {
        let bridge = bridge.name.as_str();
        let queue = names.ingress(bridge);
        let mut most = prefetch.max(LEAST_LOOKED_AT);
        while let Some(message) = sieve.next(&queue, &mut most).await? {
            let frame_max = sieve.frame_max();
            let outgoing =
                parking::park_unreadable_message(&message, bridge, &names.parked(), wall_clock(), frame_max);
            sieve.replace(&message, &outgoing).await?;
            shared.metrics.bridge(bridge).parked(Reason::UnreadableMessage, &message.fault);
            *parked += 1;
        }
    }
    sieve.end().await
}

//! What is done with the fate of a publish: settle, try again, or park.

use std::time::Duration;

use tracing::{error, warn};

use super::clock::Now;
use super::dispatch::{Fate, Finished, Job, Lane};
use super::flow::{Flow, Held, Part, Token, retry_level};
use super::parking::Cause;
use super::receipt::Receipt;
use super::session::SessionError;
use crate::amqp::failure::Failure;
use crate::config::Unroutable;
use crate::domain::packer::{Destination, Packed};
use crate::domain::park::Reason;
use crate::telemetry::metrics::Published;

/// Pauses before a refused delivery is tried again from memory; after that, it waits in a level.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(300)];

/// Pause before a bundle, or a message for the parked queue, that the broker refuses for now is tried again.
const OWN_PAUSE: Duration = Duration::from_millis(500);

/// How long a level that does not confirm is not used.
const AVOIDED: Duration = Duration::from_secs(60);

impl Flow {
    pub(super) fn finished(&mut self, finished: Finished<Token>) -> Result<(), SessionError> {
        let published = match finished.lane {
            Lane::Bundles(_) => Published::Bundle,
            Lane::Parked => Published::Parked,
            Lane::Target { .. } | Lane::Suspect(_) => Published::Delivery,
        };
        self.setting.metrics.confirmed(published, finished.elapsed);
        let now = self.now();
        for (job, fate) in finished.fates {
            match job.token {
                Token::Bundle(_) => self.bundle_fate(finished.lane.clone(), job, fate, now)?,
                Token::Parked { .. } => self.parked_fate(finished.lane.clone(), job, fate, now)?,
                Token::Delivery { part, user } => {
                    let bridge = part.message.bridge.clone();
                    self.delivery_fate(part, user, &job.outgoing.exchange, fate, now);
                    if !finished.detached {
                        self.delivery_over(&bridge, now);
                    }
                }
            }
        }
        // What its lane does not wait for, its bridge does not either. Where one of these is published once more, it is
        // under way beside the turns.
        if let Lane::Target { bridge, .. } = &finished.lane {
            (0..finished.parted).for_each(|_| self.delivery_over(bridge, now));
        }
        Ok(())
    }

    fn bundle_fate(&mut self, lane: Lane, job: Job<Token>, fate: Fate, now: Now) -> Result<(), SessionError> {
        let Job { outgoing, token: Token::Bundle(packed), .. } = job else { return Ok(()) };
        match fate {
            Fate::Confirmed => {
                self.entered(&packed, outgoing.body.len());
                packed.tokens.into_iter().for_each(Receipt::settle);
            }
            Fate::Nacked => {
                let job = Job::new(outgoing, Token::Bundle(packed));
                self.hold.push(now.mono + OWN_PAUSE, Held::Again(Box::new((lane, job))));
            }
            // Something about a message, most likely its size: each alone tells which.
            Fate::Refused(Failure::Channel { code: 406, .. }) if packed.messages.len() > 1 => {
                for (message, token) in packed.messages.into_iter().zip(packed.tokens) {
                    let one = Packed {
                        destination: packed.destination,
                        messages: vec![message],
                        tokens: vec![token],
                    };
                    self.send(one, Job::solo, now);
                }
            }
            Fate::Refused(failure @ Failure::Channel { code: 406, .. }) => {
                for (message, receipt) in packed.messages.into_iter().zip(packed.tokens) {
                    let detail =
                        format!("it cannot be delayed, since the broker refuses its bundle: {failure}");
                    self.park(
                        &message,
                        receipt,
                        Cause { reason: Reason::Refused, detail, target: None },
                        now,
                    );
                }
            }
            Fate::Returned(answer) => return Err(lost_queue(&outgoing.routing_key, &answer)),
            Fate::Refused(failure) => return Err(lost_queue(&outgoing.exchange, &failure.to_string())),
            Fate::Unconfirmed => match packed.destination {
                Destination::Level(level) if level > 0 => self.avoid(level, packed, now),
                _ => return Err(silent(&outgoing.routing_key)),
            },
        }
        Ok(())
    }

    /// A level does not confirm: what was meant for it takes shorter ones, and may come twice if it has arrived.
    fn avoid(&mut self, level: usize, packed: Packed<Receipt>, now: Now) {
        if let Some(level) = self.setting.ladder.levels().get(level) {
            warn!(
                level = level.label,
                "a level does not confirm what it is sent: using shorter ones for a minute"
            );
        }
        self.silent.insert(level, now.mono + AVOIDED);
        for (message, receipt) in packed.messages.into_iter().zip(packed.tokens) {
            let left = message.due.saturating_since(now.wall);
            self.place(Part { message, receipt, from_ingress: true, attempts: 0 }, left, now);
        }
    }

    fn entered(&self, packed: &Packed<Receipt>, bytes: usize) {
        let level = match packed.destination {
            Destination::Level(index) => self.levels.get(index),
            Destination::Due => Some(&self.straight),
        };
        if let Some(level) = level {
            level.entered(packed.messages.len(), bytes);
        }
    }

    fn parked_fate(&mut self, lane: Lane, job: Job<Token>, fate: Fate, now: Now) -> Result<(), SessionError> {
        let Job { outgoing, token: Token::Parked { receipt, bridge, cause }, .. } = job else {
            return Ok(());
        };
        let count = |cause: &Cause| {
            // Whatever came as an unreadable bundle is counted already.
            if cause.reason != Reason::UnreadableBundle {
                self.setting.metrics.bridge(&bridge).parked(cause.reason, &cause.detail);
            }
        };
        match fate {
            Fate::Confirmed => {
                count(&cause);
                receipt.settle();
            }
            Fate::Nacked => {
                let job = Job::new(outgoing, Token::Parked { receipt, bridge, cause });
                self.hold.push(now.mono + OWN_PAUSE, Held::Again(Box::new((lane, job))));
            }
            Fate::Refused(failure @ Failure::Channel { code: 406, .. }) => {
                // Dead-lettering knows no such limit, and what stayed unsettled would take its queue's memory for ever.
                count(&cause);
                error!(
                    bridge,
                    reason = %cause.reason,
                    error = %failure,
                    "the broker refuses a message for the parked queue: letting the broker itself move there what \
                     brought it, which is a whole bundle where it waited; raise the limit that the error names, then retry"
                );
                receipt.reject();
            }
            Fate::Returned(answer) => return Err(lost_queue(&outgoing.exchange, &answer)),
            Fate::Refused(failure) => return Err(lost_queue(&outgoing.exchange, &failure.to_string())),
            Fate::Unconfirmed => return Err(silent(&outgoing.exchange)),
        }
        Ok(())
    }

    fn delivery_fate(&mut self, part: Part, user: Option<String>, exchange: &str, fate: Fate, now: Now) {
        if let Some(user) = &user
            && matches!(fate, Fate::Confirmed | Fate::Returned(_) | Fate::Nacked)
        {
            self.users.accepted(user);
        }
        let park = |reason, detail| Cause { reason, detail, target: Some(exchange.to_owned()) };
        match fate {
            Fate::Confirmed => self.delivered(part, now),
            Fate::Returned(answer) => {
                let name = part.message.bridge.as_str();
                let unroutable = self.setting.bridges.get(name).map(|bridge| bridge.unroutable);
                if unroutable == Some(Unroutable::Drop) {
                    self.setting.metrics.bridge(name).dropped(&part.message.id.to_string());
                    part.receipt.settle();
                } else {
                    let key = &part.message.routing_key;
                    let detail =
                        format!("exchange \"{exchange}\" routes key \"{key}\" to no queue: {answer}");
                    self.park_part(part, park(Reason::Unroutable, detail), now);
                }
            }
            Fate::Refused(failure) => {
                if user.is_some_and(|user| self.users.refused(&user, &failure)) {
                    return self.deliver(part, now);
                }
                let reason = match failure {
                    Failure::Channel { code: 404, .. } => Reason::ExchangeMissing,
                    Failure::Channel { code: 403, .. } => Reason::AccessRefused,
                    _ => Reason::Refused,
                };
                let detail = format!("publishing to exchange \"{exchange}\": {failure}");
                self.park_part(part, park(reason, detail), now);
            }
            Fate::Nacked => {
                self.try_again(part, exchange, "a queue of the target refuses it (is it full?)", now)
            }
            Fate::Unconfirmed => self.try_again(part, exchange, "the target does not confirm it", now),
        }
    }

    fn delivered(&self, part: Part, now: Now) {
        let lateness = now.wall.saturating_since(part.message.due);
        self.setting.metrics.bridge(part.message.bridge.as_str()).delivered(lateness, part.message.hops);
        part.receipt.settle();
    }

    /// Gives back to a level what its target does not take at the moment.
    pub(super) fn give_back(&mut self, job: Job<Token>, now: Now) {
        let Job { outgoing, token: Token::Delivery { part, .. }, .. } = job else { return };
        self.try_again(part, &outgoing.exchange, "the target does not confirm", now);
    }

    /// Tries again: soon from memory, then from a level, and no longer than `give_up_after`.
    fn try_again(&mut self, mut part: Part, exchange: &str, what: &str, now: Now) {
        let message = &mut part.message;
        // A moment that is still to come, by a clock that was set back or a forged bundle, would allow tries for ever.
        let since = message.refused_since.map_or(now.wall, |since| since.min(now.wall));
        message.refused_since = Some(since);
        let refused_for = now.wall.saturating_since(since);
        self.setting.metrics.bridge(message.bridge.as_str()).retried(&message.id.to_string());
        if refused_for >= self.setting.delivery.give_up_after {
            let detail = format!(
                "exchange \"{exchange}\", routing key \"{}\": {what}, for {} s now",
                message.routing_key,
                refused_for.as_secs()
            );
            let cause = Cause { reason: Reason::TargetFull, detail, target: Some(exchange.to_owned()) };
            return self.park_part(part, cause, now);
        }
        let fresh = refused_for < Duration::from_secs(1) && !part.from_ingress;
        let pause = PAUSES.get(part.attempts as usize).filter(|_| fresh);
        part.attempts = part.attempts.saturating_add(1);
        match pause {
            Some(pause) => self.hold(part, *pause, now),
            None => {
                let level = retry_level(&self.setting.ladder, since, now.wall);
                self.pack(level, part, Duration::ZERO, now);
            }
        }
    }
}

fn lost_queue(name: &str, answer: &str) -> SessionError {
    SessionError::Topology(format!("\"{name}\" does not take what Leveret sends: {answer}"))
}

fn silent(name: &str) -> SessionError {
    SessionError::Lost(format!("the broker does not confirm what is sent to \"{name}\""))
}

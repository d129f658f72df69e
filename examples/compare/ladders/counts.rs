//! What is counted in a simulation, and the figures that it comes to.

use std::time::Duration;

/// What went to one kind of destination.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sent {
    pub(crate) bundles: u64,
    /// Messages in them.
    pub(crate) messages: u64,
    /// Bytes of envelope and bundle.
    pub(crate) bytes: u64,
}

/// What happened while it was counted.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) levels: Sent,
    /// Straight to the due queue.
    pub(crate) straight: Sent,
    pub(crate) delivered: u64,
    /// Hops of all that was delivered.
    pub(crate) hops: u64,
    /// Bytes of the bodies that were delivered.
    pub(crate) body_bytes: u64,
    /// Bytes of their properties, as published.
    pub(crate) property_bytes: u64,
    /// Delivered before the moment that was asked for.
    pub(crate) early: u64,
    /// The longest after it.
    pub(crate) latest: Duration,
    /// The most messages that were held or in open bundles.
    pub(crate) most_in_memory: usize,
    /// The most deliveries of the due queue that were not settled.
    pub(crate) most_unsettled: usize,
}

impl Counts {
    pub(crate) fn level_bundles_a_message(&self) -> f64 {
        ratio(self.levels.bundles, self.delivered)
    }

    pub(crate) fn straight_bundles_a_message(&self) -> f64 {
        ratio(self.straight.bundles, self.delivered)
    }

    pub(crate) fn bundles_a_message(&self) -> f64 {
        ratio(self.levels.bundles + self.straight.bundles, self.delivered)
    }

    pub(crate) fn messages_a_bundle(&self) -> f64 {
        ratio(self.levels.messages + self.straight.messages, self.levels.bundles + self.straight.bundles)
    }

    pub(crate) fn hops_a_message(&self) -> f64 {
        ratio(self.hops, self.delivered)
    }

    /// What the broker takes in, where delivery adds `annotation` bytes to a message.
    pub(crate) fn written(&self, annotation: usize) -> Written {
        let published = self.body_bytes + self.property_bytes;
        let a_byte = |bytes| ratio(bytes, self.body_bytes);
        Written {
            ingress: a_byte(published),
            levels: a_byte(self.levels.bytes),
            // Each bundle again when it is dead-lettered.
            due: a_byte(self.levels.bytes + self.straight.bytes),
            target: a_byte(published + self.delivered * annotation as u64),
        }
    }
}

/// Bytes that each queue takes in, for each byte of a body.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Written {
    pub(crate) ingress: f64,
    pub(crate) levels: f64,
    pub(crate) due: f64,
    pub(crate) target: f64,
}

impl Written {
    /// What passes in bundles.
    pub(crate) fn bundled(&self) -> f64 {
        self.levels + self.due
    }

    pub(crate) fn all(&self) -> f64 {
        self.ingress + self.bundled() + self.target
    }
}

/// Nothing where nothing is counted.
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_for_each_message_and_each_byte_of_its_body() {
        let counts = Counts {
            levels: Sent { bundles: 6, messages: 30, bytes: 6_000 },
            straight: Sent { bundles: 2, messages: 2, bytes: 500 },
            delivered: 10,
            hops: 30,
            body_bytes: 1_000,
            property_bytes: 200,
            ..Counts::default()
        };
        assert_eq!((counts.level_bundles_a_message(), counts.straight_bundles_a_message()), (0.6, 0.2));
        assert_eq!((counts.bundles_a_message(), counts.messages_a_bundle()), (0.8, 4.0));
        assert_eq!(counts.hops_a_message(), 3.0);
        let written = counts.written(40);
        assert_eq!(written, Written { ingress: 1.2, levels: 6.0, due: 6.5, target: 1.6 });
        assert_eq!(written.bundled(), 12.5);
        assert!((written.all() - 15.3).abs() < 1e-9);
        assert_eq!(Counts::default().bundles_a_message(), 0.0);
    }
}

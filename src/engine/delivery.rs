//! The way out of the flow: a message whose moment has come, on its turn, dressed and handed to the dispatcher. What
//! becomes of it there is the business of [`super::fate`].

use super::clock::Now;
use super::dispatch::Job;
use super::dress::dress;
use super::flow::{Flow, Part, Token};
use super::parking::Cause;
use crate::domain::message::Text;
use crate::domain::park::Reason;

impl Flow {
    /// Delivers a message, when it is its turn.
    pub(super) fn deliver(&mut self, part: Part, now: Now) {
        let next = self.turns.admit(part);
        self.deliver_all(next, now);
    }

    /// A delivery of that bridge is no longer under way.
    pub(super) fn delivery_over(&mut self, bridge: &Text, now: Now) {
        let next = self.turns.over(bridge);
        self.deliver_all(next, now);
    }

    /// Delivers a message, and those whose turn it becomes because it turns out that it cannot be.
    fn deliver_all(&mut self, mut next: Option<Part>, now: Now) {
        while let Some(part) = next {
            let bridge = part.message.bridge.clone();
            next = if self.dispatch(part, now) { None } else { self.turns.over(&bridge) };
        }
    }

    /// Hands a delivery to the dispatcher; whether it is under way.
    fn dispatch(&mut self, part: Part, now: Now) -> bool {
        let name = part.message.bridge.as_str();
        let Some(bridge) = self.setting.bridges.get(name) else {
            let detail = format!("no bridge \"{name}\" is configured");
            let cause = Cause { reason: Reason::UnknownBridge, detail, target: None };
            self.park_part(part, cause, now);
            return false;
        };
        let outgoing =
            match dress(&part.message, bridge, &self.setting.around, |user| self.users.may_restore(user)) {
                Ok(outgoing) => outgoing,
                Err(undeliverable) => {
                    let target = Some(bridge.target.exchange.clone());
                    let cause = Cause { reason: undeliverable.reason, detail: undeliverable.detail, target };
                    self.park_part(part, cause, now);
                    return false;
                }
            };
        let user = outgoing.properties.user_id().as_ref().map(|user| user.as_str().to_owned());
        let trial = user.as_deref().is_some_and(|user| self.users.is_trial(user));
        let bridge = part.message.bridge.clone();
        let token = Token::Delivery { part, user };
        let job = if trial { Job::solo(outgoing, token) } else { Job::new(outgoing, token) };
        match self.dispatcher.deliver(bridge, job) {
            None => true,
            Some(job) => {
                self.give_back(job, now);
                false
            }
        }
    }
}

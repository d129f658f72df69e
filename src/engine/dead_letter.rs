//! What the broker itself moved to the parked queue, such as a message that expired in an ingress queue: where it
//! came from, by the header `x-death`. Nothing of Leveret's is on it.

use lapin::BasicProperties;
use lapin::types::AMQPValue;

use crate::amqp::properties;
use crate::amqp::topology::Names;
use crate::domain::time::UnixMillis;

const DEATHS: &str = "x-death";
/// What else the broker notes; the latter from 4.0 on.
const FIRST_DEATH: &str = "x-first-death-";
const LAST_DEATH: &str = "x-last-death-";

/// A death in one of Leveret's own queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeadLetter {
    /// The queue that it died in.
    pub(super) queue: String,
    /// The bridge whose ingress queue that is; `None` for the due queue.
    pub(super) bridge: Option<String>,
    /// Why, in the broker's word: `expired`, `rejected`, `maxlen` or `delivery_limit`.
    pub(super) why: String,
    /// The exchange that it was published to.
    pub(super) exchange: String,
    /// The routing key that it was published with.
    pub(super) routing_key: String,
    /// The `expiration` that it was published with, which dead-lettering takes off.
    pub(super) expiration: Option<String>,
    /// When, to the second.
    pub(super) at: Option<UnixMillis>,
}

impl DeadLetter {
    /// The last death of the message, where that was in an ingress queue or in the due queue.
    pub(super) fn read(props: &BasicProperties, names: &Names) -> Option<Self> {
        let Some(AMQPValue::FieldArray(deaths)) = properties::header(props, DEATHS) else { return None };
        let AMQPValue::FieldTable(last) = deaths.as_slice().first()? else { return None };
        let said = |name: &str| last.inner().get(name).and_then(properties::text).map(str::to_owned);
        let queue = said("queue")?;
        let bridge = names.bridge_of(&queue).map(str::to_owned);
        if bridge.is_none() && queue != names.due() {
            return None;
        }
        let routing_key = match last.inner().get("routing-keys") {
            Some(AMQPValue::FieldArray(keys)) => keys.as_slice().first().and_then(properties::text),
            _ => None,
        };
        let at = match last.inner().get("time") {
            Some(AMQPValue::Timestamp(seconds)) => seconds.checked_mul(1_000).map(UnixMillis),
            _ => None,
        };
        Some(Self {
            queue,
            bridge,
            why: said("reason").unwrap_or_default(),
            exchange: said("exchange").unwrap_or_default(),
            routing_key: routing_key.unwrap_or_default().to_owned(),
            expiration: said("original-expiration"),
            at,
        })
    }

    /// Takes this death off the headers: what an application wrote there before stays.
    pub(super) fn undo(props: BasicProperties) -> BasicProperties {
        let had_others = matches!(properties::header(&props, DEATHS),
            Some(AMQPValue::FieldArray(deaths)) if deaths.as_slice().len() > 1);
        properties::with_headers(props, |headers| {
            if had_others && let Some(AMQPValue::FieldArray(deaths)) = headers.get_mut(DEATHS) {
                let earlier = deaths.as_slice().iter().skip(1).cloned().collect::<Vec<_>>();
                *deaths = earlier.into();
            }
            headers.retain(|name, _| {
                let name = name.as_str();
                let first = name == DEATHS || name.starts_with(FIRST_DEATH);
                !name.starts_with(LAST_DEATH) && (had_others || !first)
            });
        })
    }

    /// The header as the broker writes it, for tests.
    #[cfg(test)]
    pub(super) fn written(&self) -> AMQPValue {
        let text = |value: &str| AMQPValue::LongString(value.into());
        let mut table = lapin::types::FieldTable::default();
        table.insert("count".into(), AMQPValue::LongLongInt(1));
        table.insert("queue".into(), text(&self.queue));
        table.insert("reason".into(), text(&self.why));
        table.insert("exchange".into(), text(&self.exchange));
        table.insert("routing-keys".into(), AMQPValue::FieldArray(vec![text(&self.routing_key)].into()));
        if let Some(at) = self.at {
            table.insert("time".into(), AMQPValue::Timestamp(at.0 / 1_000));
        }
        if let Some(expiration) = &self.expiration {
            table.insert("original-expiration".into(), text(expiration));
        }
        AMQPValue::FieldTable(table)
    }
}

#[cfg(test)]
mod tests {
    use lapin::types::FieldTable;

    use super::*;

    fn death(queue: &str, bridge: Option<&str>) -> DeadLetter {
        DeadLetter {
            queue: queue.to_owned(),
            bridge: bridge.map(str::to_owned),
            why: "expired".to_owned(),
            exchange: "orders.delayed".to_owned(),
            routing_key: "order.created".to_owned(),
            expiration: Some("100".to_owned()),
            at: Some(UnixMillis(1_767_225_600_000)),
        }
    }

    fn props(deaths: &[&DeadLetter]) -> BasicProperties {
        let mut headers = FieldTable::default();
        let deaths: Vec<_> = deaths.iter().map(|death| death.written()).collect();
        headers.insert(DEATHS.into(), AMQPValue::FieldArray(deaths.into()));
        for name in ["x-first-death-queue", "x-last-death-queue", "tenant"] {
            headers.insert(name.into(), AMQPValue::LongString("a".into()));
        }
        BasicProperties::default().with_headers(headers)
    }

    #[test]
    fn a_death_in_an_ingress_queue_tells_where_the_message_was_going() {
        let names = Names::new("leveret");
        let ours = death("leveret.ingress.a.b", Some("a.b"));
        assert_eq!(DeadLetter::read(&props(&[&ours, &death("apps", None)]), &names), Some(ours));
        let due = death("leveret.due", None);
        assert_eq!(DeadLetter::read(&props(&[&due]), &names), Some(due));
    }

    #[test]
    fn other_deaths_are_the_applications_own() {
        let names = Names::new("leveret");
        let ours = death("leveret.ingress.orders", Some("orders"));
        for deaths in [&[&death("apps", None), &ours][..], &[&death("other.ingress.orders", None)], &[]] {
            assert_eq!(DeadLetter::read(&props(deaths), &names), None);
        }
        assert_eq!(DeadLetter::read(&BasicProperties::default(), &names), None);
    }

    #[test]
    fn only_this_death_is_undone() {
        let (ours, earlier) = (death("leveret.ingress.orders", Some("orders")), death("apps", None));
        let names = |props: &BasicProperties| -> Vec<String> {
            props.headers().as_ref().unwrap().inner().keys().map(ToString::to_string).collect()
        };
        assert_eq!(names(&DeadLetter::undo(props(&[&ours]))), ["tenant"]);
        let before = DeadLetter::undo(props(&[&ours, &earlier]));
        assert_eq!(names(&before), ["tenant", "x-death", "x-first-death-queue"]);
        let AMQPValue::FieldArray(left) = properties::header(&before, DEATHS).unwrap() else { panic!() };
        assert_eq!(left.as_slice(), [earlier.written()]);
    }
}

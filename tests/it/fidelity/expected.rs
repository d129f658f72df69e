//! What must come out of what was published, byte by byte.

use crate::harness::table::{Field, RawProperties};

use super::scene::text;

/// Asserts that what came is what was published, with `x-delay` negated and an id added.
///
/// Headers are sorted by name: RabbitMQ sorts them from 4.0 on, and the AMQP client behind Leveret does anyway. No
/// consumer can rely on an order that AMQP does not promise.
pub(crate) fn assert_delivered(came: &RawProperties, published: &RawProperties) {
    let id = text(came, "x-leveret-id");
    assert_eq!(id.len(), 26, "{id:?} is not a ULID");
    let headers = published.headers().into_iter().map(negated).chain([Field::text("x-leveret-id", &id)]);
    assert_same(came, &published.with_headers(&sorted(headers)));
}

/// Asserts that these are the same properties, each with the same bytes.
pub(crate) fn assert_same(came: &RawProperties, expected: &RawProperties) {
    assert_eq!(came.headers(), expected.headers());
    for bit in 0..16 {
        let flag = 1 << bit;
        assert_eq!(came.get(flag), expected.get(flag), "property {flag:#06x}");
    }
    assert_eq!(came.flags, expected.flags);
}

/// Fields in the order of their names.
pub(crate) fn sorted(fields: impl IntoIterator<Item = Field>) -> Vec<Field> {
    let mut fields: Vec<_> = fields.into_iter().collect();
    fields.sort_by(|one, other| one.name.cmp(&other.name));
    fields
}

/// The field as it comes out: `x-delay` negated where it delayed.
fn negated(field: Field) -> Field {
    if field.name != "x-delay" {
        return field;
    }
    assert_eq!(field.tag, b'I', "these tests delay by int32");
    let delay = i32::from_be_bytes(field.value.as_slice().try_into().unwrap());
    Field::int("x-delay", if delay > 0 { -delay } else { delay })
}

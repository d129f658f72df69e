//! JSON as shops send it, about 1 KiB each: orders that wait for their payment, and notifications that wait for their hour.
//! Ids, names, amounts and times differ, so that compression has no more to gain from these than from real ones.
//! Drawn from this thread's random numbers.

const FIRST_NAMES: &[&str] = &[
    "Anna",
    "Ahmed",
    "Beatriz",
    "Chen",
    "Daniela",
    "Emeka",
    "Fatima",
    "Giulia",
    "Hannah",
    "Ivan",
    "Jonas",
    "Katarzyna",
    "Liam",
    "Mei",
    "Noah",
    "Olga",
    "Priya",
    "Rafael",
    "Sofia",
    "Yusuf",
];
const LAST_NAMES: &[&str] = &[
    "Andersson",
    "Baker",
    "Costa",
    "Dubois",
    "Eriksen",
    "Fischer",
    "Garcia",
    "Haddad",
    "Ito",
    "Jansen",
    "Kowalska",
    "Lindgren",
    "Moreau",
    "Nowak",
    "Okafor",
    "Patel",
    "Rossi",
    "Schmidt",
    "Taylor",
    "Weber",
];
const STREETS: &[&str] = &[
    "Mill Lane",
    "High Street",
    "Station Road",
    "Church Street",
    "Park Avenue",
    "Queen Street",
    "Victoria Road",
    "Green Lane",
    "Bridge Street",
    "Orchard Close",
    "Kings Road",
    "The Crescent",
];
const CITIES: &[&str] = &[
    "Leeds",
    "Bristol",
    "Manchester",
    "Glasgow",
    "Cardiff",
    "Norwich",
    "Sheffield",
    "Liverpool",
    "Newcastle",
    "Brighton",
    "Aberdeen",
    "Exeter",
];
const PRODUCTS: &[&str] = &[
    "Wool socks, 3 pairs",
    "Desk lamp, brass",
    "Espresso cups, set of 4",
    "Rain jacket, navy, M",
    "Notebook A5, dotted",
    "Bicycle pump",
    "Cast iron pan 26 cm",
    "Linen bed sheet 140x200",
    "Wireless headphones",
    "Garden gloves, L",
    "Reading glasses +1.5",
    "Running shoes, 42",
    "Tea towel, blue",
    "Water bottle 750 ml",
    "Wall clock, oak",
    "Yoga mat, 6 mm",
];
const CURRENCIES: &[&str] = &["GBP", "EUR", "SEK", "PLN"];
const CARRIERS: &[&str] = &["DHL", "DPD", "UPS", "Royal Mail"];
const DAYS: &[&str] = &["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A routing key and a body that goes with it.
pub(crate) fn any() -> (&'static str, String) {
    if fastrand::bool() { ("order.payment_due", order()) } else { ("notification.send", notification()) }
}

/// A random UUID.
pub(crate) fn uuid() -> String {
    let bits = fastrand::u128(..);
    let part = |shift: u32, digits: u32| (bits >> shift) & ((1 << (4 * digits)) - 1);
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        part(96, 8),
        part(80, 4),
        part(64, 3),
        (part(48, 4) & 0x3fff) | 0x8000,
        part(0, 12)
    )
}

fn order() -> String {
    let (first, last) = (pick(FIRST_NAMES), pick(LAST_NAMES));
    let (mut items, mut sum) = (Vec::new(), 0);
    for _ in 0..fastrand::u32(2..=7) {
        let (quantity, cents) = (fastrand::u32(1..=4), fastrand::u32(199..15_000));
        sum += quantity * cents;
        items.push(format!(
            r#"{{"sku":"{}-{:05}","title":"{}","quantity":{quantity},"unit_price":"{}"}}"#,
            pick(&["HOM", "CLO", "OFF", "SPO"]),
            fastrand::u32(..100_000),
            pick(PRODUCTS),
            money(cents)
        ));
    }
    let shipping = fastrand::u32(0..=3) * 250;
    format!(
        r#"{{"event":"order.payment_due","event_id":"{}","occurred_at":"{}","order":{{"id":"ORD-2026-{:08}","status":"awaiting_payment","customer":{{"id":"{}","name":"{first} {last}","email":"{}.{}{}@example.com","phone":"+44 20 {:04} {:04}"}},"shipping_address":{},"currency":"{}","items":[{}],"subtotal":"{}","shipping":"{}","total":"{}"}},"reminder":{{"attempt":{},"channel":"email","template":"payment-reminder","cancel_if_unpaid":true}},"trace_id":"{:032x}"}}"#,
        uuid(),
        moment(),
        fastrand::u32(..100_000_000),
        uuid(),
        first.to_lowercase(),
        last.to_lowercase(),
        fastrand::u32(..100),
        fastrand::u32(..10_000),
        fastrand::u32(..10_000),
        address(),
        pick(CURRENCIES),
        items.join(","),
        money(sum),
        money(shipping),
        money(sum + shipping),
        fastrand::u32(1..=3),
        fastrand::u128(..),
    )
}

fn notification() -> String {
    let (first, tracking) = (pick(FIRST_NAMES), format!("{:016X}", fastrand::u64(..)));
    let (day, hour) = (pick(DAYS), fastrand::u32(8..18));
    format!(
        r#"{{"event":"notification.send","notification_id":"{}","user":{{"id":"{}","name":"{first} {}","locale":"en-GB","time_zone":"Europe/London"}},"channels":["push","email"],"template":"parcel-out-for-delivery","subject":"Your parcel arrives on {day}","text":"Hello {first}, your parcel {tracking} with {} is on its way and arrives on {day} between {hour}:00 and {}:00. If nobody is at home, our driver leaves it with a neighbour. You can still choose another day or a parcel shop.","action":{{"label":"Follow your parcel","url":"https://shop.example.com/parcels/{tracking}"}},"devices":[{{"platform":"{}","token":"{:032x}{:032x}"}}],"parcel":{{"carrier":"{}","weight_grams":{},"address":{}}},"created_at":"{}","trace_id":"{:032x}"}}"#,
        uuid(),
        uuid(),
        pick(LAST_NAMES),
        pick(PRODUCTS),
        hour + 2,
        pick(&["ios", "android"]),
        fastrand::u128(..),
        fastrand::u128(..),
        pick(CARRIERS),
        fastrand::u32(50..20_000),
        address(),
        moment(),
        fastrand::u128(..),
    )
}

fn address() -> String {
    format!(
        r#"{{"street":"{} {}","city":"{}","postal_code":"{}{} {}{}","country":"GB"}}"#,
        fastrand::u32(1..200),
        pick(STREETS),
        pick(CITIES),
        pick(&["LS", "BS", "M", "G", "CF", "NR", "S"]),
        fastrand::u32(1..30),
        fastrand::u32(1..10),
        pick(&["AB", "DE", "JN", "QT", "XY"]),
    )
}

fn money(cents: u32) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

fn moment() -> String {
    let [minute, second, millis] = [60, 60, 1_000].map(|end| fastrand::u32(..end));
    format!("2026-01-01T09:{minute:02}:{second:02}.{millis:03}Z")
}

fn pick(list: &[&'static str]) -> &'static str {
    fastrand::choice(list).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_json_of_about_a_kib_and_no_two_are_alike() {
        fastrand::seed(1);
        let bodies: Vec<_> = (0..1_000).map(|_| any().1).collect();
        for body in &bodies {
            serde_json::from_str::<serde_json::Value>(body).unwrap();
        }
        let average = bodies.iter().map(String::len).sum::<usize>() / bodies.len();
        assert!((974..=1_074).contains(&average), "{average}");
        let distinct: std::collections::HashSet<_> = bodies.iter().collect();
        assert_eq!(distinct.len(), bodies.len());
    }

    #[test]
    fn a_uuid_looks_like_one() {
        fastrand::seed(1);
        for _ in 0..100 {
            let uuid = uuid();
            let lengths: Vec<_> = uuid.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
            assert!(uuid.as_bytes()[14] == b'4' && b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
        }
    }
}

//! AMQP 0-9-1 tables and properties as bytes: what lapin cannot make (duplicate keys, any order, every type) can be
//! written, and what comes back can be compared byte by byte.

/// One field of a table: name, type tag, and the value's bytes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) tag: u8,
    pub(crate) value: Vec<u8>,
}

/// Short enough for the text of a failed assertion.
impl std::fmt::Debug for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = self.value.get(..200).unwrap_or(&self.value).escape_ascii();
        write!(f, "{} {} ({} bytes) {shown}", self.name, char::from(self.tag), self.value.len())
    }
}

impl Field {
    /// A field whose value is already in wire encoding.
    pub(crate) fn new(name: &str, tag: u8, value: &[u8]) -> Self {
        Self { name: name.to_owned(), tag, value: value.to_vec() }
    }

    /// A text (`S`).
    pub(crate) fn text(name: &str, text: &str) -> Self {
        Self::new(name, b'S', &prefixed(text.as_bytes()))
    }

    /// A signed 32-bit number (`I`).
    pub(crate) fn int(name: &str, number: i32) -> Self {
        Self::new(name, b'I', &number.to_be_bytes())
    }

    /// An array (`A`) of texts.
    pub(crate) fn texts(name: &str, texts: &[&str]) -> Self {
        let items: Vec<u8> =
            texts.iter().flat_map(|text| [b"S", prefixed(text.as_bytes()).as_slice()].concat()).collect();
        Self::new(name, b'A', &prefixed(&items))
    }

    /// The text of a field that is one.
    pub(crate) fn as_text(&self) -> Option<&str> {
        std::str::from_utf8(self.value.get(4..)?).ok().filter(|_| self.tag == b'S')
    }

    /// A field of each type that RabbitMQ reads, with values at the edges where a careless conversion shows.
    pub(crate) fn of_every_type() -> Vec<Self> {
        let inner = encode(&[Self::new("deep", b'l', &i64::MIN.to_be_bytes()), Self::text("text", "é")]);
        let array = [b"b\x80".as_slice(), b"V", b"S\0\0\0\x01a"].concat();
        vec![
            Self::new("bool", b't', &[1]),
            Self::new("int8", b'b', &i8::MIN.to_be_bytes()),
            Self::new("uint8", b'B', &[u8::MAX]),
            Self::new("int16", b's', &i16::MIN.to_be_bytes()),
            Self::new("uint16", b'u', &u16::MAX.to_be_bytes()),
            Self::new("int32", b'I', &i32::MIN.to_be_bytes()),
            Self::new("uint32", b'i', &u32::MAX.to_be_bytes()),
            Self::new("int64", b'l', &i64::MAX.to_be_bytes()),
            Self::new("float", b'f', &1.5_f32.to_be_bytes()),
            Self::new("double", b'd', &(-0.1_f64).to_be_bytes()),
            Self::new("decimal", b'D', &[2, 0, 0, 4, 0xd2]),
            Self::text("text", "naïve ☃"),
            Self::new("bytes", b'x', &prefixed(&[0, 0xff, 0x80])),
            Self::new("timestamp", b'T', &1_700_000_000_u64.to_be_bytes()),
            Self::new("table", b'F', &inner),
            Self::new("array", b'A', &prefixed(&array)),
            Self::new("null", b'V', &[]),
        ]
    }
}

/// The flag of each property in a content header, in the order in which they stand there.
pub(crate) mod property {
    pub(crate) const CONTENT_TYPE: u16 = 1 << 15;
    pub(crate) const CONTENT_ENCODING: u16 = 1 << 14;
    pub(crate) const HEADERS: u16 = 1 << 13;
    pub(crate) const DELIVERY_MODE: u16 = 1 << 12;
    pub(crate) const PRIORITY: u16 = 1 << 11;
    pub(crate) const CORRELATION_ID: u16 = 1 << 10;
    pub(crate) const REPLY_TO: u16 = 1 << 9;
    pub(crate) const EXPIRATION: u16 = 1 << 8;
    pub(crate) const MESSAGE_ID: u16 = 1 << 7;
    pub(crate) const TIMESTAMP: u16 = 1 << 6;
    pub(crate) const KIND: u16 = 1 << 5;
    pub(crate) const USER_ID: u16 = 1 << 4;
    pub(crate) const APP_ID: u16 = 1 << 3;
    pub(crate) const CLUSTER_ID: u16 = 1 << 2;
}

/// The properties of a message: the flags, and the bytes of those that are present.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct RawProperties {
    pub(crate) flags: u16,
    pub(crate) bytes: Vec<u8>,
}

impl std::fmt::Debug for RawProperties {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let others = self.with(property::HEADERS, None);
        let others = others.bytes.escape_ascii();
        write!(f, "{:#06x}, headers {:?}, {others}", self.flags, self.headers())
    }
}

impl RawProperties {
    /// No property but a table of headers.
    pub(crate) fn of_headers(fields: &[Field]) -> Self {
        Self::default().with(property::HEADERS, Some(encode(fields)))
    }

    /// With the property of that flag, in wire encoding, set or taken off.
    pub(crate) fn with(&self, flag: u16, value: Option<Vec<u8>>) -> Self {
        let mut parts: Vec<_> = self.parts().into_iter().filter(|(other, _)| *other != flag).collect();
        let at = parts.partition_point(|(other, _)| *other > flag);
        parts.splice(at..at, value.map(|value| (flag, value)));
        let flags = parts.iter().map(|(flag, _)| flag).sum();
        Self { flags, bytes: parts.into_iter().flat_map(|(_, bytes)| bytes).collect() }
    }

    /// With a property that is a short text.
    pub(crate) fn with_text(&self, flag: u16, text: &str) -> Self {
        let length = u8::try_from(text.len()).unwrap();
        self.with(flag, Some([&[length], text.as_bytes()].concat()))
    }

    /// With these headers instead of those that it has.
    pub(crate) fn with_headers(&self, fields: &[Field]) -> Self {
        self.with(property::HEADERS, Some(encode(fields)))
    }

    /// The property of that flag in wire encoding.
    pub(crate) fn get(&self, flag: u16) -> Option<Vec<u8>> {
        self.parts().into_iter().find(|(other, _)| *other == flag).map(|(_, bytes)| bytes)
    }

    /// The headers' table in wire encoding, without its length; None if there is none.
    pub(crate) fn header_bytes(&self) -> Option<Vec<u8>> {
        self.get(property::HEADERS).map(|table| table[4..].to_vec())
    }

    /// The headers, in their order; none if there is no table.
    pub(crate) fn headers(&self) -> Vec<Field> {
        self.header_bytes().map(|bytes| decode(&bytes)).unwrap_or_default()
    }

    /// The header of that name.
    pub(crate) fn header(&self, name: &str) -> Option<Field> {
        self.headers().into_iter().find(|field| field.name == name)
    }

    /// Each property with its flag.
    fn parts(&self) -> Vec<(u16, Vec<u8>)> {
        let mut rest = self.bytes.as_slice();
        let present = (0..16).rev().map(|bit| 1 << bit).filter(|flag| self.flags & flag != 0);
        let parts = present.map(|flag| {
            let length = match flag {
                property::HEADERS => length_of(b'F', rest),
                property::DELIVERY_MODE | property::PRIORITY => 1,
                property::TIMESTAMP => 8,
                _ => 1 + usize::from(rest[0]),
            };
            let (value, after) = rest.split_at(length);
            rest = after;
            (flag, value.to_vec())
        });
        parts.collect()
    }
}

/// A table in wire encoding, without its length, as fields.
fn decode(mut bytes: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    while let Some((&length, rest)) = bytes.split_first() {
        let (name, rest) = rest.split_at(length.into());
        let (&tag, rest) = rest.split_first().unwrap();
        let (value, rest) = rest.split_at(length_of(tag, rest));
        fields.push(Field::new(std::str::from_utf8(name).unwrap(), tag, value));
        bytes = rest;
    }
    fields
}

/// The length of a value of that type at the beginning of `bytes`.
fn length_of(tag: u8, bytes: &[u8]) -> usize {
    match tag {
        b'V' => 0,
        b't' | b'b' | b'B' => 1,
        b's' | b'u' => 2,
        b'I' | b'i' | b'f' => 4,
        b'D' => 5,
        b'l' | b'd' | b'T' => 8,
        b'S' | b'x' | b'A' | b'F' => {
            4 + usize::try_from(u32::from_be_bytes(bytes[..4].try_into().unwrap())).unwrap()
        }
        other => panic!("{:?} is no type of a field", char::from(other)),
    }
}

/// A table in wire encoding, with its length.
pub(crate) fn encode(fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Field { name, tag, value } in fields {
        bytes.push(u8::try_from(name.len()).unwrap());
        bytes.extend(name.as_bytes());
        bytes.push(*tag);
        bytes.extend(value);
    }
    prefixed(&bytes)
}

/// Bytes behind their length as 32 bits: a long string, an array, a table.
pub(crate) fn prefixed(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    [length.to_be_bytes().as_slice(), bytes].concat()
}

//! AMQP 0-9-1 tables and properties as bytes: what lapin cannot make (duplicate keys, any order, every type) can be
//! written, and what comes back can be compared byte by byte.

/// One field of a table: name, type tag, and the value's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) tag: u8,
    pub(crate) value: Vec<u8>,
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

/// The properties of a message: the flags, and the bytes of those that are present.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RawProperties {
    pub(crate) flags: u16,
    pub(crate) bytes: Vec<u8>,
}

const CONTENT_TYPE: u16 = 1 << 15;
const CONTENT_ENCODING: u16 = 1 << 14;
const HEADERS: u16 = 1 << 13;

impl RawProperties {
    /// No property but a table of headers.
    pub(crate) fn of_headers(fields: &[Field]) -> Self {
        Self { flags: HEADERS, bytes: encode(fields) }
    }

    /// The headers' table in wire encoding, without its length; None if there is none.
    pub(crate) fn header_bytes(&self) -> Option<&[u8]> {
        let mut rest = self.bytes.as_slice();
        for earlier in [CONTENT_TYPE, CONTENT_ENCODING] {
            if self.flags & earlier != 0 {
                let length = usize::from(*rest.first()?);
                rest = rest.get(1 + length..)?;
            }
        }
        if self.flags & HEADERS == 0 {
            return None;
        }
        let (length, rest) = rest.split_first_chunk()?;
        rest.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)
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
fn prefixed(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    [length.to_be_bytes().as_slice(), bytes].concat()
}

//! A minimal AMQP 0-9-1 client that shows bytes: it publishes properties that a test encoded itself, and returns those
//! that it receives as they came.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::broker::Address;
use super::table::RawProperties;

const REPLY_LIMIT: Duration = Duration::from_secs(60);
const CHANNEL: u16 = 1;
const FRAME_END: u8 = 0xce;
/// What every broker accepts for an answer to its tuning.
const FRAME_MAX: u32 = 131_072;
/// A frame's header and end.
const FRAME_OVERHEAD: usize = 8;

mod kind {
    pub(super) const METHOD: u8 = 1;
    pub(super) const HEADER: u8 = 2;
    pub(super) const BODY: u8 = 3;
    pub(super) const HEARTBEAT: u8 = 8;
}

/// Class and method, as on the wire.
type Method = (u16, u16);
const CONNECTION_START: Method = (10, 10);
const CONNECTION_START_OK: Method = (10, 11);
const CONNECTION_TUNE: Method = (10, 30);
const CONNECTION_TUNE_OK: Method = (10, 31);
const CONNECTION_OPEN: Method = (10, 40);
const CONNECTION_OPEN_OK: Method = (10, 41);
const CHANNEL_OPEN: Method = (20, 10);
const CHANNEL_OPEN_OK: Method = (20, 11);
const BASIC_PUBLISH: Method = (60, 40);
const BASIC_GET: Method = (60, 70);
const BASIC_GET_OK: Method = (60, 71);
const BASIC_GET_EMPTY: Method = (60, 72);
const BASIC_ACK: Method = (60, 80);
const CONFIRM_SELECT: Method = (85, 10);
const CONFIRM_SELECT_OK: Method = (85, 11);

/// A connection with one channel, in confirm mode.
pub(crate) struct RawClient {
    stream: TcpStream,
}

/// A message as it came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RawMessage {
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) properties: RawProperties,
    pub(crate) body: Vec<u8>,
}

struct Frame {
    kind: u8,
    payload: Vec<u8>,
}

impl RawClient {
    /// Connects to a virtual host.
    pub(crate) async fn connect(address: &Address, vhost: &str) -> Self {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await.unwrap();
        // A publish is several small writes, and waits for none of them.
        stream.set_nodelay(true).unwrap();
        let mut client = Self { stream };
        client.stream.write_all(b"AMQP\0\0\x09\x01").await.unwrap();
        client.expect(CONNECTION_START).await;
        let password = percent_encoding::percent_decode_str(&address.password).decode_utf8().unwrap();
        let secret = format!("\0{}\0{password}", address.user);
        let mut start_ok = Arguments::default();
        start_ok.long(&[]).short("PLAIN").long(secret.as_bytes()).short("en_US");
        client.send(0, CONNECTION_START_OK, &start_ok).await;
        client.expect(CONNECTION_TUNE).await;
        let mut tune_ok = Arguments::default();
        let no_heartbeat = 0_u16;
        tune_ok
            .bytes(&CHANNEL.to_be_bytes())
            .bytes(&FRAME_MAX.to_be_bytes())
            .bytes(&no_heartbeat.to_be_bytes());
        client.send(0, CONNECTION_TUNE_OK, &tune_ok).await;
        let mut open = Arguments::default();
        open.short(vhost).short("").bytes(&[0]);
        client.send(0, CONNECTION_OPEN, &open).await;
        client.expect(CONNECTION_OPEN_OK).await;
        client.send(CHANNEL, CHANNEL_OPEN, Arguments::default().short("")).await;
        client.expect(CHANNEL_OPEN_OK).await;
        client.send(CHANNEL, CONFIRM_SELECT, Arguments::default().bytes(&[0])).await;
        client.expect(CONFIRM_SELECT_OK).await;
        client
    }

    /// Publishes and waits for the confirm. Panics, with the broker's reason, where it refuses.
    pub(crate) async fn publish(
        &mut self,
        exchange: &str,
        key: &str,
        properties: &RawProperties,
        body: &[u8],
    ) {
        self.try_publish(exchange, key, properties, body).await.expect("the broker refuses a publish");
    }

    /// Publishes and waits for the confirm. An error is what the broker said instead; this connection is then over.
    pub(crate) async fn try_publish(
        &mut self,
        exchange: &str,
        key: &str,
        properties: &RawProperties,
        body: &[u8],
    ) -> Result<(), String> {
        self.publish_bytes(exchange, key.as_bytes(), properties, body).await
    }

    /// As [`Self::try_publish`], with a routing key that need not be text.
    pub(crate) async fn publish_bytes(
        &mut self,
        exchange: &str,
        key: &[u8],
        properties: &RawProperties,
        body: &[u8],
    ) -> Result<(), String> {
        let mut publish = Arguments::default();
        publish
            .bytes(&[0, 0])
            .short(exchange)
            .bytes(&[u8::try_from(key.len()).unwrap()])
            .bytes(key)
            .bytes(&[0]);
        self.send(CHANNEL, BASIC_PUBLISH, &publish).await;
        let mut header = Vec::new();
        header.extend(BASIC_PUBLISH.0.to_be_bytes());
        header.extend([0, 0]);
        header.extend(u64::try_from(body.len()).unwrap().to_be_bytes());
        header.extend(properties.flags.to_be_bytes());
        header.extend(&properties.bytes);
        self.write(kind::HEADER, CHANNEL, &header).await;
        for part in body.chunks(usize::try_from(FRAME_MAX).unwrap() - FRAME_OVERHEAD) {
            self.write(kind::BODY, CHANNEL, part).await;
        }
        match self.method().await {
            (BASIC_ACK, _) => Ok(()),
            (method, arguments) => Err(describe(method, &arguments)),
        }
    }

    /// Takes the first message of a queue, if there is one, and acknowledges it.
    pub(crate) async fn get(&mut self, queue: &str) -> Option<RawMessage> {
        let no_ack = 1;
        self.send(CHANNEL, BASIC_GET, Arguments::default().bytes(&[0, 0]).short(queue).bytes(&[no_ack]))
            .await;
        let (method, arguments) = self.method().await;
        match method {
            BASIC_GET_EMPTY => None,
            BASIC_GET_OK => {
                // The delivery tag and the redelivered flag come first.
                let (exchange, rest) = short_string(&arguments[9..]);
                let (routing_key, _) = short_string(rest);
                let (properties, body) = self.content().await;
                Some(RawMessage { exchange, routing_key, properties, body })
            }
            other => panic!("basic.get of {queue:?} answered with {}", describe(other, &arguments)),
        }
    }

    async fn content(&mut self) -> (RawProperties, Vec<u8>) {
        let header = self.frame().await;
        assert_eq!(header.kind, kind::HEADER);
        // Class and weight come first.
        let size = u64::from_be_bytes(header.payload[4..12].try_into().unwrap());
        let flags = u16::from_be_bytes(header.payload[12..14].try_into().unwrap());
        let properties = RawProperties { flags, bytes: header.payload[14..].to_vec() };
        let mut body = Vec::new();
        while u64::try_from(body.len()).unwrap() < size {
            let frame = self.frame().await;
            assert_eq!(frame.kind, kind::BODY);
            body.extend(frame.payload);
        }
        (properties, body)
    }

    async fn expect(&mut self, expected: Method) {
        let (method, arguments) = self.method().await;
        assert_eq!(method, expected, "the broker answered with {}", describe(method, &arguments));
    }

    async fn method(&mut self) -> (Method, Vec<u8>) {
        let frame = self.frame().await;
        assert_eq!(frame.kind, kind::METHOD);
        let number = |at: usize| u16::from_be_bytes(frame.payload[at..at + 2].try_into().unwrap());
        ((number(0), number(2)), frame.payload[4..].to_vec())
    }

    async fn frame(&mut self) -> Frame {
        loop {
            let reading = self.read();
            let frame = tokio::time::timeout(REPLY_LIMIT, reading).await.expect("the broker does not answer");
            if frame.kind != kind::HEARTBEAT {
                return frame;
            }
        }
    }

    async fn read(&mut self) -> Frame {
        let mut head = [0; 7];
        self.stream.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes(head[3..7].try_into().unwrap());
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.stream.read_exact(&mut payload).await.unwrap();
        assert_eq!(self.stream.read_u8().await.unwrap(), FRAME_END);
        Frame { kind: head[0], payload }
    }

    async fn send(&mut self, channel: u16, method: Method, arguments: &Arguments) {
        let (class, method) = method;
        let payload = [&class.to_be_bytes(), &method.to_be_bytes(), arguments.0.as_slice()].concat();
        self.write(kind::METHOD, channel, &payload).await;
    }

    async fn write(&mut self, kind: u8, channel: u16, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap();
        let frame: Vec<u8> =
            [&[kind], channel.to_be_bytes().as_slice(), &length.to_be_bytes(), payload, &[FRAME_END]]
                .concat();
        self.stream.write_all(&frame).await.unwrap();
    }
}

/// The arguments of a method, built one after the other.
#[derive(Default)]
struct Arguments(Vec<u8>);

impl Arguments {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend(bytes);
        self
    }

    fn short(&mut self, text: &str) -> &mut Self {
        self.0.push(u8::try_from(text.len()).unwrap());
        self.bytes(text.as_bytes())
    }

    fn long(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
        self.bytes(bytes)
    }
}

fn short_string(bytes: &[u8]) -> (String, &[u8]) {
    let length = usize::from(bytes[0]);
    let (text, rest) = bytes[1..].split_at(length);
    (String::from_utf8(text.to_vec()).unwrap(), rest)
}

/// A method that was not expected; for a close, with its code and reason.
fn describe((class, method): Method, arguments: &[u8]) -> String {
    match (class, method) {
        (10, 50) | (20, 40) => {
            let code = u16::from_be_bytes(arguments[..2].try_into().unwrap());
            format!("close: {code} {}", short_string(&arguments[2..]).0)
        }
        _ => format!("method {class}.{method}"),
    }
}

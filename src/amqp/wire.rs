//! AMQP 0-9-1 as raw frames: one connection with one channel, for what the client library cannot read. It waits for
//! each answer, and knows nothing of queues.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lapin::protocol::connection::{AMQPMethod, CloseOk, Open, StartOk, TuneOk};
use lapin::protocol::constants::{
    FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, REPLY_SUCCESS,
};
use lapin::protocol::{AMQPClass, channel, confirm, connection, gen_class, parse_class};
use lapin::tcp::{AMQPUriTcpExt, RustlsConnector};
use lapin::types::{AMQPValue, FieldTable};
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;
use tokio_util::compat::FuturesAsyncReadCompatExt;

use super::connection::{ConnectError, endpoints, explain_io, plain, uri};
use super::properties;
use super::publisher::Outgoing;
use crate::config::{AmqpConfig, Endpoint};

/// How long the broker may take for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The one channel.
const CHANNEL: u16 = 1;

/// Where neither side limits frames.
const USUAL_FRAME_MAX: u32 = 131_072;

/// A frame's header and end.
const FRAME_OVERHEAD: usize = 8;

/// A longer frame than any broker is configured for: the stream is not what it should be.
const LONGEST_FRAME: u32 = 64 << 20;

/// Why the broker did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection is gone.
    #[error("lost the connection to the broker: {0}")]
    Lost(#[from] io::Error),
    /// No answer in time, as when the broker has a memory or disk alarm.
    #[error("the broker does not answer within {} s", PATIENCE.as_secs())]
    Silent,
    /// The broker closed the channel or the connection.
    #[error("the broker answered {code}: {text}")]
    Refused {
        /// AMQP reply code.
        code: u16,
        /// The broker's words.
        text: String,
    },
    /// The broker sent something that is no answer.
    #[error("the broker sent what does not belong here: {0}")]
    Unexpected(&'static str),
    /// A publish came back: no queue took it.
    #[error("exchange \"{0}\" has no queue that takes the message")]
    Returned(String),
    /// A queue refused a publish.
    #[error("a queue behind exchange \"{0}\" refused the message")]
    Nacked(String),
}

/// A frame as it came, heartbeats excepted.
pub(super) struct Frame {
    kind: u8,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// The payload of a content header.
    pub(super) fn into_header(self) -> Result<Vec<u8>, WireError> {
        if self.kind == FRAME_HEADER { Ok(self.payload) } else { Err(WireError::Unexpected("no header")) }
    }

    /// A part of a body.
    pub(super) fn into_body(self) -> Result<Vec<u8>, WireError> {
        if self.kind == FRAME_BODY { Ok(self.payload) } else { Err(WireError::Unexpected("no body")) }
    }
}

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// An open connection with a channel whose publishes are confirmed.
pub(super) struct Wire {
    stream: BufReader<Box<dyn Stream>>,
    /// Largest frame that both sides accept, in bytes.
    pub(super) frame_max: usize,
    /// What the broker calls itself: product and version.
    pub(super) server: String,
}

/// What the broker calls itself: product and version.
///
/// # Errors
/// Where no endpoint can be connected to.
pub async fn server(config: &AmqpConfig) -> Result<String, WireError> {
    let wire = Wire::open(config, "version").await?;
    let server = wire.server.clone();
    wire.close().await?;
    Ok(server)
}

impl Wire {
    /// Connects to the first endpoint that answers. `purpose` is shown in the broker's list of connections.
    pub(super) async fn open(config: &AmqpConfig, purpose: &str) -> Result<Self, WireError> {
        let (endpoints, tls) = endpoints(config)?;
        let name = format!("{} ({purpose})", config.connection_name);
        let mut failures = Vec::new();
        for endpoint in endpoints {
            let limit = endpoint.connection_timeout.unwrap_or(config.connect_timeout);
            let tls = tls.as_ref().filter(|_| endpoint.tls);
            match timeout(limit, Self::open_to(config, &endpoint, tls, &name)).await {
                Ok(Ok(wire)) => return Ok(wire),
                Ok(Err(WireError::Lost(error))) => {
                    let why = explain_io(config, &endpoint, &error).unwrap_or_else(|| error.to_string());
                    failures.push(format!("{endpoint}: {why}"));
                }
                Ok(Err(error)) => failures.push(format!("{endpoint}: {error}")),
                Err(_elapsed) => {
                    failures.push(format!("{endpoint}: no answer within {} s", limit.as_secs_f32()))
                }
            }
        }
        Err(ConnectError::Unreachable(failures).into())
    }

    /// A connection on which no hands are shaken yet.
    pub(super) fn over(stream: Box<dyn Stream>) -> Self {
        Self { stream: BufReader::new(stream), frame_max: 0, server: String::new() }
    }

    async fn open_to(
        config: &AmqpConfig,
        endpoint: &Endpoint,
        tls: Option<&Arc<ClientConfig>>,
        name: &str,
    ) -> Result<Self, WireError> {
        let runtime = lapin::runtime::default_runtime().map_err(io::Error::other)?;
        let uri = uri(endpoint, config.heartbeat);
        let stream = plain(&uri).connect_async(&runtime).await?;
        let stream = match tls {
            Some(tls) => stream.into_rustls(&RustlsConnector::from(tls.clone()), &endpoint.host).await?,
            None => stream,
        };
        let mut wire = Self::over(Box::new(stream.compat()));
        wire.shake_hands(endpoint, name).await?;
        Ok(wire)
    }

    async fn shake_hands(&mut self, endpoint: &Endpoint, name: &str) -> Result<(), WireError> {
        self.write(b"AMQP\0\0\x09\x01").await?;
        let AMQPClass::Connection(AMQPMethod::Start(start)) = self.method().await? else {
            return Err(WireError::Unexpected("no connection.start"));
        };
        let said = |name| start.server_properties.inner().get(name).and_then(properties::text);
        self.server = [said("product"), said("version")].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let (mechanism, response) = if endpoint.external_auth {
            ("EXTERNAL", String::new())
        } else {
            ("PLAIN", format!("\0{}\0{}", endpoint.username, endpoint.password.expose()))
        };
        let start_ok = AMQPMethod::StartOk(StartOk {
            client_properties: client_properties(name),
            mechanism: mechanism.into(),
            response: response.as_str().into(),
            locale: "en_US".into(),
        });
        self.send_on(0, AMQPClass::Connection(start_ok)).await?;
        let AMQPClass::Connection(AMQPMethod::Tune(tune)) = self.method().await? else {
            return Err(WireError::Unexpected("no connection.tune"));
        };
        let limits = [endpoint.frame_max.unwrap_or(0), tune.frame_max];
        let frame_max = limits.into_iter().filter(|limit| *limit > 0).min().unwrap_or(USUAL_FRAME_MAX);
        self.frame_max = usize::try_from(frame_max).unwrap_or(usize::MAX);
        // Every wait has a limit of its own: there are no heartbeats.
        let tune_ok = AMQPMethod::TuneOk(TuneOk { channel_max: CHANNEL, frame_max, heartbeat: 0 });
        self.send_on(0, AMQPClass::Connection(tune_ok)).await?;
        let open = AMQPMethod::Open(Open { virtual_host: endpoint.vhost.as_str().into() });
        self.send_on(0, AMQPClass::Connection(open)).await?;
        let AMQPClass::Connection(AMQPMethod::OpenOk(_)) = self.method().await? else {
            return Err(WireError::Unexpected("no connection.open-ok"));
        };
        let open = channel::AMQPMethod::Open(channel::Open {});
        let AMQPClass::Channel(channel::AMQPMethod::OpenOk(_)) = self.call(AMQPClass::Channel(open)).await?
        else {
            return Err(WireError::Unexpected("no channel.open-ok"));
        };
        let select = confirm::AMQPMethod::Select(confirm::Select { nowait: false });
        let AMQPClass::Confirm(confirm::AMQPMethod::SelectOk(_)) =
            self.call(AMQPClass::Confirm(select)).await?
        else {
            return Err(WireError::Unexpected("no confirm.select-ok"));
        };
        Ok(())
    }

    /// Sends a method, and waits for the method that answers it.
    pub(super) async fn call(&mut self, method: AMQPClass) -> Result<AMQPClass, WireError> {
        self.send(method).await?;
        self.method().await
    }

    /// Sends a method on the channel.
    pub(super) async fn send(&mut self, method: AMQPClass) -> Result<(), WireError> {
        self.send_on(CHANNEL, method).await
    }

    async fn send_on(&mut self, channel: u16, method: AMQPClass) -> Result<(), WireError> {
        let payload = cookie_factory::gen_simple(gen_class(&method), Vec::new()).map_err(io::Error::other)?;
        self.write(&frame(FRAME_METHOD, channel, &payload)).await
    }

    /// Sends the properties and the body that follow a publish.
    pub(super) async fn send_content(&mut self, message: &Outgoing) -> Result<(), WireError> {
        const BASIC: [u8; 2] = 60_u16.to_be_bytes();
        const WEIGHT: [u8; 2] = [0; 2];
        let size = u64::try_from(message.body.len()).unwrap_or(u64::MAX).to_be_bytes();
        let encoded = properties::encode(&message.properties);
        let header = [BASIC.as_slice(), &WEIGHT, &size, &encoded].concat();
        self.write(&frame(FRAME_HEADER, CHANNEL, &header)).await?;
        for part in message.body.chunks(self.frame_max.saturating_sub(FRAME_OVERHEAD).max(1)) {
            self.write(&frame(FRAME_BODY, CHANNEL, part)).await?;
        }
        Ok(())
    }

    /// The next method; a close is an error.
    pub(super) async fn method(&mut self) -> Result<AMQPClass, WireError> {
        let frame = self.frame().await?;
        method(&frame)
    }

    /// The next frame.
    pub(super) async fn frame(&mut self) -> Result<Frame, WireError> {
        loop {
            let frame = timeout(PATIENCE, self.read()).await.map_err(|_elapsed| WireError::Silent)??;
            if frame.kind != FRAME_HEARTBEAT {
                return Ok(frame);
            }
        }
    }

    async fn read(&mut self) -> Result<Frame, WireError> {
        let kind = self.stream.read_u8().await?;
        let _channel = self.stream.read_u16().await?;
        let length = self.stream.read_u32().await?;
        if length > LONGEST_FRAME {
            return Err(WireError::Unexpected("no AMQP 0-9-1"));
        }
        let mut payload = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        self.stream.read_exact(&mut payload).await?;
        if self.stream.read_u8().await? != FRAME_END {
            return Err(WireError::Unexpected("no AMQP 0-9-1"));
        }
        Ok(Frame { kind, payload })
    }

    /// A broker that reads nothing, as with a memory or disk alarm, must not hold a writer up for ever.
    async fn write(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        let writing = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        Ok(timeout(PATIENCE, writing).await.map_err(|_elapsed| WireError::Silent)??)
    }

    /// Closes in good order: the broker has then handled all that was sent.
    pub(super) async fn close(mut self) -> Result<(), WireError> {
        let close = channel::AMQPMethod::Close(channel::Close {
            reply_code: REPLY_SUCCESS,
            reply_text: "done".into(),
            class_id: 0,
            method_id: 0,
        });
        let AMQPClass::Channel(channel::AMQPMethod::CloseOk(_)) =
            self.call(AMQPClass::Channel(close)).await?
        else {
            return Err(WireError::Unexpected("no channel.close-ok"));
        };
        let close = AMQPMethod::Close(connection::Close {
            reply_code: REPLY_SUCCESS,
            reply_text: "done".into(),
            class_id: 0,
            method_id: 0,
        });
        self.send_on(0, AMQPClass::Connection(close)).await?;
        match self.method().await? {
            AMQPClass::Connection(AMQPMethod::CloseOk(CloseOk {})) => Ok(()),
            _ => Err(WireError::Unexpected("no connection.close-ok")),
        }
    }
}

/// The method in a frame; a close is an error.
pub(super) fn method(frame: &Frame) -> Result<AMQPClass, WireError> {
    if frame.kind != FRAME_METHOD {
        return Err(WireError::Unexpected("no method"));
    }
    let refused = |code: u16, text: &str| Err(WireError::Refused { code, text: text.to_owned() });
    match parse_class(frame.payload.as_slice()) {
        Ok((_, AMQPClass::Connection(AMQPMethod::Close(close)))) => {
            refused(close.reply_code, close.reply_text.as_str())
        }
        Ok((_, AMQPClass::Channel(channel::AMQPMethod::Close(close)))) => {
            refused(close.reply_code, close.reply_text.as_str())
        }
        Ok((_, method)) => Ok(method),
        Err(_) => Err(WireError::Unexpected("a method that cannot be read")),
    }
}

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[kind], channel.to_be_bytes().as_slice(), &length, payload, &[FRAME_END]].concat()
}

/// Without these capabilities RabbitMQ says less: it drops a connection without a word, and cannot refuse a publish.
fn client_properties(name: &str) -> FieldTable {
    let mut capabilities = FieldTable::default();
    for capability in ["authentication_failure_close", "basic.nack", "publisher_confirms"] {
        capabilities.insert(capability.into(), AMQPValue::Boolean(true));
    }
    let mut properties = FieldTable::default();
    properties.insert("connection_name".into(), AMQPValue::LongString(name.into()));
    properties.insert("capabilities".into(), AMQPValue::FieldTable(capabilities));
    properties
}

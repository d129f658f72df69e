//! One connection to the broker: made with fail-over over the endpoints, watched for loss and for blocking.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::ConfirmSelectOptions;
use lapin::tcp::{AMQPUriTcpExt, AsyncTcpStream, RustlsConnector};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism};
use lapin::{Channel, Connection, ConnectionProperties, ErrorKind, Event};
use rustls::ClientConfig;
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::compat::FuturesAsyncReadCompatExt;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{Instrument, warn};

use super::failure::{Failure, in_words};
use crate::config::{AmqpConfig, Endpoint};
use crate::telemetry::metrics::ConnectionMetrics;
use crate::tls;
use crate::tls::words::Peer;

/// How long the broker may take to say why it refused. One that has not refused says nothing until it is spoken to.
const REFUSAL: Duration = Duration::from_secs(2);

/// Why no endpoint could be connected to.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The configuration names a file that cannot be read, or that holds no URI, certificate or key that can be used.
    #[error("cannot read how to connect: {0}")]
    Configuration(String),
    /// Every endpoint was tried.
    #[error("cannot connect to {}", .0.join("; nor to "))]
    Unreachable(Vec<String>),
}

/// Is told what happens to a connection.
pub trait Observer: Send + Sync + 'static {
    /// It is open; `broker` names the endpoint without credentials.
    fn connected(&self, broker: &str);
    /// The broker blocks it, for that reason: nothing is written to it until that is over.
    fn blocked(&self, reason: &str);
    /// The broker takes messages again.
    fn unblocked(&self);
}

/// For connections that nobody watches.
impl Observer for () {
    fn connected(&self, _broker: &str) {}
    fn blocked(&self, _reason: &str) {}
    fn unblocked(&self) {}
}

impl Observer for ConnectionMetrics {
    fn connected(&self, broker: &str) {
        Self::connected(self, broker);
    }

    fn blocked(&self, reason: &str) {
        Self::blocked(self, reason);
    }

    fn unblocked(&self) {
        Self::unblocked(self);
    }
}

/// An open connection. Dropping it closes the connection.
#[derive(Debug)]
pub struct Link {
    connection: Connection,
    endpoint: Endpoint,
    blocked: watch::Receiver<bool>,
    lost: CancellationToken,
    /// Why it was lost; set before `lost` is cancelled.
    loss: Arc<OnceLock<Failure>>,
    _watching: DropGuard,
}

/// Connects to the first endpoint that answers. `purpose` is shown in the broker's list of connections; the events of
/// the connection are told to `observer`.
pub async fn connect(
    config: &AmqpConfig,
    purpose: &str,
    observer: impl Observer,
) -> Result<Link, ConnectError> {
    let (endpoints, tls) = endpoints(config)?;
    let name = format!("{} ({purpose})", config.connection_name);
    let mut failures = Vec::new();
    for endpoint in endpoints {
        match connect_to(config, &endpoint, tls.as_ref(), &name).await {
            Ok(connection) => {
                observer.connected(&endpoint.to_string());
                return Ok(Link::watch(connection, endpoint, observer));
            }
            Err(reason) => failures.push(format!("{endpoint}: {reason}")),
        }
    }
    Err(ConnectError::Unreachable(failures))
}

/// The endpoints, and how to encrypt where one of them asks for it. Credentials and certificates are read anew, so that
/// a rotated file is taken up. Blocks while it reads.
///
/// # Errors
/// [`ConnectError::Configuration`], where a file cannot be read or used.
pub fn endpoints(config: &AmqpConfig) -> Result<(Vec<Endpoint>, Option<Arc<ClientConfig>>), ConnectError> {
    let endpoints = config.endpoints().map_err(|error| ConnectError::Configuration(error.to_string()))?;
    let encrypted = endpoints.iter().any(|endpoint| endpoint.tls);
    let tls = encrypted.then(|| tls::client_config(&config.tls)).transpose();
    Ok((endpoints, tls.map_err(|error| ConnectError::Configuration(error.to_string()))?))
}

async fn connect_to(
    config: &AmqpConfig,
    endpoint: &Endpoint,
    tls: Option<&Arc<ClientConfig>>,
    name: &str,
) -> Result<Connection, String> {
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    let limit = endpoint.connection_timeout.unwrap_or(config.connect_timeout);
    let uri = uri(endpoint, config.heartbeat);
    let tls = tls.filter(|_| endpoint.tls);
    match timeout(limit, open(uri.clone(), properties, tls)).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => {
            let refusal = match tls {
                Some(tls) if is_hang_up(&error) => timeout(REFUSAL, refusal(&uri, tls)).await.ok().flatten(),
                _ => None,
            };
            let words = refusal.and_then(|refusal| explain_io(config, endpoint, &refusal));
            Err(words.unwrap_or_else(|| explain(config, endpoint, &error)))
        }
        Err(_elapsed) => Err(format!("no answer within {} s", limit.as_secs_f32())),
    }
}

/// Opens the socket here and not in the client, whose thread waits for as long as a silent peer keeps it open: when
/// this fails or is given up, the socket is hung up, and the thread ends. And so is TLS: the client would trust the
/// system's authorities beside those that are configured.
async fn open(
    uri: AMQPUri,
    properties: ConnectionProperties,
    tls: Option<&Arc<ClientConfig>>,
) -> lapin::Result<Connection> {
    let runtime = lapin::runtime::default_runtime()?;
    let stream = plain(&uri).connect_async(&runtime).await?;
    let AsyncTcpStream::Plain(socket) = &stream else { return Err(io::Error::other("not plain").into()) };
    let hang_up = HangUp(Some(socket.get_ref().as_fd().try_clone_to_owned()?.into()));
    let stream = match tls {
        Some(tls) => stream.into_rustls(&RustlsConnector::from(tls.clone()), &uri.authority.host).await?,
        None => stream,
    };
    // The client may ask again, after it has lost this one.
    let stream = Mutex::new(Some(stream));
    let take = async move |_, _| {
        let stream = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        stream.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionAborted).into())
    };
    let connection = Connection::connector(uri, runtime, take, properties).await?;
    hang_up.disarm();
    Ok(connection)
}

/// Whether the other side went without a word.
fn is_hang_up(error: &lapin::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), ErrorKind::IOError(io)
        if matches!(io.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof))
}

/// Why the broker refuses this side of a TLS handshake. From TLS 1.3 on it says so when the handshake is over here: what
/// is written then meets a closed socket, and the reason is lost. So this connects once more, and only reads.
async fn refusal(uri: &AMQPUri, tls: &Arc<ClientConfig>) -> Option<io::Error> {
    let runtime = lapin::runtime::default_runtime().ok()?;
    let stream = plain(uri).connect_async(&runtime).await.ok()?;
    let connector = RustlsConnector::from(tls.clone());
    match stream.into_rustls(&connector, &uri.authority.host).await {
        Ok(stream) => stream.compat().read_u8().await.err(),
        Err(error) => Some(error),
    }
}

/// The URI of the same address without TLS.
pub(super) fn plain(uri: &AMQPUri) -> AMQPUri {
    AMQPUri { scheme: AMQPScheme::AMQP, ..uri.clone() }
}

/// Shuts a socket down when dropped, whoever else holds it.
struct HangUp(Option<TcpStream>);

impl HangUp {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for HangUp {
    fn drop(&mut self) {
        if let Some(socket) = &self.0 {
            // What fails here is closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// Why no connection came about, and what to do.
fn explain(config: &AmqpConfig, endpoint: &Endpoint, error: &lapin::Error) -> String {
    if let ErrorKind::IOError(io) = error.kind()
        && let Some(words) = explain_io(config, endpoint, io)
    {
        return words;
    }
    let text = in_words(error);
    if text.contains("ACCESS_REFUSED") && endpoint.external_auth {
        format!(
            "{text} (the broker takes the user's name from the client certificate, by its ssl_cert_login_from: give it a \
             user of that name with access to the vhost)"
        )
    } else if text.contains("ACCESS_REFUSED") {
        format!("{text} (check user name and password, and the user's access to the vhost)")
    } else if text.contains("mechanism") && endpoint.external_auth {
        format!(
            "{text} (enable the broker's plugin rabbitmq_auth_mechanism_ssl, and EXTERNAL among its auth_mechanisms)"
        )
    } else if !endpoint.tls && (is_hang_up(error) || matches!(error.kind(), ErrorKind::ParsingError(_))) {
        format!(
            "{text} (a broker that closes at once may have refused the user's access to the vhost, or expects TLS on \
             this port: amqps://)"
        )
    } else if is_hang_up(error) {
        format!("{text} (a broker that closes at once may have refused the user's access to the vhost)")
    } else {
        text
    }
}

/// What is wrong with TLS, if it is TLS.
pub(super) fn explain_io(config: &AmqpConfig, endpoint: &Endpoint, error: &io::Error) -> Option<String> {
    let peer = Peer {
        who: "the broker",
        host: &endpoint.host,
        section: "amqp.tls",
        ca_file: config.tls.ca_file.as_deref(),
        cert_file: config.tls.cert_file.as_deref(),
    };
    endpoint.tls.then(|| peer.explain(error)).flatten()
}

/// The client's own URI type, filled in directly: its parser takes liberties that ours refuses.
pub(super) fn uri(endpoint: &Endpoint, heartbeat: Duration) -> AMQPUri {
    let seconds = u16::try_from(heartbeat.as_secs()).unwrap_or(u16::MAX);
    AMQPUri {
        scheme: if endpoint.tls { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
        authority: AMQPAuthority {
            userinfo: AMQPUserInfo {
                username: endpoint.username.clone(),
                password: endpoint.password.expose().to_owned(),
            },
            host: endpoint.host.clone(),
            port: endpoint.port,
        },
        vhost: endpoint.vhost.clone(),
        query: AMQPQueryString {
            frame_max: endpoint.frame_max,
            channel_max: endpoint.channel_max,
            heartbeat: Some(endpoint.heartbeat.unwrap_or(seconds)),
            connection_timeout: None,
            auth_mechanism: endpoint.external_auth.then_some(SASLMechanism::External),
        },
    }
}

impl Link {
    fn watch(connection: Connection, endpoint: Endpoint, observer: impl Observer) -> Self {
        let (block, blocked) = watch::channel(false);
        let lost = CancellationToken::new();
        let stop = CancellationToken::new();
        let mut events = connection.events_listener();
        let status = connection.status().clone();
        let (gone, stopped, broker) = (lost.clone(), stop.clone(), endpoint.to_string());
        let loss = Arc::new(OnceLock::new());
        let why = loss.clone();
        let watching = async move {
            loop {
                let event = tokio::select! {
                    () = stopped.cancelled() => return,
                    event = events.next() => event,
                };
                match event {
                    Some(Event::ConnectionBlocked(reason)) => {
                        observer.blocked(&reason);
                        block.send_replace(true);
                    }
                    Some(Event::ConnectionUnblocked) => {
                        observer.unblocked();
                        block.send_replace(false);
                    }
                    // A channel's error comes here as well: only the connection's state tells them apart.
                    Some(_) if status.connected() => {}
                    Some(Event::Error(error)) => {
                        warn!(%broker, error = in_words(&error), "connection lost");
                        why.get_or_init(|| Failure::from(error));
                        return gone.cancel();
                    }
                    Some(_) => {}
                    None => return gone.cancel(),
                }
            }
        };
        tokio::spawn(watching.in_current_span());
        Self { connection, endpoint, blocked, lost, loss, _watching: stop.drop_guard() }
    }

    /// A new channel.
    pub async fn channel(&self) -> Result<Channel, Failure> {
        // The client refuses a number whose last channel the broker closed, long after that: the next one is free.
        for _ in 0..self.connection.configuration().channel_max() {
            match self.connection.create_channel().await.map_err(Failure::from) {
                Err(Failure::Channel { .. } | Failure::ChannelGone) => {}
                opened => return opened,
            }
        }
        Err(Failure::Connection("every channel number of the connection is used up".to_owned()))
    }

    /// A new channel whose publishes are confirmed.
    pub async fn confirming_channel(&self) -> Result<Channel, Failure> {
        let channel = self.channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(channel)
    }

    /// Follows whether the broker blocks this connection.
    #[must_use]
    pub fn blocked(&self) -> watch::Receiver<bool> {
        self.blocked.clone()
    }

    /// Cancelled when the connection is lost.
    #[must_use]
    pub fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Why it was lost, once [`Self::lost`] is cancelled.
    #[must_use]
    pub fn loss(&self) -> Failure {
        self.loss.get().cloned().unwrap_or_else(|| Failure::Connection("connection lost".to_owned()))
    }

    /// What it is connected to.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Largest frame that both sides accept, in bytes.
    #[must_use]
    pub fn frame_max(&self) -> usize {
        self.connection.configuration().frame_max() as usize
    }

    /// Closes in good order, so that the broker has handled all that was written before.
    pub async fn close(self, limit: Duration) {
        // What fails here is lost already, and nothing unsettled depends on it.
        let _ = timeout(limit, self.connection.close(200, "bye".into())).await;
    }
}

/// A link that several tasks use.
pub type SharedLink = Arc<Link>;

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const END: Duration = Duration::from_secs(60);

    fn to(address: std::net::SocketAddr) -> AMQPUri {
        format!("amqp://u:p@{address}").parse().unwrap()
    }

    /// The client's thread would wait for the peer as long as the socket is open.
    #[tokio::test]
    async fn giving_up_on_a_silent_peer_leaves_nothing_behind() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = to(listener.local_addr().unwrap());
        let opening = timeout(Duration::from_secs(1), open(uri, ConnectionProperties::default(), None));
        let (opened, peer) = tokio::join!(opening, listener.accept());
        assert!(opened.is_err(), "a silent peer is not a broker");
        let (mut peer, mut header) = (peer.unwrap().0, Vec::new());
        timeout(END, peer.read_to_end(&mut header)).await.expect("the connection ends").unwrap();
        assert_eq!(header, b"AMQP\x00\x00\x09\x01");
        #[cfg(target_os = "linux")]
        timeout(END, async {
            while io_threads() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .expect("the client's thread ends");
    }

    /// Threads of the client that run, in the whole process: no other test here makes one.
    #[cfg(target_os = "linux")]
    fn io_threads() -> usize {
        std::fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
            .filter(|name| name.trim() == "lapin-io-loop")
            .count()
    }
}

//! A TCP proxy in front of the broker: a network that breaks in many ways while the broker is well.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::broker::Address;

/// A narrow network passes a part of what it can in a second, then pauses for that part of a second.
const PARTS_OF_A_SECOND: u32 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Bytes pass.
    Open,
    /// Connections are taken and kept, and no byte passes in either direction.
    Stalled,
    /// New connections are closed at once.
    Refusing,
    /// Connections are taken and kept, and what goes that way vanishes.
    Losing(Way),
    /// So many bytes a second pass in each direction of each connection.
    Narrow(usize),
}

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    ToBroker,
    FromBroker,
}

/// A proxy on a port of 127.0.0.1; gone, with its connections, when it is dropped.
pub(crate) struct Proxy {
    port: u16,
    mode: watch::Sender<Mode>,
    /// Counts the cuts: a connection lives only in the era in which it was made.
    era: watch::Sender<u64>,
    _stop: DropGuard,
}

impl Proxy {
    /// Listens, and passes to a broker.
    pub(crate) async fn start(upstream: &Address) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mode, mode_seen) = watch::channel(Mode::Open);
        let (era, era_seen) = watch::channel(0);
        let stop = CancellationToken::new();
        let upstream = Arc::new((upstream.host.clone(), upstream.port));
        let serving = serve(listener, upstream, mode_seen, era_seen);
        let stopped = stop.clone();
        tokio::spawn(async move { stopped.run_until_cancelled(serving).await });
        Self { port, mode, era, _stop: stop.drop_guard() }
    }

    /// The port on which it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Closes every connection; new ones are made as the mode says.
    pub(crate) fn cut(&self) {
        self.era.send_modify(|era| *era += 1);
    }

    /// Lets no byte pass, as a network that drops packets.
    pub(crate) fn stall(&self) {
        self.mode.send_replace(Mode::Stalled);
    }

    /// Closes new connections at once; what is open stays so until it is [`Proxy::cut`].
    pub(crate) fn refuse(&self) {
        self.mode.send_replace(Mode::Refusing);
    }

    /// Loses what goes that way, the end of a connection too, while what goes the other way arrives. All connections end
    /// when the mode changes: a stream with a gap is none.
    pub(crate) fn lose(&self, way: Way) {
        self.mode.send_replace(Mode::Losing(way));
    }

    /// Lets so many bytes a second pass, in each direction of each connection.
    pub(crate) fn narrow(&self, bytes_a_second: usize) {
        self.mode.send_replace(Mode::Narrow(bytes_a_second));
    }

    /// Lets everything pass again.
    pub(crate) fn resume(&self) {
        self.mode.send_replace(Mode::Open);
    }
}

async fn serve(
    listener: TcpListener,
    upstream: Arc<(String, u16)>,
    mode: watch::Receiver<Mode>,
    era: watch::Receiver<u64>,
) {
    while let Ok((client, _)) = listener.accept().await {
        if *mode.borrow() == Mode::Refusing {
            continue;
        }
        tokio::spawn(connect(client, Arc::clone(&upstream), mode.clone(), era.clone()));
    }
}

async fn connect(
    client: TcpStream,
    upstream: Arc<(String, u16)>,
    mode: watch::Receiver<Mode>,
    mut era: watch::Receiver<u64>,
) {
    let born = *era.borrow();
    let passing = async {
        let (host, port) = &*upstream;
        let Ok(server) = TcpStream::connect((host.as_str(), *port)).await else { return };
        let (client_read, client_write) = client.into_split();
        let (server_read, server_write) = server.into_split();
        // One direction that ends takes the other with it: AMQP knows no half-open connection.
        tokio::select! {
            () = pass(Way::ToBroker, client_read, server_write, mode.clone()) => {}
            () = pass(Way::FromBroker, server_read, client_write, mode.clone()) => {}
        }
    };
    tokio::select! {
        () = passing => {}
        // Also where the proxy is dropped: then nobody counts eras any more.
        _ = era.wait_for(|now| *now != born) => {}
    }
}

async fn pass(
    way: Way,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut mode: watch::Receiver<Mode>,
) {
    let mut losing = mode.clone();
    let mut buffer = vec![0; 64 * 1024];
    let passing = async {
        loop {
            let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
            let mut rest = &buffer[..read];
            while !rest.is_empty() {
                let now = mode.wait_for(|mode| *mode != Mode::Stalled).await.map(|mode| *mode);
                let Ok(now) = now else { return };
                let length = match now {
                    Mode::Narrow(bytes_a_second) => (bytes_a_second / PARTS_OF_A_SECOND as usize).max(1),
                    _ => rest.len(),
                };
                let (piece, after) = rest.split_at(length.min(rest.len()));
                if to.write_all(piece).await.is_err() {
                    return;
                }
                rest = after;
                if matches!(now, Mode::Narrow(_)) {
                    tokio::select! {
                        () = sleep(Duration::from_secs(1) / PARTS_OF_A_SECOND) => {}
                        _ = mode.wait_for(|mode| *mode != now) => {}
                    }
                }
            }
        }
    };
    tokio::select! {
        () = passing => return,
        // Where the proxy is dropped, nothing more is passed either.
        _ = losing.wait_for(|mode| *mode == Mode::Losing(way)) => {}
    }
    lose(way, from, losing).await;
}

/// Takes and forgets what comes, for as long as that way is lost.
async fn lose(way: Way, mut from: impl AsyncRead + Unpin, mut mode: watch::Receiver<Mode>) {
    let forgetting = async {
        let _ = copy(&mut from, &mut sink()).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = forgetting => {}
        _ = mode.wait_for(|mode| *mode != Mode::Losing(way)) => {}
    }
}

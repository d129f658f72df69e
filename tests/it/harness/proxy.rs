//! A TCP proxy in front of the broker, to cut, stall and refuse what goes through it while the broker is well.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::broker::Address;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Bytes pass.
    Open,
    /// Connections are taken and kept, and no byte passes in either direction.
    Stalled,
    /// New connections are closed at once.
    Refusing,
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
            () = pass(client_read, server_write, mode.clone()) => {}
            () = pass(server_read, client_write, mode.clone()) => {}
        }
    };
    tokio::select! {
        () = passing => {}
        // Also where the proxy is dropped: then nobody counts eras any more.
        _ = era.wait_for(|now| *now != born) => {}
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut mode: watch::Receiver<Mode>,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        if mode.wait_for(|mode| *mode != Mode::Stalled).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

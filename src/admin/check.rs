//! One blocking HTTP GET, for `leveret healthcheck`: a container without a shell has no `curl` either.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use thiserror::Error;

/// More than any answer of the admin listener; what lies beyond is not read.
const MAX_ANSWER: u64 = 4 << 20;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body, as text.
    pub body: String,
}

/// Why there was no answer.
#[derive(Debug, Error)]
pub enum CheckError {
    /// Nobody answered in time.
    #[error("cannot get http://{addr}{path}: is leveret running, with admin.listen on that address?")]
    Unreachable {
        /// The address that was asked.
        addr: SocketAddr,
        /// The path that was asked for.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// Somebody answered, and it was not HTTP.
    #[error("what answers at http://{addr}{path} does not speak HTTP: is another program on that address?")]
    NotHttp {
        /// The address that was asked.
        addr: SocketAddr,
        /// The path that was asked for.
        path: String,
    },
}

/// Asks the admin listener at `listen` for `path`, and takes no longer than `timeout`.
///
/// `listen` may be the address as configured: an unspecified one (`0.0.0.0`, `[::]`) is asked through loopback.
///
/// # Errors
/// When nobody answers in time, or what answers is not HTTP. A status of 503 is an answer.
pub fn get(listen: SocketAddr, path: &str, timeout: Duration) -> Result<Answer, CheckError> {
    let addr = reachable(listen);
    let bytes = exchange(addr, path, timeout).map_err(|source| CheckError::Unreachable {
        addr,
        path: path.to_owned(),
        source,
    })?;
    parse(&bytes).ok_or_else(|| CheckError::NotHttp { addr, path: path.to_owned() })
}

fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

fn exchange(addr: SocketAddr, path: &str, timeout: Duration) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + timeout;
    // A timeout of zero means none to a socket, so what is left is an error once nothing is left.
    let left = || match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(left),
    };
    let mut stream = TcpStream::connect_timeout(&addr, left()?)?;
    stream.set_write_timeout(Some(left()?))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        stream.set_read_timeout(Some(left()?))?;
        let read = stream.read(&mut part)?;
        answer.extend(part.iter().take(read));
        if read == 0 || answer.len() as u64 >= MAX_ANSWER {
            return Ok(answer);
        }
    }
}

fn parse(answer: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split_whitespace().nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::admin::health::Health;
    use crate::admin::server;
    use crate::telemetry::metrics::test_exporter;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// Answers one connection with `answer` and leaves it open until the other side closes.
    fn answering(answer: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(answer).unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
        });
        addr
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn the_admin_listener_answers() {
        let listener = server::bind("0.0.0.0:0".parse().unwrap()).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let stop = tokio_util::sync::CancellationToken::new();
        let check = tokio::task::spawn_blocking(move || get(addr, "/readyz", PATIENCE));
        let served = server::serve(listener, Health::new(1), test_exporter(), stop.clone());
        let (served, answer) = tokio::join!(served, async {
            let answer = check.await;
            stop.cancel();
            answer
        });
        served.unwrap();
        let expected = Answer { status: 503, body: "not connected to the broker\n".to_owned() };
        assert_eq!(answer.unwrap().unwrap(), expected);
    }

    #[test]
    fn nobody_there_says_what_to_do() {
        let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = get(addr, "/livez", PATIENCE).unwrap_err();
        assert!(matches!(error, CheckError::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("http://{addr}/livez")), "{error}");
    }

    #[test]
    fn silence_ends_at_the_timeout() {
        let addr = answering(b"HTTP/1.1 200 OK\r\n");
        let error = get(addr, "/livez", Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, CheckError::Unreachable { .. }), "{error:?}");
    }

    #[test]
    fn unspecified_addresses_are_asked_through_loopback() {
        for (listen, asked) in [
            ("0.0.0.0:9690", "127.0.0.1:9690"),
            ("[::]:9690", "[::1]:9690"),
            ("10.0.0.7:9690", "10.0.0.7:9690"),
        ] {
            assert_eq!(reachable(listen.parse().unwrap()), asked.parse().unwrap());
        }
    }

    #[test]
    fn what_is_not_http_is_told_apart() {
        assert_eq!(parse(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), None);
        assert_eq!(parse(b"HTTP/1.1 abc\r\n\r\n"), None);
        assert_eq!(parse(b""), None);
        let answer = Answer { status: 200, body: "ok\n".to_owned() };
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n"), Some(answer));
    }
}

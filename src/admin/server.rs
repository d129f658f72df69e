//! The admin listener: `/livez`, `/readyz` and `/metrics`, for probes and scrapers.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::routing::get;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::health::Health;
use crate::telemetry::metrics::Exporter;

/// How long answers that are under way may take once the process stops. A probe that stalls must not keep it.
const GRACE: Duration = Duration::from_secs(1);

const TEXT: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

const NOT_FOUND: &str = "\
there is nothing here; what there is:
/livez    the process runs
/readyz   it does its work, or why it does not
/metrics  in Prometheus's text format
";

/// The admin listener's address cannot be used.
#[derive(Debug, Error)]
#[error(
    "cannot listen on {addr} for probes and metrics: stop what uses it, or set admin.listen to a free address"
)]
pub struct BindError {
    addr: SocketAddr,
    source: io::Error,
}

/// Takes the address. Call it before any work begins, so that a second process on one address fails at once.
///
/// # Errors
/// When the address is taken or is not this machine's.
pub async fn bind(addr: SocketAddr) -> Result<TcpListener, BindError> {
    TcpListener::bind(addr).await.map_err(|source| BindError { addr, source })
}

/// Answers until `stop`, and a moment longer to those who are being answered.
///
/// # Errors
/// When the listener fails for good.
pub async fn serve(
    listener: TcpListener,
    health: Health,
    exporter: Exporter,
    stop: CancellationToken,
) -> io::Result<()> {
    let routes = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .with_state(health)
        .merge(Router::new().route("/metrics", get(metrics)).with_state(exporter))
        .fallback(not_found);
    let server = axum::serve(listener, routes).with_graceful_shutdown(stop.clone().cancelled_owned());
    let deadline = async {
        stop.cancelled().await;
        sleep(GRACE).await;
    };
    tokio::select! {
        served = server.into_future() => served,
        () = deadline => Ok(()),
    }
}

/// The process runs and its runtime schedules. Says nothing about the broker on purpose: restarting Leveret mends no
/// broker.
async fn livez() -> impl IntoResponse {
    ([(CONTENT_TYPE, TEXT), (CACHE_CONTROL, "no-store")], "ok\n")
}

async fn readyz(State(health): State<Health>) -> impl IntoResponse {
    let (status, mut body) = match health.ready() {
        Ok(()) => (StatusCode::OK, "ready".to_owned()),
        Err(reasons) => (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n")),
    };
    body.push('\n');
    (status, [(CONTENT_TYPE, TEXT), (CACHE_CONTROL, "no-store")], body)
}

async fn metrics(State(exporter): State<Exporter>) -> impl IntoResponse {
    ([(CONTENT_TYPE, PROMETHEUS)], exporter.render())
}

async fn not_found() -> impl IntoResponse {
    (StatusCode::NOT_FOUND, [(CONTENT_TYPE, TEXT)], NOT_FOUND)
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::admin::health::Condition;
    use crate::telemetry::metrics::test_exporter;

    const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    async fn served<F: Future<Output = ()>>(test: impl FnOnce(SocketAddr, Health) -> F) {
        let listener = bind(ANY_PORT).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (health, stop) = (Health::new(1), CancellationToken::new());
        let server = serve(listener, health.clone(), test_exporter(), stop.clone());
        let (served, ()) = tokio::join!(server, async {
            test(addr, health).await;
            stop.cancel();
        });
        served.unwrap();
    }

    async fn request(addr: SocketAddr, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn alive_even_when_not_ready() {
        served(|addr, _| async move {
            let answer = request(addr, "GET", "/livez").await;
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nok\n"), "{answer}");
        })
        .await;
    }

    #[tokio::test]
    async fn readiness_follows_health_and_says_why_not() {
        served(|addr, health| async move {
            let worker = &health.workers()[0];
            worker.note(Some("connection refused".to_owned()));
            let answer = request(addr, "GET", "/readyz").await;
            assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
            assert!(
                answer.ends_with("\r\n\r\nnot connected to the broker\nconnection refused\n"),
                "{answer}"
            );
            for condition in [Condition::Connected, Condition::Declared, Condition::Consuming] {
                worker.set(condition, true);
            }
            let answer = request(addr, "GET", "/readyz").await;
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nready\n"), "{answer}");
        })
        .await;
    }

    #[tokio::test]
    async fn metrics_are_prometheus_text() {
        served(|addr, _| async move {
            let answer = request(addr, "GET", "/metrics").await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
            assert!(answer.contains("\nleveret_test 1\n"), "{answer}");
        })
        .await;
    }

    #[tokio::test]
    async fn other_paths_list_the_routes_and_other_methods_are_refused() {
        served(|addr, _| async move {
            let answer = request(addr, "GET", "/").await;
            assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("/readyz"), "{answer}");
            let answer = request(addr, "POST", "/livez").await;
            assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("allow: GET,HEAD"), "{answer}");
            let answer = request(addr, "HEAD", "/livez").await;
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n"), "{answer}");
        })
        .await;
    }

    #[tokio::test]
    async fn a_stalled_client_does_not_keep_the_process() {
        let mut stalled = None;
        served(|addr, _| {
            let stalled = &mut stalled;
            async move {
                let mut stream = TcpStream::connect(addr).await.unwrap();
                stream.write_all(b"GET /livez HTTP/1.1\r\n").await.unwrap();
                // An answer to somebody else proves that the server runs with the stalled one open.
                request(addr, "GET", "/livez").await;
                *stalled = Some(stream);
            }
        })
        .await;
        assert!(stalled.is_some());
    }

    #[tokio::test]
    async fn a_taken_address_is_named() {
        let listener = bind(ANY_PORT).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let error = bind(addr).await.unwrap_err().to_string();
        assert!(error.contains(&addr.to_string()) && error.contains("admin.listen"), "{error}");
    }
}

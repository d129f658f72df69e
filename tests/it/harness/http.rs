//! HTTP to loopback listeners.

use std::time::Duration;

use super::blocking;
use ureq::Agent;
use ureq::http::{Request, Response};

const TIMEOUT: Duration = Duration::from_secs(30);

/// An agent that answers with every status, and that keeps no connection which a restart would break.
pub(crate) fn agent() -> Agent {
    Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        .http_status_as_error(false)
        .max_idle_connections(0)
        .build()
        .into()
}

/// Sends a request and reads the whole answer: its status and its body.
pub(crate) fn send(agent: &Agent, request: Request<String>) -> Result<(u16, String), ureq::Error> {
    blocking(|| {
        let mut response: Response<_> = agent.run(request)?;
        let body = response.body_mut().read_to_string()?;
        Ok((response.status().as_u16(), body))
    })
}

/// GET: the status and the body.
pub(crate) fn get(url: &str) -> Result<(u16, String), ureq::Error> {
    let request = Request::get(url).body(String::new()).map_err(ureq::Error::Http)?;
    send(&agent(), request)
}

//! RabbitMQ's management API: everything that it can do is done here rather than by `rabbitmqctl`, which takes seconds.

use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::Agent;
use ureq::http::Request;

use super::{blocking, http};

const READY_LIMIT: Duration = Duration::from_secs(60);

/// The management API of one broker, as an administrator.
#[derive(Clone)]
pub(crate) struct Management {
    agent: Agent,
    url: String,
}

impl Management {
    /// The API at `url`, `http://user:password@host:port`.
    pub(crate) fn new(url: &str) -> Self {
        Self { agent: http::agent(), url: url.trim_end_matches('/').to_owned() }
    }

    /// Where the API is, with user and password.
    #[allow(dead_code, reason = "for the sidecar's `management.url`")]
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The same as an operator writes it: credentials are those of AMQP.
    pub(crate) fn plain_url(&self) -> String {
        format!("http://{}", self.url.rsplit_once('@').map_or(self.url.as_str(), |(_, host)| host))
    }

    /// The broker's version, `4.3.6`.
    pub(crate) fn version(&self) -> Result<String, String> {
        let (status, overview) = self.try_call("GET", "/overview", None)?;
        overview
            .get("rabbitmq_version")
            .and_then(Value::as_str)
            .map(str::to_owned)
            .ok_or_else(|| format!("the management API answers {status} and no version"))
    }

    /// Waits until the API answers, which is a little later than its port opens.
    pub(crate) fn wait_until_ready(&self) -> Result<(), String> {
        let started = Instant::now();
        blocking(|| {
            loop {
                match self.version() {
                    Ok(_) => return Ok(()),
                    Err(error) if started.elapsed() > READY_LIMIT => return Err(error),
                    Err(_) => std::thread::sleep(Duration::from_millis(50)),
                }
            }
        })
    }

    /// GET of something that may be missing.
    pub(crate) fn find(&self, path: &str) -> Option<Value> {
        match self.call("GET", path, None) {
            (404, _) => None,
            (200, value) => Some(value),
            (status, value) => panic!("GET {path}: {status} {value}"),
        }
    }

    /// PUT, which must succeed.
    pub(crate) fn put(&self, path: &str, body: &Value) {
        let (status, answer) = self.call("PUT", path, Some(body));
        assert!((200..300).contains(&status), "PUT {path} {body}: {status} {answer}");
    }

    /// DELETE of something that may be missing already.
    pub(crate) fn delete(&self, path: &str) {
        let (status, answer) = self.call("DELETE", path, None);
        assert!((200..300).contains(&status) || status == 404, "DELETE {path}: {status} {answer}");
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.try_call(method, path, body).unwrap()
    }

    /// Any call: the status and the answer.
    pub(crate) fn try_call(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), String> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}/api{path}", self.url))
            .header("content-type", "application/json")
            .body(body.map(Value::to_string).unwrap_or_default())
            .map_err(|error| format!("{method} {path}: {error}"))?;
        let (status, text) =
            http::send(&self.agent, request).map_err(|error| format!("{method} {path}: {error}"))?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::Null)))
    }
}

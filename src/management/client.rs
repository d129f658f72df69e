//! The HTTP client. `ureq` blocks, so each request runs on the runtime's blocking pool: they are rare.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use ureq::http::header::AUTHORIZATION;
use ureq::http::{HeaderValue, StatusCode, Uri};
use ureq::{Agent, Body};

use super::model::{Page, Refusal};
use super::url::{self, escape_regex, segment, shown};
use super::{ManagementError, Overview, Policy, QueueInfo, User, tls};
use crate::tls::words::Peer;

/// Queues a page; the API allows 500 at most.
const PAGE_SIZE: u32 = 500;

/// How often to look whether the broker knows a new queue's policy by now; its statistics come every 5 s.
const POLICY_POLL: Duration = Duration::from_millis(500);

/// A client of one management API. Cheap to clone.
#[derive(Clone)]
pub struct ManagementClient {
    inner: Arc<Inner>,
}

struct Inner {
    agent: Agent,
    base: String,
    user: String,
    authorization: HeaderValue,
    ca_file: Option<PathBuf>,
}

impl fmt::Debug for ManagementClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { base, user, .. } = &*self.inner;
        f.debug_struct("ManagementClient").field("url", base).field("user", user).finish_non_exhaustive()
    }
}

impl ManagementClient {
    /// A client of the API at `url` (`http://host:15672`, a path before `/api` included); it connects when first used.
    ///
    /// The authorities in `ca_file` replace the system's. `timeout` bounds each request as a whole.
    ///
    /// # Errors
    /// When the URL cannot be used, or there is no certificate to trust.
    pub fn new(
        url: &str,
        username: &str,
        password: &str,
        ca_file: Option<&Path>,
        timeout: Duration,
    ) -> Result<Self, ManagementError> {
        let encrypted = url::check(url)?;
        let mut config = Agent::config_builder()
            // The API stands beside the broker, which is reached directly too; and no redirect leads anywhere useful.
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_global(Some(timeout))
            .user_agent(concat!("leveret/", env!("CARGO_PKG_VERSION")));
        if encrypted {
            config = config.tls_config(tls::config(ca_file)?);
        }
        let credentials = BASE64_STANDARD.encode(format!("{username}:{password}"));
        let mut authorization = HeaderValue::try_from(format!("Basic {credentials}"))
            .map_err(|_| ManagementError::BadUrl { problem: "the credentials do not fit a header" })?;
        authorization.set_sensitive(true);
        Ok(Self {
            inner: Arc::new(Inner {
                agent: config.build().new_agent(),
                base: url.trim_end_matches('/').to_owned(),
                user: username.to_owned(),
                authorization,
                ca_file: ca_file.map(Path::to_owned),
            }),
        })
    }

    /// The broker's version and the cluster's name.
    ///
    /// # Errors
    /// When the API cannot be reached, refuses, or answers something else.
    pub async fn overview(&self) -> Result<Overview, ManagementError> {
        self.get("overview?columns=rabbitmq_version,cluster_name".to_owned()).await
    }

    /// The user that this client asks as, with its tags.
    ///
    /// # Errors
    /// As for [`Self::overview`].
    pub async fn whoami(&self) -> Result<User, ManagementError> {
        self.get("whoami".to_owned()).await
    }

    /// The virtual host's queues whose names begin with `prefix`.
    ///
    /// # Errors
    /// As for [`Self::overview`]; also when the virtual host is not there.
    pub async fn queues(&self, vhost: &str, prefix: &str) -> Result<Vec<QueueInfo>, ManagementError> {
        let mut queues = Vec::new();
        for page in 1.. {
            let pattern = format!("^{}", escape_regex(prefix));
            let path = format!(
                "queues/{}?page={page}&page_size={PAGE_SIZE}&use_regex=true&name={}&columns={}",
                segment(vhost),
                segment(&pattern),
                QueueInfo::COLUMNS,
            );
            let answer: Page = match self.get(path).await {
                // Queues were deleted since the page before this one was read, and with them the last page.
                Err(ManagementError::BadAnswer { problem, .. })
                    if page > 1 && problem.contains("page_out_of_range") =>
                {
                    break;
                }
                answer => answer?,
            };
            queues.extend(answer.items.into_iter().filter(|queue| queue.name.starts_with(prefix)));
            if page >= answer.page_count {
                break;
            }
        }
        Ok(queues)
    }

    /// The same as [`Self::queues`], but waits up to `patience` until the effective policy of each queue is known: the
    /// broker publishes it some 5 s after a queue was declared. Where it stays `None`, it could not be learned.
    ///
    /// # Errors
    /// As for [`Self::queues`].
    pub async fn queues_with_policies(
        &self,
        vhost: &str,
        prefix: &str,
        patience: Duration,
    ) -> Result<Vec<QueueInfo>, ManagementError> {
        let deadline = Instant::now() + patience;
        loop {
            let queues = self.queues(vhost, prefix).await?;
            let known = queues.iter().all(|queue| queue.effective_policy_definition.is_some());
            if known || Instant::now() >= deadline {
                return Ok(queues);
            }
            sleep(POLICY_POLL).await;
        }
    }

    /// The virtual host's policies.
    ///
    /// # Errors
    /// As for [`Self::queues`].
    pub async fn policies(&self, vhost: &str) -> Result<Vec<Policy>, ManagementError> {
        self.get(format!("policies/{}", segment(vhost))).await
    }

    /// The virtual host's operator policies.
    ///
    /// # Errors
    /// As for [`Self::policies`].
    pub async fn operator_policies(&self, vhost: &str) -> Result<Vec<Policy>, ManagementError> {
        self.get(format!("operator-policies/{}", segment(vhost))).await
    }

    async fn get<T: DeserializeOwned + Send + 'static>(&self, path: String) -> Result<T, ManagementError> {
        let inner = Arc::clone(&self.inner);
        let url = format!("{}/api/{path}", inner.base);
        let asked = url.clone();
        match spawn_blocking(move || inner.get(&asked)).await {
            Ok(answer) => answer,
            Err(stopped) => Err(ManagementError::Unreachable { url: shown(&url), source: stopped.into() }),
        }
    }
}

impl Inner {
    fn get<T: DeserializeOwned>(&self, url: &str) -> Result<T, ManagementError> {
        let request = self.agent.get(url).header(AUTHORIZATION, &self.authorization);
        let mut answer = match request.call() {
            Ok(answer) => answer,
            Err(error) => return Err(self.unreachable(url, error)),
        };
        let url = shown(url);
        let status = answer.status();
        if status == StatusCode::OK {
            return answer.body_mut().read_json().map_err(|error| match error {
                ureq::Error::Json(error) => ManagementError::BadAnswer { url, problem: error.to_string() },
                error => ManagementError::Unreachable { url, source: error.into() },
            });
        }
        Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ManagementError::Unauthorized {
                url,
                user: self.user.clone(),
                reason: refusal(answer.body_mut()).reason,
            },
            StatusCode::NOT_FOUND => ManagementError::NotFound { url },
            status => {
                let Refusal { error, reason } = refusal(answer.body_mut());
                ManagementError::BadAnswer {
                    url,
                    problem: format!("status {status} {error} {reason}").trim_end().to_owned(),
                }
            }
        })
    }
}

impl Inner {
    fn unreachable(&self, url: &str, error: ureq::Error) -> ManagementError {
        let host = url.parse::<Uri>().ok().and_then(|url| Some(url.host()?.to_owned())).unwrap_or_default();
        let peer = Peer {
            who: "the management API",
            host: &host,
            section: "management",
            ca_file: self.ca_file.as_deref(),
            cert_file: None,
        };
        let cause: &(dyn Error + 'static) = match &error {
            ureq::Error::Io(error) => error,
            ureq::Error::Rustls(error) => error,
            other => other,
        };
        let url = shown(url);
        match peer.explain(cause) {
            Some(problem) => ManagementError::Tls { url, problem },
            None => ManagementError::Unreachable { url, source: error.into() },
        }
    }
}

/// The broker's own words, where there are any.
fn refusal(body: &mut Body) -> Refusal {
    body.read_json().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::fake::Fake;
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn client(url: &str) -> ManagementClient {
        ManagementClient::new(url, "me", "s3cret", None, PATIENCE).unwrap()
    }

    #[tokio::test]
    async fn asks_with_credentials_and_reads_the_overview() {
        let fake =
            Fake::answering([(200, r#"{"rabbitmq_version":"4.3.6","cluster_name":"hares","more":[1]}"#)]);
        let overview = client(&fake.url()).overview().await.unwrap();
        assert_eq!(overview, Overview { rabbitmq_version: "4.3.6".into(), cluster_name: "hares".into() });
        let request = fake.requests().remove(0);
        assert!(request.starts_with("GET /api/overview?"), "{request}");
        assert!(request.contains("Basic bWU6czNjcmV0"), "{request}");
    }

    #[tokio::test]
    async fn names_are_escaped_in_paths_and_a_base_path_is_kept() {
        let fake = Fake::answering([(200, "[]"), (200, "[]")]);
        let client = client(&format!("{}/rabbit/", fake.url()));
        client.policies("/").await.unwrap();
        client.operator_policies("a b/ü?").await.unwrap();
        let requests = fake.requests();
        assert!(requests[0].starts_with("GET /rabbit/api/policies/%2F HTTP"), "{requests:?}");
        assert!(
            requests[1].starts_with("GET /rabbit/api/operator-policies/a%20b%2F%C3%BC%3F HTTP"),
            "{requests:?}"
        );
    }

    #[tokio::test]
    async fn reads_all_pages_and_only_the_prefix() {
        let fake = Fake::answering([
            (200, r#"{"items":[{"name":"my.level.1s","messages_ready":3}],"page_count":3}"#),
            (200, r#"{"items":[{"name":"my.due"},{"name":"myxdue"}],"page_count":3}"#),
            (400, r#"{"error":"page_out_of_range","reason":"Page out of range"}"#),
        ]);
        let queues = client(&fake.url()).queues("/", "my.").await.unwrap();
        let names: Vec<_> = queues.iter().map(|queue| queue.name.as_str()).collect();
        assert_eq!(names, ["my.level.1s", "my.due"]);
        assert_eq!(queues[0].messages_ready, Some(3));
        let requests = fake.requests();
        assert!(requests[0].contains("name=%5Emy%5C."), "{requests:?}");
        assert!(requests[1].contains("page=2&"), "{requests:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn waits_until_policies_are_known_but_not_for_ever() {
        let unknown = (200, r#"{"items":[{"name":"q"}],"page_count":1}"#);
        let known = (200, r#"{"items":[{"name":"q","effective_policy_definition":{}}],"page_count":1}"#);
        let fake = Fake::answering([unknown, unknown, known]);
        let queues = client(&fake.url()).queues_with_policies("/", "q", PATIENCE).await.unwrap();
        assert!(queues[0].effective_policy_definition.is_some());
        let fake = Fake::answering([unknown]);
        let queues = client(&fake.url()).queues_with_policies("/", "q", Duration::ZERO).await.unwrap();
        assert!(queues[0].effective_policy_definition.is_none());
    }

    #[tokio::test]
    async fn errors_are_told_apart_and_never_show_the_password() {
        type Expected = fn(&ManagementError) -> bool;
        let cases: [(u16, &'static str, Expected, &str); 7] = [
            (401, r#"{"error":"not_authorized","reason":"Login failed"}"#, is_unauthorized, "Login failed"),
            (403, "", is_unauthorized, "\"me\""),
            (
                404,
                r#"{"error":"Object Not Found"}"#,
                |e| matches!(e, ManagementError::NotFound { .. }),
                "/api/whoami",
            ),
            (500, "boom", is_bad_answer, "500"),
            (302, "", is_bad_answer, "302"),
            (200, "<html>", is_bad_answer, "proxy"),
            (200, r#"{"tags":[]}"#, is_bad_answer, "name"),
        ];
        for (status, body, expected, text) in cases {
            let fake = Fake::answering([(status, body)]);
            let error = client(&fake.url()).whoami().await.unwrap_err();
            assert!(expected(&error), "{status} {body}: {error:?}");
            assert!(error.to_string().contains(text), "{error}");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
    }

    fn is_unauthorized(error: &ManagementError) -> bool {
        matches!(error, ManagementError::Unauthorized { .. })
    }

    fn is_bad_answer(error: &ManagementError) -> bool {
        matches!(error, ManagementError::BadAnswer { .. })
    }

    #[tokio::test]
    async fn nobody_there_is_unreachable_and_so_is_silence() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let hasty = ManagementClient::new(&url, "me", "s3cret", None, Duration::from_millis(50)).unwrap();
        let error = hasty.whoami().await.unwrap_err();
        assert!(matches!(error, ManagementError::Unreachable { .. }), "{error:?}");
        drop(silent);
        let error = client(&url).whoami().await.unwrap_err();
        assert!(matches!(error, ManagementError::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().contains(&url) && error.to_string().contains("15672"), "{error}");
    }

    #[test]
    fn debug_shows_no_password() {
        let shown = format!("{:?}", client("http://localhost:15672"));
        assert!(
            shown.contains("localhost") && !shown.contains("s3cret") && !shown.contains("bWU6"),
            "{shown}"
        );
    }
}

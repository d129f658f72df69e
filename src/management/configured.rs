//! The client that a configuration asks for.

use std::time::Duration;

use super::ManagementClient;
use crate::config::{Endpoint, ManagementConfig, SecretSource};

impl ManagementClient {
    /// A client with the management credentials, or with those of the AMQP endpoint where there are none; secrets and
    /// certificates are read anew. `patience` is for one request.
    ///
    /// # Errors
    /// In words, where a file cannot be read or the URL cannot be used.
    pub fn configured(
        config: &ManagementConfig,
        endpoint: &Endpoint,
        patience: Duration,
    ) -> Result<Self, String> {
        let read = |source: &SecretSource| source.read().map_err(|error| error.to_string());
        let username = config.username.as_ref().map(read).transpose()?;
        let password = config.password.as_ref().map(read).transpose()?;
        Self::new(
            &config.url,
            username.as_ref().map_or(endpoint.username.as_str(), |secret| secret.expose()),
            password.as_ref().unwrap_or(&endpoint.password).expose(),
            config.ca_file.as_deref(),
            patience,
        )
        .map_err(|error| error.to_string())
    }
}

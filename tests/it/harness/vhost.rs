//! A virtual host of one test, and what an administrator does in it.

use serde_json::{Value, json};

use super::broker::Address;
use super::management::Management;
use super::users::Users;

/// A virtual host, deleted with all that is in it and its users when it is dropped.
pub(crate) struct Vhost {
    name: String,
    address: Address,
    management: Management,
    users: Users,
}

/// A queue as the management API knows it, up to a second late.
#[derive(Debug)]
pub(crate) struct QueueStats {
    pub(crate) ready: u64,
    pub(crate) unacknowledged: u64,
    pub(crate) consumers: u64,
    /// All that the API tells: `type`, `arguments`, `policy`, `effective_policy_definition`, ...
    pub(crate) details: Value,
}

impl Vhost {
    pub(super) fn create(management: &Management, address: &Address, name: String) -> Self {
        management.put(&format!("/vhosts/{name}"), &json!({}));
        let users = Users::of_new(&name, address, management);
        Self { name, address: address.clone(), management: management.clone(), users }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its URI, as the broker's administrator. A sidecar that is given it connects as a user of its own, with no more
    /// permissions than it needs.
    pub(crate) fn uri(&self) -> String {
        self.address.uri(&self.name)
    }

    /// Its URI, as the broker's administrator, through something that listens on a port of 127.0.0.1.
    pub(crate) fn uri_through(&self, port: u16) -> String {
        Address { host: "127.0.0.1".to_owned(), port, ..self.address.clone() }.uri(&self.name)
    }

    /// The same through any of several ports; whoever connects tries them in that order.
    pub(crate) fn uri_through_any(&self, ports: &[u16]) -> String {
        let hosts: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let Address { user, password, .. } = &self.address;
        format!("amqp://{user}:{password}@{}/{}", hosts.join(","), self.name)
    }

    /// Where the broker speaks AMQP.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Adds a user with the given tags (`impersonator`, ...) and with permissions to configure, write and read in this
    /// virtual host, as patterns; the answer is how it connects.
    pub(crate) fn add_user(&self, name: &str, tags: &str, permissions: [&str; 3]) -> Address {
        self.users.add(name, tags, permissions)
    }

    /// The same with this password, which contains nothing that has a meaning in URIs.
    pub(crate) fn add_user_with_password(
        &self,
        name: &str,
        password: &str,
        tags: &str,
        permissions: [&str; 3],
    ) -> Address {
        self.users.add_with_password(name, password, tags, permissions)
    }

    /// Sets a policy on `queues`, `exchanges` or `all` of the names that match `pattern`.
    pub(crate) fn set_policy(&self, name: &str, pattern: &str, apply_to: &str, definition: &Value) {
        let policy =
            json!({ "pattern": pattern, "definition": definition, "apply-to": apply_to, "priority": 1 });
        self.management.put(&format!("/policies/{}/{name}", self.name), &policy);
    }

    /// Removes a policy.
    pub(crate) fn delete_policy(&self, name: &str) {
        self.management.delete(&format!("/policies/{}/{name}", self.name));
    }

    /// What the management API knows of a queue, or None if there is none of that name.
    pub(crate) fn queue_stats(&self, queue: &str) -> Option<QueueStats> {
        let details = self.management.find(&format!("/queues/{}/{queue}", self.name))?;
        let count = |name: &str| details[name].as_u64().unwrap_or(0);
        Some(QueueStats {
            ready: count("messages_ready"),
            unacknowledged: count("messages_unacknowledged"),
            consumers: count("consumers"),
            details,
        })
    }

    /// The queues that hold something, with how much.
    pub(crate) fn depths(&self) -> Vec<(String, u64)> {
        let queues = self.management.find(&format!("/queues/{}", self.name)).unwrap();
        let depth = |queue: &Value| Some((queue["name"].as_str()?.to_owned(), queue["messages"].as_u64()?));
        queues.as_array().unwrap().iter().filter_map(depth).filter(|(_, messages)| *messages > 0).collect()
    }

    /// The names of its queues.
    pub(crate) fn queue_names(&self) -> Vec<String> {
        let queues = self.management.find(&format!("/queues/{}", self.name)).unwrap();
        queues
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|queue| Some(queue["name"].as_str()?.to_owned()))
            .collect()
    }

    /// Removes all that is ready in a queue.
    pub(crate) fn purge_queue(&self, queue: &str) {
        self.management.delete(&format!("/queues/{}/{queue}/contents", self.name));
    }

    /// Deletes a queue with all that is in it.
    pub(crate) fn delete_queue(&self, queue: &str) {
        self.management.delete(&format!("/queues/{}/{queue}", self.name));
    }

    /// Deletes an exchange.
    pub(crate) fn delete_exchange(&self, exchange: &str) {
        self.management.delete(&format!("/exchanges/{}/{exchange}", self.name));
    }

    /// How many connections the broker has in this virtual host.
    pub(crate) fn connection_count(&self) -> usize {
        self.connection_names().len()
    }

    /// Closes every connection in this virtual host, as an operator would. Returns how many there were.
    pub(crate) fn close_connections(&self) -> usize {
        let names = self.connection_names();
        for name in &names {
            self.close_connection(name);
        }
        names.len()
    }

    /// Closes the connections whose client calls itself so, as far as the broker lists them: it learns late of those
    /// that open and of those that end.
    pub(crate) fn close_connections_named(&self, client: &str) {
        let named = self.connections().into_iter().filter(|one| client_name(one) == Some(client));
        named.for_each(|one| self.close_connection(one["name"].as_str().unwrap()));
    }

    /// What the clients of its connections call themselves, sorted.
    pub(crate) fn client_names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            self.connections().iter().filter_map(client_name).map(str::to_owned).collect();
        names.sort();
        names
    }

    /// Who issued the certificates of the clients that have one.
    pub(crate) fn certificate_issuers(&self) -> Vec<String> {
        let issuer = |one: &Value| Some(one["peer_cert_issuer"].as_str()?.to_owned());
        self.connections().iter().filter_map(issuer).collect()
    }

    fn close_connection(&self, name: &str) {
        let name = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
        // The broker knows it no more, or fails over it, where it ended in the same moment.
        let (status, answer) =
            self.management.try_call("DELETE", &format!("/connections/{name}"), None).unwrap();
        assert!([204, 404, 500].contains(&status), "closing {name}: {status} {answer}");
    }

    fn connection_names(&self) -> Vec<String> {
        self.connections().iter().filter_map(|one| Some(one["name"].as_str()?.to_owned())).collect()
    }

    fn connections(&self) -> Vec<Value> {
        let all = self.management.find(&format!("/vhosts/{}/connections", self.name)).unwrap();
        all.as_array().unwrap().clone()
    }

    /// Gives a user these permissions in this virtual host, instead of what it had.
    pub(crate) fn permit(&self, user: &str, permissions: [&str; 3]) {
        self.users.permit(user, permissions);
    }

    /// Gives a user these permissions, to publish and to bind by routing key, on a topic exchange that exists.
    pub(crate) fn permit_topic(&self, user: &str, exchange: &str, write: &str, read: &str) {
        self.users.permit_topic(user, exchange, write, read);
    }
}

/// What the client of a connection calls itself.
fn client_name(connection: &Value) -> Option<&str> {
    connection["client_properties"]["connection_name"].as_str()
}

impl Drop for Vhost {
    fn drop(&mut self) {
        self.users.remove();
        // Nothing to be done where the test left its broker stopped.
        let _ = self.management.try_call("DELETE", &format!("/vhosts/{}", self.name), None);
    }
}

//! Users of one virtual host. Every sidecar gets one with the permissions that the README tells and no more, in place of
//! the broker's administrator: so each test shows that these are enough.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leveret::amqp::permissions::Permissions;
use leveret::config::Config;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::broker::Address;
use super::management::Management;

const PASSWORD: &str = "a test's";
/// What may stand unescaped in a password.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'\'');

/// The virtual hosts that there are, by name.
static ALL: Mutex<BTreeMap<String, Users>> = Mutex::new(BTreeMap::new());

/// The users of one virtual host.
#[derive(Clone)]
pub(super) struct Users {
    vhost: String,
    administrator: Address,
    management: Management,
    names: Arc<Mutex<Vec<String>>>,
    /// The sidecars', with what they may. The last one is what commands connect as.
    sidecars: Arc<Mutex<Vec<(Rights, Address)>>>,
}

/// What a sidecar needs.
#[derive(Clone, PartialEq, Eq)]
struct Rights {
    permissions: Permissions,
    tags: String,
}

impl Users {
    /// Those of a new virtual host.
    pub(super) fn of_new(vhost: &str, administrator: &Address, management: &Management) -> Self {
        let users = Self {
            vhost: vhost.to_owned(),
            administrator: administrator.clone(),
            management: management.clone(),
            names: Arc::default(),
            sidecars: Arc::default(),
        };
        users.permit(&administrator.user, [".*", ".*", ".*"]);
        locked(&ALL).insert(vhost.to_owned(), users.clone());
        users
    }

    /// Adds one; how it connects.
    pub(super) fn add(&self, name: &str, tags: &str, permissions: [&str; 3]) -> Address {
        self.add_with_password(name, PASSWORD, tags, permissions)
    }

    /// Adds one with this password; how it connects.
    pub(super) fn add_with_password(
        &self,
        name: &str,
        password: &str,
        tags: &str,
        permissions: [&str; 3],
    ) -> Address {
        let user = format!("{}-{name}", self.vhost);
        self.management.put(&format!("/users/{user}"), &json!({ "password": password, "tags": tags }));
        locked(&self.names).push(user.clone());
        self.permit(&user, permissions);
        let password = utf8_percent_encode(password, ESCAPED).to_string();
        Address { user, password, ..self.administrator.clone() }
    }

    /// Gives one these permissions, instead of what it had.
    pub(super) fn permit(&self, user: &str, [configure, write, read]: [&str; 3]) {
        let permissions = json!({ "configure": configure, "write": write, "read": read });
        self.management.put(&format!("/permissions/{}/{user}", self.vhost), &permissions);
    }

    /// Gives one these permissions by routing key on a topic exchange.
    pub(super) fn permit_topic(&self, user: &str, exchange: &str, write: &str, read: &str) {
        let permission = json!({ "exchange": exchange, "write": write, "read": read });
        self.management.put(&format!("/topic-permissions/{}/{user}", self.vhost), &permission);
    }

    /// Removes them all.
    pub(super) fn remove(&self) {
        locked(&ALL).remove(&self.vhost);
        for user in locked(&self.names).drain(..) {
            // Nothing to be done where the test left its broker stopped.
            let _ = self.management.try_call("DELETE", &format!("/users/{user}"), None);
        }
    }

    fn sidecar(&self, rights: Rights) -> Address {
        let known = locked(&self.sidecars).iter().find(|(known, _)| *known == rights).cloned();
        if let Some((_, address)) = known {
            return address;
        }
        let number = locked(&self.sidecars).len();
        // A topic permission cannot be given before its exchange exists: a test of its own does.
        let Permissions { configure, write, read, topics: _ } = &rights.permissions;
        let address = self.add(&format!("leveret-{number}"), &rights.tags, [configure, write, read]);
        locked(&self.sidecars).push((rights, address.clone()));
        address
    }
}

/// The URI with a sidecar's own user in place of the administrator. One that names another user stays as it is. An
/// impersonator may send with any `user_id`.
pub(super) fn as_sidecar(uri: &str, config: &Config, impersonator: bool) -> String {
    let tags = [("management", config.management.is_some()), ("impersonator", impersonator)];
    let tags: Vec<_> = tags.into_iter().filter_map(|(tag, given)| given.then_some(tag)).collect();
    let rights = Rights { permissions: Permissions::least(config), tags: tags.join(",") };
    as_other(uri, |users| users.sidecar(rights))
}

/// The URI with the last sidecar's user in place of the administrator, else with one for the configuration.
pub(super) fn as_last_sidecar(uri: &str, config: &Config) -> String {
    as_other(uri, |users| {
        let last = locked(&users.sidecars).last().map(|(_, address)| address.clone());
        let rights = || Rights { permissions: Permissions::least(config), tags: String::new() };
        last.unwrap_or_else(|| users.sidecar(rights()))
    })
}

fn as_other(uri: &str, other: impl FnOnce(&Users) -> Address) -> String {
    let parts = || {
        let (scheme, rest) = uri.split_once("://")?;
        let (userinfo, rest) = rest.rsplit_once('@')?;
        let vhost = rest.rsplit_once('/')?.1.split('?').next()?;
        let users = locked(&ALL).get(vhost)?.clone();
        let Address { user, password, .. } = &users.administrator;
        (userinfo == format!("{user}:{password}")).then_some((scheme, rest, users))
    };
    let Some((scheme, rest, users)) = parts() else { return uri.to_owned() };
    let Address { user, password, .. } = other(&users);
    format!("{scheme}://{user}:{password}@{rest}")
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

//! AMQP URIs: strict where the usual parsers guess, and silent about passwords where they print them.
//!
//! No error shows any piece of the text before the vhost: a password with an unescaped `/` or `@` would come out as a
//! part of the host, the port or the path.

use std::borrow::Cow;
use std::fmt;
use std::net::Ipv6Addr;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::nearest;
use super::secret::{MASK, Secret};

/// The user and the password that every new broker has; it accepts them from its own machine only.
pub(super) const GUEST: &str = "guest";

/// What may stand unescaped in any part of a URI.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const PARAMETERS: [&str; 5] =
    ["heartbeat", "connection_timeout", "channel_max", "frame_max", "auth_mechanism"];

/// One broker to connect to, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether the connection is encrypted (`amqps`).
    pub tls: bool,
    /// Name or address; IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The virtual host, decoded.
    pub vhost: String,
    /// The user, decoded.
    pub username: String,
    /// The password, decoded.
    pub password: Secret,
    /// Authenticate by the client certificate (SASL EXTERNAL) instead of user and password.
    pub external_auth: bool,
    /// Seconds, where the URI says it; it wins over the configured heartbeat.
    pub heartbeat: Option<u16>,
    /// Where the URI says it; it wins over the configured time-out.
    pub connection_timeout: Option<Duration>,
    /// Channels on one connection, where the URI says it.
    pub channel_max: Option<u16>,
    /// Bytes of one frame, where the URI says it.
    pub frame_max: Option<u32>,
}

/// Why a text is not an AMQP URI. Never shows a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// Not `amqp://` or `amqps://`.
    #[error("an AMQP URI begins with amqp:// or amqps://")]
    Scheme,
    /// A character with a meaning of its own stands unescaped in the user or password.
    #[error(
        "percent-encode the special characters of the user name and the password: \
         `/` as %2F, `?` as %3F, `#` as %23, `@` as %40 (an `@` elsewhere in the URI too)"
    )]
    UnescapedUserinfo,
    /// A `%` without two hexadecimal digits, or bytes that are not UTF-8, or a NUL.
    #[error("the {part} is not valid percent-encoded UTF-8 text: write a literal `%` as %25")]
    Encoding {
        /// Which part.
        part: &'static str,
    },
    /// A host is empty or has characters that no host name has.
    #[error("host {number} is not a host name or address{hint}")]
    Host {
        /// The host's place among several, from 1.
        number: usize,
        /// What to write instead.
        hint: &'static str,
    },
    /// A port is not a port.
    #[error("the port of host {number} is not a number from 1 to 65535")]
    Port {
        /// The host's place among several, from 1.
        number: usize,
    },
    /// A lone `/` after the host.
    #[error(
        "the `/` at the end would mean the vhost with the empty name: \
         leave it out for the default vhost `/` (or write /%2f), or write the vhost's name after it"
    )]
    TrailingSlash,
    /// A second `/` in the path.
    #[error("the vhost has a second slash: write a slash that belongs to its name as %2f")]
    SecondSlash,
    /// The vhost's name is longer than AMQP allows.
    #[error("the vhost's name is longer than 255 bytes")]
    VhostTooLong,
    /// A fragment.
    #[error("an AMQP URI has no `#` part: write a `#` that belongs to a name as %23")]
    Fragment,
    /// A query parameter that Leveret does not know.
    #[error("unknown parameter `{name}`: {hint}")]
    UnknownParameter {
        /// Its name.
        name: String,
        /// The nearest valid name, or all of them.
        hint: String,
    },
    /// A query parameter that is there twice.
    #[error("the parameter `{name}` is given twice")]
    RepeatedParameter {
        /// Its name.
        name: &'static str,
    },
    /// A query parameter whose value is out of its range.
    #[error("the parameter `{name}` must be {expected}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// What its value may be.
        expected: &'static str,
    },
}

/// Reads one URI. Several hosts, separated by commas, make several endpoints in the order of fail-over.
///
/// # Errors
/// When the text is not a URI of the AMQP scheme, or would be read in a way that its author hardly meant.
pub fn parse(text: &str) -> Result<Vec<Endpoint>, UriError> {
    let (scheme, rest) = text.trim().split_once("://").ok_or(UriError::Scheme)?;
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "amqp" => false,
        "amqps" => true,
        _ => return Err(UriError::Scheme),
    };
    // The last `@` of the whole text, so that an unescaped one is noticed wherever it stands.
    let (userinfo, rest) =
        rest.rsplit_once('@').map_or((None, rest), |(userinfo, rest)| (Some(userinfo), rest));
    let (username, password) = userinfo.map_or_else(|| Ok((GUEST.into(), GUEST.into())), parse_userinfo)?;
    if rest.contains('#') {
        return Err(UriError::Fragment);
    }
    let (address, query) =
        rest.split_once('?').map_or((rest, None), |(address, query)| (address, Some(query)));
    let (hosts, path) = address.split_once('/').map_or((address, None), |(hosts, path)| (hosts, Some(path)));
    let vhost = path.map_or_else(|| Ok("/".to_owned()), parse_vhost)?;
    let mut first = Endpoint {
        tls,
        host: String::new(),
        port: 0,
        vhost,
        username,
        password: Secret::new(password),
        external_auth: false,
        heartbeat: None,
        connection_timeout: None,
        channel_max: None,
        frame_max: None,
    };
    apply_query(&mut first, query.unwrap_or_default())?;
    hosts
        .split(',')
        .zip(1..)
        .map(|(host, number)| {
            let (host, port) = parse_host(host, number)?;
            Ok(Endpoint { host, port: port.unwrap_or_else(|| default_port(tls)), ..first.clone() })
        })
        .collect()
}

/// The port of AMQP without and with TLS.
pub(super) const fn default_port(tls: bool) -> u16 {
    if tls { 5671 } else { 5672 }
}

/// Reads `host`, `host:port`, `[::1]` or `[::1]:port`; the number is the host's place among several, for errors.
pub(super) fn parse_host(text: &str, number: usize) -> Result<(String, Option<u16>), UriError> {
    let (host, port) = if let Some(bracketed) = text.strip_prefix('[') {
        let hint = ": an IPv6 address is written [::1]";
        let (host, port) = bracketed.split_once(']').ok_or(UriError::Host { number, hint })?;
        host.parse::<Ipv6Addr>().map_err(|_| UriError::Host { number, hint })?;
        let port = if port.is_empty() {
            None
        } else {
            Some(port.strip_prefix(':').ok_or(UriError::Host { number, hint })?)
        };
        (host, port)
    } else if text.parse::<Ipv6Addr>().is_ok() {
        return Err(UriError::Host { number, hint: ": put the IPv6 address in brackets, as in [::1]:5672" });
    } else {
        let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
        if host.is_empty() || !host.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '.' | '_')) {
            return Err(UriError::Host { number, hint: "" });
        }
        (host, port)
    };
    let port = port
        .map(|port| match number_of::<u16>(port) {
            Some(port) if port > 0 => Ok(port),
            _ => Err(UriError::Port { number }),
        })
        .transpose()?;
    Ok((host.to_owned(), port))
}

fn parse_userinfo(text: &str) -> Result<(String, String), UriError> {
    if text.contains(|c: char| matches!(c, '/' | '?' | '#' | '@') || c.is_whitespace()) {
        return Err(UriError::UnescapedUserinfo);
    }
    let (username, password) = text.split_once(':').unwrap_or((text, ""));
    Ok((decode(username, "user name")?, decode(password, "password")?))
}

fn parse_vhost(path: &str) -> Result<String, UriError> {
    if path.is_empty() {
        return Err(UriError::TrailingSlash);
    }
    if path.contains('/') {
        return Err(UriError::SecondSlash);
    }
    let vhost = decode(path, "vhost")?;
    if vhost.len() > 255 { Err(UriError::VhostTooLong) } else { Ok(vhost) }
}

fn apply_query(endpoint: &mut Endpoint, query: &str) -> Result<(), UriError> {
    let mut seen = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let Some(name) = PARAMETERS.into_iter().find(|known| *known == name) else {
            return Err(UriError::UnknownParameter {
                name: name.to_owned(),
                hint: nearest::hint(name, &PARAMETERS),
            });
        };
        if seen.contains(&name) {
            return Err(UriError::RepeatedParameter { name });
        }
        seen.push(name);
        let expected = apply_parameter(endpoint, name, value).err();
        if let Some(expected) = expected {
            return Err(UriError::Parameter { name, expected });
        }
    }
    Ok(())
}

/// Sets one known parameter; the error is what its value may be.
fn apply_parameter(endpoint: &mut Endpoint, name: &str, value: &str) -> Result<(), &'static str> {
    match name {
        "heartbeat" => {
            endpoint.heartbeat = Some(number_of(value).ok_or("a whole number of seconds from 0 to 65535")?);
        }
        "connection_timeout" => {
            let millis = number_of::<u32>(value).filter(|millis| *millis > 0);
            let millis = millis.ok_or("a whole number of milliseconds from 1 on")?;
            endpoint.connection_timeout = Some(Duration::from_millis(millis.into()));
        }
        "channel_max" => {
            endpoint.channel_max = Some(number_of(value).ok_or("a whole number from 0 (no limit) to 65535")?);
        }
        "frame_max" => {
            let bytes = number_of::<u32>(value).filter(|bytes| *bytes == 0 || *bytes >= 4096);
            endpoint.frame_max = Some(bytes.ok_or("0 (no limit) or a number of bytes from 4096 on")?);
        }
        _ => {
            endpoint.external_auth = match value.to_ascii_lowercase().as_str() {
                "plain" => false,
                "external" => true,
                _ => return Err("plain or external"),
            };
        }
    }
    Ok(())
}

/// A number in digits alone: the standard parser would take `+5` too.
fn number_of<T: std::str::FromStr>(text: &str) -> Option<T> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

fn decode(text: &str, part: &'static str) -> Result<String, UriError> {
    let malformed = UriError::Encoding { part };
    let escapes_are_whole = text.split('%').skip(1).all(|after| {
        let mut digits = after.bytes();
        [digits.next(), digits.next()]
            .iter()
            .all(|digit| digit.is_some_and(|digit| digit.is_ascii_hexdigit()))
    });
    if !escapes_are_whole {
        return Err(malformed);
    }
    let decoded = percent_decode_str(text).decode_utf8().map(Cow::into_owned);
    // A NUL separates user and password when they are sent.
    decoded.ok().filter(|decoded| !decoded.contains('\0')).ok_or(malformed)
}

impl Endpoint {
    /// The URI that gives this endpoint, with `***` for its password. The well-known guest account is left out.
    pub(super) fn masked_uri(&self) -> String {
        self.uri(MASK)
    }

    fn uri(&self, password: &str) -> String {
        let encode = |text| utf8_percent_encode(text, ESCAPED).to_string();
        let userinfo = if self.username == GUEST && self.password.expose() == GUEST {
            String::new()
        } else {
            // Encoding `***` would hide that it is a mask; the parser takes it as it is.
            let password = if password == MASK { MASK.to_owned() } else { encode(password) };
            format!("{}:{password}@", encode(&self.username))
        };
        let parameters = [
            self.heartbeat.map(|seconds| format!("heartbeat={seconds}")),
            self.connection_timeout.map(|timeout| format!("connection_timeout={}", timeout.as_millis())),
            self.channel_max.map(|channels| format!("channel_max={channels}")),
            self.frame_max.map(|bytes| format!("frame_max={bytes}")),
            self.external_auth.then(|| "auth_mechanism=external".to_owned()),
        ];
        let query = parameters.into_iter().flatten().collect::<Vec<_>>().join("&");
        format!(
            "{}://{userinfo}{}:{}/{}{}{query}",
            self.scheme(),
            self.bracketed_host(),
            self.port,
            encode(&self.vhost),
            if query.is_empty() { "" } else { "?" },
        )
    }

    const fn scheme(&self) -> &'static str {
        if self.tls { "amqps" } else { "amqp" }
    }

    fn bracketed_host(&self) -> Cow<'_, str> {
        if self.host.contains(':') { format!("[{}]", self.host).into() } else { self.host.as_str().into() }
    }
}

/// `amqp://user@host:port/vhost`, for logs: without the password.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encode = |text| utf8_percent_encode(text, ESCAPED);
        let (username, vhost) = (encode(&self.username), encode(&self.vhost));
        write!(f, "{}://{username}@{}:{}/{vhost}", self.scheme(), self.bracketed_host(), self.port)
    }
}

#[cfg(test)]
mod tests;

//! The URLs of the management API.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ureq::http::Uri;

use super::ManagementError;

/// Everything that is not unreserved in a URL's segment: a virtual host may be named `/`.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Without the query, which says nothing to a person.
pub(super) fn shown(url: &str) -> String {
    url.split('?').next().unwrap_or(url).to_owned()
}

/// Whether the URL asks for encryption.
pub(super) fn check(url: &str) -> Result<bool, ManagementError> {
    let bad = |problem| Err(ManagementError::BadUrl { problem });
    let Ok(uri) = url.parse::<Uri>() else {
        return bad("it is not a url");
    };
    match uri.authority() {
        None => return bad("it names no host"),
        // It would be printed with every error.
        Some(authority) if authority.as_str().contains('@') => {
            return bad("it holds credentials, which have keys of their own");
        }
        Some(authority) if authority.port().is_none() && authority.as_str() != authority.host() => {
            return bad("its port is not a number up to 65535");
        }
        Some(_) => {}
    }
    if uri.query().is_some() {
        return bad("it holds a query");
    }
    match uri.scheme_str() {
        Some("http") => Ok(false),
        Some("https") => Ok(true),
        _ => bad("it begins with neither http:// nor https://"),
    }
}

pub(super) fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

pub(super) fn escape_regex(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_punctuation() {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_urls_are_refused_without_being_repeated() {
        for url in [
            "",
            "localhost",
            "ftp://h",
            "/api",
            "http://me:s3cret@h:1",
            "http://h/?a=b",
            "http://h:x",
            "http://[::1]:70000",
        ] {
            let error = check(url).unwrap_err();
            assert!(matches!(error, ManagementError::BadUrl { .. }), "{url}: {error:?}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn good_urls_say_whether_they_are_encrypted() {
        for (url, encrypted) in [
            ("http://localhost:15672", false),
            ("https://rabbit.example/mq/", true),
            ("http://[::1]:15672", false),
            ("http://[::1]", false),
        ] {
            assert_eq!(check(url).unwrap(), encrypted, "{url}");
        }
    }

    #[test]
    fn a_prefix_is_taken_literally_by_a_regex_and_a_segment_by_a_path() {
        assert_eq!(escape_regex("a.b-c ü"), r"a\.b\-c ü");
        assert_eq!(segment("/a b~ü"), "%2Fa%20b~%C3%BC");
    }
}

//! Writing for people and pipes. What others wrote is made harmless for a terminal before it is shown.

use std::fmt::{Display, Write as _};
use std::io::{self, ErrorKind, Write as _};

use super::exit::Stop;
use crate::domain::time::UnixMillis;

/// Writes data to standard output. That nobody reads it any more (`| head`) is no error.
pub(super) fn print(text: &str) -> Result<(), Stop> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Stop::failure(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a value to standard output as JSON.
pub(super) fn print_json(value: &impl serde::Serialize) -> Result<(), Stop> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|error| Stop::failure(format!("cannot write JSON: {error}")))?;
    print(&format!("{json}\n"))
}

/// Tells the operator something that is not data. Where standard error is closed, there is nobody to tell.
pub(super) fn note(text: &impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Tells an error to the operator.
pub(super) fn complain(error: &impl Display) {
    note(&format_args!("leveret: {error}"));
}

/// Columns as wide as their widest cell, two blanks apart; the last one is as it is.
pub(super) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = head.map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    let mut line = |cells: [&str; N]| {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            // Writing to a String cannot fail.
            let _ = write!(line, "{cell:width$}  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    };
    line(head);
    for row in rows {
        line(row.each_ref().map(String::as_str));
    }
    out
}

/// The text with everything escaped that could garble a terminal or break a line.
pub(super) fn harmless(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if c.is_control() {
            out.extend(c.escape_default())
        } else {
            out.push(c)
        }
        out
    })
}

/// The text with `***` for whatever may be user and password of a URI in it: all from `://` to the last `@` of a line.
pub(super) fn masked(text: &str) -> String {
    let mask = |line: &str| match line.split_once("://") {
        Some((before, after)) if after.contains('@') => {
            let place = after.rsplit_once('@').map_or("", |(_, place)| place);
            format!("{before}://***@{place}")
        }
        _ => line.to_owned(),
    };
    text.split('\n').map(mask).collect::<Vec<_>>().join("\n")
}

/// The exchange's name, in words where it has none.
pub(super) fn exchange(name: &str) -> String {
    if name.is_empty() { "(default)".to_owned() } else { harmless(name) }
}

/// A moment as RFC 3339, or in Unix milliseconds where it is too far for that.
pub(super) fn moment(at: UnixMillis) -> String {
    i64::try_from(at.0)
        .ok()
        .and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok())
        .map_or_else(|| format!("{at} ms"), |at| format!("{at:.3}"))
}

/// `1 message`, `2 messages`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["a".to_owned(), "long text".to_owned()], ["bcd".to_owned(), String::new()]];
        assert_eq!(table(["X", "Y"], &rows), "X    Y\na    long text\nbcd\n");
    }

    #[test]
    fn what_others_wrote_cannot_garble_a_terminal() {
        assert_eq!(harmless("ä\u{1b}[2J\nb"), "ä\\u{1b}[2J\\nb");
    }

    #[test]
    fn a_uri_is_masked_however_its_password_looks() {
        let text = "error: unexpected 'amqp://me:a b@c/d@host/v' found\n\nsee https://example\n";
        assert_eq!(masked(text), "error: unexpected 'amqp://***@host/v' found\n\nsee https://example\n");
    }

    #[test]
    fn moments_are_dates_as_far_as_the_calendar_goes() {
        assert_eq!(moment(UnixMillis(1_767_225_600_007)), "2026-01-01T00:00:00.007Z");
        assert_eq!(moment(UnixMillis(u64::MAX)), "18446744073709551615 ms");
    }
}

//! Measurements as a picture: lateness over time, and how it is distributed. One SVG that needs nothing else, readable
//! on light and dark pages and without seeing all colours.

mod axis;
mod panel;

use std::fmt::Write as _;

use self::axis::Axis;
use self::panel::{Panel, Pen, text};
use super::figure::{grouped, millis};
use super::report::{NO_DELAY, Report, Second};

const WIDTH: f64 = 1_000.0;
const MARGIN: f64 = 24.0;
const PANEL_WIDTH: f64 = 395.0;
const PANEL_HEIGHT: f64 = 300.0;
const LEFT: (f64, f64) = (75.0, 575.0);
const LEGEND_TOP: f64 = 86.0;
const LEGEND_ROW: f64 = 40.0;
const LEGEND_COLUMNS: usize = 5;

/// Texts that are not the first to read.
const MUTED: &str = "#555";
const GRID: &str = "#dcdcdc";
const FAINT: &str = "#f1f1f1";

/// Okabe and Ito's colours, which everybody can tell apart.
const COLOURS: [(&str, &str); 7] = [
    ("leveret", "#0072B2"),
    ("relay", "#E69F00"),
    ("direct", "#606060"),
    ("cascade", "#CC79A7"),
    ("plugin", "#009E73"),
    ("", "#D55E00"),
    ("", "#56B4E9"),
];

/// No message is shown as less late than this, in milliseconds: a logarithmic axis has no zero.
const LEAST_MS: f64 = 0.01;

/// One report, as it is drawn.
struct Series<'a> {
    report: &'a Report,
    colour: &'static str,
}

/// The picture of these reports, each in a colour of its own.
#[must_use]
pub fn svg(reports: &[Report]) -> String {
    let series = coloured(reports);
    let rows = series.len().div_ceil(LEGEND_COLUMNS).max(1);
    let top = LEGEND_TOP + rows as f64 * LEGEND_ROW + 26.0;
    let height = top + PANEL_HEIGHT + 56.0;
    // Not black on black, wherever it is shown.
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" font-size=\"12\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"6\" fill=\"#fff\"/>\n"
    );
    if let Some(headline) = headline(reports) {
        out.push_str(&heading(headline));
        out.push_str(&legend(&series, headline));
    }
    out.push_str(&over_time(&series, top));
    out.push_str(&distribution(&series, top));
    out.push_str("</svg>\n");
    out
}

/// A scheme has its own colour in every picture; what has none, or comes again, gets one that is left.
fn coloured(reports: &[Report]) -> Vec<Series<'_>> {
    let mut left = COLOURS.to_vec();
    let own: Vec<_> = reports
        .iter()
        .map(|report| {
            let at = left.iter().position(|(scheme, _)| *scheme == report.scheme)?;
            Some(left.remove(at).1)
        })
        .collect();
    let mut rest = left.iter().rev().chain(COLOURS.iter().cycle()).map(|(_, colour)| *colour);
    let colour = |own: Option<&'static str>| own.or_else(|| rest.next()).unwrap_or("#000");
    let colours: Vec<_> = own.into_iter().map(colour).collect();
    reports.iter().zip(colours).map(|(report, colour)| Series { report, colour }).collect()
}

/// The report whose settings stand for all: one with delays, where there is one.
fn headline(reports: &[Report]) -> Option<&Report> {
    reports.iter().find(|report| report.settings.delay != NO_DELAY).or_else(|| reports.first())
}

fn heading(headline: &Report) -> String {
    let Report { settings, broker, leveret, .. } = headline;
    let title = "How late messages come: delivered minus due";
    let conditions = format!("{}; {broker}, Leveret {leveret}", settings.describe());
    text((MARGIN, 34.0), "start", "font-size=\"18\" font-weight=\"600\" fill=\"#111\"", title)
        + &text((MARGIN, 56.0), "start", "", &conditions)
}

fn legend(series: &[Series<'_>], headline: &Report) -> String {
    let mut out = String::new();
    let column = (WIDTH - 2.0 * MARGIN) / series.len().clamp(4, LEGEND_COLUMNS) as f64;
    for (index, Series { report, colour }) in series.iter().enumerate() {
        let x = MARGIN + (index % LEGEND_COLUMNS) as f64 * column;
        let y = LEGEND_TOP + (index / LEGEND_COLUMNS) as f64 * LEGEND_ROW;
        let _ = writeln!(
            out,
            "<line x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"4\" \
             stroke-linecap=\"round\"/>",
            x + 22.0
        );
        let attributes = "font-size=\"13\" font-weight=\"600\" fill=\"#222\"";
        out.push_str(&text((x + 31.0, y + 4.0), "start", attributes, &name(report, headline)));
        let figures = report.lateness_ms.map_or_else(
            || "nothing came".to_owned(),
            |late| format!("p50 {}, p99 {}", millis(late.p50), millis(late.p99)),
        );
        out.push_str(&text((x + 31.0, y + 20.0), "start", "", &figures));
    }
    out
}

/// The scheme, and what sets it apart from the settings that stand for all.
fn name(report: &Report, headline: &Report) -> String {
    let mut name = report.scheme.clone();
    if report.settings.delay == NO_DELAY && headline.settings.delay != NO_DELAY {
        name.push_str(", no delay");
    }
    if report.settings.rate != headline.settings.rate {
        let _ = write!(name, ", {}", report.settings.pace());
    }
    if report.settings.pending != headline.settings.pending {
        let _ = write!(name, ", while {} wait", grouped(report.settings.pending));
    }
    name
}

fn over_time(series: &[Series<'_>], top: f64) -> String {
    let seconds = || series.iter().flat_map(|series| &series.report.timeline);
    let last = seconds().map(|second| second.second).max().unwrap_or_default();
    let (least, greatest) = range(seconds().flat_map(|second| [second.p50_ms, second.p99_ms]));
    let panel = Panel {
        left: LEFT.0,
        top,
        width: PANEL_WIDTH,
        height: PANEL_HEIGHT,
        title: "Over time: p50 thick, p99 thin",
        x: Axis::linear(last.into()),
        x_title: "seconds since the first delivery (s)",
        y: Axis::logarithmic(least, greatest),
        y_title: "lateness (ms)",
    };
    // Many seconds are close together.
    let width = if last > 120 { 1.5 } else { 2.6 };
    let mut out = panel.frame();
    for Series { report, colour } in series {
        // A second in which nothing came is no part of a line.
        for run in report.timeline.chunk_by(|one, next| one.second + 1 == next.second) {
            let points = |value: fn(&Second) -> f64| -> Vec<_> {
                run.iter().map(|second| (f64::from(second.second), value(second))).collect()
            };
            let thick = Pen { colour, width, opacity: 1.0 };
            let thin = Pen { width: width * 0.4, opacity: 0.85, ..thick };
            out.push_str(&panel.line(&points(|second| second.p99_ms), thin));
            out.push_str(&panel.line(&points(|second| second.p50_ms), thick));
        }
    }
    out
}

fn distribution(series: &[Series<'_>], top: f64) -> String {
    let most = series.iter().map(|series| series.report.delivered).max().unwrap_or_default();
    // As far down as one message counts, within reason, and to the percentile that tables tell.
    let least_percent = (100.0 / most.max(1) as f64).clamp(0.001, 0.1);
    let curves: Vec<_> = series.iter().map(|series| later_than(series.report, least_percent)).collect();
    let (least, greatest) = range(curves.iter().flatten().map(|(ms, _)| *ms));
    let panel = Panel {
        left: LEFT.1,
        top,
        width: PANEL_WIDTH,
        height: PANEL_HEIGHT,
        title: "Distribution: how many messages are later",
        x: Axis::logarithmic(least, greatest),
        x_title: "lateness (ms)",
        y: Axis::logarithmic(least_percent, 100.0),
        y_title: "messages that are later (%)",
    };
    let mut out = panel.frame();
    for (Series { colour, .. }, curve) in series.iter().zip(&curves) {
        out.push_str(&panel.line(curve, Pen { colour, width: 2.2, opacity: 1.0 }));
    }
    for (percent, name) in [(50.0, "p50"), (10.0, "p90"), (1.0, "p99"), (0.1, "p99.9")] {
        out.push_str(&panel.mark(percent, name));
    }
    out
}

/// Points of lateness in milliseconds and the percentage of messages that are later: from all of them to the first
/// percentage that is not above `least`.
fn later_than(report: &Report, least: f64) -> Vec<(f64, f64)> {
    let buckets = &report.distribution;
    let all: u64 = buckets.iter().map(|bucket| bucket.count).sum();
    let Some(latest) = report.lateness_ms else { return Vec::new() };
    let mut left = all;
    // The first bucket begins at 0, which is nowhere on a logarithmic axis.
    let mut below_ms = buckets.first().map_or(0.0, |first| first.up_to_ms / 2.0);
    let mut points = Vec::new();
    for bucket in buckets {
        if points.is_empty() && bucket.count > 0 {
            points.push((below_ms, 100.0));
        }
        left -= bucket.count;
        below_ms = bucket.up_to_ms;
        if !points.is_empty() {
            let percent = left as f64 / all as f64 * 100.0;
            points.push((below_ms.min(latest.max), percent));
            if percent <= least {
                break;
            }
        }
    }
    points
}

/// The least and the greatest value, as far as a logarithmic axis can show them.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, greatest) = values
        .map(|value| value.max(LEAST_MS))
        .fold((f64::INFINITY, LEAST_MS), |(least, greatest), value| (least.min(value), greatest.max(value)));
    (least.min(greatest), greatest)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests;

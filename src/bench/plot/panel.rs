//! A rectangle with two axes, and lines in it.

use std::fmt::Write as _;

use super::axis::Axis;
use super::{FAINT, GRID, MUTED, escaped};

/// Where a panel is in the picture, and what its axes mean.
pub(super) struct Panel<'a> {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) title: &'a str,
    /// The horizontal axis, and what it says with its unit.
    pub(super) x: Axis,
    pub(super) x_title: &'a str,
    /// The vertical axis, and what it says with its unit.
    pub(super) y: Axis,
    pub(super) y_title: &'a str,
}

/// How a line looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pen {
    pub(super) colour: &'static str,
    pub(super) width: f64,
    pub(super) opacity: f64,
}

impl Panel<'_> {
    /// Grid, frame and texts.
    pub(super) fn frame(&self) -> String {
        let Self { left, top, width, height, .. } = *self;
        let (right, bottom) = (left + width, top + height);
        let mut out = String::new();
        for tick in self.x.ticks() {
            let x = left + tick.at * width;
            out.push_str(&line((x, top), (x, bottom), if tick.label.is_some() { GRID } else { FAINT }));
            if let Some(label) = tick.label {
                out.push_str(&text((x, bottom + 17.0), "middle", "", &label));
            }
        }
        for tick in self.y.ticks() {
            let y = bottom - tick.at * height;
            out.push_str(&line((left, y), (right, y), if tick.label.is_some() { GRID } else { FAINT }));
            if let Some(label) = tick.label {
                out.push_str(&text((left - 7.0, y + 4.0), "end", "", &label));
            }
        }
        let _ = writeln!(
            out,
            r##"<rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}" fill="none" stroke="#8a8a8a"/>"##
        );
        out.push_str(&text(
            (left, top - 12.0),
            "start",
            r##"font-size="14" font-weight="600" fill="#222""##,
            self.title,
        ));
        out.push_str(&text((left + width / 2.0, bottom + 38.0), "middle", "", self.x_title));
        let (x, y) = (left - 50.0, top + height / 2.0);
        let turned = format!(r#"transform="rotate(-90 {x:.1} {y:.1})""#);
        out.push_str(&text((x, y), "middle", &turned, self.y_title));
        out
    }

    /// A line through these points. One point is a dot.
    pub(super) fn line(&self, points: &[(f64, f64)], pen: Pen) -> String {
        let mut path = String::new();
        for (index, point) in points.iter().enumerate() {
            let (x, y) = self.place(*point);
            let _ = write!(path, "{}{x:.1},{y:.1}", if index == 0 { "M" } else { " " });
        }
        if points.len() == 1 {
            // Of no length, yet with round ends.
            path.push_str("h0");
        }
        let Pen { colour, width, opacity } = pen;
        format!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-opacity=\"{opacity}\" stroke-linejoin=\"round\" stroke-linecap=\"round\"/>\n"
        )
    }

    /// Names a value of the vertical axis.
    pub(super) fn mark(&self, y: f64, name: &str) -> String {
        let (_, y) = self.place((0.0, y));
        let right = self.left + self.width;
        // A line may pass here.
        let halo = "font-size=\"11\" stroke=\"#fff\" stroke-width=\"4\" paint-order=\"stroke\"";
        format!(
            "<line x1=\"{:.1}\" y1=\"{y:.1}\" x2=\"{right:.1}\" y2=\"{y:.1}\" stroke=\"#b0b0b0\" \
             stroke-dasharray=\"2 4\"/>\n",
            self.left
        ) + &text((right - 5.0, y - 4.0), "end", halo, name)
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let (across, up) = (self.x.position(x), self.y.position(y));
        (self.left + across * self.width, self.top + (1.0 - up) * self.height)
    }
}

/// A text; what `attributes` does not say is that of the whole picture.
pub(super) fn text((x, y): (f64, f64), anchor: &str, attributes: &str, text: &str) -> String {
    let fill = if attributes.contains("fill=") { String::new() } else { format!("fill=\"{MUTED}\" ") };
    let text = escaped(text);
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {fill}{attributes}>{text}</text>\n")
}

fn line((x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str) -> String {
    format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>\n")
}

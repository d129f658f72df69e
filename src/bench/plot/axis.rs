//! Where a value is along an axis, and which values are named there.

use super::super::figure::grouped;

/// What a logarithmic axis is divided by between powers of ten.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];

/// One axis of a panel, from left to right or from bottom to top.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Scale {
    Linear,
    Logarithmic,
}

/// A line across the panel.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    /// From 0 at the axis's beginning to 1 at its end.
    pub(super) at: f64,
    /// Absent for lines that only help the eye.
    pub(super) label: Option<String>,
}

impl Axis {
    /// From 0 to at least `to`.
    pub(super) fn linear(to: f64) -> Self {
        Self { scale: Scale::Linear, from: 0.0, to: to.max(1.0) }
    }

    /// From the round number below the least value to the one above the greatest, and at least one power of ten.
    pub(super) fn logarithmic(least: f64, greatest: f64) -> Self {
        let from = round_down(least);
        let to = round_up(greatest).max(from * 10.0);
        Self { scale: Scale::Logarithmic, from, to }
    }

    /// From 0 at the axis's beginning to 1 at its end; what is beyond is at that end.
    pub(super) fn position(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Logarithmic => (value.max(self.from) / self.from).log10() / (self.to / self.from).log10(),
        };
        share.clamp(0.0, 1.0)
    }

    /// The lines to draw.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        match self.scale {
            Scale::Linear => self.linear_ticks(),
            Scale::Logarithmic => self.logarithmic_ticks(),
        }
    }

    fn linear_ticks(&self) -> Vec<Tick> {
        // Not more than about eight of them.
        let step = round_up(self.to / 8.0).max(1.0);
        let count = (self.to / step).floor() as u64;
        (0..=count)
            .map(|index| index as f64 * step)
            .map(|value| Tick { at: self.position(value), label: Some(label(value)) })
            .collect()
    }

    fn logarithmic_ticks(&self) -> Vec<Tick> {
        let decades = (self.to / self.from).log10();
        let exponents = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
        let candidates = exponents.flat_map(|exponent| (1..10).map(move |digit| (digit, exponent)));
        let tick = |(digit, exponent): (i32, i32)| {
            let value = f64::from(digit) * 10_f64.powi(exponent);
            let named = digit == 1 || (decades <= 2.5 && matches!(digit, 2 | 5));
            let inside = value >= self.from * 0.999 && value <= self.to * 1.001;
            inside.then(|| Tick { at: self.position(value), label: named.then(|| label(value)) })
        };
        candidates.filter_map(tick).collect()
    }
}

fn label(value: f64) -> String {
    // A power of ten may come out slightly below itself.
    let whole = value.round();
    if whole >= 1.0 || value == 0.0 {
        return grouped(whole as u64);
    }
    let decimals = -value.log10().floor() as usize;
    format!("{value:.decimals$}")
}

/// The greatest of 1, 2, 5, 10, 20 … and their fractions that is not above.
fn round_down(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    let step = STEPS.into_iter().rev().find(|step| step * decade <= value * 1.000_001);
    step.unwrap_or(1.0) * decade
}

/// The least of 1, 2, 5, 10, 20 … and their fractions that is not below.
fn round_up(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    let step = STEPS.into_iter().find(|step| step * decade >= value * 0.999_999);
    step.unwrap_or(10.0) * decade
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: Axis) -> Vec<String> {
        axis.ticks().into_iter().filter_map(|tick| tick.label).collect()
    }

    #[test]
    fn limits_are_round_numbers() {
        assert_eq!([0.13, 0.2, 3.0, 7.0, 99.0].map(round_down), [0.1, 0.2, 2.0, 5.0, 50.0]);
        assert_eq!([0.13, 0.2, 3.0, 7.0, 101.0].map(round_up), [0.2, 0.2, 5.0, 10.0, 200.0]);
    }

    #[test]
    fn an_axis_runs_from_its_beginning_to_its_end() {
        let axis = Axis::logarithmic(0.1, 1_000.0);
        assert_eq!(
            [0.0, 0.1, 10.0, 1_000.0, 5_000.0].map(|value| axis.position(value)),
            [0.0, 0.0, 0.5, 1.0, 1.0]
        );
        let axis = Axis::linear(20.0);
        assert_eq!([0.0, 5.0, 20.0, 30.0].map(|value| axis.position(value)), [0.0, 0.25, 1.0, 1.0]);
    }

    #[test]
    fn few_values_are_named() {
        assert_eq!(labels(Axis::logarithmic(0.1, 10_000.0)), ["0.1", "1", "10", "100", "1,000", "10,000"]);
        assert_eq!(labels(Axis::logarithmic(3.0, 14.0)), ["2", "5", "10", "20"]);
        assert_eq!(labels(Axis::logarithmic(0.01, 0.01)), ["0.01", "0.02", "0.05", "0.1"]);
        assert_eq!(labels(Axis::logarithmic(0.001, 0.002)), ["0.001", "0.002", "0.005", "0.01"]);
        assert_eq!(labels(Axis::linear(36.0)), ["0", "5", "10", "15", "20", "25", "30", "35"]);
        assert_eq!(labels(Axis::linear(0.0)), ["0", "1"]);
    }

    #[test]
    fn every_tick_is_on_the_axis_once() {
        for (least, greatest) in [(0.1, 0.1), (0.37, 81.0), (5.0, 4_999.0)] {
            let ticks = Axis::logarithmic(least, greatest).ticks();
            assert!(ticks.is_sorted_by(|one, next| one.at < next.at), "{ticks:?}");
            assert!(ticks.iter().all(|tick| (0.0..=1.0).contains(&tick.at)), "{ticks:?}");
        }
    }
}

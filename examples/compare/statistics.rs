//! Medians, and ratios to a reference of the same round: what a noisy machine does to one round, it does to both.

use std::fmt;

use leveret::bench::figure::rounded;

/// What several rounds come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
    pub(crate) rounds: usize,
}

impl Summary {
    /// `None` of nothing.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        let lower = if values.len().is_multiple_of(2) { *values.get(middle - 1)? } else { upper };
        Some(Self {
            median: f64::midpoint(lower, upper),
            least: *values.first()?,
            greatest: *values.last()?,
            rounds: values.len(),
        })
    }
}

/// The median, and between which values the rounds were.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&rounded(self.median))?;
        if self.rounds > 1 {
            write!(f, " ({} to {})", rounded(self.least), rounded(self.greatest))?;
        }
        Ok(())
    }
}

/// The ratio in each round that has both.
pub(crate) fn ratios(figures: &[Option<f64>], references: &[Option<f64>]) -> Vec<f64> {
    let both = figures.iter().zip(references).filter_map(|(figure, reference)| figure.zip(*reference));
    both.filter(|(_, reference)| *reference > 0.0).map(|(figure, reference)| figure / reference).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn median(values: &[f64]) -> Option<f64> {
        Summary::of(values.iter().copied()).map(|summary| summary.median)
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 5.0, 6.0]), Some(5.5));
    }

    #[test]
    fn a_ratio_is_of_one_round() {
        let figures = [Some(2.0), None, Some(30.0), Some(4.0)];
        let references = [Some(1.0), Some(1.0), Some(10.0), Some(0.0)];
        assert_eq!(ratios(&figures, &references), [2.0, 3.0]);
        // The median of ratios, not the ratio of medians: (1 + 9 + 10) would give 9 / 2.
        let ratios = ratios(&[Some(1.0), Some(9.0), Some(10.0)], &[Some(2.0), Some(1.0), Some(5.0)]);
        assert_eq!(Summary::of(ratios).unwrap().median, 2.0);
    }

    #[test]
    fn one_round_has_no_range() {
        assert_eq!(Summary::of([1.0]).unwrap().to_string(), "1.00");
        assert_eq!(Summary::of([1.0, 2.0, 0.5]).unwrap().to_string(), "1.00 (0.500 to 2.00)");
    }
}

//! Parts of a long run, each with what it came to.

use leveret::bench::report::{Report, Second};

use crate::statistics::Summary;
use crate::watching::Sample;

/// What a part of the time came to. What nothing was measured of is absent.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Part {
    /// The median of the medians of each second.
    pub(super) p50_ms: Option<f64>,
    /// The median of the 99th percentiles of each second.
    pub(super) p99_ms: Option<f64>,
    pub(super) latest_ms: Option<f64>,
    /// Of each figure the greatest.
    pub(super) greatest: Sample,
}

/// One of several equal parts, the first of which is 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    index: usize,
    of: usize,
}

/// That part of so many.
pub(super) fn share(index: usize, of: usize) -> Share {
    Share { index, of }
}

impl Share {
    /// Whether this part has the position, of those from 0 to less than `count`.
    fn has(self, position: usize, count: usize) -> bool {
        position * self.of / count.max(1) == self.index
    }
}

impl Part {
    pub(super) fn of(report: &Report, samples: &[Sample], share: Share) -> Self {
        // A second in which nothing came is left out of the timeline, but took its time.
        let count = report.timeline.last().map_or(0, |last| last.second as usize + 1);
        let seconds: Vec<_> =
            report.timeline.iter().filter(|second| share.has(second.second as usize, count)).collect();
        let median = |figure: fn(&Second) -> f64| {
            Some(Summary::of(seconds.iter().map(|second| figure(second)))?.median)
        };
        let samples = samples.iter().enumerate();
        let count = samples.len();
        Self {
            p50_ms: median(|second| second.p50_ms),
            p99_ms: median(|second| second.p99_ms),
            latest_ms: seconds.iter().map(|second| second.max_ms).max_by(f64::total_cmp),
            greatest: samples
                .filter(|(position, _)| share.has(*position, count))
                .map(|(_, sample)| *sample)
                .fold(Sample::default(), greatest),
        }
    }
}

/// Nothing is less than anything.
fn greatest(one: Sample, other: Sample) -> Sample {
    Sample {
        broker_bytes: one.broker_bytes.max(other.broker_bytes),
        broker_files: one.broker_files.max(other.broker_files),
        leveret_bytes: one.leveret_bytes.max(other.leveret_bytes),
        leveret_files: one.leveret_files.max(other.leveret_files),
        disk_bytes: one.disk_bytes.max(other.disk_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::measuring::Run;

    #[test]
    fn parts_are_equal_and_every_position_is_in_one() {
        for (count, parts) in [(20, 10), (23, 4), (3, 10), (1, 1)] {
            let sizes: Vec<_> = (0..parts)
                .map(|index| (0..count).filter(|position| share(index, parts).has(*position, count)).count())
                .collect();
            assert_eq!(sizes.iter().sum::<usize>(), count);
            let (least, most) = (sizes.iter().min(), sizes.iter().max());
            assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{sizes:?}");
        }
    }

    #[test]
    fn a_part_has_medians_of_its_seconds_and_the_greatest_of_its_samples() {
        let second = |second, p50_ms, p99_ms, max_ms| Second { second, delivered: 1, p50_ms, p99_ms, max_ms };
        let report = fake::report(&Run::example("leveret", 500), 8.0);
        // Of ten seconds, nothing came in 3 and 4, which are of the first half all the same.
        let timeline = [(0, 1.0), (1, 9.0), (2, 2.0), (5, 7.0), (9, 5.0)];
        let timeline = timeline.map(|(at, p50)| second(at, p50, p50 * 2.0, p50 * 3.0)).to_vec();
        let report = Report { timeline, ..report };
        let sample = |broker_bytes| Sample { broker_bytes, disk_bytes: Some(4), ..Sample::default() };
        let samples = [Some(3), None, Some(2), Some(8)].map(sample);
        let half = |index| Part::of(&report, &samples, share(index, 2));
        assert_eq!((half(0).p50_ms, half(0).p99_ms, half(0).latest_ms), (Some(2.0), Some(4.0), Some(27.0)));
        assert_eq!(half(0).greatest, sample(Some(3)));
        assert_eq!((half(1).p50_ms, half(1).greatest.broker_bytes), (Some(6.0), Some(8)));
    }

    #[test]
    fn nothing_measured_is_nothing_told() {
        let report = fake::report(&Run::example("leveret", 500), 8.0);
        let report = Report { timeline: Vec::new(), ..report };
        assert_eq!(Part::of(&report, &[], share(0, 10)), Part::default());
    }
}

//! Measuring delayed messages: what comes, how late, and at which cost. Leveret and what people would use instead are
//! measured by the same code.

pub mod figure;
pub mod report;
pub mod tally;

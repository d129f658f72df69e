//! Measures a broker with and without Leveret: publishes at a steady rate, consumes, and tells how late messages came
//! and what that cost. Of several schemes, so that a figure never stands without what it is compared with.

mod collecting;
pub mod figure;
pub mod load;
pub mod plot;
mod progress;
mod publishing;
pub mod relay;
pub mod report;
mod run;
pub mod scheme;
pub mod tally;
mod usage;

pub use self::run::{BenchError, Plan, run};

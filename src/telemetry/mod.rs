//! Names every metric, sets up logs.

pub mod logs;
pub mod metrics;
pub mod process;

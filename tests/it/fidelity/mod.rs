//! What comes out is what went in, when it is due: each header, property and exchange type, and what means nothing.

mod bundles;
mod due_times;
mod exchanges;
pub(crate) mod expected;
mod invalid_delays;
mod limits;
mod properties;
mod redelivery;
mod republish;
pub(crate) mod scene;
mod users;

use crate::harness::runner::Case;

pub(crate) const CASES: &[&[Case]] = &[
    bundles::CASES,
    due_times::CASES,
    exchanges::CASES,
    invalid_delays::CASES,
    limits::CASES,
    properties::CASES,
    redelivery::CASES,
    republish::CASES,
    users::CASES,
];

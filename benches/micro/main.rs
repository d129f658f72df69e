//! What the pieces of Leveret cost by themselves, without a broker: time, and allocations.
//!
//! `make bench-micro`, or `cargo bench --bench micro -- codec` for those whose path has that in it. Figures are of one
//! machine at one moment: compare two of the same run, or of the same hour.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark stops at the first thing that it did not expect"
)]

mod codec;
mod delivery;
mod due;
mod packer;
mod planner;
mod properties;
mod sample;
mod settlement;

#[global_allocator]
static ALLOCATOR: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

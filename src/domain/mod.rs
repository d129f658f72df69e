//! The pure core: what is due when, and which way a message goes. Knows neither AMQP client, HTTP nor clock.

pub mod due;
pub mod duration;
pub mod header;
pub mod ladder;
pub mod park;
pub mod plan;
pub mod time;
pub mod queue;

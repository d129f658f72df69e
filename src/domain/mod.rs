//! The pure core: what is due when, and which way a message goes. Knows neither AMQP client, HTTP nor clock.

pub mod bundle;
pub mod codec;
pub mod due;
pub mod duration;
pub mod header;
pub mod hold;
pub mod ladder;
pub mod message;
pub mod packer;
pub mod park;
pub mod plan;
pub mod prefetch;
pub mod queue;
pub mod settlement;
pub mod time;

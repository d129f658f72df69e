//! Integration tests against real brokers.

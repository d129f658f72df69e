//! Names every metric, sets up logs.

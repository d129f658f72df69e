//! Everything that touches the AMQP client: connections, topology, audit, consuming, publishing.

//! Joins the domain and AMQP: intake, packing, holding, delivery, settling.

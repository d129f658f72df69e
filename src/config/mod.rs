//! Configuration: one YAML file, environment overrides, defaults; read raw, then checked whole.

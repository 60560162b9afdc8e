//! What tasks do: programs, rt-app JSON and scenario TOML.
pub mod program;
pub mod random;

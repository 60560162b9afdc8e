//! The deterministic machine that hosts the zerolag scheduler.

//! Nothing but the place of `tests/`: libraries that are written for tokio, used unchanged in tasks
//! of `zerolag-runtime`.

//! The scheduler of zerolag: a state machine without I/O.

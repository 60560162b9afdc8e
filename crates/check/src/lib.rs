//! Monitors: the specification of zerolag, executable over any trace.

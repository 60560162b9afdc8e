//! Published experiments, repeated.

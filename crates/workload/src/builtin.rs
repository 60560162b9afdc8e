//! Programs made in code.

//! zerolag.

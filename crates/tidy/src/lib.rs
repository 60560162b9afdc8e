//! The rules of `ARCHITECTURE.md` and `CONTRIBUTING.md` that a compiler does not know.
//!
//! They are the tests of this crate (`./x tidy`). It depends on the model only, for the names of
//! settings, so a change of any other crate compiles nothing here.

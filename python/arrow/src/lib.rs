//! A [`Frame`] over the Arrow C stream interface, so that pandas, polars, pyarrow and DuckDB read it.
//!
//! The interface is three structs of C and a few rules about their ends. `arrow-array` implements
//! all of Arrow behind it and makes the Python module 0.9 MB larger; `pyo3-arrow` makes it three
//! times as large. A frame has five kinds of columns and one batch, which is little code, and its
//! numbers are lent to the reader instead of copied.
//!
//! | module | holds |
//! |---|---|
//! | `abi` | the structs of C: [`ArrowSchema`], [`ArrowArray`], [`ArrowArrayStream`] |
//! | `fill` | what is in them, for a frame; the only module with `unsafe` |
//! | `pack` | the buffers that are not lent: bits, and texts behind each other |
//!
//! ```text
//! Frame ──stream()──► ArrowArrayStream ──get_schema──► ArrowSchema   each ends by its own `release`,
//!                            └──────────get_next────► ArrowArray     on any thread, in any order
//! ```
//!
//! Sources: <https://arrow.apache.org/docs/format/CDataInterface.html>, `CStreamInterface.html`,
//! read 2026-11 for the layout of the structs and the rules of release callbacks.
#![warn(missing_docs)]

mod abi;
mod fill;
mod pack;

pub use abi::{ArrowArray, ArrowArrayStream, ArrowSchema};
pub use fill::{schema, stream};

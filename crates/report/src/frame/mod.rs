//! Figures and events as tables of typed columns: [`Frame`]s, for programs that compute on.
//!
//! A frame has the name of its list in the JSON of [`crate::json`], and its columns have the paths
//! of the values there (`wakeup_latency.p99_ns`, `cpu.stat.nr_throttled`), with these differences:
//!
//! * Maps become their sum (`migrations`); lists within an entry are left out.
//! * Ids of tasks get a column with the name next to them.
//! * [`rows`] and [`buckets`] are not part of the JSON: a row per event, and histograms.
//!
//! Units are in the names. A value that does not exist is missing, and not zero.
//!
//! | module | frames |
//! |---|---|
//! | [`summary`] | `tasks`, `cpus`, `groups`, `services`, `worst_waits`: the figures of a [`Summary`](crate::Summary) |
//! | [`rows`] | `switches`, `waits`, `requests`: a row per event of a trace |
//! | [`buckets`] | `histograms`: the distributions behind the quantiles |
//! | [`columns`] | [`Frame`], [`Column`], [`Values`] |
//! | [`csv`], [`parquet`] | a frame as a file |

pub mod buckets;
pub mod columns;
pub mod csv;
pub mod parquet;
pub mod rows;
pub mod summary;

pub use buckets::Bucket;
pub use columns::{Column, Frame, Values};
pub use rows::{Follower, Rows};

//! Reports as one HTML file.
//!
//! People look before they read, and a picture that needs a server, a build or a network is not
//! looked at. So a report is one file that opens anywhere: texts and tables are plain HTML, which
//! needs no script; plots are SVG; and the timeline is drawn by a script of this crate from columns
//! of numbers, packed into the file.
//!
//! ```text
//! records ─► Recorder ─► Timeline ─┬─► plots over time ─┐
//! Summary, buckets, Explanation ───┴────────────────────┴─► Page ─► one file
//! ```
//!
//! | module | gives |
//! |---|---|
//! | [`page`] | [`Page`]: the parts of a report in their order; writes the file |
//! | [`timeline`] | [`Recorder`]: follows records, stored or live; [`Timeline`](timeline::Timeline) |
//! | [`pyramid`] | [`Pyramid`](pyramid::Pyramid): a timeline at several levels, for pages with a server |
//! | [`plots`] | plots of distributions, and of the load over time |
//! | [`pack`] | the columns of a page: numbers as bytes, deflated, as text |
//! | [`escape`](mod@escape) | texts that a page can contain |
//! | `waits`, `icicle`, `table` | the parts of a page with all waits by cause, and how it shows rows |
//! | `state` | the scheduler's own numbers below the timeline, and its decisions |
//!
//! A page shows names that others chose: of tasks, groups, files. They are escaped in one place,
//! and the page's policy (`Content-Security-Policy`) allows no script but this crate's, by its
//! hash, and no network.
#![warn(missing_docs)]

pub mod escape;
mod icicle;
pub mod pack;
pub mod page;
pub mod plots;
pub mod pyramid;
mod state;
mod table;
pub mod timeline;
mod waits;

pub use page::Page;
pub use timeline::Recorder;

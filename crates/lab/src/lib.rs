//! How zerolag is judged: by published experiments, by recorded kernels, by random scenarios, and
//! by specs.
//!
//! A library that is used to decide things must show what it is wrong about. Everything that shows
//! it is here, and not in `zerolag`: a front end that only simulates compiles none of it. The
//! program `zerolag` has a subcommand per module, and the tests of this crate run the same
//! functions over the repository. The interface is that of the program: it promises nothing from
//! one version to the next.
//!
//! | module | gives |
//! |---|---|
//! | [`repro`] | published experiments, repeated: our figures next to the published ones |
//! | [`validate`] | simulation results compared with recorded kernels |
//! | [`fuzz`] | whole scenarios at random, judged and shrunk |
//! | [`round_trip`] | traces, written in each format and read again |
//! | [`spec`] | Markdown specs with expected timelines |
//! | [`DOCUMENTS`] | the published forms of their JSON results |
#![warn(missing_docs)]

pub mod fuzz;
pub mod repro;
pub mod round_trip;
pub mod spec;
pub mod validate;

use zerolag::results::Document;

/// The published forms of the results of this crate.
pub const DOCUMENTS: &[Document] = &[
    validate::json::DOCUMENT,
    #[cfg(target_os = "linux")]
    validate::json::LIVE,
    repro::rt_balance::DOCUMENT,
    repro::dl_server::DOCUMENT,
    repro::inversion::DOCUMENT,
    repro::bandwidth::DOCUMENT,
    repro::rt_ipi::DOCUMENT,
];

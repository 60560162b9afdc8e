//! The published form of the JSON results of this library ([`Document`]).

pub use crate::document::{Document, schema, text};

/// The results of this library. The program adds those of its tools.
pub const DOCUMENTS: &[Document] = &[
    crate::simulation::DOCUMENT,
    crate::compare::DOCUMENT,
    crate::compare::SUITE,
    crate::sweep::view::DOCUMENT,
    crate::sweep::search::DOCUMENT,
    crate::sweep::shard::DOCUMENT,
    crate::sweep::resume::DOCUMENT,
    crate::explanation::DOCUMENT,
    crate::import::DOCUMENT,
    crate::advise::view::DOCUMENT,
    crate::advise::counters::DOCUMENT,
    crate::analyse::view::DOCUMENT,
    crate::simulation::verdicts::DOCUMENT,
    crate::settings::DOCUMENT,
    crate::validate::json::DOCUMENT,
    #[cfg(target_os = "linux")]
    crate::validate::json::LIVE,
    crate::tools::json::TIMERLAT,
    crate::tools::json::OSNOISE,
    crate::repro::rt_balance::DOCUMENT,
    crate::repro::dl_server::DOCUMENT,
    crate::repro::inversion::DOCUMENT,
    crate::repro::bandwidth::DOCUMENT,
    crate::repro::rt_ipi::DOCUMENT,
];

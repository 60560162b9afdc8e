//! The published form of the JSON results of this library ([`Document`]).

pub use crate::document::{Document, schema, text, value};

/// The results of this library. The program adds those of its tools and of the laboratory.
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
    crate::advise::budget::DOCUMENT,
    crate::advise::counters::DOCUMENT,
    crate::analyse::view::DOCUMENT,
    crate::simulation::verdicts::DOCUMENT,
    crate::settings::DOCUMENT,
];

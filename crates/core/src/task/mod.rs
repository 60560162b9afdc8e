//! Tasks: their bodies, where a run queue keeps them, and the buffers in which a call hands them
//! out.

pub(crate) mod body;
pub(crate) mod deadline;
pub(crate) mod io;
pub(crate) mod slab;

//! Tasks: their bodies, the slab in which a run queue keeps them, and the buffers with which a call
//! returns them.

pub(crate) mod body;
pub(crate) mod deadline;
pub(crate) mod io;
pub(crate) mod slab;

//! [`Trace`]: a whole trace in memory.

use crate::meta::Meta;
use zerolag_model::Record;

/// A whole trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// What it says about itself.
    pub meta: Meta,
    /// What happened, in order of time.
    pub records: Vec<Record>,
}

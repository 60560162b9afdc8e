//! [`Trace`]: a whole trace in memory.

use crate::meta::Meta;
use zerolag_model::Record;

/// A whole trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// The description of the run.
    pub meta: Meta,
    /// The records, in order of time.
    pub records: Vec<Record>,
}

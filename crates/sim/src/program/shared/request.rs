//! Requests of services, from their arrival to their completion.

use zerolag_model::TaskId;
use zerolag_workload::Stream;
use zerolag_workload::program::ResourceId;

/// A request that waits in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingRequest {
    /// Its number in its queue.
    pub(crate) request: u64,
    pub(crate) by: Sender,
}

/// The sender of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sender {
    /// A source of the program, whose n-th request it is.
    Source { index: usize, nth: u64 },
    /// A task, and the task that waits for the completion. What the request draws follows from the
    /// key.
    Task { waits: Option<TaskId>, key: u64 },
}

/// The request that a task works on.
#[derive(Clone, Debug)]
pub(crate) struct InService {
    pub(crate) queue: ResourceId,
    pub(crate) sent: WaitingRequest,
    /// The stream that the request draws from; made when it first does.
    pub(crate) stream: Option<Stream>,
}

//! Entry points of deadline servers: their parameters. The rules are those of
//! [`crate::class::dl_server`].

use crate::class::dl_server;
use crate::entry::scheduler::Scheduler;
use crate::lifecycle;
use crate::queue::dl::server;
use crate::rq::run_queue::Rq;
use crate::task::io::Io;
use crate::words::clock::Clock;
use crate::words::error::ServerError;
use lock_api::RawMutex;
use zerolag_model::{ServerKind, ServerParams};

impl<L: RawMutex> Scheduler<L> {
    /// Changes the runtime and the period of a CPU's deadline server (`fair_server/cpuN/runtime`,
    /// `period`). O(CPUs of the domain).
    ///
    /// Linux v6.12 `kernel/sched/debug.c`, `sched_fair_server_write`; `deadline.c`,
    /// `dl_server_apply_params`.
    ///
    /// # Errors
    /// The parameters are invalid, or the root domain is booked up; nothing is changed then.
    pub fn set_server(
        &self,
        rq: &mut Rq,
        now: Clock,
        kind: ServerKind,
        params: ServerParams,
        io: &mut Io,
    ) -> Result<(), ServerError> {
        if !params.is_valid() {
            return Err(ServerError::Params);
        }
        let (old, new) = (server::bandwidth(rq.dl.server(kind).params), server::bandwidth(params));
        self.rebook(self.shared.domain_of(rq.cpu()), old, new, now.wall).map_err(ServerError::NoBandwidth)?;
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        lifecycle::charge_current(rq, cx);
        dl_server::set_params(rq, cx, kind, params);
        rq.publish(cx);
        Ok(())
    }
}

//! [`Pool`]: threads without a CPU, which wait until one is handed over.
//!
//! A thread that has lost its CPU in a long poll comes here when the poll ends, so tasks whose
//! polls are always too long cause no new threads. There are at most as many threads as CPUs, polls
//! that have lost their CPU (`detached_max`), and the clock.

use crate::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;
use zerolag_model::CpuId;

/// A thread that no CPU needs ends after this time.
const IDLE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct PoolState {
    requests: VecDeque<CpuId>,
    idle: usize,
    is_closed: bool,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Pool {
    state: Mutex<PoolState>,
    changed: Condvar,
}

impl Pool {
    /// Asks a waiting thread to take a CPU over; returns whether there is one.
    pub(crate) fn ask(&self, cpu: CpuId) -> bool {
        let mut state = self.state.lock();
        let is_there = state.idle > state.requests.len();
        if is_there {
            state.requests.push_back(cpu);
            self.changed.notify_one();
        }
        is_there
    }

    /// Announces a thread that will wait soon: requests are for it as well. A thread does so before
    /// it counts as free, so that no other thread is started in its place.
    pub(crate) fn enlist(&self) {
        self.state.lock().idle += 1;
    }

    /// Waits for a CPU to take over; `None` if the thread is not needed. The caller has enlisted.
    pub(crate) fn wait(&self) -> Option<CpuId> {
        let mut state = self.state.lock();
        let mut is_over = false;
        let cpu = loop {
            if state.is_closed {
                return None;
            }
            let cpu = state.requests.pop_front();
            if cpu.is_some() || is_over {
                break cpu;
            }
            is_over = self.changed.wait_for(&mut state, IDLE).timed_out();
        };
        state.idle -= 1;
        cpu
    }

    /// Ends all waiting threads.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }
}

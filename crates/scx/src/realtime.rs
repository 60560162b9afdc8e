//! The thread that decides runs before all tasks for which it does: as SCHED_FIFO with the lowest
//! priority, which is no task of the loaded scheduler. So no turn of a task delays a decision, and
//! the scheduler needs no rule for its own thread. Its memory is locked: a page that is read from a
//! disk would need tasks to run.
//!
//! A loop in a policy would take a CPU from all other tasks. The kernel ends the process when the
//! thread has not slept for [`MOST`] (RLIMIT_RTTIME).

use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::resource::{Resource, setrlimit};
use std::time::Duration;

/// How long the thread may run without sleeping.
pub(crate) const MOST: Duration = Duration::from_secs(2);

/// Makes the calling thread one of real time, and bounds it.
pub(crate) fn enter() -> Result<(), String> {
    mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE)
        .map_err(|error| format!("memory cannot be locked: {error}"))?;
    let most = MOST.as_micros() as u64;
    // First a signal that shells name, a second later one that cannot be caught.
    setrlimit(Resource::RLIMIT_RTTIME, most, most + 1_000_000).map_err(|error| format!("RLIMIT_RTTIME: {error}"))?;
    set_fifo().map_err(|error| format!("SCHED_FIFO: {error} (RT_GROUP_SCHED gives groups no runtime at first)"))
}

#[expect(unsafe_code, reason = "no safe crate has this call: one plain struct that the kernel reads")]
fn set_fifo() -> std::io::Result<()> {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is the calling thread, and the kernel reads the struct during the call only.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const param) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

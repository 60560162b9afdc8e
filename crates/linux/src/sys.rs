//! The only module with `unsafe`: `sched_setattr(2)`, for which no library has a safe call.
//!
//! Sources: `sched_setattr(2)`; Linux v6.12 `include/uapi/linux/sched/types.h`
//! (`struct sched_attr`, first published size).
#![expect(unsafe_code, reason = "`sched_setattr` has no wrapper in libc or rustix")]

use std::io;
use zerolag_model::{Duration, FairPolicy, RtPolicy, SchedAttr};

/// `struct sched_attr` of 48 bytes (`SCHED_ATTR_SIZE_VER0`); later kernels accept it unchanged.
#[repr(C)]
#[derive(Default)]
struct RawAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const _: () = assert!(size_of::<RawAttr>() == 48);

/// Sets the attributes of the calling thread.
///
/// # Errors
/// The kernel's error: `EPERM` without `CAP_SYS_NICE` or a limit (`RLIMIT_RTPRIO`, `RLIMIT_NICE`),
/// `EBUSY` if a deadline task is not admitted, `EINVAL` for unknown or invalid parameters.
pub(crate) fn set_attr(attr: SchedAttr) -> io::Result<()> {
    set_attr_of(0, attr)
}

/// As [`set_attr`], for another thread by its id. The caller must know that the id still belongs to
/// that thread.
///
/// # Errors
/// As [`set_attr`]; `ESRCH` if there is no such thread.
pub(crate) fn set_attr_of(thread: i32, attr: SchedAttr) -> io::Result<()> {
    let mut raw = raw(attr);
    // SAFETY:
    // 1. The pointer is to a live `RawAttr`, laid out as the kernel's struct, and `size` is its
    //    size: the kernel reads no more.
    // 2. The kernel keeps no pointer, and writes (to `size`, on E2BIG) only within the struct,
    //    which is ours alone.
    // 3. Changing how a thread is scheduled touches no memory.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw mut raw, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn raw(attr: SchedAttr) -> RawAttr {
    let size = 48;
    match attr {
        SchedAttr::Fair { policy, nice, slice } => RawAttr {
            size,
            policy: match policy {
                FairPolicy::Other => 0,
                FairPolicy::Batch => 3,
                FairPolicy::Idle => 5,
                FairPolicy::Ext => 7,
            },
            nice: i32::from(nice.value()),
            runtime: slice.map_or(0, Duration::as_nanos),
            ..RawAttr::default()
        },
        SchedAttr::Ext { policy, nice, slice } => raw(SchedAttr::Fair { policy, nice, slice }),
        SchedAttr::Rt { policy, priority } => RawAttr {
            size,
            policy: match policy {
                RtPolicy::Fifo => 1,
                RtPolicy::Rr => 2,
            },
            priority: u32::from(priority.value()),
            ..RawAttr::default()
        },
        SchedAttr::Deadline(params) => RawAttr {
            size,
            policy: 6,
            flags: u64::from(params.flags.bits()),
            runtime: params.runtime.as_nanos(),
            deadline: params.deadline.as_nanos(),
            period: params.period.as_nanos(),
            ..RawAttr::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_be_nicer_without_any_permission() {
        let nice = zerolag_model::Nice::new(7).expect("in range");
        let thread = std::thread::spawn(move || {
            set_attr(SchedAttr::nice(nice))?;
            std::fs::read_to_string("/proc/thread-self/stat")
        });
        let stat = thread.join().expect("no panic").expect("nice is free");
        let after_name = stat.rsplit(')').next().expect("a name in parentheses");
        // Field 19 of proc(5); the third is the first after the name.
        assert_eq!(after_name.split_whitespace().nth(16), Some("7"), "{stat}");
    }
}

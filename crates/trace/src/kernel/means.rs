//! By what a task was woken: from the stack of the waking, or from the system calls of both tasks.
//!
//! A waking itself names the task that wakes and the one that is woken, and not by what. Two things
//! that a recorder can add tell it:
//!
//! ```text
//! stack         try_to_wake_up <- futex_wake <- do_futex <- __x64_sys_futex        a futex
//!               try_to_wake_up <- sock_def_readable <- unix_stream_sendmsg         a socket
//!               try_to_wake_up <- hrtimer_wakeup <- asm_sysvec_apic_timer_...  a timer, no task
//! system call   the waker is within futex(2)                                       a futex
//!               the waker is within write(2), the woken one within recvfrom(2)     a socket
//!               the waker is within write(2), the woken one within read(2)         not known
//! ```
//!
//! A stack is read from the innermost function on, up to the entry of an interrupt: what is below
//! was interrupted and has nothing to do with it. A softirq without such an entry runs within a
//! call of the task, which is how packets over loopback are delivered: the task is the waker then.
//! If both are known the stack counts. Where a file is, `write(2)` could be anything, so it is not
//! guessed.
//!
//! Source: names of functions of Linux v5.4 to v6.18 (`kernel/futex`, `fs/pipe.c`, `net`,
//! `kernel/time`, `block`); stacks of Linux 6.18.

use super::context::Context;
use crate::meta::Means;

/// The stack of a waking, as far as it was read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stack {
    found: Option<Means>,
    /// The entry of an interrupt, or the thread that runs softirqs: the rest does not matter.
    entered: Option<Context>,
    is_softirq: bool,
    has_frames: bool,
}

impl Stack {
    /// Takes the next function outwards: `futex_wake`, `do_exit.isra.0`, `try_to_wake_up+0x3a4`.
    pub(crate) fn frame(&mut self, function: &str) {
        self.has_frames = true;
        if self.entered.is_some() {
            return;
        }
        let name = function.split(['.', '+', ' ', '\t', '/']).next().unwrap_or_default();
        if is_interrupt(name) {
            self.entered = Some(if self.is_softirq { Context::Softirq } else { Context::Interrupt });
        } else if name == "run_ksoftirqd" {
            self.entered = Some(Context::Softirq);
        } else if matches!(name, "handle_softirqs" | "__do_softirq" | "do_softirq" | "__softirqentry_text_start") {
            self.is_softirq = true;
        } else if let Some(means) = means_of(name)
            && self.found.is_none_or(|found| found == Means::Signal && matches!(means, Means::Exit | Means::Timer))
        {
            // A child that ends, and a timer, send a signal.
            self.found = Some(means);
        }
    }

    /// Returns what the stack tells, and in which context the CPU was; `None` without functions.
    pub(crate) fn tells(self) -> Option<(Means, Context)> {
        let means = self.found.unwrap_or(Means::Kernel);
        self.has_frames.then(|| (means, self.entered.unwrap_or(Context::Task)))
    }
}

/// Returns whether a function is the entry of an interrupt: of x86, and of arm64.
fn is_interrupt(name: &str) -> bool {
    let begins = ["asm_sysvec_", "sysvec_", "__sysvec_", "asm_common_interrupt", "common_interrupt", "asm_exc_nmi"];
    begins.iter().any(|begin| name.starts_with(begin))
        || matches!(name, "el1_irq" | "el0_irq" | "el1_interrupt" | "el0_interrupt" | "el1h_64_irq" | "el0t_64_irq")
        || matches!(name, "smp_apic_timer_interrupt" | "apic_timer_interrupt" | "do_IRQ" | "ret_from_intr")
}

fn means_of(name: &str) -> Option<Means> {
    let begins = |with: &[&str]| with.iter().any(|begin| name.starts_with(begin));
    let ends = |with: &[&str]| with.iter().any(|end| name.ends_with(end));
    if begins(&["futex_", "do_futex", "__futex", "handle_futex_death"]) {
        Some(Means::Futex)
    } else if ends(&["pipe_read", "_write_space"]) {
        Some(Means::Room)
    } else if ends(&["pipe_write", "pipe_release", "splice_pipe_to_pipe"]) {
        Some(Means::Pipe)
    } else if begins(&["sock_", "sk_", "unix_", "tcp_", "udp_", "inet_", "netlink_", "vsock_", "virtio_transport"]) {
        Some(Means::Socket)
    } else if begins(&["eventfd_"]) {
        Some(Means::Event)
    } else if begins(&["do_exit", "do_notify_parent", "exit_notify", "release_task"]) {
        Some(Means::Exit)
    } else if begins(&["complete_signal", "signal_wake_up", "__send_signal", "send_signal", "do_send_sig"]) {
        Some(Means::Signal)
    } else if begins(&["hrtimer_", "__hrtimer_", "process_timeout", "call_timer_fn", "timerfd_", "posix_timer_"])
        || begins(&["it_real_fn", "alarm_timer_", "__run_timers"])
    {
        Some(Means::Timer)
    } else if begins(&["blk_", "bio_", "end_bio", "nvme_", "scsi_", "ext4_end_io", "iomap_finish", "end_buffer_"]) {
        Some(Means::Disk)
    } else {
        None
    }
}

/// A system call that a thread is in, as far as it matters to wakings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Futex,
    /// It sends to a socket, or receives from one.
    Send,
    Receive,
    /// It moves bytes from a pipe to a pipe.
    Splice,
    /// It writes to, or reads from, anything.
    Write,
    Read,
    Signal,
    Exit,
    Sleep,
    Other,
}

impl Call {
    /// Returns the call of a name: `futex`, `sendto`.
    fn of(name: &str) -> Self {
        match name {
            "futex" | "futex_wake" | "futex_wait" | "futex_waitv" | "futex_requeue" => Self::Futex,
            "sendto" | "sendmsg" | "sendmmsg" | "connect" | "shutdown" => Self::Send,
            "recvfrom" | "recvmsg" | "recvmmsg" | "accept" | "accept4" => Self::Receive,
            "tee" | "vmsplice" => Self::Splice,
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "sendfile64" | "splice" => Self::Write,
            "read" | "readv" | "pread64" | "preadv" | "preadv2" => Self::Read,
            "kill" | "tgkill" | "tkill" | "rt_sigqueueinfo" | "rt_tgsigqueueinfo" | "pidfd_send_signal" => Self::Signal,
            "exit" | "exit_group" => Self::Exit,
            "nanosleep" | "clock_nanosleep" => Self::Sleep,
            _ => Self::Other,
        }
    }

    /// Returns the call that a trace point begins, or that it ends one: `sys_enter_futex`,
    /// `sys_exit_futex`; `sys_futex` of the text of tracefs begins one.
    pub(crate) fn of_event(name: &str) -> Option<Option<Self>> {
        let name = name.strip_prefix("sys_")?;
        match (name.strip_prefix("enter_"), name) {
            (Some(call), _) => Some(Some(Self::of(call))),
            // Not the end of a call named `group`.
            (None, "exit_group") => Some(Some(Self::Exit)),
            (None, _) if name.starts_with("exit_") => Some(None),
            (None, call) => Some(Some(Self::of(call))),
        }
    }
}

/// Returns by what a task is woken that sleeps within a call. The waker is within another; `None`
/// if no task is the waker.
pub(crate) fn of_calls(waker: Option<Option<Call>>, woken: Option<Call>) -> Means {
    let Some(waker) = waker else {
        return if woken == Some(Call::Sleep) { Means::Timer } else { Means::Unknown };
    };
    match (waker, woken) {
        (Some(Call::Futex), _) => Means::Futex,
        (Some(Call::Send), _) => Means::Socket,
        (Some(Call::Splice), _) => Means::Pipe,
        (Some(Call::Signal), _) => Means::Signal,
        (Some(Call::Exit), _) => Means::Exit,
        (Some(Call::Write | Call::Read | Call::Receive), Some(Call::Receive | Call::Send)) => Means::Socket,
        (Some(Call::Receive), _) => Means::Socket,
        _ => Means::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(frames: &str) -> (Means, Context) {
        let mut stack = Stack::default();
        frames.split(" < ").for_each(|frame| stack.frame(frame));
        stack.tells().expect("it has functions")
    }

    #[test]
    fn a_stack_tells_by_what_and_in_which_context() {
        let softirqs =
            "handle_softirqs < __irq_exit_rcu < sysvec_apic_timer_interrupt < asm_sysvec_apic_timer_interrupt";
        for (frames, tells) in [
            ("try_to_wake_up < wake_up_q < futex_wake < do_futex < __x64_sys_futex", (Means::Futex, Context::Task)),
            (
                "try_to_wake_up+0x3a4 < __wake_up_sync_key+0x1 < anon_pipe_write+0x2 < vfs_write",
                (Means::Pipe, Context::Task),
            ),
            ("__wake_up_sync_key < anon_pipe_read < vfs_read < ksys_read", (Means::Room, Context::Task)),
            (
                "__wake_up_sync_key < sock_def_write_space < sock_wfree < unix_stream_read_generic",
                (Means::Room, Context::Task),
            ),
            (
                "pollwake < __wake_up_common < sock_def_readable < unix_stream_sendmsg < sock_write_iter",
                (Means::Socket, Context::Task),
            ),
            ("ep_poll_callback < __wake_up_common < eventfd_write < vfs_write", (Means::Event, Context::Task)),
            // Over loopback: the softirq runs within the sender's call.
            (
                "ep_poll_callback < sock_def_readable < tcp_data_queue < process_backlog < handle_softirqs < do_softirq \
                 < __local_bh_enable_ip < tcp_sendmsg < sock_write_iter",
                (Means::Socket, Context::Task),
            ),
            // From a card: what it interrupts has nothing to do with it.
            (
                "sock_def_readable < tcp_data_queue < net_rx_action < handle_softirqs < __irq_exit_rcu < common_interrupt \
                 < asm_common_interrupt < anon_pipe_write < vfs_write",
                (Means::Socket, Context::Softirq),
            ),
            ("complete_signal < __send_signal_locked < do_notify_parent < do_exit", (Means::Exit, Context::Task)),
            (
                "complete_signal < __send_signal_locked < do_send_sig_info < kill_pid_info",
                (Means::Signal, Context::Task),
            ),
            (
                "hrtimer_wakeup < __hrtimer_run_queues < hrtimer_interrupt < sysvec_apic_timer_interrupt < futex_wake",
                (Means::Timer, Context::Interrupt),
            ),
            (&format!("call_timer_fn < __run_timers < {softirqs}"), (Means::Timer, Context::Softirq)),
            (&format!("swake_up_one < rcu_core < {softirqs} < futex_wake"), (Means::Kernel, Context::Softirq)),
            (
                "folio_wake_bit < __read_end_io < blk_update_request < blk_done_softirq < handle_softirqs < run_ksoftirqd < kthread",
                (Means::Disk, Context::Softirq),
            ),
            ("kick_pool < __queue_work < queue_work_on < tty_write", (Means::Kernel, Context::Task)),
        ] {
            assert_eq!(told(frames), tells, "{frames}");
        }
        assert_eq!(Stack::default().tells(), None);
    }

    #[test]
    fn calls_tell_what_only_one_thing_can_be() {
        let call = |name| Call::of_event(name).expect("a call");
        assert_eq!(call("sys_enter_exit_group"), Some(Call::Exit));
        assert_eq!(
            (call("sys_exit_group"), call("sys_exit_futex"), call("sys_exit_exit_group")),
            (Some(Call::Exit), None, None)
        );
        assert_eq!(Call::of_event("sched_switch"), None);
        for (waker, woken, means) in [
            ("sys_futex", "sys_futex", Means::Futex),
            ("sys_enter_sendto", "sys_enter_epoll_wait", Means::Socket),
            ("sys_enter_write", "sys_enter_recvfrom", Means::Socket),
            ("sys_enter_write", "sys_enter_read", Means::Unknown),
            ("sys_enter_tgkill", "sys_enter_read", Means::Signal),
            ("sys_enter_openat", "sys_enter_read", Means::Unknown),
        ] {
            assert_eq!(of_calls(Some(call(waker)), call(woken)), means, "{waker}, {woken}");
        }
        assert_eq!(of_calls(None, Some(Call::Sleep)), Means::Timer);
        assert_eq!((of_calls(None, Some(Call::Futex)), of_calls(Some(None), None)), (Means::Unknown, Means::Unknown));
    }
}

"""A scheduler of your own, in Python: the operations of Linux's `sched_ext` as methods of a class.

    from zerolag.policy import Policy

    class Edf(Policy):
        def init(self, scx):
            scx.create_dsq(0)

        def enqueue(self, scx, p, enq_flags):
            p.deadline = scx.now + 10_000_000
            scx.dsq_insert_vtime(p, 0, scx.slice_dfl, p.deadline, enq_flags)

        def dispatch(self, scx, cpu, prev):
            scx.dsq_move_to_local(0)

    result = zerolag.run("web.toml", kernel="7.3", policy=Edf)

Names, flags and defaults are the kernel's; times are nanoseconds. `policy=` takes a class or a function, which makes a policy for each run, or an
object, which is copied for each. `scx` is the kernel: its methods are the helpers `scx_bpf_*` without that prefix. `p` is a task: it can be given
attributes (`p.deadline`), which last as long as the task. Both have a state during a callback only.

A policy that breaks a rule of a kernel is unloaded, with the kernel's words, and the run goes on with fair tasks. An exception ends the run, and is
raised by the function that runs it.
"""

from __future__ import annotations

from typing import Optional

from ._zerolag import Scx, Task, scx_words

_words = dict(scx_words())

SCX_WAKE_FORK: int = _words["SCX_WAKE_FORK"]
SCX_WAKE_TTWU: int = _words["SCX_WAKE_TTWU"]
SCX_WAKE_SYNC: int = _words["SCX_WAKE_SYNC"]
SCX_ENQ_WAKEUP: int = _words["SCX_ENQ_WAKEUP"]
SCX_ENQ_HEAD: int = _words["SCX_ENQ_HEAD"]
SCX_ENQ_CPU_SELECTED: int = _words["SCX_ENQ_CPU_SELECTED"]
SCX_ENQ_PREEMPT: int = _words["SCX_ENQ_PREEMPT"]
SCX_ENQ_REENQ: int = _words["SCX_ENQ_REENQ"]
SCX_ENQ_LAST: int = _words["SCX_ENQ_LAST"]
SCX_DEQ_SLEEP: int = _words["SCX_DEQ_SLEEP"]
SCX_DEQ_SCHED_CHANGE: int = _words["SCX_DEQ_SCHED_CHANGE"]
SCX_KICK_IDLE: int = _words["SCX_KICK_IDLE"]
SCX_KICK_PREEMPT: int = _words["SCX_KICK_PREEMPT"]
SCX_OPS_ENQ_LAST: int = _words["SCX_OPS_ENQ_LAST"]
SCX_OPS_ENQ_EXITING: int = _words["SCX_OPS_ENQ_EXITING"]
SCX_OPS_SWITCH_PARTIAL: int = _words["SCX_OPS_SWITCH_PARTIAL"]
SCX_DSQ_GLOBAL: int = _words["SCX_DSQ_GLOBAL"]
SCX_DSQ_LOCAL: int = _words["SCX_DSQ_LOCAL"]
SCX_DSQ_LOCAL_ON: int = _words["SCX_DSQ_LOCAL_ON"]
SCX_SLICE_INF: int = _words["SCX_SLICE_INF"]
ZEROLAG_NEEDS_PERIOD: int = _words["ZEROLAG_NEEDS_PERIOD"]
ZEROLAG_NEEDS_WORK: int = _words["ZEROLAG_NEEDS_WORK"]


class Policy:
    """A scheduler. A method that is not overridden does what the kernel does without one."""

    name: Optional[str] = None
    """As the kernel prints it; the name of the class if there is none."""
    flags: int = 0
    """SCX_OPS_*."""
    timeout_ms: int = 30_000
    """How long a runnable task may wait before the policy is unloaded: at most 30 s."""
    dispatch_max_batch: int = 32
    """How many tasks one `dispatch` may insert before it moves some to the local queue."""
    needs: int = 0
    """ZEROLAG_NEEDS_*: what it asks of the workload that no kernel knows. `p.work_left` is said to one that asks for ZEROLAG_NEEDS_WORK."""

    def select_cpu(self, scx: Scx, p: Task, prev_cpu: int, wake_flags: int) -> int:
        """Chooses a CPU for a task that wakes. By default an idle one near the last one, where the task runs at once."""
        cpu, is_idle = scx.select_cpu_dfl(p, prev_cpu, wake_flags)
        if is_idle:
            scx.dsq_insert(p, SCX_DSQ_LOCAL, scx.slice_dfl)
        return cpu

    def enqueue(self, scx: Scx, p: Task, enq_flags: int) -> None:
        """Queues a runnable task: inserts it into a queue, or keeps it until `dispatch`. By default into SCX_DSQ_GLOBAL."""
        scx.dsq_insert(p, SCX_DSQ_GLOBAL, scx.slice_dfl, enq_flags)

    def dequeue(self, scx: Scx, p: Task, deq_flags: int) -> None:
        """A task that the policy kept, or had on a queue of its own, is no longer its to run."""

    def dispatch(self, scx: Scx, cpu: int, prev: Optional[Task]) -> None:
        """A CPU has no local task: move or insert some. `prev` is the task that ran, if it could run on."""

    def tick(self, scx: Scx, p: Task) -> None:
        """A tick while a task runs."""

    def runnable(self, scx: Scx, p: Task, enq_flags: int) -> None:
        """A task becomes runnable."""

    def running(self, scx: Scx, p: Task) -> None:
        """A task begins to run."""

    def stopping(self, scx: Scx, p: Task, runnable: bool) -> None:
        """A task stops running; `runnable` if it could run on."""

    def quiescent(self, scx: Scx, p: Task, deq_flags: int) -> None:
        """A task is no longer runnable."""

    def yield_(self, scx: Scx, p: Task, to: Optional[Task]) -> bool:
        """A task gives up the CPU, in favour of `to` if that is some task; returns whether that was followed."""
        p.slice = 0
        return False

    def set_weight(self, scx: Scx, p: Task, weight: int) -> None:
        """The weight of a task changes: 1 to 10000, 100 for nice 0."""

    def set_cpumask(self, scx: Scx, p: Task, cpus: Optional[list[int]]) -> None:
        """The CPUs of a task change; None means every CPU."""

    def update_idle(self, scx: Scx, cpu: int, idle: bool) -> None:
        """A CPU begins or ends to idle."""

    def cpu_acquire(self, scx: Scx, cpu: int) -> None:
        """A CPU returns from a class above."""

    def cpu_release(self, scx: Scx, cpu: int) -> None:
        """A CPU is taken by a class above."""

    def cpu_online(self, scx: Scx, cpu: int) -> None:
        """A CPU comes online."""

    def cpu_offline(self, scx: Scx, cpu: int) -> None:
        """A CPU goes offline."""

    def init_task(self, scx: Scx, p: Task, fork: bool) -> None:
        """A task exists from now on; `fork` if it is new."""

    def exit_task(self, scx: Scx, p: Task) -> None:
        """A task exits."""

    def enable(self, scx: Scx, p: Task) -> None:
        """A task is the policy's from now on."""

    def disable(self, scx: Scx, p: Task) -> None:
        """A task is no longer the policy's."""

    def cgroup_init(self, scx: Scx, group: int) -> None:
        """A group exists from now on."""

    def cgroup_exit(self, scx: Scx, group: int) -> None:
        """A group is removed."""

    def cgroup_move(self, scx: Scx, p: Task, old: int, new: int) -> None:
        """A task changes its group."""

    def cgroup_set_weight(self, scx: Scx, group: int, weight: int) -> None:
        """The weight of a group changes (`cpu.weight`)."""

    def cgroup_set_bandwidth(self, scx: Scx, group: int, quota: Optional[int], period: int, burst: int) -> None:
        """The limit of a group changes (`cpu.max`), which a kernel leaves to the policy; a quota of None is no limit."""

    def timer(self, scx: Scx, id: int) -> None:
        """A timer is due that `scx.timer_start` has started."""

    def init(self, scx: Scx) -> None:
        """The policy is loaded: create queues here."""

    def exit(self, reason: str, msg: str, place: str) -> None:
        """The policy has been unloaded."""


__all__ = [
    "Policy",
    "SCX_DEQ_SCHED_CHANGE",
    "SCX_DEQ_SLEEP",
    "SCX_DSQ_GLOBAL",
    "SCX_DSQ_LOCAL",
    "SCX_DSQ_LOCAL_ON",
    "SCX_ENQ_CPU_SELECTED",
    "SCX_ENQ_HEAD",
    "SCX_ENQ_LAST",
    "SCX_ENQ_PREEMPT",
    "SCX_ENQ_REENQ",
    "SCX_ENQ_WAKEUP",
    "SCX_KICK_IDLE",
    "SCX_KICK_PREEMPT",
    "SCX_OPS_ENQ_EXITING",
    "SCX_OPS_ENQ_LAST",
    "SCX_OPS_SWITCH_PARTIAL",
    "SCX_SLICE_INF",
    "SCX_WAKE_FORK",
    "SCX_WAKE_SYNC",
    "SCX_WAKE_TTWU",
    "Scx",
    "Task",
    "ZEROLAG_NEEDS_PERIOD",
    "ZEROLAG_NEEDS_WORK",
]

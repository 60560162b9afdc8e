"""Schedulers of one's own: the operations of sched_ext as methods of a class."""

import json
import signal

import pytest

import zerolag
from zerolag import policy
from zerolag.policy import Policy

HOGS = """
duration = "2s"
kernel = "7.3"
[machine]
cpus = 1
[task.heavy]
nice = -5
steps = [{ run = "10s" }]
[task.light]
steps = [{ run = "10s" }]
"""


class Vtime(Policy):
    """Weights, on one queue in order of virtual time: `zerolag_policy::policies::Vtime`, line by line."""

    def __init__(self):
        self.vtime_now = 0

    def init(self, scx):
        scx.create_dsq(0)

    def enable(self, scx, p):
        p.dsq_vtime = self.vtime_now

    def enqueue(self, scx, p, enq_flags):
        vtime = max(p.dsq_vtime, self.vtime_now - scx.slice_dfl)
        scx.dsq_insert_vtime(p, 0, scx.slice_dfl, vtime, enq_flags)

    def vtime_after(self, p):
        return p.dsq_vtime + (p.began - p.slice) * 100 // p.weight

    def dispatch(self, scx, cpu, prev):
        first = scx.dsq_peek(0)
        if prev and first and self.vtime_after(prev) < first.dsq_vtime:
            prev.dsq_vtime = self.vtime_after(prev)
            prev.slice = prev.began = scx.slice_dfl
            return
        scx.dsq_move_to_local(0)

    def running(self, scx, p):
        self.vtime_now = max(self.vtime_now, p.dsq_vtime)
        p.began = p.slice

    def stopping(self, scx, p, runnable):
        p.dsq_vtime = self.vtime_after(p)


def test_a_translation_has_the_schedule_of_the_policy():
    switches = [
        zerolag.run(HOGS, policy=of, keep=["switches"]).table("switches") for of in (Vtime, Vtime(), lambda: Vtime(), "vtime")
    ]
    columns = switches[0].columns
    for other in switches[1:]:
        for column in columns:
            assert switches[0][column] == other[column], column


def test_a_timer_comes_when_it_is_due_unless_it_is_stopped():
    came = []

    class Clock(Policy):
        def init(self, scx):
            scx.timer_start(1, 5_000_000)
            scx.timer_start(2, 7_000_000)
            assert scx.timer_cancel(2) and not scx.timer_cancel(3)

        def timer(self, scx, id):
            came.append((id, scx.now))
            scx.timer_start(id, 5_000_000)

    zerolag.run(HOGS, policy=Clock, duration="18ms")
    assert came == [(1, 5_000_000), (1, 10_000_000), (1, 15_000_000)]


class Srtf(Policy):
    """Shortest remaining time first: `zerolag_policy::policies::Srtf`, line by line."""

    needs = policy.ZEROLAG_NEEDS_WORK
    never = 2**64 - 1

    def init(self, scx):
        scx.create_dsq(0)

    def measure(self, p):
        left = p.work_left
        p.left = self.never if left is None else left

    def slice_of(self, scx, p):
        return scx.slice_dfl if p.left == self.never else policy.SCX_SLICE_INF

    def select_cpu(self, scx, p, prev_cpu, wake_flags):
        return prev_cpu

    def enqueue(self, scx, p, enq_flags):
        self.measure(p)
        running = [(cpu, scx.cpu_curr(cpu)) for cpu in range(scx.nr_cpus)]
        running = [(cpu, current) for cpu, current in running if current]
        for _, current in running:
            self.measure(current)
        scx.dsq_insert_vtime(p, 0, self.slice_of(scx, p), p.left, enq_flags)
        cpu = scx.pick_idle_cpu(p)
        if cpu is not None:
            return scx.kick_cpu(cpu, policy.SCX_KICK_IDLE)
        longest = max(((current.left, cpu) for cpu, current in running if p.allowed(cpu)), default=None)
        if longest and longest[0] > p.left:
            scx.kick_cpu(longest[1], policy.SCX_KICK_PREEMPT)

    def dispatch(self, scx, cpu, prev):
        first = next((p for p in scx.dsq_iter(0) if p.allowed(cpu)), None)
        if prev:
            self.measure(prev)
            if first is None or prev.left < first.left:
                prev.slice = self.slice_of(scx, prev)
                return
        scx.dsq_move_to_local(0)


WORK = """
duration = "500ms"
kernel = "7.3"
[machine]
cpus = 2
[group."/a"]
[group."/a/b"]
[task.hog]
instances = 2
steps = [{ run = "10s" }]
[task.job]
instances = 5
group = "/a/b"
steps = [{ run = { uniform = { min = "1ms", max = "9ms" } } }, { sleep = "7ms" }]
"""


def test_a_policy_that_asks_for_the_truth_is_told():
    own, named = (zerolag.run(WORK, policy=of, keep=["switches"]).table("switches") for of in (Srtf, "srtf"))
    assert len(own["at_ns" if "at_ns" in own.columns else own.columns[0]]) > 50
    for column in own.columns:
        assert own[column] == named[column], column

    class Silent(Policy):
        def runnable(self, scx, p, enq_flags):
            assert p.work_left is None

    assert zerolag.run(WORK, policy=Silent).ok


def test_groups_are_a_tree():
    seen = {}

    class Look(Policy):
        def cgroup_init(self, scx, group):
            seen[group] = scx.cgroup_parent(group)

        def runnable(self, scx, p, enq_flags):
            above = scx.cgroup_parent(p.cgroup)
            assert (above is None) == (p.cgroup == 0)
            assert p.cgroup == 0 or scx.cgroup_parent(above) == 0
            assert scx.cgroup_parent(77) is None

    zerolag.run(WORK, policy=Look)
    (a, of_a), (b, of_b) = sorted(seen.items())
    assert (of_a, of_b) == (0, a) and b != a


def test_defaults_are_the_kernels():
    # The class that `fifo` is costs some other nanoseconds.
    own, named = zerolag.run(HOGS, policy=Policy), zerolag.run(HOGS, policy="fifo")
    assert own.tasks["exec_ns"] == pytest.approx(named.tasks["exec_ns"], abs=1000)

    class Written(Policy):
        def select_cpu(self, scx, p, prev_cpu, wake_flags):
            return super().select_cpu(scx, p, prev_cpu, wake_flags)

        def enqueue(self, scx, p, enq_flags):
            super().enqueue(scx, p, enq_flags)

        def yield_(self, scx, p, to):
            return super().yield_(scx, p, to)

    assert zerolag.run(HOGS, policy=Written).tasks["exec_ns"] == own.tasks["exec_ns"]


def test_tasks_and_the_kernel_are_what_they_say():
    seen = {}

    class Look(Policy):
        name = "look"

        def runnable(self, scx, p, enq_flags):
            seen.setdefault(p.comm, (p.weight, p.cpus, p.allowed(0), p.allowed(9), scx.nr_cpus, scx.span(0, "llc"), scx.capacity(0)))
            assert repr(p) == f"{p.comm}[{p.pid}]"
            p.began = scx.now

        def stopping(self, scx, p, runnable):
            p.turns = getattr(p, "turns", 0) + 1
            seen[p.pid] = (p.turns, scx.now >= p.began)
            assert scx.cpu_curr(p.cpu) is None or scx.cpu_curr(p.cpu) is p

    assert zerolag.run(HOGS, policy=Look).ok
    assert seen["light-0"] == (100, None, True, False, 1, [0], 1024)
    assert seen["heavy-0"][0] == 305
    assert seen[0][0] > 10 and seen[0][1]


def test_an_exception_is_that_of_the_run():
    class Fails(Policy):
        def tick(self, scx, p):
            raise KeyError("no such task")

    for run in (
        lambda: zerolag.run(HOGS, policy=Fails),
        lambda: zerolag.explain(HOGS, policy=Fails),
        lambda: zerolag.compare(HOGS, vary={"hz": [100, 1000]}, runs=1, policy=Fails),
    ):
        with pytest.raises(KeyError, match="no such task") as caught:
            run()
        assert caught.traceback[-1].name == "tick"


def test_what_cannot_be_a_policy_is_refused():
    with pytest.raises(zerolag.InputError, match="not `int`"):
        zerolag.run(HOGS, policy=7)
    with pytest.raises(TypeError, match="expected a zerolag.policy.Policy, not `dict`"):
        zerolag.run(HOGS, policy=dict)
    with pytest.raises(zerolag.InputError, match="elsewhere it is a name"):
        zerolag.sweep(HOGS, {"policy": [Policy, "vtime"]})

    class Broken(Policy):
        def __init__(self):
            raise ValueError("no memory for queues")

    with pytest.raises(ValueError, match="no memory for queues"):
        zerolag.run(HOGS, policy=Broken)

    class Answers(Policy):
        def select_cpu(self, scx, p, prev_cpu, wake_flags):
            return "the first"

    with pytest.raises(TypeError, match="select_cpu returns the number of a CPU, not `str`"):
        zerolag.run(HOGS, policy=Answers)


def test_a_broken_rule_unloads_the_policy_and_the_run_goes_on():
    told = []

    class Twice(Policy):
        name = "twice"

        def enqueue(self, scx, p, enq_flags):
            scx.dsq_insert(p, policy.SCX_DSQ_GLOBAL, 0)
            scx.dsq_insert(p, policy.SCX_DSQ_GLOBAL, 0)

        def exit(self, reason, msg, place):
            told.append((reason, msg, place))

    result = zerolag.run(HOGS, policy=Twice)
    assert result.elapsed_ns == 2_000_000_000 and not result.ok
    found = json.loads(result.to_json())["ended"]["policy_exit"]
    assert (found["policy"], found["reason"], found["is_fault"]) == ("twice", "runtime error", True)
    assert 'sched_ext: BPF scheduler "twice" disabled (runtime error)' in str(result)
    ((reason, msg, place),) = told
    assert reason == "runtime error" and msg.endswith("already direct-dispatched") and "ops.enqueue() of" in place

    class Far(Policy):
        def select_cpu(self, scx, p, prev_cpu, wake_flags):
            return -1

        exit = Twice.exit

    told.clear()
    assert zerolag.run(HOGS, policy=Far).elapsed_ns == 2_000_000_000
    assert told and told[0][0] == "runtime error"


def test_a_kept_context_has_no_state():
    kept = []

    class Keeps(Policy):
        def enqueue(self, scx, p, enq_flags):
            kept.extend((scx, p))
            super().enqueue(scx, p, enq_flags)

    zerolag.run(HOGS, policy=Keeps)
    scx, p = kept[0], kept[1]
    for ask in (lambda: scx.now, lambda: p.weight, lambda: scx.dsq_peek(0), lambda: scx.kick_cpu(0)):
        with pytest.raises(RuntimeError, match="during a callback"):
            ask()
    assert repr(p) == f"[{p.pid}]"


def test_a_loop_is_ended_by_ctrl_c():
    class Loops(Policy):
        def tick(self, scx, p):
            signal.raise_signal(signal.SIGINT)
            while True:
                pass

    with pytest.raises(KeyboardInterrupt):
        zerolag.run(HOGS, policy=Loops)


def test_the_words_are_the_kernels():
    assert policy.SCX_DSQ_LOCAL_ON | 3 == (1 << 63) | (1 << 62) | 3
    assert policy.SCX_ENQ_PREEMPT == 1 << 32
    assert policy.SCX_KICK_PREEMPT == 2
    for name in policy._words:
        assert getattr(policy, name) == policy._words[name]

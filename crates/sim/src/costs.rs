//! [`Costs`]: the costs of operations on the simulated machine.
//!
//! A simulated latency is only as good as its costs, and no set of costs fits every machine. So
//! costs are a named profile, which every result names. `zero` charges nothing (exact tests).
//! `default` is a current x86 server, `xeon-e7-4s` one of the years 2011 to 2014; each entry names
//! its origin. A file has the same keys; keys
//! that it does not set have their values from `default`.

mod policies;
mod servers;

use crate::sketch::{Sketch, Standstills};
use serde::Deserialize;
use zerolag_model::{Distance, Duration};

/// A cost profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Its name; every result names it.
    pub name: String,
    /// Switching from one task to another, on top of the run-queue lock.
    pub context_switch: Duration,
    /// What a switch to a fair task takes on top: its class has more to do.
    pub fair_switch: Duration,
    /// The part of a switch before its event: from the entry of the scheduler until it has left the
    /// old task and picked the next one. `context_switch` is the rest.
    pub pick: Duration,
    /// What that takes on top where the old task or the new one is fair. `fair_switch` is the rest.
    pub fair_pick: Duration,
    /// Putting a task on a run queue of the same cache.
    pub wakeup_local: Duration,
    /// Putting a task on a run queue of another cache.
    pub wakeup_remote: Duration,
    /// What putting a fair task on a run queue takes on top: its class has more to do.
    pub fair_wakeup: Duration,
    /// What each level of groups adds to putting a fair task on a run queue and choosing it.
    pub group_wakeup: Duration,
    /// Waking a task that is still queued, to repay its lag. No other entry of wakeups counts then.
    pub queued_wakeup: Duration,
    /// What a system call takes its task besides its effect: entry, arguments, exit. The wakeup or
    /// switch that it causes comes on top. A step that takes a mutex or gives it back is a call
    /// only if tasks contend for it. Where it is zero, the entries of wakeups and switches contain
    /// it.
    pub syscall: Duration,
    /// What a call takes on top of `syscall` if it may wait or wakes another task: queueing.
    pub waiting_call: Duration,
    /// What a call that waits for a time takes on top of both: setting the timer.
    pub sleep_call: Duration,
    /// The part of such a call that follows its wakeup, before its CPU can switch: on a kernel that
    /// preempts lazily, all the way back to user mode.
    pub call_rest: Duration,
    /// What waiting for a mutex that inherits takes on top of a call that waits: its holder gets
    /// the priority.
    pub boost: Duration,
    /// What giving such a mutex back to a waiter takes on top of a call that wakes.
    pub unboost: Duration,
    /// What reading from a pipe or writing to it takes on top of both: lock, pages, copying.
    pub pipe_io: Duration,
    /// What reading from a pipe or writing to it takes if it neither waits nor wakes a task. It
    /// counts only where `syscall` and `pipe_io` are zero: there wakeups and switches contain their
    /// calls, and such a call has neither.
    pub pipe_alone: Duration,
    /// Sending an IPI, for the sender.
    pub ipi_send: Duration,
    /// The time from the sending of an IPI to the beginning of its handler, by distance.
    pub ipi_latency: ByDistance,
    /// Entry and exit of an IPI's handler, without its work.
    pub ipi_handler: Duration,
    /// Taking one piece of queued work off the list and reading its arguments, by distance to the
    /// CPU that queued it; on top of locks and scans.
    pub ipi_work: ByDistance,
    /// A lock or atomic of the state that CPUs share, whose cache line is at another CPU. The line
    /// of a root domain's IPI state is accessed by one CPU at a time.
    pub inner_lock: Duration,
    /// Entry and exit of a timer interrupt.
    pub timer_irq: Duration,
    /// The tick with its bookkeeping.
    pub tick: Duration,
    /// What the tick of a CPU that runs a fair task takes on top.
    pub fair_tick: Duration,
    /// What the interrupt of the timer of `enforce.fair = hrtick` takes on top of `timer_irq`:
    /// charging the task, and setting the timer of the next turn.
    pub hrtick: Duration,
    /// Reading a cache line that another CPU wrote last, by distance. With `line_write`, the lines
    /// of `cpupri`, of the overload mask and of the locks of groups' quotas have owners, and
    /// accesses to each of them queue; without, reading `cpupri` is a scan, and those locks are
    /// inner ones.
    pub line_read: ByDistance,
    /// A locked write to a cache line of which another CPU has a copy, by distance.
    pub line_write: ByDistance,
    /// What a search of `cpupri` takes on top of its lines, where the time of its loads was
    /// measured under contention: a line takes longer then than one transfer after another.
    pub cpupri_search: Duration,
    /// How long an operation holds a run-queue lock, without the scans and moves under it.
    pub rq_lock_hold: Duration,
    /// Getting a lock whose cache line is at another CPU, by distance to the CPU that had it last;
    /// charged for pairs, remote wakeups and after spinning.
    pub rq_lock_transfer: ByDistance,
    /// Reading the published state of one CPU.
    pub scan_per_cpu: Duration,
    /// Examining one queued task.
    pub scan_per_task: Duration,
    /// Moving one task between run queues.
    pub migrate_task: Duration,
    /// Taking one group's queue on one CPU out of the hierarchy, or putting it back.
    pub throttle: Duration,
    /// One call of a policy of `sched_ext`, besides what it causes. It is zero but in the profiles
    /// [`bpf`](Self::bpf) and [`user`](Self::user), which have its origin.
    pub policy_call: Duration,
    /// The time that a task loses to a cold cache when it runs on another CPU than before, by
    /// distance.
    pub cache_refill: ByDistance,
    /// From a wakeup to the first instruction of a CPU that idled.
    pub idle_exit: Duration,
    /// Idle states, shallowest first. A CPU that has idled for at least a state's residency leaves
    /// that state, and its exit time replaces `idle_exit`: as if the governor had known how long
    /// the CPU would idle.
    pub idle_states: Vec<IdleState>,
    /// Speed of each of two SMT siblings when both run, in percent of running alone.
    pub smt_speed_percent: u64,
    /// How much later than it is due the interrupt of a task's timer comes, drawn for each; empty
    /// is not at all. Draws do not depend on each other: a host that stands still for long delays
    /// many timers at once, which this does not show.
    pub timer_late: Sketch,
    /// How much longer than `context_switch` (and `fair_switch`) a switch takes, drawn for each;
    /// empty is not at all.
    pub switch_late: Sketch,
    /// How much longer than its entry a wakeup that puts a task on a run queue takes.
    pub wakeup_late: Sketch,
    /// How much longer than `migrate_task` moving a task takes.
    pub migrate_late: Sketch,
    /// When each CPU stands still by itself, as a virtual one whose hypervisor runs another: no
    /// task, no interrupt and no kernel path goes on.
    pub stolen: Standstills,
    /// When all CPUs stand still at once (SMI).
    pub smi: Standstills,
    /// The kernel's own threads of the fair class. The machine does not start them: what makes
    /// its program adds them.
    pub threads: Vec<KernelThread>,
}

/// A thread of the kernel that runs now and then. The times between two runs are exponential, the
/// lengths lognormal.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelThread {
    /// Its name. With `per_cpu` the CPU's number follows: `kworker/` is `kworker/0` on the first.
    pub name: String,
    /// Whether each CPU has one of its own, or the machine has one that may run everywhere.
    #[serde(default)]
    pub per_cpu: bool,
    /// The mean time from the end of a run to the next one.
    #[serde(deserialize_with = "distance")]
    pub every: Duration,
    /// The time that half of its runs take at most.
    #[serde(deserialize_with = "duration")]
    pub median: Duration,
    /// The time that nine tenths of its runs take at most.
    #[serde(deserialize_with = "duration")]
    pub p90: Duration,
    /// The longest run.
    #[serde(deserialize_with = "duration")]
    pub longest: Duration,
}

/// A state of an idle CPU (`cpuidle`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleState {
    /// The shortest time for which it is worth entering (`target_residency`).
    #[serde(deserialize_with = "duration")]
    pub residency: Duration,
    /// The time that leaving it takes (`exit_latency`).
    #[serde(deserialize_with = "duration")]
    pub exit: Duration,
    /// The CPU polls its `need_resched` flag (`TIF_POLLING_NRFLAG`), in a loop or by `mwait`.
    /// Another CPU writes the flag (`inner_lock`) and sends no IPI. The idle CPU sees that once it
    /// has got the cache line (`rq_lock_transfer`), or after the `ipi_latency` of the state: a
    /// virtual CPU that polls sees it when its hypervisor lets it run.
    #[serde(default)]
    pub polling: bool,
    /// The time from the sending of an IPI to a CPU in this state to the beginning of the exit;
    /// `None` is the same as for a CPU that runs. A virtual CPU that runs must be stopped by its
    /// hypervisor first, one that has halted need not.
    #[serde(default)]
    pub ipi_latency: Option<ByDistance>,
}

/// A time per distance between two CPUs; the same CPU costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ByDistance {
    /// SMT siblings.
    #[serde(deserialize_with = "duration")]
    pub smt: Duration,
    /// Cores under one last-level cache.
    #[serde(deserialize_with = "duration")]
    pub llc: Duration,
    /// One socket, other caches.
    #[serde(deserialize_with = "duration")]
    pub socket: Duration,
    /// Other sockets.
    #[serde(deserialize_with = "duration")]
    pub remote: Duration,
}

impl ByDistance {
    /// No time at any distance.
    pub const ZERO: Self =
        Self { smt: Duration::ZERO, llc: Duration::ZERO, socket: Duration::ZERO, remote: Duration::ZERO };

    const fn nanos(smt: u64, llc: u64, socket: u64, remote: u64) -> Self {
        Self {
            smt: Duration::from_nanos(smt),
            llc: Duration::from_nanos(llc),
            socket: Duration::from_nanos(socket),
            remote: Duration::from_nanos(remote),
        }
    }

    /// Returns the time for a distance.
    #[must_use]
    pub const fn at(&self, distance: Distance) -> Duration {
        match distance {
            Distance::Same => Duration::ZERO,
            Distance::Smt => self.smt,
            Distance::Llc => self.llc,
            Distance::Socket => self.socket,
            Distance::Remote => self.remote,
        }
    }
}

impl Default for ByDistance {
    fn default() -> Self {
        Self::ZERO
    }
}

/// A named profile: its name, what it is, and the profile.
pub type NamedCosts = (&'static str, &'static str, fn() -> Costs);

/// How often a path of the kernel looks at each CPU, and how many accesses to the state of a root
/// domain's IPI, or to a claim, each CPU makes in a row: raising the request, taking the token, its
/// next place, and passing it on (`rt_ipi`).
const LOOKS: u64 = 4;

/// The most calls of a policy on one path of the kernel: those of a wakeup, of a switch away from
/// a task and to another, and of a few dispatches.
const POLICY_CALLS: u64 = 16;

impl Costs {
    /// Returns the state of `idle_states` of a CPU that has idled for so long.
    #[must_use]
    pub fn state_after(&self, idled: Duration) -> Option<&IdleState> {
        self.idle_states.iter().rev().find(|state| idled >= state.residency)
    }

    /// Returns whether cache lines of the scheduler's state have owners.
    #[must_use]
    pub fn has_lines(&self) -> bool {
        let is_free = self.line_read == ByDistance::ZERO && self.line_write == ByDistance::ZERO;
        !is_free || !self.cpupri_search.is_zero()
    }

    /// Bounds the idle states, as a program does that holds `/dev/cpu_dma_latency` open: no CPU
    /// enters a state that takes longer to leave, or one that is deeper. The first one stays.
    ///
    /// Source: Linux v5.0 `drivers/cpuidle/governors/menu.c`, `menu_select`. Differs: the kernel
    /// compares the latency that the driver declares, not the measured time of the whole exit.
    pub fn bound_idle_exit(&mut self, latency: Duration) {
        let too_deep = self.idle_states.iter().skip(1).position(|state| state.exit > latency);
        self.idle_states.truncate(too_deep.map_or(usize::MAX, |at| at + 1));
    }

    /// Returns the time from an interrupt to the first instruction of a CPU that has idled for so
    /// long.
    #[must_use]
    pub fn exit_after(&self, idled: Duration) -> Duration {
        self.state_after(idled).map_or(self.idle_exit, |state| state.exit)
    }

    /// Returns how much later than a switch its event comes at most.
    #[must_use]
    pub fn late_switch(&self) -> Duration {
        self.pick + self.fair_pick
    }

    /// Returns how long a CPU of a machine of so many CPUs can be on its way without an event: a
    /// wakeup, an interrupt, and a switch, each with its tail, behind the exits from the deepest
    /// idle state of the CPU that wakes a task and of the one that is to run it; and as often as a
    /// path does so, a look at each CPU and an access to a word that each of them writes, behind
    /// those of all others. Scans of tasks, and the time that a run queue's lock is held by others,
    /// are not in it.
    #[must_use]
    pub fn longest_path(&self, cpus: usize) -> Duration {
        let sum = |times: &[Duration]| times.iter().copied().fold(Duration::ZERO, Duration::saturating_add);
        let farthest = |times: &ByDistance| times.smt.max(times.llc).max(times.socket).max(times.remote);
        let operations = sum(&[
            self.pick,
            self.fair_pick,
            self.context_switch,
            self.fair_switch,
            self.wakeup_local.max(self.wakeup_remote),
            self.fair_wakeup,
            self.queued_wakeup,
            self.syscall,
            self.waiting_call,
            self.sleep_call,
            self.call_rest,
            self.boost,
            self.unboost,
            self.pipe_io.max(self.pipe_alone),
            self.policy_call * POLICY_CALLS,
        ]);
        let interrupts = sum(&[
            self.ipi_send,
            farthest(&self.ipi_latency),
            self.ipi_handler,
            farthest(&self.ipi_work),
            self.timer_irq,
            self.tick,
            self.fair_tick,
            self.hrtick,
        ]);
        let moves = sum(&[
            self.rq_lock_hold,
            farthest(&self.rq_lock_transfer),
            self.migrate_task,
            self.throttle,
            farthest(&self.cache_refill),
        ]);
        let tails = [&self.timer_late, &self.switch_late, &self.wakeup_late, &self.migrate_late];
        let late = sum(&tails.map(|tail| tail.quantiles().last().map_or(Duration::ZERO, |(_, time)| *time)));
        let wakes = self.idle_states.iter().filter_map(|state| state.ipi_latency.as_ref()).map(farthest);
        let exits = self.idle_states.iter().map(|state| state.exit).chain(wakes);
        let exit = exits.max().unwrap_or_default().max(self.idle_exit);
        let line = farthest(&self.line_read).max(farthest(&self.line_write));
        let shared = (self.scan_per_cpu + self.inner_lock + line) * (LOOKS * cpus as u64);
        sum(&[operations, interrupts, moves, late, shared, self.cpupri_search * LOOKS, exit, exit])
    }

    /// Returns the time of a tick of a CPU that runs a fair task, or not. It is asked only where
    /// that matters: named profiles have no difference, and most ticks need nothing else of it.
    #[must_use]
    #[inline(always)]
    pub fn tick_of(&self, has_more: impl FnOnce() -> bool) -> Duration {
        if self.fair_tick.is_zero() || !has_more() { self.tick } else { self.tick + self.fair_tick }
    }

    /// Returns the profile in which nothing has a cost.
    #[must_use]
    pub fn zero() -> Self {
        Self {
            name: "zero".to_owned(),
            context_switch: Duration::ZERO,
            fair_switch: Duration::ZERO,
            pick: Duration::ZERO,
            fair_pick: Duration::ZERO,
            wakeup_local: Duration::ZERO,
            wakeup_remote: Duration::ZERO,
            fair_wakeup: Duration::ZERO,
            group_wakeup: Duration::ZERO,
            queued_wakeup: Duration::ZERO,
            syscall: Duration::ZERO,
            waiting_call: Duration::ZERO,
            sleep_call: Duration::ZERO,
            call_rest: Duration::ZERO,
            boost: Duration::ZERO,
            unboost: Duration::ZERO,
            pipe_io: Duration::ZERO,
            pipe_alone: Duration::ZERO,
            ipi_send: Duration::ZERO,
            ipi_latency: ByDistance::ZERO,
            ipi_handler: Duration::ZERO,
            ipi_work: ByDistance::ZERO,
            inner_lock: Duration::ZERO,
            timer_irq: Duration::ZERO,
            tick: Duration::ZERO,
            fair_tick: Duration::ZERO,
            hrtick: Duration::ZERO,
            line_read: ByDistance::ZERO,
            line_write: ByDistance::ZERO,
            cpupri_search: Duration::ZERO,
            rq_lock_hold: Duration::ZERO,
            rq_lock_transfer: ByDistance::ZERO,
            scan_per_cpu: Duration::ZERO,
            scan_per_task: Duration::ZERO,
            migrate_task: Duration::ZERO,
            throttle: Duration::ZERO,
            policy_call: Duration::ZERO,
            cache_refill: ByDistance::ZERO,
            idle_exit: Duration::ZERO,
            idle_states: Vec::new(),
            smt_speed_percent: 100,
            timer_late: Sketch::default(),
            switch_late: Sketch::default(),
            wakeup_late: Sketch::default(),
            migrate_late: Sketch::default(),
            stolen: Standstills::default(),
            smi: Standstills::default(),
            threads: Vec::new(),
        }
    }

    /// Returns the profile of a current x86 server.
    ///
    /// * Measured on Linux 6.18 (`perf bench sched pipe`): 1.34 us per switch with its system calls
    ///   on one CPU, 5.2 us across two. That fixes switch + wakeup + lock, and IPI latency +
    ///   handler + idle exit.
    /// * `fair_switch`, `pick`, `fair_pick`, `fair_wakeup`, `group_wakeup`, `queued_wakeup`,
    ///   `syscall`, `waiting_call`, `sleep_call`, `call_rest`, `pipe_io`: part of these 1.34 us.
    ///   `fair_tick` and `hrtick`: part of the tick and the timer interrupt.
    /// * `pipe_alone`: measured on Linux 6.18, 4000 calls on a pipe of their own process: 194 ns
    ///   (1 byte) to 228 ns (4096 bytes), the fastest of 30 rounds.
    /// * Tick and timer interrupt: 1 to 3 us natively (osnoise reports of 6.x kernels).
    /// * Lock transfers and refills: cache-to-cache latencies of 40 to 150 ns times the lines
    ///   touched.
    /// * By distance: a cache line goes from one core to another of a mesh in 40 to 80 ns, to one
    ///   of another socket in 100 to 250 ns, to the sibling thread in less than 10 (Chips and
    ///   Cheese 2023, "Core to Core Latency Data on Large Systems"; Intel Memory Latency Checker on
    ///   Xeon E5 v4: 40 ns within a socket). A lock is one line and a read of the data that it
    ///   protects; queued IPI work (`ipi_work`) is two lines that its requester wrote.
    /// * IPIs: their flight takes 0.5 to 1.5 us and grows with the same distances. It was fixed by
    ///   the measurement above for CPUs of one cache, and scaled.
    /// * `inner_lock`: one contended line.
    ///
    /// No entry was fitted to an experiment.
    #[must_use]
    pub fn server() -> Self {
        let ns = Duration::from_nanos;
        Self {
            name: "default".to_owned(),
            context_switch: ns(600),
            fair_switch: Duration::ZERO,
            pick: Duration::ZERO,
            fair_pick: Duration::ZERO,
            wakeup_local: ns(250),
            wakeup_remote: ns(400),
            fair_wakeup: Duration::ZERO,
            group_wakeup: Duration::ZERO,
            queued_wakeup: Duration::ZERO,
            syscall: Duration::ZERO,
            waiting_call: Duration::ZERO,
            sleep_call: Duration::ZERO,
            call_rest: Duration::ZERO,
            boost: Duration::ZERO,
            unboost: Duration::ZERO,
            pipe_io: Duration::ZERO,
            pipe_alone: ns(200),
            ipi_send: ns(150),
            ipi_latency: ByDistance::nanos(400, 600, 900, 1_400),
            ipi_handler: ns(400),
            ipi_work: ByDistance::nanos(40, 120, 240, 500),
            inner_lock: ns(80),
            timer_irq: ns(700),
            tick: ns(1_000),
            fair_tick: Duration::ZERO,
            hrtick: Duration::ZERO,
            line_read: ByDistance::ZERO,
            line_write: ByDistance::ZERO,
            cpupri_search: Duration::ZERO,
            rq_lock_hold: ns(200),
            rq_lock_transfer: ByDistance::nanos(20, 60, 120, 250),
            scan_per_cpu: ns(10),
            scan_per_task: ns(15),
            migrate_task: ns(250),
            throttle: ns(300),
            policy_call: Duration::ZERO,
            cache_refill: ByDistance::nanos(200, 2_000, 8_000, 15_000),
            idle_exit: ns(1_500),
            idle_states: Vec::new(),
            smt_speed_percent: 65,
            timer_late: Sketch::default(),
            switch_late: Sketch::default(),
            wakeup_late: Sketch::default(),
            migrate_late: Sketch::default(),
            stolen: Standstills::default(),
            smi: Standstills::default(),
            threads: Vec::new(),
        }
    }

    /// The profiles that have names, each with what it is.
    pub const NAMED: &'static [NamedCosts] = &[
        ("zero", "every operation takes no time", Self::zero),
        ("default", "a current x86 server", Self::server),
        ("bpf", "default, with a policy of sched_ext in BPF", Self::bpf),
        ("user", "default, with a policy of sched_ext in user space", Self::user),
        ("xeon-e7-4s", "a server of four sockets, 2011 to 2014", Self::xeon_e7_4s),
        ("xeon-e7-8s", "a server of eight sockets, 2011 to 2014; lines have owners", Self::xeon_e7_8s),
        ("xeon-e7-8s-contended", "the same, with searches of cpupri as under contention", Self::xeon_e7_8s_contended),
    ];

    /// Returns a profile by name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, ..)| *known == name).map(|(.., profile)| profile())
    }

    /// Reads a profile from the text of a file; keys that it does not set are as in `default`.
    ///
    /// # Errors
    /// The TOML reader's message with line and column.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, toml::de::Error> {
        let file: ProfileFile = toml::from_str(text)?;
        let mut costs = Self { name: file.name.clone().unwrap_or_else(|| name.to_owned()), ..Self::server() };
        file.apply(&mut costs);
        Ok(costs)
    }
}

/// A cost as a reader sees it.
trait Show {
    fn show(&self) -> String;
}

impl Show for Duration {
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Show for u64 {
    fn show(&self) -> String {
        format!("{self}%")
    }
}

impl Show for ByDistance {
    fn show(&self) -> String {
        let Self { smt, llc, socket, remote } = self;
        format!("sibling {smt}, cache {llc}, socket {socket}, remote {remote}")
    }
}

impl Show for Sketch {
    fn show(&self) -> String {
        let quantile = |(place, time): &(u64, Duration)| format!("{}.{:04}% {time}", place / 10_000, place % 10_000);
        if self.is_zero() {
            "none".to_owned()
        } else {
            self.quantiles().iter().map(quantile).collect::<Vec<_>>().join(", ")
        }
    }
}

impl Show for Standstills {
    fn show(&self) -> String {
        if self.is_zero() {
            "none".to_owned()
        } else {
            format!("gap {}; length {}", self.gap.show(), self.length.show())
        }
    }
}

impl Show for Vec<IdleState> {
    fn show(&self) -> String {
        let state = |state: &IdleState| {
            let kind = if state.polling { "polling, " } else { "" };
            format!("{kind}exit {} after {}", state.exit, state.residency)
        };
        if self.is_empty() { "none".to_owned() } else { self.iter().map(state).collect::<Vec<_>>().join("; ") }
    }
}

impl Show for Vec<KernelThread> {
    fn show(&self) -> String {
        let thread = |thread: &KernelThread| {
            let KernelThread { name, every, median, p90, longest, .. } = thread;
            format!("{name} each {every} for {median}, {p90} in a tenth of runs, {longest} at most")
        };
        if self.is_empty() { "none".to_owned() } else { self.iter().map(thread).collect::<Vec<_>>().join("; ") }
    }
}

macro_rules! file {
    ($($field:ident: $kind:ty = $with:literal,)+) => {
        impl Costs {
            /// Returns every cost: its key in files, and its value as a reader sees it.
            #[must_use]
            pub fn shown(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($field), self.$field.show()),)+]
            }
        }

        /// A profile's file.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, default)]
        #[derive(Default)]
        struct ProfileFile {
            name: Option<String>,
            $(#[serde(deserialize_with = $with)] $field: Option<$kind>,)+
        }

        impl ProfileFile {
            fn apply(self, costs: &mut Costs) {
                $(if let Some(value) = self.$field { costs.$field = value; })+
            }
        }
    };
}

file! {
    context_switch: Duration = "some_duration",
    fair_switch: Duration = "some_duration",
    pick: Duration = "some_duration",
    fair_pick: Duration = "some_duration",
    wakeup_local: Duration = "some_duration",
    wakeup_remote: Duration = "some_duration",
    fair_wakeup: Duration = "some_duration",
    group_wakeup: Duration = "some_duration",
    queued_wakeup: Duration = "some_duration",
    syscall: Duration = "some_duration",
    waiting_call: Duration = "some_duration",
    sleep_call: Duration = "some_duration",
    call_rest: Duration = "some_duration",
    boost: Duration = "some_duration",
    unboost: Duration = "some_duration",
    pipe_io: Duration = "some_duration",
    pipe_alone: Duration = "some_duration",
    ipi_send: Duration = "some_duration",
    ipi_latency: ByDistance = "some",
    ipi_handler: Duration = "some_duration",
    ipi_work: ByDistance = "some",
    inner_lock: Duration = "some_duration",
    timer_irq: Duration = "some_duration",
    tick: Duration = "some_duration",
    fair_tick: Duration = "some_duration",
    hrtick: Duration = "some_duration",
    line_read: ByDistance = "some",
    line_write: ByDistance = "some",
    cpupri_search: Duration = "some_duration",
    rq_lock_hold: Duration = "some_duration",
    rq_lock_transfer: ByDistance = "some",
    scan_per_cpu: Duration = "some_duration",
    scan_per_task: Duration = "some_duration",
    migrate_task: Duration = "some_duration",
    throttle: Duration = "some_duration",
    policy_call: Duration = "some_duration",
    cache_refill: ByDistance = "some",
    idle_exit: Duration = "some_duration",
    idle_states: Vec<IdleState> = "some",
    smt_speed_percent: u64 = "some_percent",
    timer_late: Sketch = "some",
    switch_late: Sketch = "some",
    wakeup_late: Sketch = "some",
    migrate_late: Sketch = "some",
    stolen: Standstills = "some",
    smi: Standstills = "some",
    threads: Vec<KernelThread> = "some_threads",
}

/// The longest cost of one operation; a longer one is a mistake in the profile.
const LONGEST: Duration = Duration::from_secs(1);

fn duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let value: Duration = text.parse().map_err(serde::de::Error::custom)?;
    if value > LONGEST {
        return Err(serde::de::Error::custom(format_args!("a cost of {value} is longer than {LONGEST}")));
    }
    Ok(value)
}

fn distance<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let value: Duration = String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)?;
    if value.is_zero() { Err(serde::de::Error::custom("it must be positive")) } else { Ok(value) }
}

fn some_threads<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<KernelThread>>, D::Error> {
    let threads = Vec::<KernelThread>::deserialize(deserializer)?;
    let is_ordered = |thread: &&KernelThread| {
        !thread.median.is_zero() && thread.median <= thread.p90 && thread.p90 <= thread.longest
    };
    match threads.iter().find(|thread| !is_ordered(thread)) {
        Some(wrong) => Err(serde::de::Error::custom(format_args!(
            "{}: median, p90 and longest must be positive and not decrease",
            wrong.name
        ))),
        None => Ok(Some(threads)),
    }
}

fn some_duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

fn some<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn some_percent<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = u64::deserialize(deserializer)?;
    if (1..=100).contains(&value) {
        Ok(Some(value))
    } else {
        Err(serde::de::Error::custom(format_args!("{value} is outside 1..=100 percent")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changes_what_it_names() {
        let costs = Costs::from_toml("mine", "tick = \"3us\"\nipi_latency = { llc = \"1us\" }").expect("valid");
        assert_eq!(costs.name, "mine");
        assert_eq!(costs.tick, Duration::from_micros(3));
        assert_eq!(costs.ipi_latency.at(Distance::Llc), Duration::from_micros(1));
        assert_eq!(costs.context_switch, Costs::server().context_switch);
    }

    #[test]
    fn the_longer_it_idles_the_longer_it_takes_to_come_out() {
        let text = "idle_exit = \"1us\"\nidle_states = [{ residency = \"80us\", exit = \"20us\" }, { residency = \"800us\", exit = \"200us\" }]";
        let costs = Costs::from_toml("mine", text).expect("valid");
        let exits = [0, 79, 80, 799, 800].map(|us| costs.exit_after(Duration::from_micros(us)).as_nanos() / 1_000);
        assert_eq!(exits, [1, 1, 20, 20, 200]);
        let said = "polling = true, ipi_latency = { llc = \"2us\" }";
        let costs =
            Costs::from_toml("mine", &text.replace("\"20us\" }", &format!("\"20us\", {said} }}"))).expect("valid");
        let states = [79, 80, 799, 800].map(|us| costs.state_after(Duration::from_micros(us)));
        assert_eq!(states.map(|state| state.is_some_and(|state| state.polling)), [false, true, true, false]);
        let latency = states.map(|state| state.and_then(|state| state.ipi_latency).map(|times| times.llc));
        assert_eq!(latency, [None, Some(Duration::from_micros(2)), Some(Duration::from_micros(2)), None]);
    }

    #[test]
    fn a_path_is_as_long_as_what_is_on_it() {
        let of = |text: &str| Costs::from_toml("mine", text).expect("valid").longest_path(1);
        assert_eq!(Costs::zero().longest_path(64), Duration::ZERO);
        assert!(Costs::server().longest_path(64) < Duration::from_micros(50));
        // Four accesses of each CPU to the state of the IPI, one behind the other.
        let slow = Costs::from_toml("mine", "inner_lock = \"10us\"").expect("valid");
        let of_64 = slow.longest_path(64);
        assert!(of_64 > Duration::from_micros(2_560) && of_64 < Duration::from_micros(2_600), "{of_64}");
        let deep = of("idle_states = [{ residency = \"1ms\", exit = \"3ms\" }]");
        // That of the CPU that wakes a task, and that of its own.
        assert!(deep > Duration::from_millis(6) && deep < Duration::from_micros(6_050), "{deep}");
        let late = of("wakeup_late = [[0, \"0ns\"], [1000000, \"7ms\"]]");
        assert!(late > Duration::from_millis(7), "{late}");
    }

    #[test]
    fn a_bounded_exit_keeps_out_deeper_states() {
        let text = "idle_states = [{ residency = \"0ns\", exit = \"100ns\", polling = true }, \
                    { residency = \"2us\", exit = \"2us\" }, { residency = \"20us\", exit = \"30us\" }, \
                    { residency = \"600us\", exit = \"133us\" }]";
        let costs = Costs::from_toml("mine", text).expect("valid");
        let exits = |latency: u64| {
            let mut bounded = costs.clone();
            bounded.bound_idle_exit(Duration::from_micros(latency));
            [0, 2, 20, 600].map(|us| bounded.exit_after(Duration::from_micros(us)).as_nanos())
        };
        assert_eq!(exits(0), [100, 100, 100, 100]);
        assert_eq!(exits(29), [100, 2_000, 2_000, 2_000]);
        assert_eq!(exits(30), [100, 2_000, 30_000, 30_000]);
        assert_eq!(exits(1_000), [100, 2_000, 30_000, 133_000]);
    }

    #[test]
    fn mistakes_are_refused_with_their_place() {
        for (text, what) in [
            ("tock = \"3us\"", "unknown field `tock`"),
            ("tick = \"3\"", "needs a unit"),
            ("tick = \"2s\"", "longer than 1s"),
            ("smt_speed_percent = 0", "outside 1..=100"),
            (
                "threads = [{ name = \"k\", every = \"0s\", median = \"1us\", p90 = \"1us\", longest = \"1us\" }]",
                "positive",
            ),
            (
                "threads = [{ name = \"k\", every = \"20s\", median = \"2us\", p90 = \"1us\", longest = \"3us\" }]",
                "k: median",
            ),
        ] {
            let message = Costs::from_toml("x", text).expect_err(text).to_string();
            assert!(message.contains(what) && message.contains("line 1"), "{message}");
        }
    }
}

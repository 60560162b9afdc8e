//! The table of trace events: what each has, its numbers in our container, and its line of text.
//!
//! An event was described in four places: the enum, the writer and the reader of the container,
//! and the list of events. The places could differ, and each new event was written four times. So
//! an event is one entry here, and its kinds are the rows behind it:
//!
//! ```text
//! /// Documentation.
//! Event {
//!     /// Documentation.
//!     field: Type,
//! }
//! NUMBER (fields) { other_field: value } => "word" "text with {field}";
//! ```
//!
//! * A *kind* is one number of the container. Fields whose value the number tells are in braces;
//!   those in brackets follow in the record, in that order. Names behind a semicolon are parts of
//!   a field in braces. Numbers are the format: never change or reuse one, only add.
//! * The word is the event's kind in lists and filters, the text its line there. In place of the
//!   text stands the name of a function if the line is not a sequence of fields. Totals have none.
//! * Numbers above 63: `ServerParams` came when other events of servers had number 30. Both are
//!   written as 30, the low six bits of 94 and 158; the byte behind the kind of server tells them
//!   apart. All 63 numbers are in use: new events are written as 62, and what a number has above
//!   the low six bits follows as the *extended kind* (1 for 126, 4 for 318, 5 for 382, 6 for 446).
//!
//! `trace_events!` hands the table to a macro: the enum here, the codec in `zerolag-trace`, the
//! lines in `zerolag-report`. What converts between models is code and not in the table: the text
//! of tracefs names both tasks of a switch with state that the event does not have (priority and
//! name of the previous task), and merges or drops events; Perfetto has tracks that begin and end.

/// Hands the table of trace events to a macro, which is named as the argument.
#[doc(hidden)]
#[macro_export]
macro_rules! trace_events {
    ($to:ident) => {
        $to! {
        /// A task was created (`sched_process_fork`). It is not runnable before its
        /// [`TraceEvent::Wakeup`].
        TaskNew {
            /// The task.
            task: TaskId,
            /// Its name (`comm`).
            name: Arc<str>,
            /// The task that forked it.
            parent: Option<TaskId>,
            /// Its attributes.
            attr: SchedAttr,
            /// Its group.
            group: GroupId,
        }
        1 (task, name, parent, attr, group) => "new" "{task} {attr}";

        /// A task ended (`sched_process_exit`).
        TaskExit {
            /// The task.
            task: TaskId,
        }
        2 (task) => "exit" "{task}";

        /// A blocked or new task becomes runnable (`sched_waking`, `sched_wakeup_new`): it waits
        /// from here on.
        Waking {
            /// The task.
            task: TaskId,
            /// Its effective priority.
            prio: Prio,
            /// The CPU chosen for it. (A kernel's trace names the CPU that it ran on before; the
            /// choice shows in the wakeup.)
            target: CpuId,
            /// Whether this is its first wakeup.
            new: bool,
        }
        3 (task, prio, target) { new: false } => "waking" "{task} -> cpu{target}",
        4 (task, prio, target) { new: true } => "waking" "{task} -> cpu{target}";

        /// A woken task is on its run queue (`sched_wakeup`). The record's CPU is the run queue's.
        Wakeup {
            /// The task.
            task: TaskId,
            /// Its effective priority.
            prio: Prio,
        }
        5 (task, prio) => "wakeup" "{task}";

        /// A CPU switches from one task to another (`sched_switch`). `None` is the idle task.
        Switch {
            /// The task that ran.
            prev: Option<TaskId>,
            /// Its state after the switch.
            prev_state: PrevState,
            /// The task that runs now.
            next: Option<TaskId>,
            /// The new task's effective priority.
            next_prio: Prio,
        }
        6 (prev_state, prev, next, next_prio) => "switch" "{prev} -> {next}{prev_state}";

        /// A task is migrated to another run queue (`sched_migrate_task`).
        Migrate {
            /// The task.
            task: TaskId,
            /// Its effective priority.
            prio: Prio,
            /// The old run queue.
            from: CpuId,
            /// The new run queue.
            to: CpuId,
            /// The mechanism that migrated it.
            reason: MigrateReason,
        }
        7 (task, prio, from, to, reason) => "migrate" "{task} cpu{from} -> cpu{to} ({reason})";

        /// A task's attributes changed (`sched_setattr`).
        AttrChange {
            /// The task.
            task: TaskId,
            /// Its new attributes.
            attr: SchedAttr,
        }
        8 (task, attr) => "attr" "{task} {attr}";

        /// A task's effective priority changed through inheritance (`sched_pi_setprio`).
        PrioInherit {
            /// The task.
            task: TaskId,
            /// Before.
            from: Prio,
            /// After.
            to: Prio,
        }
        9 (task, from, to) => "inherit" "{task} {from} -> {to}";

        /// The CPUs that a task may use changed (`sched_setaffinity`, cpusets). Default: all CPUs.
        Affinity {
            /// The task.
            task: TaskId,
            /// The CPUs.
            cpus: Arc<CpuMask>,
        }
        10 (task, cpus) => "affinity" "{task} {cpus}";

        /// A CPU entered or left the set of CPUs with RT tasks that wait and could run elsewhere
        /// (`rto_mask`).
        RtOverload {
            /// Set or cleared.
            overloaded: bool,
        }
        11 () { overloaded: true } => "overload" "set",
        12 () { overloaded: false } => "overload" "cleared";

        /// A preemption was requested: `need_resched` was set on the record's CPU.
        NeedResched {
            /// The CPU that requested it.
            by: CpuId,
        }
        13 (by) => "resched" "asked by cpu{by}";

        /// An inter-processor interrupt was sent.
        IpiSend {
            /// The target.
            to: CpuId,
            /// The reason.
            reason: IpiReason,
        }
        14 (to, reason) => "ipi" "-> cpu{to} ({reason})";

        /// An interrupt handler started on the record's CPU.
        IrqEnter {
            /// The kind of interrupt.
            irq: Irq,
        }
        15 (irq) => "irq" "{irq} begins";

        /// That handler ended.
        IrqExit {
            /// The kind of interrupt.
            irq: Irq,
        }
        16 (irq) => "irq" "{irq} ends";

        /// The record's CPU waits for a run-queue lock that another CPU holds; it spins with
        /// interrupts off.
        LockContended {
            /// The CPU of the run queue.
            rq: CpuId,
        }
        17 (rq) => "spin" "for the run queue of cpu{rq}";

        /// The record's CPU got that lock.
        LockAcquired {
            /// The CPU of the run queue.
            rq: CpuId,
            /// The time for which it spun.
            waited: Duration,
        }
        18 (rq, waited) => "spin" "ends after {waited}: has the run queue of cpu{rq}";

        /// A task waits for a lock of its workload: it blocks, or spins and may block later. The
        /// wait ends when it takes the lock.
        WaitLock {
            /// The task.
            task: TaskId,
            /// The lock.
            lock: u32,
            /// The holder.
            holder: Option<TaskId>,
        }
        19 (task, lock, holder) => "wait" wait_lock;

        /// A task took a lock of its workload.
        TakeLock {
            /// The task.
            task: TaskId,
            /// The lock.
            lock: u32,
        }
        20 (task, lock) => "take" "{task} lock {lock}";

        /// A task released a lock of its workload.
        DropLock {
            /// The task.
            task: TaskId,
            /// The lock.
            lock: u32,
        }
        21 (task, lock) => "drop" "{task} lock {lock}";

        /// A task reports its position in its program.
        Mark {
            /// The task.
            task: TaskId,
            /// The position.
            mark: Mark,
        }
        22 (task; phase, turn) { mark: Mark::Phase { phase, turn } } => "mark" "{task} phase {phase} of turn {turn}",
        23 (task; due, slack) { mark: Mark::TimerDue { due, slack } }
            => "mark" "{task} timer due at {due}, slack {slack}",
        24 (task; label, exec) { mark: Mark::Stamp { label, exec } }
            => "mark" "{task} stamp {label} after {exec} of CPU time",
        25 (task; turn) { mark: Mark::TurnEnd { turn } } => "mark" "{task} turn {turn} ends";

        /// A queue of requests, that of a service, was created.
        QueueNew {
            /// The queue.
            queue: u32,
            /// The service's name.
            name: Arc<str>,
        }
        42 (queue, name) => "request" "queue {queue} is of {name}";

        /// A step of a service's request.
        Request {
            /// Its queue.
            queue: u32,
            /// Its number, from 0 in the order of arrival.
            request: u64,
            /// The step.
            step: RequestStep,
        }
        43 (queue, request; due) { step: RequestStep::Arrive { due } } => "request" arrival,
        44 (queue, request; task) { step: RequestStep::Start { task } }
            => "request" "{request} of queue {queue} is taken by {task}",
        45 (queue, request; task) { step: RequestStep::End { task } }
            => "request" "{request} of queue {queue} is done by {task}",
        46 (queue, request) { step: RequestStep::Drop } => "request" "{request} of queue {queue} is dropped";

        /// The budget of a deadline task is exhausted, or the task yields; it waits on the record's
        /// CPU.
        DlThrottle {
            /// The task.
            task: TaskId,
            /// The time of the next replenishment.
            until: Instant,
            /// The remaining budget: negative after an overrun, positive after a yield.
            left: SignedDuration,
        }
        28 (task, until, left) => "dl" "{task} throttled until {until}, {left} left";

        /// A deadline task starts a job, with a new budget and deadline.
        DlReplenish {
            /// The task.
            task: TaskId,
            /// Its absolute deadline.
            deadline: Instant,
            /// The budget until then.
            budget: SignedDuration,
        }
        29 (task, deadline, budget) => "dl" "{task} has {budget} until {deadline}";

        /// A deadline task got the signal that its budget is exhausted (SIGXCPU,
        /// `SCHED_FLAG_DL_OVERRUN`).
        DlOverrun {
            /// The task.
            task: TaskId,
        }
        56 (task) => "dl" "{task} is told of an overrun (SIGXCPU)";

        /// The deadline server of the record's CPU changed its state.
        Server {
            /// The kind of server.
            kind: ServerKind,
            /// The new state.
            state: ServerState,
        }
        94 (kind, state) => "server" "{kind} {state}";

        /// The parameters of the deadline server of the record's CPU were set. Default: those of
        /// the settings.
        ServerParams {
            /// The kind of server.
            kind: ServerKind,
            /// The new parameters.
            params: ServerParams,
        }
        158 (kind; activation, runtime, period) { params: ServerParams { activation, runtime, period } }
            => "server" "{kind} set to {runtime} in {period}";

        /// The record's CPU joins this root domain (`rq_attach_root`). Default: 0.
        RootDomain {
            /// Its number: 0 contains the CPUs that are in no partition.
            domain: u32,
        }
        41 (domain) => "domain" "{domain}";

        /// The record's CPU goes offline, or online again. Default: online.
        Hotplug {
            /// Whether it is online from now on.
            online: bool,
        }
        48 () { online: false } => "hotplug" "offline",
        49 () { online: true } => "hotplug" "online";

        /// The real-time tasks of the record's CPU are throttled or unthrottled: their share of the
        /// period is used up, or the next begins.
        RtThrottle {
            /// Whether they are throttled.
            throttled: bool,
        }
        31 () { throttled: true } => "rt-throttle" "begins",
        32 () { throttled: false } => "rt-throttle" "ends";

        /// The real-time tasks of a group are throttled on the record's CPU, or unthrottled: the
        /// group has exceeded its runtime, or its next period begins (`rt_group_sched`).
        RtGroupThrottle {
            /// The group.
            group: GroupId,
            /// Whether they are throttled.
            throttled: bool,
        }
        318 (group) { throttled: true } => "rt-throttle" "of group {group} begins",
        382 (group) { throttled: false } => "rt-throttle" "of group {group} ends";

        /// The runtime of a group's real-time tasks on each CPU was set (`cpu.rt_runtime_us`,
        /// `cpu.rt_period_us`). Default: none. Of the root group: that of all real-time tasks
        /// (`sched_rt_runtime_us`), or no limit.
        RtGroup {
            /// The group.
            group: GroupId,
            /// The runtime and its period.
            bandwidth: RtBandwidth,
        }
        446 (group; runtime, period) { bandwidth: RtBandwidth { runtime, period } } => "limit" rt_limit;

        /// A task enters kernel mode by a system call or a step of kernel mode, or leaves it
        /// (`raw_syscalls:sys_enter`, `sys_exit`).
        Syscall {
            /// The task.
            task: TaskId,
            /// Whether it enters.
            enters: bool,
        }
        50 (task) { enters: true } => "syscall" "{task} enters",
        51 (task) { enters: false } => "syscall" "{task} leaves";

        /// A task begins or ends a section in which nothing preempts its CPU (`preempt_disable`, a
        /// spinning lock, softirqs or interrupts disabled). Of nested sections only those are
        /// recorded that disable more or less than before.
        NoPreempt {
            /// The task, which runs.
            task: TaskId,
            /// What is disabled from now on; `None` if nothing is.
            disables: Option<Disables>,
        }
        60 (task; disables) { disables: Some(disables) } => "no-preempt" "{task} {disables} off",
        61 (task) { disables: None } => "no-preempt" "{task} ends";

        /// A step of RCU: of a reader, of a task that waits for a grace period, or of the thread of
        /// grace periods (`rcu_grace_period`, `rcu_utilization`).
        Rcu {
            /// The task.
            task: TaskId,
            /// The step.
            step: RcuStep,
        }
        126 (task, step) => "rcu" "{task} {step}";

        /// A task of a limited group is boosted: it may run until it leaves the kernel although the
        /// group is throttled. Or the boost ends.
        Boost {
            /// The task.
            task: TaskId,
            /// Whether it is boosted.
            boosted: bool,
        }
        52 (task) { boosted: true } => "boost" "{task} begins",
        53 (task) { boosted: false } => "boost" "{task} ends";

        /// A task was dequeued at the return to user mode because its group has no quota there, or
        /// it is enqueued again.
        TaskThrottle {
            /// The task.
            task: TaskId,
            /// Whether it is dequeued.
            throttled: bool,
        }
        54 (task) { throttled: true } => "throttle-task" "{task} off",
        55 (task) { throttled: false } => "throttle-task" "{task} back";

        /// A task starts to run on the turn of another that waits for it (`proxy_exec`), or runs on
        /// its own turn again.
        Proxy {
            /// The task.
            task: TaskId,
            /// The task whose turn it uses.
            donor: Option<TaskId>,
            /// The priority at which it runs from now on.
            prio: Prio,
        }
        57 (task, prio; donor) { donor: Some(donor) } => "proxy" "{task} runs for {donor}",
        58 (task, prio) { donor: None } => "proxy" "{task} runs for itself";

        /// A task group was created.
        GroupNew {
            /// The group.
            group: GroupId,
            /// Its parent.
            parent: GroupId,
            /// Its path below the root, as `/pod/a`.
            path: Arc<str>,
        }
        33 (group, parent, path) => "group" "{group} {path}";

        /// A task group was removed. Its id can be reused for another group.
        GroupGone {
            /// The group.
            group: GroupId,
        }
        59 (group) => "group" "{group} is removed";

        /// A task moved to another group.
        GroupChange {
            /// The task.
            task: TaskId,
            /// Its new group.
            group: GroupId,
        }
        34 (task, group) => "group" "{task} moves to {group}";

        /// A group's limit was set (`cpu.max`).
        GroupMax {
            /// The group.
            group: GroupId,
            /// The limit.
            max: CpuMax,
        }
        35 (group; quota, period, burst) { max: CpuMax { quota, period, burst, slice: None } } => "limit" limit,
        47 (group; quota, period, burst, slice) { max: CpuMax { quota, period, burst, slice: Some(slice) } }
            => "limit" limit;

        /// A group's weight was set, or whether it is idle. Default: 1024.
        GroupWeight {
            /// The group.
            group: GroupId,
            /// Its weight relative to its siblings: 1024 is nice 0; 3 for an idle group.
            weight: u32,
        }
        63 (group, weight) => "weight" "group {group} weighs {weight}";

        /// A period of a limited group ended, and its pool was refilled.
        BandwidthRefresh {
            /// The group.
            group: GroupId,
            /// The new content of the pool.
            runtime: Duration,
            /// Whether a CPU was throttled at that time.
            throttled: bool,
        }
        36 (group, runtime) { throttled: false } => "refresh" "group {group} has {runtime}",
        37 (group, runtime) { throttled: true } => "refresh" "group {group} has {runtime}, was throttled";

        /// A limited group has no quota left on the record's CPU: its tasks there do not run.
        Throttle {
            /// The group.
            group: GroupId,
        }
        38 (group) => "throttle" "group {group}";

        /// The group may run there again.
        Unthrottle {
            /// The group.
            group: GroupId,
        }
        39 (group) => "unthrottle" "group {group}";

        /// The end of a run, per CPU: its time by layer. The layers add up to the record's `at`.
        CpuTotals {
            /// Time per layer.
            times: LayerTimes,
        }
        26 (times);

        /// The end of a run, per task: the counters that the scheduler kept.
        TaskTotals {
            /// The task.
            task: TaskId,
            /// The counters.
            counters: TaskCounters,
        }
        27 (task; exec, switches_in, migrations, wakeups)
            { counters: TaskCounters { exec, switches_in, migrations, wakeups } };

        /// The end of a run, per limited group: the counters of its limit.
        GroupTotals {
            /// The group.
            group: GroupId,
            /// The counters.
            stat: CpuStat,
        }
        40 (group; nr_periods, nr_throttled, throttled, nr_bursts, burst)
            { stat: CpuStat { nr_periods, nr_throttled, throttled, nr_bursts, burst } };
        }
    };
}

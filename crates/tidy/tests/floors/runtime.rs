//! The floors of `zerolag-runtime`: words, the state as data, the threads' way through the core,
//! what tasks and their users do with it, the threads of the CPUs and of the clock, and the runtime
//! on top. A method of `Engine` or `Task` is in the module that it needs most, and is called from
//! above that module only.

use super::Floors;

pub(crate) const FLOORS: Floors = &[
    // Words: locks of the system or of the model checker, lengths of time, limits of a container,
    // figures of a group, marks in polls, clocks of threads, threads without a CPU, recordings.
    &["confine", "latency", "reactor", "sync", "units"],
    &["marks", "meter", "pool", "record"],
    &["patience"],
    // The state, as data.
    &["state", "state/info", "state/job", "state/join", "state/spared", "state/time_source", "state/upkeep"],
    &["span", "state/life"],
    &["state/blocking", "state/live_tasks", "state/detached", "state/lock", "state/cpu_thread", "state/timeline"],
    &["state/engine state/group state/task"],
    // What is known of the calling thread; what only looks at the state, or changes a part of it.
    &["coop"],
    &["causes", "engine", "riders", "spare"],
    // The way through the core, and what is on it.
    &["caller"],
    &["timers", "wake"],
    &["blocking", "boost", "hold_back", "switch"],
    // Tasks, and what users do with them.
    &["group", "mutex", "relay", "report", "time"],
    &["task"],
    &["shutdown", "spawn"],
    &["set", "tower"],
    // The threads of the CPUs and of the clock.
    &["worker"],
    &["clock"],
    // The runtime, and its figures for others.
    &["runtime"],
    &["metrics", "socket"],
    &["lib"],
    // Tests of whole runtimes, in many orders of their steps.
    &["orders orders/beside"],
];

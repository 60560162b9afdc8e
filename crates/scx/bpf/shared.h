/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What both sides know: the layout of events, decisions and settings. src/wire.rs has the same.
 */
#ifndef ZEROLAG_SHARED_H
#define ZEROLAG_SHARED_H

/* A power of two. */
#define MAX_CPUS 256
#define LOOK_NS 10000000ULL

/* Before loading. */
struct config {
	u64 slice_ns;
	/* When CPUs help themselves, and when the scheduler is unloaded. */
	u64 late_ns;
	u64 timeout_ns;
	u32 nr_cpus;
	/* Idle CPUs take tasks that wake without a question. */
	u32 direct;
	/* A wakeup that finds no idle CPU waits for the question of some CPU. */
	u32 patient;
	/* A CPU without a task takes the only task that waits without a question. */
	u32 alone;
};

enum event_kind {
	/* a: enq_flags, weight: it wants an answer */
	EVENT_ENQUEUE = 1,
	/* pid: the task that ran and can run on, or 0 */
	EVENT_DISPATCH,
	/* a: enq_flags */
	EVENT_RUNNABLE,
	/* b: slice */
	EVENT_RUNNING,
	/* It stays runnable. b: slice */
	EVENT_STOPPING,
	/* a: deq_flags, b: slice */
	EVENT_QUIESCENT,
	EVENT_WEIGHT,
	EVENT_CPUMASK,
	/* weight, group, mask, comm */
	EVENT_ADD,
	EVENT_REMOVE,
	/* A group is new, or has another weight. a: the group above it, or 0 */
	EVENT_GROUP,
	/* a: period, b: quota, mask[0]: burst, in microseconds */
	EVENT_GROUP_LIMIT,
	EVENT_GROUP_EXIT,
	/* A task moves to a group. */
	EVENT_MOVE,
	/* comm */
	EVENT_RENAME,
	EVENT_EXIT,
};

struct event {
	u64 at;
	u64 a;
	u64 b;
	u64 group;
	u64 mask[MAX_CPUS / 64];
	u32 kind;
	u32 pid;
	s32 cpu;
	u32 weight;
	char comm[16];
};

enum decision_kind { DECISION_NONE, DECISION_MOVE, DECISION_KICK, DECISION_SLICE, DECISION_REQUEUE };

/* The task is not in WAIT; it must not run there. */
enum result { RESULT_DONE, RESULT_ABSENT, RESULT_FORBIDDEN };

struct decision {
	/* How many events that want an answer have been read. */
	u64 answered;
	u64 slice;
	/* SCX_ENQ_* of a move, SCX_KICK_* of a kick */
	u64 flags;
	u32 kind;
	u32 pid;
	u32 cpu;
	u32 unused;
};

/* What the kernel's half leaves behind. */
struct report {
	u64 nr_late;
	s64 code;
	u32 kind;
	char reason[60];
	char msg[256];
};

#endif

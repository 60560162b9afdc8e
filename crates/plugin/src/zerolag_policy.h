/* zerolag_policy.h: a scheduler of your own as a shared object, for `zerolag run --policy FILE.so`.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The operations are those of the kernel's `struct sched_ext_ops`, the helpers those of
 * `scx_bpf_*`, under the same names. What differs from BPF:
 *
 *  - A task is a number, SCX_TASK_NONE is none. `scx` is passed to every operation and helper.
 *  - All memory of a policy is in `scx_state`, `scx_task_data`, `scx_cpu_data`, `scx_cgroup_data`:
 *    zero at first, and copied as bytes when a run is copied. So no pointers in there, and no
 *    variables outside that change: one object serves several runs, on several threads.
 *  - An operation that is NULL has the kernel's default.
 *
 * Export the policy as the object `zerolag_policy`:
 *
 *     #include "zerolag_policy.h"
 *     ZEROLAG_POLICY = { ZEROLAG_POLICY_HEAD, .name = "mine", .enqueue = my_enqueue };
 *
 *     cc -O2 -shared -fPIC -o mine.so mine.c && zerolag run workload.toml --policy ./mine.so
 */
#ifndef ZEROLAG_POLICY_H
#define ZEROLAG_POLICY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An object of an earlier version is taken, one of a later version is refused. Version 2 has `needs`,
 * scx_cgroup_parent and scx_task_work_left. */
#define ZEROLAG_POLICY_VERSION 2

#define SCX_TASK_NONE UINT32_MAX
#define SCX_CGROUP_NONE UINT32_MAX
#define SCX_WORK_NONE UINT64_MAX

/* Dispatch queues: numbers below 2^63 are a policy's own. */
#define SCX_DSQ_GLOBAL (1ULL << 63 | 1)
#define SCX_DSQ_LOCAL (1ULL << 63 | 2)
#define SCX_DSQ_LOCAL_ON (1ULL << 63 | 1ULL << 62) /* | the CPU */

#define SCX_SLICE_DFL 20000000ULL
#define SCX_SLICE_INF UINT64_MAX

#define SCX_WAKE_FORK 0x04ULL
#define SCX_WAKE_TTWU 0x08ULL
#define SCX_WAKE_SYNC 0x10ULL

#define SCX_ENQ_WAKEUP 1ULL
#define SCX_ENQ_HEAD (1ULL << 4)
#define SCX_ENQ_CPU_SELECTED (1ULL << 10)
#define SCX_ENQ_PREEMPT (1ULL << 32)
#define SCX_ENQ_REENQ (1ULL << 40)
#define SCX_ENQ_LAST (1ULL << 41)

#define SCX_DEQ_SLEEP 1ULL
#define SCX_DEQ_SCHED_CHANGE (1ULL << 33)

#define SCX_KICK_IDLE 1ULL
#define SCX_KICK_PREEMPT 2ULL

#define SCX_OPS_ENQ_LAST 2ULL
#define SCX_OPS_ENQ_EXITING 4ULL
#define SCX_OPS_SWITCH_PARTIAL 8ULL

#define SCX_PICK_IDLE_CORE 1ULL

/* What a policy asks of the workload. No kernel knows it: such a policy runs in simulations only. */
#define ZEROLAG_NEEDS_PERIOD 1ULL /* scx_task_period */
#define ZEROLAG_NEEDS_WORK 2ULL   /* scx_task_work_left */

struct scx; /* the kernel as the policy sees it */

/* A number that users set: `--set policy.NAME=VALUE`. */
struct scx_param {
	const char *name;
	const char *meaning; /* a sentence without its point */
	uint64_t def, min, max;
	uint32_t is_time; /* in nanoseconds: users write 5ms */
	uint32_t reserved;
};

struct zerolag_policy {
	uint32_t version, size; /* ZEROLAG_POLICY_HEAD */
	const char *name;
	uint64_t flags;         /* SCX_OPS_* */
	uint64_t timeout_ns;    /* 0: 30 s */
	uint32_t dispatch_max_batch; /* 0: 32 */
	uint32_t nr_params;
	const struct scx_param *params;
	/* Bytes of the policy, and per task, CPU and group; at most 1 MiB each. */
	size_t state_size, task_size, cpu_size, cgroup_size;

	int32_t (*select_cpu)(struct scx *scx, uint32_t p, int32_t prev_cpu, uint64_t wake_flags);
	void (*enqueue)(struct scx *scx, uint32_t p, uint64_t enq_flags);
	void (*dequeue)(struct scx *scx, uint32_t p, uint64_t deq_flags);
	void (*dispatch)(struct scx *scx, int32_t cpu, uint32_t prev);
	void (*tick)(struct scx *scx, uint32_t p);
	void (*runnable)(struct scx *scx, uint32_t p, uint64_t enq_flags);
	void (*running)(struct scx *scx, uint32_t p);
	void (*stopping)(struct scx *scx, uint32_t p, int32_t runnable);
	void (*quiescent)(struct scx *scx, uint32_t p, uint64_t deq_flags);
	int32_t (*yield)(struct scx *scx, uint32_t from, uint32_t to);
	void (*set_weight)(struct scx *scx, uint32_t p, uint32_t weight);
	void (*set_cpumask)(struct scx *scx, uint32_t p); /* scx_task_allowed */
	void (*update_idle)(struct scx *scx, int32_t cpu, int32_t idle);
	void (*cpu_acquire)(struct scx *scx, int32_t cpu);
	void (*cpu_release)(struct scx *scx, int32_t cpu);
	void (*cpu_online)(struct scx *scx, int32_t cpu);
	void (*cpu_offline)(struct scx *scx, int32_t cpu);
	void (*init_task)(struct scx *scx, uint32_t p, int32_t fork);
	void (*exit_task)(struct scx *scx, uint32_t p);
	void (*enable)(struct scx *scx, uint32_t p);
	void (*disable)(struct scx *scx, uint32_t p);
	void (*cgroup_init)(struct scx *scx, uint32_t cgrp);
	void (*cgroup_exit)(struct scx *scx, uint32_t cgrp);
	void (*cgroup_move)(struct scx *scx, uint32_t p, uint32_t from, uint32_t to);
	void (*cgroup_set_weight)(struct scx *scx, uint32_t cgrp, uint32_t weight);
	/* quota_ns is UINT64_MAX without a limit */
	void (*cgroup_set_bandwidth)(struct scx *scx, uint32_t cgrp, uint64_t period_ns, uint64_t quota_ns,
				     uint64_t burst_ns);
	void (*init)(struct scx *scx);
	void (*timer)(struct scx *scx, uint32_t id); /* scx_timer_start */
	/* Since version 2. */
	uint64_t needs; /* ZEROLAG_NEEDS_* */
};

#define ZEROLAG_POLICY_HEAD .version = ZEROLAG_POLICY_VERSION, .size = sizeof(struct zerolag_policy)
#define ZEROLAG_POLICY const struct zerolag_policy zerolag_policy
/* Declared here, so that C++ exports it, and under its own name. */
#if defined(__GNUC__)
extern __attribute__((visibility("default"))) const struct zerolag_policy zerolag_policy;
#else
extern const struct zerolag_policy zerolag_policy;
#endif

/* The helpers. New ones are last, so that objects of earlier versions find theirs. */
struct scx_helpers {
	uint64_t (*now)(struct scx *);
	uint32_t (*nr_cpus)(struct scx *);
	uint64_t (*slice_dfl)(struct scx *);
	uint64_t (*param)(struct scx *, uint32_t index);
	int32_t (*cpu_online)(struct scx *, int32_t cpu);
	uint32_t (*cpu_curr)(struct scx *, int32_t cpu);
	size_t (*task_comm)(struct scx *, uint32_t p, char *buf, size_t size);
	uint32_t (*task_weight)(struct scx *, uint32_t p);
	uint32_t (*task_cgroup)(struct scx *, uint32_t p);
	uint32_t (*cgroup_weight)(struct scx *, uint32_t cgrp);
	int32_t (*task_cpu)(struct scx *, uint32_t p);
	int32_t (*task_running)(struct scx *, uint32_t p);
	int32_t (*task_allowed)(struct scx *, uint32_t p, int32_t cpu);
	uint64_t (*task_period)(struct scx *, uint32_t p);
	uint64_t (*task_slice)(struct scx *, uint32_t p);
	void (*task_set_slice)(struct scx *, uint32_t p, uint64_t slice_ns);
	uint64_t (*task_vtime)(struct scx *, uint32_t p);
	void (*task_set_vtime)(struct scx *, uint32_t p, uint64_t vtime);
	int32_t (*create_dsq)(struct scx *, uint64_t dsq);
	void (*destroy_dsq)(struct scx *, uint64_t dsq);
	void (*dsq_insert)(struct scx *, uint32_t p, uint64_t dsq, uint64_t slice_ns, uint64_t enq_flags);
	void (*dsq_insert_vtime)(struct scx *, uint32_t p, uint64_t dsq, uint64_t slice_ns, uint64_t vtime,
				 uint64_t enq_flags);
	int32_t (*dsq_move_to_local)(struct scx *, uint64_t dsq);
	int32_t (*dsq_move)(struct scx *, uint32_t p, uint64_t dsq, uint64_t enq_flags);
	int32_t (*dsq_move_vtime)(struct scx *, uint32_t p, uint64_t dsq, uint64_t vtime, uint64_t enq_flags);
	uint32_t (*dsq_nr_queued)(struct scx *, uint64_t dsq);
	uint32_t (*dsq_peek)(struct scx *, uint64_t dsq);
	uint32_t (*dsq_next)(struct scx *, uint32_t p);
	int32_t (*cpu_idle)(struct scx *, int32_t cpu);
	int32_t (*core_idle)(struct scx *, int32_t cpu);
	int32_t (*test_and_clear_cpu_idle)(struct scx *, int32_t cpu);
	int32_t (*pick_idle_cpu)(struct scx *, uint32_t p, uint64_t flags);
	int32_t (*select_cpu_dfl)(struct scx *, uint32_t p, int32_t prev_cpu, uint64_t wake_flags, int32_t *is_idle);
	void (*kick_cpu)(struct scx *, int32_t cpu, uint64_t flags);
	void (*error)(struct scx *, const char *msg);
	void (*exit)(struct scx *, const char *msg);
	void *(*task_data)(struct scx *, uint32_t p);
	void *(*cpu_data)(struct scx *, int32_t cpu);
	void *(*cgroup_data)(struct scx *, uint32_t cgrp);
	void (*timer_start)(struct scx *, uint32_t id, uint64_t after_ns);
	int32_t (*timer_cancel)(struct scx *, uint32_t id);
	/* Since version 2. */
	uint32_t (*cgroup_parent)(struct scx *, uint32_t cgrp);
	uint64_t (*task_work_left)(struct scx *, uint32_t p);
};

struct scx {
	const struct scx_helpers *h;
	void *state;
};

/* Time, and the machine. */
static inline uint64_t scx_bpf_now(struct scx *scx) { return scx->h->now(scx); }
static inline uint32_t scx_bpf_nr_cpu_ids(struct scx *scx) { return scx->h->nr_cpus(scx); }
static inline uint64_t scx_slice_dfl(struct scx *scx) { return scx->h->slice_dfl(scx); }
static inline uint64_t scx_param(struct scx *scx, uint32_t index) { return scx->h->param(scx, index); }
/* As bpf_timer_start: `timer` is called once, after the time, at least 1 us. */
static inline void scx_timer_start(struct scx *scx, uint32_t id, uint64_t after_ns)
{
	scx->h->timer_start(scx, id, after_ns);
}
static inline int32_t scx_timer_cancel(struct scx *scx, uint32_t id) { return scx->h->timer_cancel(scx, id); }
static inline int32_t scx_cpu_online(struct scx *scx, int32_t cpu) { return scx->h->cpu_online(scx, cpu); }
static inline uint32_t scx_bpf_cpu_curr(struct scx *scx, int32_t cpu) { return scx->h->cpu_curr(scx, cpu); }

/* The policy's own data. NULL for what does not exist. */
static inline void *scx_state(struct scx *scx) { return scx->state; }
static inline void *scx_task_data(struct scx *scx, uint32_t p) { return scx->h->task_data(scx, p); }
static inline void *scx_cpu_data(struct scx *scx, int32_t cpu) { return scx->h->cpu_data(scx, cpu); }
static inline void *scx_cgroup_data(struct scx *scx, uint32_t cgrp) { return scx->h->cgroup_data(scx, cgrp); }

/* Tasks and groups. The name ends in a 0 and is cut; its full length is returned. */
static inline size_t scx_task_comm(struct scx *scx, uint32_t p, char *buf, size_t size)
{
	return scx->h->task_comm(scx, p, buf, size);
}
static inline uint32_t scx_task_weight(struct scx *scx, uint32_t p) { return scx->h->task_weight(scx, p); }
static inline uint32_t scx_bpf_task_cgroup(struct scx *scx, uint32_t p) { return scx->h->task_cgroup(scx, p); }
static inline uint32_t scx_cgroup_weight(struct scx *scx, uint32_t cgrp) { return scx->h->cgroup_weight(scx, cgrp); }
/* The group above a group; SCX_CGROUP_NONE of the root, and of one that does not exist. */
static inline uint32_t scx_cgroup_parent(struct scx *scx, uint32_t cgrp) { return scx->h->cgroup_parent(scx, cgrp); }
static inline int32_t scx_bpf_task_cpu(struct scx *scx, uint32_t p) { return scx->h->task_cpu(scx, p); }
static inline int32_t scx_bpf_task_running(struct scx *scx, uint32_t p) { return scx->h->task_running(scx, p); }
static inline int32_t scx_task_allowed(struct scx *scx, uint32_t p, int32_t cpu)
{
	return scx->h->task_allowed(scx, p, cpu);
}
/* The period of its timer in the workload, 0 without one: no kernel knows it. */
static inline uint64_t scx_task_period(struct scx *scx, uint32_t p) { return scx->h->task_period(scx, p); }
/* The CPU time until it waits or completes its request, for a policy with ZEROLAG_NEEDS_WORK; SCX_WORK_NONE if no wait is
 * in sight. */
static inline uint64_t scx_task_work_left(struct scx *scx, uint32_t p) { return scx->h->task_work_left(scx, p); }
static inline uint64_t scx_task_slice(struct scx *scx, uint32_t p) { return scx->h->task_slice(scx, p); }
static inline void scx_bpf_task_set_slice(struct scx *scx, uint32_t p, uint64_t slice)
{
	scx->h->task_set_slice(scx, p, slice);
}
static inline uint64_t scx_task_dsq_vtime(struct scx *scx, uint32_t p) { return scx->h->task_vtime(scx, p); }
static inline void scx_bpf_task_set_dsq_vtime(struct scx *scx, uint32_t p, uint64_t vtime)
{
	scx->h->task_set_vtime(scx, p, vtime);
}

/* Dispatch queues. */
static inline int32_t scx_bpf_create_dsq(struct scx *scx, uint64_t dsq) { return scx->h->create_dsq(scx, dsq); }
static inline void scx_bpf_destroy_dsq(struct scx *scx, uint64_t dsq) { scx->h->destroy_dsq(scx, dsq); }
static inline void scx_bpf_dsq_insert(struct scx *scx, uint32_t p, uint64_t dsq, uint64_t slice, uint64_t flags)
{
	scx->h->dsq_insert(scx, p, dsq, slice, flags);
}
static inline void scx_bpf_dsq_insert_vtime(struct scx *scx, uint32_t p, uint64_t dsq, uint64_t slice, uint64_t vtime,
					    uint64_t flags)
{
	scx->h->dsq_insert_vtime(scx, p, dsq, slice, vtime, flags);
}
static inline int32_t scx_bpf_dsq_move_to_local(struct scx *scx, uint64_t dsq)
{
	return scx->h->dsq_move_to_local(scx, dsq);
}
static inline int32_t scx_bpf_dsq_move(struct scx *scx, uint32_t p, uint64_t dsq, uint64_t flags)
{
	return scx->h->dsq_move(scx, p, dsq, flags);
}
static inline int32_t scx_bpf_dsq_move_vtime(struct scx *scx, uint32_t p, uint64_t dsq, uint64_t vtime, uint64_t flags)
{
	return scx->h->dsq_move_vtime(scx, p, dsq, vtime, flags);
}
static inline uint32_t scx_bpf_dsq_nr_queued(struct scx *scx, uint64_t dsq) { return scx->h->dsq_nr_queued(scx, dsq); }
/* The first task of a queue, and the one behind a task: a loop over a queue. */
static inline uint32_t scx_bpf_dsq_peek(struct scx *scx, uint64_t dsq) { return scx->h->dsq_peek(scx, dsq); }
static inline uint32_t scx_dsq_next(struct scx *scx, uint32_t p) { return scx->h->dsq_next(scx, p); }

/* CPUs. pick_idle_cpu returns -1 if none idles. */
static inline int32_t scx_cpu_idle(struct scx *scx, int32_t cpu) { return scx->h->cpu_idle(scx, cpu); }
static inline int32_t scx_core_idle(struct scx *scx, int32_t cpu) { return scx->h->core_idle(scx, cpu); }
static inline int32_t scx_bpf_test_and_clear_cpu_idle(struct scx *scx, int32_t cpu)
{
	return scx->h->test_and_clear_cpu_idle(scx, cpu);
}
static inline int32_t scx_bpf_pick_idle_cpu(struct scx *scx, uint32_t p, uint64_t flags)
{
	return scx->h->pick_idle_cpu(scx, p, flags);
}
static inline int32_t scx_bpf_select_cpu_dfl(struct scx *scx, uint32_t p, int32_t prev_cpu, uint64_t wake_flags,
					     int32_t *is_idle)
{
	return scx->h->select_cpu_dfl(scx, p, prev_cpu, wake_flags, is_idle);
}
static inline void scx_bpf_kick_cpu(struct scx *scx, int32_t cpu, uint64_t flags) { scx->h->kick_cpu(scx, cpu, flags); }

/* The end. */
static inline void scx_bpf_error(struct scx *scx, const char *msg) { scx->h->error(scx, msg); }
static inline void scx_bpf_exit(struct scx *scx, const char *msg) { scx->h->exit(scx, msg); }

#ifdef __cplusplus
}
#endif
#endif

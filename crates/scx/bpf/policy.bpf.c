// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's half of zerolag-scx: tells user space what happens, does what it decides.
 *
 * Every runnable task of user space that no idle CPU takes at once is in one queue, WAIT. User space
 * learns from a ring buffer what happens to tasks and CPUs, asks its policy, and moves tasks from
 * WAIT to the local queue of a CPU by running the program `decide`, once per decision. A move is
 * done at the time of that call, not at the next dispatch of some CPU, and no list of tasks of our
 * own exists that could lose one: a task that user space forgets is still in WAIT.
 *
 * If user space does not answer, CPUs take tasks from WAIT in order of arrival (`is_late`). If it
 * does not answer for long, the scheduler unloads itself. If the process dies, the kernel unloads
 * it. Threads of the kernel never wait for user space.
 *
 * `sched_ext` calls the operations with the lock of a run queue held (not `init`, `cgroup_*` and
 * `decide`), so the events of one task are in order.
 */
#include "kernel.h"
#include "shared.h"

char LICENSE[] SEC("license") = "GPL";

/* Our queue. */
#define WAIT 0
#define NEVER (~0ULL)

const volatile struct config config SEC(".rodata.config") = {};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct report);
} reports SEC(".maps");

struct watch {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct watch);
} watches SEC(".maps");

/* How many events wanted an answer, and up to which user space has answered. */
static u64 nr_asked, nr_answered;
/* Counts insertions into WAIT; what it was when a CPU that ran nothing asked last. */
static u64 nr_enqueued;
static u64 asked_at[MAX_CPUS];
/* User space is late: CPUs help themselves. */
static bool is_late;
/* The state of the timer: the answers that it has seen, and since when. */
static u64 seen_answered, seen_at;

static __always_inline bool is_ours(const struct task_struct *p)
{
	return !(p->flags & PF_KTHREAD);
}

static __always_inline struct report *report(void)
{
	u32 first = 0;

	return bpf_map_lookup_elem(&reports, &first);
}

static __always_inline void fail(char *fmt, u64 value)
{
	unsigned long long data[] = { value };

	scx_bpf_error_bstr(fmt, data, sizeof(data));
}

static char lost_message[] = "user space has not read %llu events: the buffer is full";
static char hang_message[] = "user space has not answered for %llu ms";

/* Returns a new event, or NULL; then user space has lost count, and the scheduler is unloaded. */
static __always_inline struct event *event(u32 kind, u32 pid, s32 cpu)
{
	struct event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		fail(lost_message, (16 << 20) / (sizeof(*e) + 8));
		return NULL;
	}
	e->at = bpf_ktime_get_ns();
	e->kind = kind;
	e->pid = pid;
	e->cpu = cpu;
	e->weight = 0;
	e->a = 0;
	e->b = 0;
	return e;
}

/* Sends an event that wants an answer. */
static __always_inline void ask(struct event *e)
{
	__sync_fetch_and_add(&nr_asked, 1);
	bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
}

/* Sends one that can wait for the next answer. */
static __always_inline void tell(struct event *e)
{
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

static __always_inline void tell_of(u32 kind, const struct task_struct *p, u64 flags)
{
	struct event *e;

	if (!is_ours(p))
		return;
	e = event(kind, p->pid, scx_bpf_task_cpu(p));
	if (e) {
		e->a = flags;
		e->b = p->scx.slice;
		tell(e);
	}
}

SEC("struct_ops/select_cpu")
s32 zl_select_cpu(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, ctx[1], ctx[2], &is_idle);

	if (is_idle && (config.direct || !is_ours(p)))
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, config.slice_ns, 0);
	return cpu;
}

SEC("struct_ops/enqueue")
void zl_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 flags = ctx[1];
	struct event *e;
	bool asks;

	if (!is_ours(p)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, config.slice_ns, flags);
		return;
	}
	/* A CPU that began to idle since `select_cpu` has seen an empty queue: it would not ask. */
	asks = !config.patient || !(flags & SCX_ENQ_WAKEUP) || scx_bpf_pick_idle_cpu(p->cpus_ptr, 0) >= 0;
	e = event(EVENT_ENQUEUE, p->pid, scx_bpf_task_cpu(p));
	if (e) {
		e->a = flags;
		e->weight = asks;
		if (asks)
			ask(e);
		else
			tell(e);
	}
	scx_bpf_dsq_insert(p, WAIT, config.slice_ns, 0);
	__sync_fetch_and_add(&nr_enqueued, 1);
}

/*
 * The server of the class (ext_server, 7.0) asks, not the CPU: tasks of other classes are runnable, a
 * real-time task or with --partial a fair one, and this class comes behind them. A server that gets no task is stopped, and starts when the
 * first task of the CPU is enqueued (v7.3 __pick_task_dl, enqueue_task_scx): beside tasks that stay
 * runnable never again. So this cannot wait for user space, whose thread may be behind those tasks,
 * too.
 */
static __always_inline bool asks_server(void)
{
	struct rq *rq = scx_bpf_locked_rq();

	return rq && rq->nr_running > rq->scx.nr_running;
}

/* A CPU has no local task. With SCX_OPS_ENQ_LAST the one that ran is enqueued in any case if its
 * slice is used up, so that the policy decides every turn; the CPU idles until the answer. */
SEC("struct_ops/dispatch")
void zl_dispatch(u64 *ctx)
{
	u32 cpu = (s32)ctx[0] & (MAX_CPUS - 1);
	struct task_struct *prev = (void *)ctx[1];
	bool goes_on = prev && is_ours(prev) && (prev->scx.flags & SCX_TASK_QUEUED);
	u64 enqueued = nr_enqueued;
	struct event *e;

	if (is_late || asks_server()) {
		if (!scx_bpf_dsq_move_to_local(WAIT) && goes_on)
			prev->scx.slice = config.slice_ns;
		return;
	}
	/* Which task, is no question. That it runs at all is one for policies that can withhold it. */
	if (config.alone && !goes_on && scx_bpf_dsq_nr_queued(WAIT) == 1 && scx_bpf_dsq_move_to_local(WAIT))
		return;
	/* One that ran nothing asks once for each change: the user side itself makes its CPU come
	 * here whenever it waits. */
	if (!goes_on && (asked_at[cpu] == enqueued || !scx_bpf_dsq_nr_queued(WAIT)))
		return;
	asked_at[cpu] = enqueued;
	e = event(EVENT_DISPATCH, goes_on ? prev->pid : 0, cpu);
	if (e)
		ask(e);
}

SEC("struct_ops/runnable")
void zl_runnable(u64 *ctx)
{
	tell_of(EVENT_RUNNABLE, (void *)ctx[0], ctx[1]);
}

SEC("struct_ops/running")
void zl_running(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	asked_at[scx_bpf_task_cpu(p) & (MAX_CPUS - 1)] = NEVER;
	tell_of(EVENT_RUNNING, p, 0);
}

SEC("struct_ops/stopping")
void zl_stopping(u64 *ctx)
{
	/* One that cannot run on is told of by `quiescent`. */
	if (ctx[1])
		tell_of(EVENT_STOPPING, (void *)ctx[0], 0);
}

SEC("struct_ops/quiescent")
void zl_quiescent(u64 *ctx)
{
	tell_of(EVENT_QUIESCENT, (void *)ctx[0], ctx[1]);
}

SEC("struct_ops/set_weight")
void zl_set_weight(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct event *e;

	if (!is_ours(p))
		return;
	e = event(EVENT_WEIGHT, p->pid, 0);
	if (e) {
		e->weight = ctx[1];
		tell(e);
	}
}

SEC("struct_ops/set_cpumask")
void zl_set_cpumask(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct event *e;

	if (!is_ours(p))
		return;
	e = event(EVENT_CPUMASK, p->pid, 0);
	if (e) {
		bpf_probe_read_kernel(e->mask, sizeof(e->mask), (void *)ctx[1]);
		tell(e);
	}
}

SEC("struct_ops/enable")
void zl_enable(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct event *e;

	if (!is_ours(p))
		return;
	e = event(EVENT_ADD, p->pid, scx_bpf_task_cpu(p));
	if (!e)
		return;
	e->weight = p->scx.weight;
	e->group = 0;
	if (bpf_core_field_exists(p->sched_task_group))
		e->group = BPF_CORE_READ(p, sched_task_group, css.cgroup, kn, id);
	bpf_probe_read_kernel(e->mask, sizeof(e->mask), p->cpus_ptr);
	bpf_probe_read_kernel(e->comm, sizeof(e->comm), p->comm);
	tell(e);
}

/* A thread has another name: it has executed a program, or named itself. Not an operation of sched_ext. */
SEC("tp_btf/task_rename")
int zl_rename(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct event *e;

	if (!is_ours(p))
		return 0;
	e = event(EVENT_RENAME, p->pid, 0);
	if (e) {
		bpf_probe_read_kernel_str(e->comm, sizeof(e->comm), (void *)ctx[1]);
		tell(e);
	}
	return 0;
}

SEC("struct_ops/disable")
void zl_disable(u64 *ctx)
{
	tell_of(EVENT_REMOVE, (void *)ctx[0], 0);
}

static __always_inline void tell_of_group(u32 kind, const struct cgroup *cgrp, u32 pid, u32 weight)
{
	struct event *e = event(kind, pid, 0);

	if (e) {
		/* 0 where that is null: the root has none above it. */
		e->a = BPF_CORE_READ(cgrp, self.parent, cgroup, kn, id);
		e->group = BPF_CORE_READ(cgrp, kn, id);
		e->weight = weight;
		tell(e);
	}
}

static __always_inline void tell_of_limit(const struct cgroup *cgrp, u64 period, u64 quota, u64 burst)
{
	struct event *e = event(EVENT_GROUP_LIMIT, 0, 0);

	if (e) {
		e->group = BPF_CORE_READ(cgrp, kn, id);
		e->a = period;
		e->b = quota;
		e->mask[0] = burst;
		tell(e);
	}
}

SEC("struct_ops.s/cgroup_init")
s32 zl_cgroup_init(u64 *ctx)
{
	struct scx_cgroup_init_args *args = (void *)ctx[1];

	tell_of_group(EVENT_GROUP, (void *)ctx[0], 0, args->weight);
	tell_of_limit((void *)ctx[0], args->bw_period_us, args->bw_quota_us, args->bw_burst_us);
	return 0;
}

SEC("struct_ops.s/cgroup_exit")
void zl_cgroup_exit(u64 *ctx)
{
	tell_of_group(EVENT_GROUP_EXIT, (void *)ctx[0], 0, 0);
}

SEC("struct_ops/cgroup_move")
void zl_cgroup_move(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	if (is_ours(p))
		tell_of_group(EVENT_MOVE, (void *)ctx[2], p->pid, 0);
}

SEC("struct_ops/cgroup_set_weight")
void zl_cgroup_set_weight(u64 *ctx)
{
	tell_of_group(EVENT_GROUP, (void *)ctx[0], 0, ctx[1]);
}

SEC("struct_ops/cgroup_set_bandwidth")
void zl_cgroup_set_bandwidth(u64 *ctx)
{
	tell_of_limit((void *)ctx[0], ctx[1], ctx[2], ctx[3]);
}

/* Looks every 10 ms whether user space makes progress with what wants an answer. */
static int look(void *map, u32 *key, struct bpf_timer *timer)
{
	u64 now = bpf_ktime_get_ns(), answered = nr_answered;
	struct report *r = report();
	s32 cpu;

	if (answered == nr_asked || answered != seen_answered) {
		seen_answered = answered;
		seen_at = now;
		is_late = false;
	} else if (now - seen_at > config.timeout_ns) {
		fail(hang_message, (now - seen_at) / 1000000);
		return 0;
	} else if (now - seen_at > config.late_ns) {
		if (!is_late && r)
			r->nr_late++;
		is_late = true;
		bpf_for(cpu, 0, config.nr_cpus)
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	bpf_timer_start(timer, LOOK_NS, 0);
	return 0;
}

SEC("struct_ops.s/init")
s32 zl_init(u64 *ctx)
{
	u32 first = 0;
	struct watch *watch = bpf_map_lookup_elem(&watches, &first);
	s32 error = scx_bpf_create_dsq(WAIT, -1);

	if (error)
		return error;
	if (!watch)
		return -1;
	seen_at = bpf_ktime_get_ns();
	bpf_timer_init(&watch->timer, &watches, BPF_F_TIMER_MONOTONIC);
	bpf_timer_set_callback(&watch->timer, look);
	return bpf_timer_start(&watch->timer, LOOK_NS, 0);
}

SEC("struct_ops.s/exit")
void zl_exit(u64 *ctx)
{
	struct scx_exit_info *info = (void *)ctx[0];
	struct report *r = report();
	struct event *e;

	if (r) {
		bpf_probe_read_kernel_str(r->reason, sizeof(r->reason), info->reason);
		bpf_probe_read_kernel_str(r->msg, sizeof(r->msg), info->msg);
		r->code = info->exit_code;
		r->kind = info->kind;
	}
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (e) {
		e->kind = EVENT_EXIT;
		bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
	}
}

/* Moves a task from WAIT to the local queue of a CPU. The search is as long as the queue. */
static __always_inline s32 move(u32 pid, u32 cpu, u64 slice, u64 flags)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	s32 result = RESULT_ABSENT;

	bpf_rcu_read_lock();
	if (!bpf_iter_scx_dsq_new(&it, WAIT, 0)) {
		while ((p = bpf_iter_scx_dsq_next(&it))) {
			if (p->pid != pid)
				continue;
			/* The kernel ejects a scheduler that forces a task to a forbidden CPU. */
			if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
				result = RESULT_FORBIDDEN;
				break;
			}
			scx_bpf_dsq_move_set_slice(&it, slice);
			if (scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL_ON | cpu, flags))
				result = RESULT_DONE;
			break;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	return result;
}

SEC("syscall")
int decide(struct decision *d)
{
	u64 answered = d->answered;
	struct task_struct *p;

	if (answered > nr_answered)
		nr_answered = answered;
	switch (d->kind) {
	case DECISION_MOVE:
		return move(d->pid, d->cpu, d->slice, d->flags);
	case DECISION_KICK:
		scx_bpf_kick_cpu(d->cpu, d->flags);
		return RESULT_DONE;
	case DECISION_SLICE:
		p = bpf_task_from_pid(d->pid);
		if (!p)
			return RESULT_ABSENT;
		scx_bpf_task_set_slice(p, d->slice);
		bpf_task_release(p);
		return RESULT_DONE;
	case DECISION_REQUEUE:
		if (!bpf_ksym_exists(scx_bpf_dsq_reenq))
			return RESULT_ABSENT;
		scx_bpf_dsq_reenq(SCX_DSQ_LOCAL_ON | d->cpu, 0);
		return RESULT_DONE;
	}
	return RESULT_DONE;
}

SEC(".struct_ops.link")
struct sched_ext_ops zerolag = {
	.flags = SCX_OPS_ENQ_LAST,
	.timeout_ms = 30000,
	.name = "zerolag",
	.select_cpu = (void *)zl_select_cpu,
	.enqueue = (void *)zl_enqueue,
	.dispatch = (void *)zl_dispatch,
	.runnable = (void *)zl_runnable,
	.running = (void *)zl_running,
	.stopping = (void *)zl_stopping,
	.quiescent = (void *)zl_quiescent,
	.set_weight = (void *)zl_set_weight,
	.set_cpumask = (void *)zl_set_cpumask,
	.enable = (void *)zl_enable,
	.disable = (void *)zl_disable,
	.cgroup_init = (void *)zl_cgroup_init,
	.cgroup_exit = (void *)zl_cgroup_exit,
	.cgroup_move = (void *)zl_cgroup_move,
	.cgroup_set_weight = (void *)zl_cgroup_set_weight,
	.cgroup_set_bandwidth = (void *)zl_cgroup_set_bandwidth,
	.init = (void *)zl_init,
	.exit = (void *)zl_exit,
};

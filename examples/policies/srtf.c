/* srtf.c: shortest remaining time first: the built-in policy `srtf`, in C. It asks the simulator how much CPU time each
 * task will use until it waits, which no kernel knows.
 *
 *     zerolag schema policy > zerolag_policy.h
 *     cc -O2 -shared -fPIC -I. -o srtf.so examples/policies/srtf.c
 *     zerolag run workload.toml --policy ./srtf.so
 */
#include "zerolag_policy.h"

#define READY 0
/* No wait is in sight: such a task runs when no other one does, in turns. */
#define BACKGROUND SCX_WORK_NONE

struct task {
	uint64_t left;
};

static uint64_t left_of(struct scx *scx, uint32_t p)
{
	struct task *task = scx_task_data(scx, p);

	return task ? task->left : 0;
}

static void measure(struct scx *scx, uint32_t p)
{
	struct task *task = scx_task_data(scx, p);

	if (task)
		task->left = scx_task_work_left(scx, p);
}

static uint64_t slice_of(struct scx *scx, uint32_t p)
{
	return left_of(scx, p) == BACKGROUND ? scx_slice_dfl(scx) : SCX_SLICE_INF;
}

static void init(struct scx *scx)
{
	scx_bpf_create_dsq(scx, READY);
}

/* Every task passes through the queue, so that the shortest one gets a CPU that is idle. */
static int32_t select_cpu(struct scx *scx, uint32_t p, int32_t prev_cpu, uint64_t wake_flags)
{
	(void)scx, (void)p, (void)wake_flags;
	return prev_cpu;
}

static void enqueue(struct scx *scx, uint32_t p, uint64_t enq_flags)
{
	uint64_t most = 0;
	int32_t cpu, longest = -1;

	measure(scx, p);
	/* Those that run have less left than when they began. */
	for (cpu = 0; cpu < (int32_t)scx_bpf_nr_cpu_ids(scx); cpu++) {
		uint32_t current = scx_bpf_cpu_curr(scx, cpu);

		if (current == SCX_TASK_NONE)
			continue;
		measure(scx, current);
		if (scx_task_allowed(scx, p, cpu) && left_of(scx, current) >= most) {
			most = left_of(scx, current);
			longest = cpu;
		}
	}
	scx_bpf_dsq_insert_vtime(scx, p, READY, slice_of(scx, p), left_of(scx, p), enq_flags);
	cpu = scx_bpf_pick_idle_cpu(scx, p, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(scx, cpu, SCX_KICK_IDLE);
	else if (longest >= 0 && most > left_of(scx, p))
		scx_bpf_kick_cpu(scx, longest, SCX_KICK_PREEMPT);
}

static void dispatch(struct scx *scx, int32_t cpu, uint32_t prev)
{
	uint32_t first = scx_bpf_dsq_peek(scx, READY);

	while (first != SCX_TASK_NONE && !scx_task_allowed(scx, first, cpu))
		first = scx_dsq_next(scx, first);
	if (prev != SCX_TASK_NONE) {
		measure(scx, prev);
		/* The task that was preempted, or whose turn is over, is not on the queue yet. */
		if (first == SCX_TASK_NONE || left_of(scx, prev) < left_of(scx, first)) {
			scx_bpf_task_set_slice(scx, prev, slice_of(scx, prev));
			return;
		}
	}
	scx_bpf_dsq_move_to_local(scx, READY);
}

ZEROLAG_POLICY = {
	ZEROLAG_POLICY_HEAD,
	.name = "srtf",
	.needs = ZEROLAG_NEEDS_WORK,
	.task_size = sizeof(struct task),
	.init = init,
	.select_cpu = select_cpu,
	.enqueue = enqueue,
	.dispatch = dispatch,
};

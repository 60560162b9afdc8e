/* wake-first.c: a task that wakes runs first, and takes the CPU from one whose turn only ended because its slice did: the policy of the tutorial, in C.
 *
 *     zerolag schema policy > zerolag_policy.h
 *     cc -O2 -shared -fPIC -I. -o wake-first.so examples/policies/wake-first.c
 *     zerolag run workload.toml --policy ./wake-first.so
 *     zerolag-scx run --policy ./wake-first.so
 */
#include "zerolag_policy.h"

#define FAST 1
#define SLOW 2
#define MS 1000000ULL

struct task {
	int32_t is_slow; /* its slice was used up */
};

static void wake_first_init(struct scx *scx)
{
	if (scx_bpf_create_dsq(scx, FAST) || scx_bpf_create_dsq(scx, SLOW))
		scx_bpf_error(scx, "no queue");
}

static void wake_first_enqueue(struct scx *scx, uint32_t p, uint64_t enq_flags)
{
	struct task *task = scx_task_data(scx, p);

	task->is_slow = !(enq_flags & SCX_ENQ_WAKEUP);
	if (task->is_slow) {
		scx_bpf_dsq_insert(scx, p, SLOW, 20 * MS, enq_flags);
		return;
	}
	scx_bpf_dsq_insert(scx, p, FAST, 4 * MS, enq_flags);
	for (uint32_t cpu = 0; cpu < scx_bpf_nr_cpu_ids(scx); cpu++) {
		uint32_t curr = scx_bpf_cpu_curr(scx, cpu);
		struct task *other = curr == SCX_TASK_NONE ? NULL : scx_task_data(scx, curr);

		if (other && other->is_slow && scx_task_allowed(scx, p, cpu)) {
			scx_bpf_kick_cpu(scx, cpu, SCX_KICK_PREEMPT);
			return;
		}
	}
}

static void wake_first_dispatch(struct scx *scx, int32_t cpu, uint32_t prev)
{
	if (!scx_bpf_dsq_move_to_local(scx, FAST))
		scx_bpf_dsq_move_to_local(scx, SLOW);
}

ZEROLAG_POLICY = {
	ZEROLAG_POLICY_HEAD,
	.name = "wake_first",
	.task_size = sizeof(struct task),
	.enqueue = wake_first_enqueue,
	.dispatch = wake_first_dispatch,
	.init = wake_first_init,
};

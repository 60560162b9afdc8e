/* vtime.c: sharing by weight, in order of virtual time: the built-in policy `vtime`, in C.
 *
 *     zerolag schema policy > zerolag_policy.h
 *     cc -O2 -shared -fPIC -I. -o vtime.so examples/policies/vtime.c
 *     zerolag run workload.toml --policy ./vtime.so
 */
#include "zerolag_policy.h"

#define SHARED 0

struct state {
	uint64_t vtime_now; /* the virtual time of the task that began to run last */
};

struct task {
	uint64_t began; /* its slice when it began to run */
};

enum { SAVED };
static const struct scx_param params[] = {
	[SAVED] = { "saved", "How many slices of virtual time a task that sleeps saves up at most", 1, 0, 1000 },
};

static uint64_t vtime_after(struct scx *scx, uint32_t p)
{
	struct task *task = scx_task_data(scx, p);
	uint64_t slice = scx_task_slice(scx, p), weight = scx_task_weight(scx, p);
	uint64_t used = task->began > slice ? task->began - slice : 0;

	return scx_task_dsq_vtime(scx, p) + used * 100 / (weight ? weight : 1);
}

static void vtime_init(struct scx *scx)
{
	if (scx_bpf_create_dsq(scx, SHARED))
		scx_bpf_error(scx, "no queue");
}

static void vtime_enable(struct scx *scx, uint32_t p)
{
	struct state *state = scx_state(scx);

	scx_bpf_task_set_dsq_vtime(scx, p, state->vtime_now);
}

static void vtime_enqueue(struct scx *scx, uint32_t p, uint64_t enq_flags)
{
	struct state *state = scx_state(scx);
	uint64_t slice = scx_slice_dfl(scx), vtime = scx_task_dsq_vtime(scx, p), saved = slice * scx_param(scx, SAVED);
	uint64_t least = state->vtime_now > saved ? state->vtime_now - saved : 0;

	scx_bpf_dsq_insert_vtime(scx, p, SHARED, slice, vtime > least ? vtime : least, enq_flags);
}

static void vtime_dispatch(struct scx *scx, int32_t cpu, uint32_t prev)
{
	uint32_t first = scx_bpf_dsq_peek(scx, SHARED);

	/* The task whose turn ends is not on the queue yet: it goes on if it has had the least. */
	if (prev != SCX_TASK_NONE && first != SCX_TASK_NONE) {
		uint64_t vtime = vtime_after(scx, prev);

		if (vtime < scx_task_dsq_vtime(scx, first)) {
			struct task *task = scx_task_data(scx, prev);

			scx_bpf_task_set_dsq_vtime(scx, prev, vtime);
			scx_bpf_task_set_slice(scx, prev, scx_slice_dfl(scx));
			task->began = scx_slice_dfl(scx);
			return;
		}
	}
	scx_bpf_dsq_move_to_local(scx, SHARED);
}

static void vtime_running(struct scx *scx, uint32_t p)
{
	struct state *state = scx_state(scx);
	struct task *task = scx_task_data(scx, p);
	uint64_t vtime = scx_task_dsq_vtime(scx, p);

	if (vtime > state->vtime_now)
		state->vtime_now = vtime;
	task->began = scx_task_slice(scx, p);
}

static void vtime_stopping(struct scx *scx, uint32_t p, int32_t runnable)
{
	scx_bpf_task_set_dsq_vtime(scx, p, vtime_after(scx, p));
}

ZEROLAG_POLICY = {
	ZEROLAG_POLICY_HEAD,
	.name = "vtime",
	.nr_params = sizeof(params) / sizeof(params[0]),
	.params = params,
	.state_size = sizeof(struct state),
	.task_size = sizeof(struct task),
	.enqueue = vtime_enqueue,
	.dispatch = vtime_dispatch,
	.running = vtime_running,
	.stopping = vtime_stopping,
	.enable = vtime_enable,
	.init = vtime_init,
};

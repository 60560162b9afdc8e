/* Policies with a fault, for run.sh scx: -DFORGETS keeps every task for ever, -DLOOPS does not return from `enqueue`, -DFORBIDDEN inserts into a queue
 * that does not exist. */
#include "zerolag_policy.h"

static void enqueue(struct scx *scx, uint32_t p, uint64_t enq_flags)
{
#if defined(LOOPS)
	for (;;)
		__asm__ volatile("" ::: "memory");
#elif defined(FORBIDDEN)
	scx_bpf_dsq_insert(scx, p, 77, 1000000, enq_flags);
#endif
}

ZEROLAG_POLICY = {
	ZEROLAG_POLICY_HEAD,
	.name = "faulty",
	.timeout_ns = 2000000000,
	.enqueue = enqueue,
};

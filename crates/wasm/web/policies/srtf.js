// Shortest remaining time first: it asks the simulator how much CPU time each task will use until it waits. No kernel knows that.
const NEVER = 2 ** 64;

class Srtf extends Policy {
  needs = ZEROLAG_NEEDS_WORK;

  init(scx) { scx.create_dsq(0); }

  measure(p) { p.left = p.work_left ?? NEVER; }

  // A task that waits soon runs until then; the others take turns.
  sliceOf(scx, p) { return p.left === NEVER ? scx.slice_dfl : SCX_SLICE_INF; }

  // Every task passes through the queue, so that the shortest one gets a CPU that is idle.
  select_cpu(scx, p, prev_cpu) { return prev_cpu; }

  enqueue(scx, p, enq_flags) {
    this.measure(p);
    let longest = null;
    for (let cpu = 0; cpu < scx.nr_cpus; cpu++) {
      const current = scx.cpu_curr(cpu);
      if (!current) continue;
      this.measure(current); // It has less left than when it began.
      if (p.allowed(cpu) && (!longest || current.left >= longest.left)) longest = { cpu, left: current.left };
    }
    scx.dsq_insert_vtime(p, 0, this.sliceOf(scx, p), p.left, enq_flags);
    const idle = scx.pick_idle_cpu(p);
    if (idle !== null) scx.kick_cpu(idle, SCX_KICK_IDLE);
    else if (longest && longest.left > p.left) scx.kick_cpu(longest.cpu, SCX_KICK_PREEMPT);
  }

  dispatch(scx, cpu, prev) {
    const first = scx.dsq_iter(0).find((p) => p.allowed(cpu));
    if (prev) {
      this.measure(prev);
      if (!first || prev.left < first.left) { // It goes on: it is not on the queue.
        prev.slice = this.sliceOf(scx, prev);
        return;
      }
    }
    scx.dsq_move_to_local(0);
  }
}

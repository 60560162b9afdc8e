// Tasks that wake run before those that compute, and a CPU that computes is asked to change.
class WokenFirst extends Policy {
  init(scx) {
    scx.create_dsq(0); // woke
    scx.create_dsq(1); // computes
  }
  enqueue(scx, p, enq_flags) {
    if (!(enq_flags & SCX_ENQ_WAKEUP)) {
      scx.dsq_insert(p, 1, 5e6, enq_flags);
      return;
    }
    scx.dsq_insert(p, 0, 5e6, enq_flags);
    for (let cpu = 0; cpu < scx.nr_cpus; cpu++) {
      const runs = scx.cpu_curr(cpu);
      if (runs && !runs.woke && p.allowed(cpu)) {
        scx.kick_cpu(cpu, SCX_KICK_PREEMPT);
        break;
      }
    }
  }
  dispatch(scx, cpu, prev) {
    if (!scx.dsq_move_to_local(0)) scx.dsq_move_to_local(1);
  }
  runnable(scx, p, enq_flags) {
    p.woke = (enq_flags & SCX_ENQ_WAKEUP) !== 0n;
  }
  stopping(scx, p, runnable) {
    // What runs on has used its slice: it computes.
    if (runnable) p.woke = false;
  }
}

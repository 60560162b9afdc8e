// Weights: one queue, in order of the time that tasks have had.
class Vtime extends Policy {
  init(scx) {
    this.now = 0;
    scx.create_dsq(0);
  }
  enable(scx, p) {
    p.dsq_vtime = this.now;
  }
  enqueue(scx, p, enq_flags) {
    // A task that slept does not save more than a slice.
    const vtime = Math.max(p.dsq_vtime, this.now - scx.slice_dfl);
    scx.dsq_insert_vtime(p, 0, scx.slice_dfl, vtime, enq_flags);
  }
  after(p) {
    return p.dsq_vtime + Math.floor((p.began - p.slice) * 100 / p.weight);
  }
  dispatch(scx, cpu, prev) {
    // The task whose turn ends is not on the queue yet: it goes on if it has had the least.
    const first = scx.dsq_peek(0);
    if (prev && first && this.after(prev) < first.dsq_vtime) {
      prev.dsq_vtime = this.after(prev);
      prev.slice = prev.began = scx.slice_dfl;
      return;
    }
    scx.dsq_move_to_local(0);
  }
  running(scx, p) {
    this.now = Math.max(this.now, p.dsq_vtime);
    p.began = p.slice;
  }
  stopping(scx, p, runnable) {
    p.dsq_vtime = this.after(p);
  }
}

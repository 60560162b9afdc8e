/** What `wasm-bindgen` makes of `src/lib.rs`. */
interface Engine {
  (start: { module_or_path: WebAssembly.Module }): Promise<unknown>;
  check(text: string, values: string): string;
  run(text: string, values: string, title: string, progress: (part: number) => void): string;
  trace(text: string, values: string): Uint8Array;
  run_for_perfetto(text: string, values: string): Uint8Array;
  trace_for_perfetto(bytes: Uint8Array): Uint8Array;
  report(name: string, bytes: Uint8Array): string;
  about(): string;
  // `src/policy.rs`, for `policy.js`.
  scx_words(): string;
  scx_now(): number;
  scx_nr_cpus(): number;
  scx_slice_dfl(): number;
  scx_span(cpu: number, distance: string): Uint32Array;
  scx_capacity(cpu: number): number;
  scx_cpu_online(cpu: number): boolean;
  scx_cpu_curr(cpu: number): number;
  scx_cgroup_weight(group: number): number;
  scx_cgroup_parent(group: number): number | undefined;
  scx_create_dsq(dsq: bigint): void;
  scx_destroy_dsq(dsq: bigint): void;
  scx_dsq_insert(p: number, dsq: bigint, slice: number, flags: bigint): void;
  scx_dsq_insert_vtime(p: number, dsq: bigint, slice: number, vtime: number, flags: bigint): void;
  scx_dsq_move_to_local(dsq: bigint): boolean;
  scx_dsq_move(p: number, to: bigint, flags: bigint): boolean;
  scx_dsq_move_vtime(p: number, to: bigint, vtime: number, flags: bigint): boolean;
  scx_dsq_nr_queued(dsq: bigint): number;
  scx_dsq_peek(dsq: bigint): number;
  scx_dsq_iter(dsq: bigint): Uint32Array;
  scx_idle_cpus(): Uint32Array;
  scx_is_core_idle(cpu: number): boolean;
  scx_test_and_clear_cpu_idle(cpu: number): boolean;
  scx_pick_idle_cpu(p: number, whole_core: boolean): number;
  scx_select_cpu_dfl(p: number, prev_cpu: number, flags: bigint): Uint32Array;
  scx_kick_cpu(cpu: number, flags: bigint): void;
  scx_timer_start(id: number, after: number): void;
  scx_timer_cancel(id: number): boolean;
  scx_error(msg: string): void;
  scx_exit(msg: string): void;
  task_comm(p: number): string;
  task_weight(p: number): number;
  task_period(p: number): number;
  task_work_left(p: number): number;
  task_cgroup(p: number): number;
  task_cpu(p: number): number;
  task_running(p: number): boolean;
  task_cpus(p: number): Uint32Array | undefined;
  task_allowed(p: number, cpu: number): boolean;
  task_slice(p: number): number;
  task_set_slice(p: number, slice: number): void;
  task_dsq_vtime(p: number): number;
  task_set_dsq_vtime(p: number, vtime: number): void;
}
/** Of workers. */
declare function importScripts(...files: string[]): void;
declare const wasm_bindgen: Engine;

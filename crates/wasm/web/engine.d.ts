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
}
declare const wasm_bindgen: Engine;

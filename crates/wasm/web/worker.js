// The worker: the simulator runs here, so that the page stays alive. It is ended by ending the worker.

/** @type {Promise<unknown>} */
let ready;

self.onmessage = async (event) => {
  const { id, kind, module, text, values, title, name, bytes, policy } = event.data;
  const answer = (/** @type {object} */ found) => self.postMessage({ id, ...found });
  if (kind === "start") {
    ready = wasm_bindgen({ module_or_path: module });
    return;
  }
  try {
    await ready;
    if (policy !== undefined) {
      forgetPolicies();
      try {
        defineWords();
        readPolicy(policy);
      } catch (error) {
        const place = zerolagPolicySays(error).match(/^(\d+):(\d+): (.*)$/s);
        const places = place ? [{ line: Number(place[1]), column: Number(place[2]), length: 1, text: null }] : [];
        answer({ found: { ok: false, messages: [{ severity: "error", says: place?.[3] ?? zerolagPolicySays(error), places, in: "policy" }] } });
        return;
      }
    }
    let last = 0;
    const progress = (/** @type {number} */ part) => {
      if (performance.now() - last < 60) return;
      last = performance.now();
      answer({ part });
    };
    if (kind === "perfetto") {
      const found = bytes ? wasm_bindgen.trace_for_perfetto(bytes) : wasm_bindgen.run_for_perfetto(text, values);
      self.postMessage({ id, found }, { transfer: [found.buffer] });
      return;
    }
    const found = kind === "run" ? wasm_bindgen.run(text, values, title, progress)
      : kind === "check" ? wasm_bindgen.check(text, values)
      : kind === "report" ? wasm_bindgen.report(name, bytes) : wasm_bindgen.about();
    answer({ found: JSON.parse(found) });
  } catch (error) {
    answer({ failed: String(error) });
  }
};

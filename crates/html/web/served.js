// Only in pages of a server: asks it for parts of the run.

/** The part between two times, in nanoseconds. @param {number} from @param {number} to @param {AbortSignal} signal */
async function askServer(from, to, signal) {
  const answer = await fetch(`part?from=${from}&to=${to}`, { signal });
  if (!answer.ok) throw new Error(await answer.text());
  return unpackBytes(new Uint8Array(await answer.arrayBuffer()));
}

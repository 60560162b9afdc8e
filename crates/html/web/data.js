// The data of the page: unpacked by the browser itself, without a request.

/**
 * @typedef {{ name: string, prefix: string, start: number, end: number, records: number, slices: number[],
 *   tasks: string[], groups: string[], note: string | null, rows?: number[], state?: StateHead }} RunHead
 * @typedef {{ label: string, unit: string, log: boolean, low: number, high: number, wide: [number, number],
 *   narrow: [number, number], names: string[] }} SentAxis
 * `wide` and `narrow` are where the axis is in the two drawings of a plot; `from` and `to` where it is in the shown one.
 * @typedef {SentAxis & { from: number, to: number }} PlotAxis
 * @typedef {{ name: string, mark: string, x: number[], y: number[], spread: [number, number][] }} PlotSeries
 * @typedef {{ x: PlotAxis, y: PlotAxis, series: PlotSeries[] }} PlotData
 * @typedef {{ x: SentAxis, y: SentAxis, series: PlotSeries[] }} SentPlot
 * @typedef {{ runs: RunHead[], plots: SentPlot[], note?: string | null }} PageHead
 * @typedef {(from: number, to: number, signal: AbortSignal) => Promise<{ head: PageHead, columns: Columns }>} Ask
 */

/** The columns of a page, read when they are asked for. */
class Columns {
  /** @param {Uint8Array} bytes @param {[string, number, number][]} places */
  constructor(bytes, places) {
    this.bytes = bytes;
    this.places = new Map(places.map(([name, count, from]) => [name, { count, from }]));
  }

  /**
   * Fills an array with a column. Numbers above 2^53 lose their last digits.
   * @template {Float64Array | Uint32Array | Uint8Array} T
   * @param {string} name @param {{ new (count: number): T }} Kind @returns {T}
   */
  read(name, Kind) {
    const place = this.places.get(name);
    if (!place) throw new Error("the page has no column " + name);
    const out = new Kind(place.count);
    const bytes = this.bytes;
    let at = place.from;
    for (let i = 0; i < place.count; i++) {
      let byte = bytes[at++];
      let value = byte & 127;
      for (let factor = 128; byte > 127; factor *= 128) {
        byte = bytes[at++];
        value += (byte & 127) * factor;
      }
      out[i] = value;
    }
    return out;
  }

  /** A column of times, which are kept as differences. @param {string} name */
  times(name) {
    const out = this.read(name, Float64Array);
    for (let i = 1; i < out.length; i++) out[i] += out[i - 1];
    return out;
  }
}

/** @param {string} text @returns {Promise<{ head: PageHead, columns: Columns }>} */
async function unpack(text) {
  const letters = atob(text);
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) packed[i] = letters.charCodeAt(i);
  return unpackBytes(packed);
}

/** @param {Uint8Array<ArrayBuffer>} packed @returns {Promise<{ head: PageHead, columns: Columns }>} */
async function unpackBytes(packed) {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  return { head: head.page, columns: new Columns(bytes.subarray(4 + length), head.columns) };
}

// The recent past of the audio, PCM16 mono, addressed by absolute sample position. It serves three readers: the sender
// (whose cursor may lag behind when the network does), the resend after a lost connection, and replay of an utterance.

export class AudioRing {
  #samples;

  constructor(rate, seconds) {
    this.rate = rate;
    this.seconds = seconds;
    this.end = 0;
    this.#samples = new Int16Array(rate * seconds);
  }

  get start() {
    return Math.max(0, this.end - this.#samples.length);
  }

  append(samples) {
    const at = this.end % this.#samples.length;
    const head = Math.min(samples.length, this.#samples.length - at);
    this.#samples.set(samples.subarray(0, head), at);
    this.#samples.set(samples.subarray(head), 0);
    this.end += samples.length;
  }

  /** Samples [from, to), or null when the beginning has been overwritten already. */
  slice(from, to) {
    const last = Math.min(to, this.end);
    if (from < this.start || last <= from) return null;
    const out = new Int16Array(last - from);
    const at = from % this.#samples.length;
    const head = Math.min(out.length, this.#samples.length - at);
    out.set(this.#samples.subarray(at, at + head), 0);
    out.set(this.#samples.subarray(0, out.length - head), head);
    return out;
  }
}

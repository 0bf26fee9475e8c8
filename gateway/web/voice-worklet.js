// Runs on the audio thread: plays samples in the order they came, holds at once, and tells how far it is.

const QUANTA_BETWEEN_REPORTS = 4;

class Playout extends AudioWorkletProcessor {
  constructor() {
    super();
    this.queue = [];
    this.offset = 0;
    this.position = 0; // samples that have left
    this.held = false;
    this.begun = false;
    this.gaps = 0; // times that it ran dry and sound came after all
    this.peak = 0;
    this.quanta = 0;
    this.port.onmessage = ({ data }) => this.take(data);
  }

  take({ samples, held, clear }) {
    if (samples) {
      if (this.begun && this.queue.length === 0 && !this.held) this.gaps += 1;
      this.queue.push(samples);
    } else if (held !== undefined) {
      this.held = held;
    } else {
      this.queue = [];
      this.offset = 0;
      this.position = clear;
      this.held = this.begun = false;
      this.gaps = 0;
    }
    this.report();
  }

  process(inputs, [[out]]) {
    let filled = 0;
    while (!this.held && filled < out.length && this.queue.length > 0) {
      const part = this.queue[0].subarray(this.offset, this.offset + out.length - filled);
      out.set(part, filled);
      filled += part.length;
      this.offset += part.length;
      if (this.offset === this.queue[0].length) {
        this.queue.shift();
        this.offset = 0;
      }
    }
    if (filled > 0) this.begun = true;
    this.position += filled;
    for (let i = 0; i < filled; i += 1) this.peak = Math.max(this.peak, Math.abs(out[i]));
    this.quanta += 1;
    if (this.quanta >= QUANTA_BETWEEN_REPORTS) this.report(out.length);
    return true;
  }

  /** `rendered`: samples of this quantum, which begins at `currentTime`. */
  report(rendered = 0) {
    const { position, peak, gaps } = this;
    this.port.postMessage({ position, time: currentTime + rendered / sampleRate, peak, gaps });
    this.quanta = 0;
    this.peak = 0;
  }
}

registerProcessor("playout", Playout);

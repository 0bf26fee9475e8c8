// Sound on its way to the speakers, and how much of it has been heard by now. Positions are samples of all sound that
// was ever pushed, so they only grow.

import { openContext } from "./sources.js";

const RESUME_MILLISECONDS = 1000;
const AUDIBLE = 330; // of 32768: about -40 dB

export class Playout {
  pushed = 0;
  gaps = 0;
  /** Called some 40 times a second while the context runs, also in tabs that nobody sees: (peak in [0, 1]). */
  onreport = () => {};
  #context;
  #node;
  #report;
  #floor = 0;
  #held = false;

  constructor(context) {
    this.#context = context;
    this.#report = { position: 0, time: context.currentTime };
    this.#node = new AudioWorkletNode(context, "playout", { numberOfInputs: 0, outputChannelCount: [1] });
    this.#node.connect(context.destination);
    this.#node.port.onmessage = ({ data }) => {
      this.#report = data;
      this.gaps = data.gaps;
      this.onreport(data.peak);
    };
  }

  /** A context with a way out, at 24 kHz or else at the device's own rate. */
  static async open(options) {
    const context = await openContext(options);
    await context.audioWorklet.addModule(new URL("voice-worklet.js", import.meta.url));
    return new Playout(context);
  }

  get context() {
    return this.#context;
  }

  get rate() {
    return this.#context.sampleRate;
  }

  get held() {
    return this.#held;
  }

  /** Browsers start sound only on a person's press. Rejects with a NeedsPress. */
  async wake() {
    const late = new Promise((resolve) => setTimeout(resolve, RESUME_MILLISECONDS));
    await Promise.race([this.#context.resume(), late]);
    if (this.#context.state !== "running") throw new DOMException("no press yet", "NeedsPress");
  }

  /** Samples that have been heard by now: those that left, without those still on the way to the ear. */
  get heard() {
    const since = this.#held ? 0 : Math.max(0, this.#context.currentTime - this.#report.time);
    const latency = this.#context.outputLatency || this.#context.baseLatency || 0;
    const left = Math.min(this.pushed, this.#report.position + since * this.rate);
    const heard = left - (left < this.pushed ? latency * this.rate : 0);
    this.#floor = Math.min(this.pushed, Math.max(this.#floor, heard));
    return this.#floor;
  }

  /** PCM16 at the context's rate. */
  push(samples) {
    const sound = Float32Array.from(samples, (sample) => sample / 32768);
    this.pushed += sound.length;
    this.#node.port.postMessage({ samples: sound }, [sound.buffer]);
  }

  hold() {
    this.#held = true;
    this.#node.port.postMessage({ held: true });
  }

  resume() {
    this.#held = false;
    this.#node.port.postMessage({ held: false });
  }

  /** Throw away what has not been played. */
  clear() {
    this.#held = false;
    this.#floor = this.pushed;
    this.#report = { position: this.pushed, time: this.#context.currentTime };
    this.#node.port.postMessage({ clear: this.pushed });
  }
}

/** Where the first sample is that somebody could hear, or -1. */
export function audible(samples) {
  return samples.findIndex((sample) => Math.abs(sample) > AUDIBLE);
}

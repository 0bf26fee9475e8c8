// Where audio comes from: the microphone, or a recording played at its own pace. Both deliver PCM16 frames at the
// context's rate through the same worklet, so everything behind them is one path.

export const FRAME_SECONDS = 0.08;
const PREFERRED_RATE = 24000;
const AHEAD_SECONDS = 0.05; // a moment both threads agree on, so that a pause neither drops nor repeats a sample
const FLUSH_MILLISECONDS = 500;
const FILE_SECONDS_LIMIT = 30 * 60;
const FILE_BYTES_LIMIT = 300 * 1024 * 1024;

/** A context with the capture worklet loaded, at the protocol's rate or else at the device's own. */
export async function openContext({ ownRate = false } = {}) {
  const context = new AudioContext(ownRate ? {} : { sampleRate: PREFERRED_RATE });
  await context.audioWorklet.addModule(new URL("worklet.js", import.meta.url));
  return context;
}

class Source {
  paused = false;
  onframe = () => {};
  onend = () => {};
  #flushed = null;

  constructor(context) {
    this.context = context;
    this.capture = new AudioWorkletNode(context, "capture", {
      outputChannelCount: [1],
      processorOptions: { frameSamples: Math.round(context.sampleRate * FRAME_SECONDS) },
    });
    this.capture.port.onmessage = ({ data }) => {
      if (data.flushed) this.#flushed?.();
      else this.onframe(data.samples, data.peak);
    };
    // Some browsers run only what leads to the speakers. The worklet writes nothing to its output: silence.
    this.capture.connect(context.destination);
  }

  /** Deliver the frame that is not full yet. A context that the system has interrupted answers no more. */
  flush() {
    return new Promise((resolve) => {
      this.#flushed = resolve;
      this.capture.port.postMessage("flush");
      setTimeout(resolve, FLUSH_MILLISECONDS);
    });
  }

  async stop() {
    this.onend = () => {};
    await this.flush();
    this.capture.disconnect();
    this.capture.port.close();
  }
}

export class Microphone extends Source {
  kind = "microphone";

  /** Asks for the microphone. Rejects with the browser's DOMException when there is none or it is not allowed. */
  static async open(context) {
    if (!navigator.mediaDevices?.getUserMedia) throw new DOMException("insecure context", "SecurityError");
    const stream = await navigator.mediaDevices.getUserMedia({
      audio: { channelCount: 1, echoCancellation: true, noiseSuppression: false, autoGainControl: true },
    });
    try {
      const microphone = new Microphone(context);
      microphone.stream = stream;
      microphone.node = context.createMediaStreamSource(stream);
      stream.getAudioTracks()[0].onended = () => microphone.onend("unplugged");
      return microphone;
    } catch (error) {
      stream.getTracks().forEach((track) => track.stop());
      throw error;
    }
  }

  start() {
    this.node.connect(this.capture);
  }

  pause() {
    this.paused = true;
    this.node.disconnect();
    this.stream.getAudioTracks()[0].enabled = false;
  }

  resume() {
    this.paused = false;
    this.stream.getAudioTracks()[0].enabled = true;
    this.start();
  }

  async stop() {
    this.node.disconnect();
    await super.stop();
    this.stream.getTracks().forEach((track) => track.stop());
  }
}

export class Recording extends Source {
  kind = "file";
  #buffer;
  #node = null;
  #position = 0;
  #startedAt = 0;

  constructor(context, name, buffer) {
    super(context);
    this.name = name;
    this.#buffer = buffer;
    this.speakers = context.createGain();
    this.speakers.connect(context.destination);
  }

  /** Decodes a file. Rejects with {code: "too-long" | "not-audio"} when it cannot be played here. */
  static async open(context, file) {
    const seconds = await duration(file);
    if (file.size > FILE_BYTES_LIMIT || seconds > FILE_SECONDS_LIMIT) {
      throw Object.assign(new Error("too long"), { code: "too-long" });
    }
    let buffer;
    try {
      buffer = await context.decodeAudioData(await file.arrayBuffer());
    } catch (cause) {
      throw Object.assign(new Error("not audio", { cause }), { code: "not-audio" });
    }
    return new Recording(context, file.name, buffer);
  }

  get seconds() {
    return this.#buffer.duration;
  }

  set muted(muted) {
    this.speakers.gain.value = muted ? 0 : 1;
  }

  start() {
    this.#node = new AudioBufferSourceNode(this.context, { buffer: this.#buffer });
    this.#node.connect(this.capture);
    this.#node.connect(this.speakers);
    this.#node.onended = () => this.onend("finished");
    this.#startedAt = this.context.currentTime + AHEAD_SECONDS;
    this.#node.start(this.#startedAt, this.#position);
  }

  pause() {
    this.paused = true;
    this.#halt();
  }

  resume() {
    this.paused = false;
    this.start();
  }

  async stop() {
    this.#halt();
    await super.stop();
    this.speakers.disconnect();
  }

  #halt() {
    if (!this.#node) return;
    const at = this.context.currentTime + AHEAD_SECONDS;
    this.#position += Math.max(0, at - this.#startedAt);
    this.#node.onended = null;
    this.#node.stop(at);
    this.#node = null;
  }
}

/** Seconds of a media file by its header, or 0 when the header does not say. Cheap, unlike decoding. */
function duration(file) {
  const probe = document.createElement("audio");
  const url = URL.createObjectURL(file);
  return new Promise((resolve) => {
    probe.preload = "metadata";
    probe.onloadedmetadata = () => resolve(Number.isFinite(probe.duration) ? probe.duration : 0);
    probe.onerror = () => resolve(0);
    probe.src = url;
  }).finally(() => URL.revokeObjectURL(url));
}

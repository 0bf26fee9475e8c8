// Plays an utterance from the ring and tells which of its words is heard.

const LEAD_SECONDS = 0.15;

export class Player {
  #context;
  #ring;
  #onheard;
  #node = null;
  #frame = 0;

  /** onheard(utterance, wordIndex) while playing, onheard(null, -1) at the end. */
  constructor(context, ring, onheard) {
    this.#context = context;
    this.#ring = ring;
    this.#onheard = onheard;
  }

  get playing() {
    return this.#node !== null;
  }

  /** False when the audio is no longer in the ring. */
  play(utterance) {
    this.stop();
    const rate = this.#ring.rate;
    const from = Math.max(0, Math.floor((utterance.start - LEAD_SECONDS) * rate));
    const samples = this.#ring.slice(from, Math.ceil((utterance.end + LEAD_SECONDS) * rate));
    if (samples === null) return false;
    const buffer = new AudioBuffer({ length: samples.length, sampleRate: rate });
    buffer.copyToChannel(Float32Array.from(samples, (sample) => sample / 32768), 0);
    this.#node = new AudioBufferSourceNode(this.#context, { buffer });
    this.#node.connect(this.#context.destination);
    this.#node.onended = () => this.stop();
    const began = this.#context.currentTime;
    this.#node.start();
    this.#follow(utterance, began, from / rate);
    return true;
  }

  stop() {
    if (!this.#node) return;
    cancelAnimationFrame(this.#frame);
    this.#node.onended = null;
    this.#node.stop();
    this.#node = null;
    this.#onheard(null, -1);
  }

  #follow(utterance, began, from) {
    const now = from + this.#context.currentTime - began;
    this.#onheard(utterance, utterance.words.findLastIndex((word) => word.start <= now));
    this.#frame = requestAnimationFrame(() => this.#follow(utterance, began, from));
  }
}

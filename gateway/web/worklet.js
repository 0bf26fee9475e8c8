// Runs on the audio thread: mixes all channels to one and posts PCM16 frames of a fixed length with their peak.

class Capture extends AudioWorkletProcessor {
  constructor({ processorOptions }) {
    super();
    this.frame = new Int16Array(processorOptions.frameSamples);
    this.filled = 0;
    this.peak = 0;
    this.port.onmessage = () => this.flush();
  }

  process([channels]) {
    if (channels.length === 0) return true;
    const gain = 1 / channels.length;
    for (let i = 0; i < channels[0].length; i += 1) {
      let sample = 0;
      for (const channel of channels) sample += channel[i];
      sample = Math.max(-1, Math.min(1, sample * gain));
      this.peak = Math.max(this.peak, Math.abs(sample));
      this.frame[this.filled] = Math.round(sample * 32767);
      this.filled += 1;
      if (this.filled === this.frame.length) this.post();
    }
    return true;
  }

  post() {
    const samples = this.frame.slice(0, this.filled);
    this.port.postMessage({ samples, peak: this.peak }, [samples.buffer]);
    this.filled = 0;
    this.peak = 0;
  }

  // The last words of a recording may sit in a frame that is not full yet.
  flush() {
    if (this.filled > 0) this.post();
    this.port.postMessage({ flushed: true });
  }
}

registerProcessor("capture", Capture);

// Speak: a text is read aloud as its sound comes, the word that is heard is marked, and what was made can be saved.

import { audible, Playout } from "./voice-playout.js";
import { clock } from "./formats.js";
import { problem, sourceProblem } from "./problems.js";
import { Speech } from "./speech.js";
import { save, wav } from "./speak-file.js";

const REPORT_MILLISECONDS = 250;
const KEPT_SECONDS = 600; // longer speech is made again when it is to be saved

export class Speak {
  state = "idle"; // idle, opening, speaking, paused, finishing
  #on;
  #text;
  #options;
  #key;
  #playout = null;
  #speech = null;
  #words = [];
  #word = -1;
  #base = 0; // characters that were spoken before, when it goes on after a stop
  #rest = 0; // where it would go on, 0: from the beginning
  #first = 0; // the playout's position of the first sample of this speech
  #loud = -1; // the position of its first audible sample
  #asked = 0;
  #delay = null; // seconds from the press to the first audible sample
  #made = null; // seconds of all sound, once it has come
  #reported = 0;
  #stoppedAt = 0; // seconds heard when it was stopped
  #kept = null; // {what, rate, pieces, whole}: the sound of a text with these options
  #file = null;

  /** on: change(), progress(peak), problem(problem). `options` are the voice's, `key()` gives the API key. */
  constructor(text, options, key, on) {
    this.#text = text;
    this.#options = options;
    this.#key = key;
    this.#on = on;
  }

  /** Whether there is a rest to go on with. */
  get rest() {
    return this.state === "idle" && this.#rest > 0;
  }

  /** Seconds: heard, ahead of the listener, of all sound (null while unknown), to the first audible sample; and gaps. */
  get facts() {
    if (!this.#playout) return { heard: 0, ahead: 0, made: null, delay: null, gaps: 0 };
    const ahead = (this.#playout.pushed - this.#playout.heard) / this.#playout.rate;
    return { heard: this.#heard(), ahead, made: this.#made, delay: this.#delay, gaps: this.#playout.gaps };
  }

  /** Characters spoken and in all, after a stop. */
  get border() {
    return { spoken: this.#rest, all: this.#text.length };
  }

  async play(from = 0) {
    if (this.state !== "idle" || !this.#text.value.trim()) return;
    this.#asked = performance.now();
    this.#become("opening");
    try {
      this.#playout ??= await openPlayout();
      await this.#playout.wake();
    } catch (error) {
      this.#become("idle");
      this.#on.problem(sourceProblem(error));
      return;
    }
    if (this.state !== "opening") return; // stopped in the meantime
    this.#playout.clear();
    this.#playout.onreport = (peak) => this.#tick(peak);
    this.#first = this.#playout.pushed;
    this.#words = [];
    this.#word = this.#loud = -1;
    this.#delay = this.#made = null;
    this.#text.read(from);
    this.#base = from;
    this.#rest = from;
    this.#kept = { what: from === 0 ? this.#what() : null, rate: this.#playout.rate, pieces: [], whole: false };
    this.#speech = new Speech(this.#key(), {
      sound: (samples) => this.#sound(samples),
      words: (words) => this.#words.push(...words),
      done: () => this.#done(),
      stopped: ({ characters, reason }) => this.#stopped(characters, reason),
      failed: (cause) => this.#failed(cause),
    });
    this.#speech.say(from > 0 ? this.#text.from(from) : this.#text.value, this.#options.create, this.#playout.rate);
  }

  /** Speak what a stop has left. */
  goOn() {
    return this.play(this.#rest);
  }

  pause() {
    if (this.state === "speaking") {
      this.#playout.hold();
      this.#speech.heard(this.#heard());
      this.#speech.hold();
      this.#become("paused");
    } else if (this.state === "paused") {
      this.#playout.resume();
      this.#speech.resume();
      this.#become("speaking");
    }
  }

  stop() {
    if (this.state === "idle" || this.state === "finishing") return;
    if (this.state === "opening") {
      this.#speech?.close();
      this.#text.edit();
      this.#become("idle");
      return;
    }
    this.#stoppedAt = this.#heard();
    this.#playout.clear();
    if (this.#made !== null) {
      this.#stopped(this.#spokenBy(this.#stoppedAt), "stop");
      return;
    }
    this.#become("finishing");
    this.#speech.heard(this.#stoppedAt);
    this.#speech.cancel();
  }

  /** The text was changed: there is no rest of it any more. */
  changed() {
    this.#rest = 0;
    this.#delay = this.#made = null;
  }

  /** Save the sound of the text as a file; what was not played is made. `told(seconds)` while it is made. */
  async download(told) {
    if (this.#file) {
      this.#file.close();
      this.#file = null;
      return;
    }
    const what = this.#what();
    if (this.#kept?.what !== what || !this.#kept.whole) {
      const made = await this.#make(what, told);
      if (made === null) return;
      this.#kept = made;
    }
    save(wav(this.#kept.pieces, this.#kept.rate), this.#text.value);
  }

  #make(what, told) {
    const rate = this.#playout?.rate ?? 24000;
    const pieces = [];
    let length = 0;
    return new Promise((resolve) => {
      const end = (made, cause) => {
        this.#file = null;
        if (cause) this.#on.problem(cause);
        resolve(made);
      };
      this.#file = new Speech(this.#key(), {
        sound: (samples) => {
          pieces.push(samples);
          length += samples.length;
          told(length / rate);
        },
        words: () => {},
        done: () => end({ what, rate, pieces, whole: true }),
        stopped: () => end(null),
        failed: (cause) => end(null, cause),
      });
      this.#file.say(this.#text.value, { ...this.#options.create, lead: null }, rate);
    });
  }

  #what() {
    return JSON.stringify([this.#text.value, this.#options.create]);
  }

  #heard() {
    if (this.state === "finishing") return this.#stoppedAt;
    return Math.max(0, this.#playout.heard - this.#first) / this.#playout.rate;
  }

  #sound(samples) {
    if (this.state === "finishing" || this.state === "idle") return;
    if (this.#loud < 0) {
      const at = audible(samples);
      if (at >= 0) this.#loud = this.#playout.pushed + at;
    }
    this.#playout.push(samples);
    if (this.#playout.pushed - this.#first > KEPT_SECONDS * this.#playout.rate) this.#kept = { what: null, rate: this.#playout.rate, pieces: [], whole: false };
    else this.#kept.pieces.push(samples);
    if (this.state === "opening") this.#become("speaking");
  }

  // Some 40 times a second, driven by the sound itself.
  #tick(peak) {
    if (this.state !== "speaking" && this.state !== "paused") return;
    const heard = this.#heard();
    if (this.#delay === null && this.#loud >= 0 && this.#playout.heard >= this.#loud) {
      this.#delay = (performance.now() - this.#asked) / 1000;
    }
    const word = this.#words.findLastIndex(({ start }) => start <= heard);
    if (word !== this.#word) {
      this.#word = word;
      const { start_char: start, end_char: end } = this.#words[word];
      this.#text.show(this.#base + start, this.#base + end);
    }
    const now = performance.now();
    if (now - this.#reported >= REPORT_MILLISECONDS && this.state === "speaking") {
      this.#reported = now;
      this.#speech.heard(heard);
    }
    this.#on.progress(peak);
    if (this.#made !== null && this.#playout.heard >= this.#playout.pushed) this.#finish();
  }

  #done() {
    if (this.state === "finishing") {
      // The end came just before the stop was there.
      this.#stopped(this.#spokenBy(this.#stoppedAt), "stop");
      return;
    }
    this.#made = (this.#playout.pushed - this.#first) / this.#playout.rate;
    this.#kept.whole = true;
    if (this.#made === 0 || this.state === "opening") this.#finish();
  }

  #finish() {
    this.#text.finish();
    this.#rest = 0;
    this.#become("idle");
  }

  /** `characters` of what was asked for this time have been heard. */
  #stopped(characters, reason) {
    const paused = this.state === "paused";
    this.#playout.clear();
    this.#rest = this.#base + characters;
    this.#text.show(this.#rest, this.#rest);
    this.#text.release();
    this.#become("idle");
    if (reason === "idle" && paused) this.#on.problem(problem("pausedTooLong"));
    else if (reason !== "cancel" && reason !== "stop") this.#on.problem(problem("speechLost"));
  }

  #failed(cause) {
    if (this.state === "idle") return;
    const begun = this.state !== "opening";
    if (begun) {
      this.#stopped(this.#spokenBy(this.#heard()), "stop");
    } else {
      this.#text.edit();
      this.#become("idle");
    }
    this.#on.problem(begun && cause.id === "lost" ? problem("speechLost") : cause);
  }

  /** Characters of the words that were whole by then. */
  #spokenBy(seconds) {
    return this.#words.findLast(({ end }) => end <= seconds)?.end_char ?? 0;
  }

  #become(state) {
    this.state = state;
    this.#on.change();
  }
}

async function openPlayout() {
  try {
    return await Playout.open();
  } catch (error) {
    if (error.name !== "NotSupportedError") throw error;
    return Playout.open({ ownRate: true });
  }
}

/** How it went, in words. */
export function described({ delay, made, gaps }) {
  if (made !== null && delay === null) return "there is nothing in it to say";
  const parts = [];
  if (delay !== null) parts.push(`first sound after ${delay.toFixed(2)} s`);
  if (made !== null) parts.push(`${made < 60 ? `${made.toFixed(1)} s` : clock(made, 0)} of sound`);
  if (delay !== null) parts.push(gaps === 0 ? "no gaps" : gaps === 1 ? "1 gap" : `${gaps} gaps`);
  return parts.join(" · ");
}

// The sound of answers on its way to the listener: which one is heard, how far, and what becomes of it when somebody
// speaks. The server says whether that was an interruption; the page is silent from the first moment of doubt.

import { audible } from "./voice-playout.js";

const REPORT_MILLISECONDS = 250;
const UNDECIDED_MILLISECONDS = 500;

export class Answers {
  #playout;
  #conversation;
  #on;
  #items = []; // {id, base, end, loud, came, whole}: positions are the playout's
  #gone = new Set(); // ids of answers that were cut, of which sound may still arrive
  #reported = 0;
  #doubt = 0;

  /** on: heard(item id, seconds), audible(item id, seconds since its first sound came), cut(item id). */
  constructor(playout, conversation, on) {
    this.#playout = playout;
    this.#conversation = conversation;
    this.#on = on;
  }

  /** Whether there is sound that was not heard yet. */
  get sounding() {
    return this.#playout.heard < this.#playout.pushed;
  }

  sound(id, samples) {
    if (this.#gone.has(id)) return;
    let item = this.#items.find((one) => one.id === id);
    if (!item) {
      item = { id, base: this.#playout.pushed, loud: -1, came: performance.now(), whole: false };
      this.#items.push(item);
    }
    const at = item.loud === -1 ? audible(samples) : -1;
    if (at >= 0) item.loud = this.#playout.pushed + at;
    this.#playout.push(samples);
    item.end = this.#playout.pushed;
  }

  /** No more sound of this answer comes. */
  whole(id) {
    const item = this.#items.find((one) => one.id === id);
    if (item) item.whole = true;
  }

  /** Called while the sound plays. */
  tick() {
    const heard = this.#playout.heard;
    const item = this.#items[0];
    if (!item) return;
    const seconds = (Math.min(heard, item.end) - item.base) / this.#playout.rate;
    if (item.loud >= 0 && heard >= item.loud) {
      this.#on.audible(item.id, (performance.now() - item.came) / 1000);
      item.loud = -2; // told
    }
    this.#on.heard(item.id, seconds);
    const finished = item.whole && heard >= item.end;
    const now = performance.now();
    if (finished || (now - this.#reported >= REPORT_MILLISECONDS && !this.#playout.held)) {
      this.#reported = now;
      this.#conversation.played(item.id, seconds);
    }
    if (finished) this.#items.shift();
  }

  /** Somebody speaks: not a sample more. */
  hold() {
    if (!this.sounding) return;
    const item = this.#items[0];
    this.#playout.hold();
    if (item) this.#conversation.played(item.id, this.#seconds(item));
    // The server is in no doubt when it takes the answer to be over already; then the little that is left is let go.
    clearTimeout(this.#doubt);
    this.#doubt = setTimeout(() => this.stop(), UNDECIDED_MILLISECONDS);
  }

  /** The server holds the answer as well, until it knows. */
  held() {
    clearTimeout(this.#doubt);
    this.#playout.hold();
  }

  resumed() {
    clearTimeout(this.#doubt);
    this.#playout.resume();
  }

  /** The server has ended the answer where it was heard. */
  truncated(id) {
    clearTimeout(this.#doubt);
    this.#gone.add(id);
    if (this.#items.some((one) => one.id === id)) this.#clear();
  }

  /** The person wants no more of it. False when nothing is heard. */
  stop() {
    clearTimeout(this.#doubt);
    const item = this.#items[0];
    if (!item || !this.sounding) return false;
    this.#conversation.truncate(item.id, this.#seconds(item));
    this.#gone.add(item.id);
    this.#clear();
    return true;
  }

  close() {
    clearTimeout(this.#doubt);
    this.#clear();
  }

  #seconds(item) {
    return Math.max(0, Math.min(this.#playout.heard, item.end) - item.base) / this.#playout.rate;
  }

  #clear() {
    for (const { id } of this.#items) this.#on.cut(id);
    this.#items = [];
    this.#playout.clear();
  }
}

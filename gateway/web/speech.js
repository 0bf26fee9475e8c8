// One text spoken over /v1/speak: a socket with one context, from create to done, cancelled or failed.

import { diagnose } from "./diagnose.js";
import { problem } from "./problems.js";
import { openSpeech } from "./wire.js";

const CONTEXT = "page";
const HEADER_BYTES = 16;
const PIECE_CHARACTERS = 16 * 1024;
const OPEN_MILLISECONDS = 10_000;

export class Speech {
  #key;
  #handlers;
  #socket = null;
  #ready = false;
  #over = false;
  #timer = 0;
  #most = 0; // characters of a text

  /**
   * handlers: sound(PCM16 samples), words([{start_char, end_char, start, end}]), done({seconds}),
   * stopped({characters, reason}), and failed(problem), one of the last three once and last.
   */
  constructor(key, handlers) {
    this.#key = key;
    this.#handlers = handlers;
  }

  get over() {
    return this.#over;
  }

  /** `options` are fields of `create`: voice, speed, split, lead; `rate` in Hz. */
  say(text, options, rate) {
    try {
      this.#socket = openSpeech(this.#key);
    } catch {
      this.#fail(problem("keyUnsendable"));
      return;
    }
    this.#socket.binaryType = "arraybuffer";
    this.#timer = setTimeout(() => this.#closed({ code: 1006, reason: "" }), OPEN_MILLISECONDS);
    this.#socket.onmessage = ({ data }) => {
      if (data instanceof ArrayBuffer) this.#handlers.sound(new Int16Array(data, HEADER_BYTES));
      else this.#receive(JSON.parse(data));
    };
    this.#socket.onclose = (close) => this.#closed(close);
    this.#socket.onopen = () => {
      this.#send("create", { ...options, format: { name: "pcm16", rate } });
      for (let at = 0; at < text.length; at += PIECE_CHARACTERS) {
        this.#send("text", { text: text.slice(at, at + PIECE_CHARACTERS) });
      }
      this.#send("end");
    };
  }

  /** The listener has heard so many seconds. */
  heard(seconds) {
    this.#send("playback", { seconds });
  }

  hold() {
    this.#send("hold");
  }

  resume() {
    this.#send("resume");
  }

  /** Answered by `stopped`. */
  cancel() {
    this.#send("cancel");
  }

  /** Without an answer. */
  close() {
    this.#over = true;
    clearTimeout(this.#timer);
    if (!this.#socket) return;
    this.#socket.onmessage = this.#socket.onclose = null;
    this.#socket.close();
  }

  #receive(message) {
    switch (message.type) {
      case "ready":
        clearTimeout(this.#timer);
        this.#ready = true;
        this.#most = message.limits.context_characters;
        break;
      case "words":
        this.#handlers.words(message.words);
        break;
      case "done":
        this.close();
        this.#handlers.done(message);
        break;
      case "cancelled":
        this.close();
        this.#handlers.stopped(message);
        break;
      case "failed":
        this.#fail(problem("speechFailed", { text: message.error.message }));
        break;
      case "error":
        this.#fail(refusal(message.error, this.#most));
        break;
    }
  }

  async #closed({ code, reason }) {
    const opened = this.#ready;
    this.close();
    this.#handlers.failed(await diagnose({ code, reason, error: null, opened }, this.#key));
  }

  #fail(cause) {
    this.close();
    this.#handlers.failed(cause);
  }

  #send(type, fields = {}) {
    if (this.#over || this.#socket?.readyState !== WebSocket.OPEN) return;
    this.#socket.send(JSON.stringify({ type, context: CONTEXT, ...fields }));
  }
}

function refusal({ code, message, retry_after: retryAfter }, most) {
  if (code === "at_capacity") return problem("fullOfListeners", { retryAfter });
  if (code === "draining") return problem("starting", { text: message, retryAfter: 5 });
  if (code === "input_too_large") {
    return problem("textTooLong", { text: `Up to ${most.toLocaleString()} characters are spoken at once. Speak it in parts.` });
  }
  return problem("refusedText", { text: message });
}

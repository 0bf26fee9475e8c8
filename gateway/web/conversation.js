// A conversation over /v1/realtime: sound in, events out. Lives on one connection; a new one is a new conversation.

import { diagnose } from "./diagnose.js";
import { problem } from "./problems.js";
import { conversationUpdate, encode, openConversation } from "./wire.js";

const OPEN_MILLISECONDS = 10_000;
const BEHIND_BYTES = 2 * 1024 * 1024; // half a minute of sound that the network does not take
const OVER = [1000, 1001]; // silent for too long, or as long as a session may last

export class Conversation {
  #settings;
  #options;
  #key;
  #rate;
  #handlers;
  #socket = null;
  #ready = false;
  #over = false;
  #timer = 0;

  /** handlers: open(model), event(event), ended(problem). `rate` is that of the sound in both directions, in Hz. */
  constructor(settings, options, key, rate, handlers) {
    this.#settings = settings;
    this.#options = options;
    this.#key = key;
    this.#rate = rate;
    this.#handlers = handlers;
  }

  open() {
    try {
      this.#socket = openConversation(this.#key);
    } catch {
      this.#end(problem("keyUnsendable"));
      return;
    }
    this.#timer = setTimeout(() => this.#closed({ code: 1006, reason: "" }), OPEN_MILLISECONDS);
    this.#socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    this.#socket.onclose = (close) => this.#closed(close);
  }

  /** PCM16 samples of the microphone. */
  append(samples) {
    if (!this.#ready) return;
    if (this.#socket.bufferedAmount > BEHIND_BYTES) this.#closed({ code: 1006, reason: "" });
    else this.#send({ type: "input_audio_buffer.append", audio: encode(samples) });
  }

  /** The settings or the voice's options have changed. */
  update() {
    if (this.#ready) this.#send(conversationUpdate(this.#settings, this.#options.create, this.#rate));
  }

  /** The player is there. */
  played(item, seconds) {
    this.#send({ type: "x.output_audio.played", event_id: "page_played", ...position(item, seconds) });
  }

  /** What comes after that was thrown away. */
  truncate(item, seconds) {
    const at = { content_index: 0, ...position(item, seconds) };
    this.#send({ type: "conversation.item.truncate", event_id: "page_truncate", ...at });
  }

  /** End the answer that is being made. */
  cancel() {
    this.#send({ type: "response.cancel", event_id: "page_cancel" });
  }

  close() {
    this.#over = true;
    this.#ready = false;
    clearTimeout(this.#timer);
    if (!this.#socket) return;
    this.#socket.onmessage = this.#socket.onclose = null;
    this.#socket.close();
  }

  #receive(event) {
    switch (event.type) {
      case "session.created":
        clearTimeout(this.#timer);
        this.#send(conversationUpdate(this.#settings, this.#options.create, this.#rate));
        break;
      case "session.updated":
        if (this.#ready) break;
        this.#ready = true;
        this.#handlers.open(event.session.model);
        break;
      case "error":
        // The others answer what the page said of an answer that had just ended by itself.
        if (event.error.event_id === "page_update") this.#end(problem("refused", { text: event.error.message }));
        break;
      default:
        this.#handlers.event(event);
    }
  }

  async #closed({ code, reason }) {
    const opened = this.#ready;
    this.close();
    if (opened && OVER.includes(code)) {
      this.#handlers.ended(problem("conversationOver"));
      return;
    }
    const cause = await diagnose({ code, reason, error: null, opened }, this.#key);
    this.#handlers.ended(cause.id === "lost" ? problem("conversationLost") : cause);
  }

  #end(cause) {
    if (this.#over) return;
    this.close();
    this.#handlers.ended(cause);
  }

  #send(event) {
    if (!this.#over && this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(event));
  }
}

function position(item, seconds) {
  return { item_id: item, audio_end_ms: Math.floor(seconds * 1000) };
}

// One listening: sends the ring's audio from a cursor, hands on the server's events, and outlives lost connections.
//
// Positions are samples of the page's own clock (the ring's). The server's clock starts at 0 in every session, so each
// event is handed on with the seconds to add. After a break the cursor goes back to the oldest words that have no
// final yet, so nothing said around the break is lost or doubled.

import { diagnose } from "./diagnose.js";
import { problem } from "./problems.js";
import { FRAME_SECONDS } from "./sources.js";
import { encode, openSocket, sessionUpdate } from "./wire.js";

const CATCH_UP_SECONDS = 30;
const IN_FLIGHT_SECONDS = 2;
const WIRE_BYTES = 512 * 1024;
const OPEN_MILLISECONDS = 10_000;
const STUCK_MILLISECONDS = 10_000;
const FINISH_MILLISECONDS = 20_000;
const QUIET_MILLISECONDS = 250;
const STEADY_MILLISECONDS = 10_000;
const GIVE_UP_MILLISECONDS = 120_000;
const LONGEST_WAIT_SECONDS = 15;

export class Stream {
  #ring;
  #settings;
  #key;
  #handlers;
  #socket = null;
  #ready = false;
  #opened = false;
  #cursor;
  #offset = 0;
  #pending = new Map();
  #finalEnd;
  #lastError = null;
  #attempt = 0;
  #brokenSince = 0;
  #readySince = 0;
  #drainedAt = 0;
  #lastBuffered = 0;
  #timer = 0;
  #quiet = 0;
  #finish = null;
  #ended = false;

  /** handlers: event(event, offsetSeconds), open(), interrupted(why or null), ended(problem or null). */
  constructor(ring, settings, key, handlers) {
    this.#ring = ring;
    this.#settings = settings;
    this.#key = key;
    this.#handlers = handlers;
    this.#cursor = ring.end;
    this.#finalEnd = ring.end;
  }

  open() {
    this.#connect();
  }

  /** Sends what the ring holds beyond the cursor, as far as the network takes it. */
  pump() {
    if (!this.#ready || this.#stuck()) return;
    const frame = Math.round(this.#ring.rate * FRAME_SECONDS);
    const oldest = this.#ring.end - CATCH_UP_SECONDS * this.#ring.rate;
    if (this.#cursor < oldest) this.#skipTo(oldest);
    while (this.#cursor < this.#ring.end && this.#socket.bufferedAmount < WIRE_BYTES) {
      const samples = this.#ring.slice(this.#cursor, this.#cursor + frame);
      this.#send({ type: "input_audio_buffer.append", audio: encode(samples) });
      this.#cursor += samples.length;
    }
  }

  update(settings) {
    this.#settings = settings;
    if (this.#ready) this.#send(sessionUpdate(settings, this.#ring.rate));
  }

  /** No more audio comes: commits what is open and resolves when every final has arrived. */
  finish() {
    return new Promise((resolve) => {
      this.#finish = { resolve, committed: false };
      if (!this.#ready) {
        this.#end(this.#opened ? problem("unfinished") : null);
        return;
      }
      this.pump();
      this.#send({ type: "input_audio_buffer.commit", event_id: "page_commit" });
      this.#timer = setTimeout(() => this.#end(problem("unfinished")), FINISH_MILLISECONDS);
    });
  }

  abort() {
    this.#end(null);
  }

  #connect() {
    clearTimeout(this.#timer);
    this.#lastError = null;
    let socket;
    try {
      socket = openSocket(this.#settings.model, this.#key);
    } catch {
      this.#end(problem("keyUnsendable"));
      return;
    }
    this.#socket = socket;
    this.#timer = setTimeout(() => this.#closed({ code: 1006, reason: "" }), OPEN_MILLISECONDS);
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    socket.onclose = ({ code, reason }) => this.#closed({ code, reason });
  }

  #receive(event) {
    if (event.type === "session.created") {
      this.#begin();
    } else if (event.type === "error") {
      this.#refused(event.error);
    } else {
      this.#track(event);
      this.#handlers.event(event, this.#offset / this.#ring.rate);
    }
    this.#settle();
  }

  #begin() {
    clearTimeout(this.#timer);
    this.#send(sessionUpdate(this.#settings, this.#ring.rate));
    if (this.#opened) this.#rewind();
    this.#offset = this.#cursor;
    this.#pending.clear();
    this.#ready = true;
    this.#opened = true;
    this.#readySince = this.#drainedAt = performance.now();
    this.#handlers.open();
    this.pump();
  }

  #rewind() {
    const open = Math.min(...this.#pending.values(), this.#cursor - IN_FLIGHT_SECONDS * this.#ring.rate);
    const oldest = this.#ring.end - CATCH_UP_SECONDS * this.#ring.rate;
    this.#cursor = Math.round(Math.max(0, this.#ring.start, this.#finalEnd, oldest, open));
  }

  // The network is far behind: rather than growing without end, the oldest audio is given up, and the page says so.
  #skipTo(position) {
    const from = Math.max(0, Math.round(position));
    const seconds = (from - this.#cursor) / this.#ring.rate;
    this.#offset += from - this.#cursor;
    this.#cursor = from;
    this.#handlers.event({ type: "page.skipped", seconds }, 0);
  }

  #track(event) {
    const position = (milliseconds) => this.#offset + (milliseconds * this.#ring.rate) / 1000;
    switch (event.type) {
      case "input_audio_buffer.speech_started":
        this.#pending.set(event.item_id, position(event.audio_start_ms));
        break;
      case "input_audio_buffer.speech_stopped":
        this.#pending.set(`${event.item_id} end`, position(event.audio_end_ms));
        break;
      case "input_audio_buffer.committed":
        if (!this.#pending.has(event.item_id)) this.#pending.set(event.item_id, this.#cursor);
        if (this.#finish) this.#finish.committed = true;
        break;
      case "conversation.item.input_audio_transcription.completed":
      case "conversation.item.input_audio_transcription.failed":
        this.#finalEnd = Math.max(
          this.#finalEnd,
          this.#pending.get(`${event.item_id} end`) ?? 0,
          position((event.words?.at(-1)?.end ?? 0) * 1000),
        );
        this.#pending.delete(event.item_id);
        this.#pending.delete(`${event.item_id} end`);
        break;
    }
  }

  #refused(error) {
    if (this.#finish && error.event_id === "page_commit") {
      this.#finish.committed = true; // nothing was left to commit
      return;
    }
    this.#lastError = error;
    if (error.event_id === "page_update") this.#end(problem("refused", { text: error.message }));
  }

  // The commit's own answer may come after that of an utterance the server had closed by itself, hence the pause.
  #settle() {
    clearTimeout(this.#quiet);
    if (this.#finish?.committed && this.#pending.size === 0) {
      this.#quiet = setTimeout(() => this.#end(null), QUIET_MILLISECONDS);
    }
  }

  async #closed(close) {
    // A server that fails again at once is asked less and less often.
    if (this.#ready && performance.now() - this.#readySince > STEADY_MILLISECONDS) {
      this.#attempt = 0;
      this.#brokenSince = 0;
    }
    this.#detach();
    clearTimeout(this.#timer);
    if (this.#finish) {
      this.#end(this.#pending.size > 0 || !this.#finish.committed ? problem("unfinished") : null);
      return;
    }
    if (this.#opened) this.#handlers.interrupted(null);
    const cause = await diagnose({ ...close, error: this.#lastError, opened: this.#opened }, this.#key);
    if (this.#ended) return;
    const fatal = !["lost", "unreachable", "full", "starting"].includes(cause.id);
    this.#brokenSince ||= performance.now();
    if (!this.#opened || fatal || performance.now() - this.#brokenSince > GIVE_UP_MILLISECONDS) {
      this.#end(cause.id === "unreachable" && this.#opened ? problem("lost") : cause);
      return;
    }
    this.#handlers.interrupted(cause);
    this.#timer = setTimeout(() => this.#connect(), 1000 * this.#wait(cause));
  }

  #wait(cause) {
    const backoff = Math.min(LONGEST_WAIT_SECONDS, 0.5 * 2 ** this.#attempt) * (0.75 + 0.5 * Math.random());
    this.#attempt += 1;
    return Math.max(backoff, cause.retryAfter ?? 0);
  }

  // A dead link keeps its socket "open" for minutes; bytes that do not leave tell it earlier.
  #stuck() {
    const buffered = this.#socket.bufferedAmount;
    const now = performance.now();
    if (buffered === 0 || buffered < this.#lastBuffered) this.#drainedAt = now;
    this.#lastBuffered = buffered;
    if (now - this.#drainedAt < STUCK_MILLISECONDS) return false;
    this.#closed({ code: 1006, reason: "" });
    return true;
  }

  #send(event) {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(event));
  }

  #detach() {
    this.#ready = false;
    if (!this.#socket) return;
    this.#socket.onmessage = null;
    this.#socket.onclose = null;
    this.#socket.close();
  }

  #end(cause) {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#quiet);
    this.#detach();
    this.#finish?.resolve();
    this.#handlers.ended(cause);
  }
}

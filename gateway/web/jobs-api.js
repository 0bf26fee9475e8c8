// The service's batch interface: jobs as JSON, results, and the feed of changes.

import { headers } from "./wire.js";

export const JOBS = "/v1/batch/jobs";
const PATIENCE_MILLISECONDS = 30_000;
const SILENCE_MILLISECONDS = 45_000; // the server says something far more often than that
const RETRY_MILLISECONDS = [500, 1000, 2000, 5000, 10_000, 30_000];

/** The server's own words for why it refused; `status` 0: it could not be reached at all. */
export class Refused extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }

  static async from(response) {
    const body = await response.json().catch(() => null);
    const retryAfter = Number.parseFloat(response.headers.get("retry-after")) || undefined;
    return new Refused(response.status, body?.error?.message ?? `The server answered ${response.status}.`, retryAfter);
  }
}

export class Api {
  /** Seconds by which the server's clock is ahead of this device's. */
  skew = 0;
  #key;

  /** `key()` is the API key at that moment, "" for none. */
  constructor(key) {
    this.#key = key;
  }

  /** {data: jobs, newest first, has_more}; `before` is the id of the last one that is known. */
  list(before, limit = 200) {
    const query = new URLSearchParams({ limit, ...(before ? { before } : {}) });
    return this.#json(`${JOBS}?${query}`);
  }

  job(id) {
    return this.#json(jobPath(id));
  }

  create(fields) {
    return this.#json(JOBS, { method: "POST", body: JSON.stringify(fields) });
  }

  /** `what`: "cancel" or "retry". */
  act(id, what) {
    return this.#json(`${jobPath(id)}/${what}`, { method: "POST" });
  }

  async remove(id) {
    await this.#ask(jobPath(id), { method: "DELETE" });
  }

  /** What a search finds: {data: hits, the best first}. */
  async search(path, fields, signal) {
    return (await this.#ask(path, { method: "POST", body: JSON.stringify(fields) }, signal)).json();
  }

  /** The answer that holds a result, its body not yet read. */
  result(id, format, signal) {
    return this.#ask(`${jobPath(id)}/results/${format}`, {}, signal);
  }

  async #json(path, options) {
    const response = await this.#ask(path, options);
    return response.status === 204 ? null : response.json();
  }

  async #ask(path, options = {}, signal = AbortSignal.timeout(PATIENCE_MILLISECONDS)) {
    const type = options.body ? { "Content-Type": "application/json" } : {};
    let response;
    try {
      response = await fetch(path, { ...options, headers: { ...headers(this.#key()), ...type }, cache: "no-store", signal });
    } catch (error) {
      if (signal.aborted && signal.reason?.name === "AbortError") throw error;
      throw new Refused(0, "The server cannot be reached.");
    }
    if (!response.ok) throw await Refused.from(response);
    const date = Date.parse(response.headers.get("date"));
    if (!Number.isNaN(date)) this.skew = Math.abs(date - Date.now()) > 2000 ? (date - Date.now()) / 1000 : 0;
    return response;
  }
}

export function jobPath(id) {
  return `${JOBS}/${encodeURIComponent(id)}`;
}

/** Server-sent events over fetch, since EventSource cannot send a key. It connects again for as long as the page is there. */
export class Feed {
  #path;
  #key;
  #on;
  #control = null;
  #wake = () => {};

  /** on.event(name, data) for every event, on.state("open" | "lost", refusal) when the connection comes or goes. */
  constructor(path, key, on) {
    this.#path = path;
    this.#key = key;
    this.#on = on;
    addEventListener("online", () => this.#wake());
    this.#run();
  }

  /** Connect anew, with the key as it is now. */
  restart() {
    this.#control?.abort();
    this.#wake();
  }

  async #run() {
    for (let failures = 0; ; failures += 1) {
      let refusal;
      try {
        await this.#listen(() => (failures = 0));
      } catch (error) {
        refusal = error instanceof Refused ? error : new Refused(0, "The server cannot be reached.");
      }
      this.#on.state("lost", refusal);
      const pause = RETRY_MILLISECONDS[Math.min(failures, RETRY_MILLISECONDS.length - 1)];
      await new Promise((resolve) => {
        this.#wake = resolve;
        // A key that was refused is not tried again by itself.
        if (refusal?.status !== 401) setTimeout(resolve, pause * (0.75 + Math.random() / 2));
      });
    }
  }

  async #listen(connected) {
    const control = new AbortController();
    this.#control = control;
    let watch = setTimeout(() => control.abort(), SILENCE_MILLISECONDS);
    try {
      const options = { headers: { ...headers(this.#key()), Accept: "text/event-stream" }, cache: "no-store" };
      const response = await fetch(this.#path, { ...options, signal: control.signal });
      if (!response.ok) throw await Refused.from(response);
      connected();
      this.#on.state("open");
      const parse = eventParser(this.#on.event);
      for (const reader = response.body.pipeThrough(new TextDecoderStream()).getReader(); ; ) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(watch);
        watch = setTimeout(() => control.abort(), SILENCE_MILLISECONDS);
        parse(value);
      }
    } finally {
      clearTimeout(watch);
    }
  }
}

/** Takes the stream's text in pieces of any size; calls onevent(name, data) for each event, its data read as JSON. */
function eventParser(onevent) {
  let rest = "";
  let name = "";
  let data = [];
  return (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line.startsWith("data:")) data.push(line.slice(5));
      else if (line.startsWith("event:")) name = line.slice(6).trim();
      else if (line === "") {
        if (data.length > 0) onevent(name, JSON.parse(data.join("\n")));
        name = "";
        data = [];
      }
    }
  };
}

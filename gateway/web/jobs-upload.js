// One file to the server by the tus protocol (1.0.0): in pieces, and on from the last good byte after the network or
// the page went away.

import { Refused } from "./jobs-api.js";
import { headers } from "./wire.js";

const UPLOADS = "/v1/batch/uploads";
const PIECE_BYTES = 8 * 1024 * 1024;
const STALL_MILLISECONDS = 60_000;
const RETRY_MILLISECONDS = [1000, 2000, 4000, 8000, 15_000, 30_000];
const STORED = "speechlane.upload:";
const STORED_DAYS = 1; // the server keeps them as long

export class Upload {
  #file;
  #name;
  #key;
  #on;
  slot; // what localStorage knows it by
  #url = null;
  #stopped = new AbortController();

  /** on.sent(bytes) as they go; on.waiting(seconds, refusal) before it tries again. `key()` is the API key. */
  constructor(file, name, key, on) {
    this.#file = file;
    this.#name = name;
    this.#key = key;
    this.#on = on;
    this.slot = `${STORED}${name}:${file.size}:${file.lastModified}`;
  }

  /** Resolves to the upload's id when the server has the whole file. Rejects with Refused, or AbortError on stop(). */
  async finish() {
    let renewed = false;
    for (let failures = 0; ; ) {
      try {
        const known = this.#url ?? recall(this.slot)?.url;
        this.#url = known ?? (await this.#create());
        const url = this.#url;
        let offset = known ? await this.#offset(url) : 0;
        this.#on.sent(offset);
        while (offset < this.#file.size) {
          offset = await this.#send(url, offset);
          failures = 0;
          remember(this.slot, { url, name: this.#name, size: this.#file.size, sent: offset, at: Date.now() });
        }
        return decodeURIComponent(url.split("/").at(-1));
      } catch (error) {
        if (this.#stopped.signal.aborted) throw new DOMException("stopped", "AbortError");
        if ([403, 404, 410].includes(error.status) && this.#url && !renewed) {
          renewed = true; // the server has forgotten it: from the start, once
          this.#url = null;
          forget(this.slot);
        } else if (passing(error.status)) {
          await this.#pause(failures, error);
          failures += 1;
        } else {
          throw error;
        }
      }
    }
  }

  /** The job is made of it, so it is not to be found again. */
  done() {
    forget(this.slot);
  }

  /** Give up and let the server forget what it has. */
  stop() {
    this.#stopped.abort();
    discard(this.slot, this.#key());
  }

  async #create() {
    const metadata = `filename ${base64(this.#name)}`;
    const fields = { "Upload-Length": String(this.#file.size), "Upload-Metadata": metadata };
    const { request } = await this.#ask("POST", UPLOADS, fields);
    const url = new URL(request.getResponseHeader("Location") ?? "", new URL(UPLOADS, location.href));
    if (url.host !== location.host) throw new Refused(502, "The server sent the upload to another host.");
    remember(this.slot, { url: url.pathname, name: this.#name, size: this.#file.size, sent: 0, at: Date.now() });
    return url.pathname;
  }

  async #offset(url) {
    const { request } = await this.#ask("HEAD", url);
    return bytes(request);
  }

  async #send(url, offset) {
    const piece = this.#file.slice(offset, offset + PIECE_BYTES);
    const fields = { "Upload-Offset": String(offset), "Content-Type": "application/offset+octet-stream" };
    const { request } = await this.#ask("PATCH", url, fields, piece, (sent) => this.#on.sent(offset + sent));
    return bytes(request);
  }

  /** fetch does not tell how much of a body has gone, XMLHttpRequest does. */
  #ask(method, url, fields = {}, body = null, onsent = null) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      const stop = () => request.abort();
      let watch = setTimeout(stop, STALL_MILLISECONDS);
      request.open(method, url);
      const all = { "Tus-Resumable": "1.0.0", ...headers(this.#key()), ...fields };
      for (const [name, value] of Object.entries(all)) request.setRequestHeader(name, value);
      request.upload.onprogress = onsent && (({ loaded }) => {
        clearTimeout(watch);
        watch = setTimeout(stop, STALL_MILLISECONDS);
        onsent(loaded);
      });
      request.onload = () => (request.status < 300 ? resolve({ request }) : reject(refusal(request)));
      request.onerror = () => reject(new Refused(0, "The connection was lost."));
      request.onabort = request.onerror;
      request.onloadend = () => {
        clearTimeout(watch);
        this.#stopped.signal.removeEventListener("abort", stop);
      };
      this.#stopped.signal.addEventListener("abort", stop);
      request.send(body);
    });
  }

  #pause(failures, refusal) {
    const planned = RETRY_MILLISECONDS[Math.min(failures, RETRY_MILLISECONDS.length - 1)];
    const milliseconds = refusal.retryAfter ? refusal.retryAfter * 1000 : planned * (0.75 + Math.random() / 2);
    this.#on.waiting(milliseconds / 1000, refusal);
    return new Promise((resolve) => {
      setTimeout(resolve, milliseconds);
      addEventListener("online", resolve, { once: true });
      this.#stopped.signal.addEventListener("abort", resolve);
    });
  }
}

/** Uploads that were begun on this browser and are not done: [{slot, name, size, sent}]. */
export function interrupted() {
  const slots = Object.keys(localStorage).filter((slot) => slot.startsWith(STORED));
  return slots.flatMap((slot) => {
    const { url, name, size, sent, at } = recall(slot) ?? {};
    if (url && Date.now() - at < STORED_DAYS * 86_400_000) return [{ slot, name: String(name), size, sent }];
    forget(slot);
    return [];
  });
}

/** Forget an upload here and on the server. */
export function discard(slot, key) {
  const url = recall(slot)?.url;
  forget(slot);
  if (url) fetch(url, { method: "DELETE", headers: { "Tus-Resumable": "1.0.0", ...headers(key) } }).catch(() => {});
}

// 0: no network, 409 and 460: the other side has another offset, which is asked for before the next try.
function passing(status) {
  return [0, 408, 409, 423, 429, 460, 500, 502, 503, 504].includes(status);
}

function refusal(request) {
  let message = `The server answered ${request.status}.`;
  try {
    message = JSON.parse(request.responseText).error.message;
  } catch {
    // it has no words of its own
  }
  return new Refused(request.status, message, Number.parseFloat(request.getResponseHeader("Retry-After")) || undefined);
}

function bytes(request) {
  const offset = Number.parseInt(request.getResponseHeader("Upload-Offset"), 10);
  if (Number.isNaN(offset)) throw new Refused(502, "The server did not say how much of the file it has.");
  return offset;
}

function base64(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

function recall(slot) {
  try {
    return JSON.parse(localStorage.getItem(slot));
  } catch {
    return null;
  }
}

function remember(slot, entry) {
  try {
    localStorage.setItem(slot, JSON.stringify(entry));
  } catch {
    // no room: it can then not be resumed after a reload, but it goes on
  }
}

function forget(slot) {
  localStorage.removeItem(slot);
}

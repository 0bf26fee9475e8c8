// Plays a job's recording by ranges. With an API key, which a player cannot send, a worker of this page's own adds it.

import { jobPath } from "./jobs-api.js";
import { headers } from "./wire.js";

const WORKER = "static/jobs-audio-worker.js";
const WORKER_MILLISECONDS = 4000;
const WHOLE_BYTES = 512 * 1024 * 1024;

export class Player {
  #audio;
  #key;
  #on;
  #frame = 0;
  #source = "";
  #object = "";
  #wanted = null; // where to begin when the length is known
  #eager = false; // whether to begin as soon as there is something to play

  /** on.time(seconds, playing), on.playing(boolean), on.silent() when it cannot be played here. */
  constructor(audio, key, on) {
    this.#audio = audio;
    this.#key = key;
    this.#on = on;
    audio.addEventListener("play", () => this.#changed());
    audio.addEventListener("pause", () => this.#changed());
    audio.addEventListener("seeked", () => this.#tell());
    audio.addEventListener("error", () => this.#source && on.silent());
    audio.addEventListener("loadedmetadata", () => {
      if (this.#wanted !== null) audio.currentTime = this.#wanted;
      this.#wanted = null;
    });
  }

  get playing() {
    return !this.#audio.paused;
  }

  get time() {
    return this.#wanted ?? this.#audio.currentTime;
  }

  set rate(rate) {
    this.#audio.defaultPlaybackRate = rate;
    this.#audio.playbackRate = rate;
  }

  async load(id) {
    this.unload();
    this.#source = `${jobPath(id)}/audio`;
    const source = this.#source;
    const url = this.#key() && !(await workerReady(this.#key)) ? await this.#whole(source) : source;
    if (source !== this.#source) return;
    if (!url) {
      this.#on.silent();
      return;
    }
    const eager = this.#eager;
    this.#eager = false;
    this.#audio.src = url;
    if (eager) await this.toggle();
  }

  unload() {
    this.#source = "";
    this.#wanted = null;
    this.#eager = false;
    this.#audio.pause();
    this.#audio.removeAttribute("src");
    this.#audio.load();
    URL.revokeObjectURL(this.#object);
    this.#object = "";
  }

  async toggle() {
    if (!this.#audio.src) this.#eager = !this.#eager;
    else if (!this.#audio.paused) this.#audio.pause();
    else await this.#audio.play().catch(() => {}); // what went wrong comes as an error event
  }

  seek(seconds) {
    if (this.#audio.readyState > 0) this.#audio.currentTime = seconds;
    else this.#wanted = seconds;
    this.#on.time(seconds, this.playing);
  }

  // Pages on plain http have no workers; there the recording is fetched as a whole, if it is not too large.
  async #whole(path) {
    const control = new AbortController();
    try {
      const response = await fetch(path, { headers: headers(this.#key()), signal: control.signal });
      if (!response.ok || Number(response.headers.get("content-length")) > WHOLE_BYTES) {
        control.abort();
        return null;
      }
      this.#object = URL.createObjectURL(await response.blob());
      return this.#object;
    } catch {
      return null;
    }
  }

  #changed() {
    cancelAnimationFrame(this.#frame);
    this.#on.playing(this.playing);
    if (this.playing) this.#follow();
  }

  #follow() {
    this.#tell();
    this.#frame = requestAnimationFrame(() => this.#follow());
  }

  #tell() {
    this.#on.time(this.time, this.playing);
  }
}

let answering = false;

/** Whether the worker that adds the key is in charge of this page. It asks for the key each time and keeps none. */
async function workerReady(key) {
  const container = navigator.serviceWorker;
  if (!container) return false;
  if (!answering) {
    answering = true;
    container.addEventListener("message", ({ data, ports }) => data === "key" && ports[0].postMessage(key()));
    container.startMessages();
  }
  try {
    await container.register(WORKER, { scope: location.pathname });
    const late = new Promise((_, reject) => setTimeout(reject, WORKER_MILLISECONDS));
    const controlled = new Promise((resolve) => {
      if (container.controller) resolve();
      container.addEventListener("controllerchange", resolve, { once: true });
    });
    await Promise.race([controlled, late]);
    return true;
  } catch {
    return false;
  }
}

// The files on their way to the server: a few at once, the rest in line, each with a bar.

import { discard, interrupted, Upload } from "./jobs-upload.js";
import { uploadTrouble } from "./jobs-problems.js";
import { duration, element, iconButton, plural, size } from "./jobs-words.js";

const AT_ONCE = 2;
const ROWS = 8; // of files that wait; the rest is a number
const SMOOTHING_SECONDS = 4;

export class Uploads {
  #list;
  #options;
  #api;
  #onjob;
  #onchange;
  #items = new Map(); // by what their browser's memory knows them by
  #rest = element("li", "note");

  /**
   * onjob(job, asked) when a file has become one, asked for at `asked` (performance.now); onchange() when there is more
   * or less to show.
   */
  constructor(list, { options, api, onjob, onchange }) {
    this.#list = list;
    this.#options = options;
    this.#api = api;
    this.#onjob = onjob;
    this.#onchange = onchange;
    this.#offerInterrupted();
  }

  /** Whether any file would have to be chosen again if the page were left. */
  get busy() {
    return [...this.#items.values()].some((item) => !item.failed);
  }

  /** `files`: [{file, name}]. They are transcribed with the options as they are now. */
  add(files) {
    const { fields } = this.#options;
    for (const { file, name } of files) {
      const item = { file, name, fields, sent: 0, row: null, running: false, failed: false };
      item.upload = new Upload(file, name, () => this.#options.key, {
        sent: (bytes) => this.#sent(item, bytes),
        waiting: (seconds, { status, message }) => {
          this.#say(item, `${status === 0 ? "No connection." : message} Trying again in ${duration(seconds)}`);
        },
      });
      if (this.#items.has(item.upload.slot)) continue;
      this.#items.set(item.upload.slot, item);
      this.#list.querySelector(`[data-slot="${CSS.escape(item.upload.slot)}"]`)?.remove();
    }
    this.#next();
  }

  /** Try those again that were refused for their key. */
  keyChanged() {
    for (const item of this.#items.values()) if (item.failed === 401) item.failed = false;
    this.#next();
  }

  #next() {
    const items = [...this.#items.values()];
    const waiting = items.filter((item) => !item.running && item.failed === false);
    const running = items.filter((item) => item.running).length;
    for (const item of waiting.splice(0, Math.max(0, AT_ONCE - running))) this.#run(item);
    for (const item of waiting.slice(0, ROWS)) this.#row(item);
    const more = waiting.filter((item) => !item.row).length;
    this.#rest.textContent = `and ${plural(more, "more file")} in line`;
    if (more > 0) this.#list.append(this.#rest);
    else this.#rest.remove();
    this.#onchange();
  }

  async #run(item) {
    this.#row(item);
    Object.assign(item, { running: true, failed: false, rate: 0, since: 0 });
    item.row.classList.remove("failed", "waiting");
    item.again.hidden = true;
    this.#say(item, "Starting");
    try {
      const upload = await item.upload.finish();
      this.#say(item, "Uploaded. Being handed in");
      const asked = performance.now();
      const job = await this.#handIn(item, { upload, name: item.name, ...item.fields });
      item.upload.done();
      this.#drop(item);
      if (job) this.#onjob(job, asked);
    } catch (error) {
      if (!this.#items.has(item.upload.slot)) return; // cancelled
      Object.assign(item, { running: false, failed: error.status ?? true });
      item.row.classList.add("failed");
      item.again.hidden = false;
      this.#say(item, uploadTrouble(error, item.file));
    }
    this.#next();
  }

  // The queue may be full, or the network gone just now: the file is there, so it can wait.
  async #handIn(item, fields) {
    for (;;) {
      try {
        return await this.#api.create(fields);
      } catch (error) {
        if (![0, 423, 429, 503].includes(error.status)) throw error;
        const seconds = error.retryAfter ?? 5;
        this.#say(item, `${error.message} Trying again in ${duration(seconds)}`);
        await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
        if (!this.#items.has(item.upload.slot)) return null;
      }
    }
  }

  #sent(item, bytes) {
    const now = performance.now() / 1000;
    if (item.since && bytes > item.sent) {
      const passed = Math.max(0.001, now - item.since);
      const weight = Math.min(1, passed / SMOOTHING_SECONDS);
      item.rate = (item.rate || (bytes - item.sent) / passed) * (1 - weight) + ((bytes - item.sent) / passed) * weight;
    }
    item.since = now;
    item.sent = bytes;
    const whole = item.file.size;
    item.bar.style.inlineSize = `${whole > 0 ? (bytes / whole) * 100 : 100}%`;
    item.bar.parentElement.setAttribute("aria-valuenow", String(whole > 0 ? Math.round((bytes / whole) * 100) : 100));
    const said = [`Uploading ${size(bytes)} of ${size(whole)}`];
    if (item.rate > 0) said.push(`${size(item.rate)}/s`, `${duration((whole - bytes) / item.rate)} left`);
    this.#say(item, said.join(" · "));
  }

  #say(item, text) {
    if (item.line) item.line.textContent = text;
  }

  #drop(item) {
    this.#items.delete(item.upload.slot);
    item.row?.remove();
  }

  #row(item) {
    if (item.row) return;
    const { row, line, bar, actions } = uploadRow(item.name, `${size(item.file.size)} · in line`);
    item.again = iconButton("#i-retry", `Try to upload ${item.name} again`);
    item.again.hidden = true;
    item.again.addEventListener("click", () => {
      item.failed = false;
      this.#next();
    });
    const cancel = iconButton("#i-close", `Do not upload ${item.name}`);
    cancel.addEventListener("click", () => {
      this.#drop(item);
      item.upload.stop();
      this.#next();
    });
    actions.append(item.again, cancel);
    Object.assign(item, { row, line, bar });
    row.classList.add("waiting");
    this.#list.append(row);
  }

  // A browser gives a file to a page only once: after a reload, the person has to choose it again.
  #offerInterrupted() {
    for (const { slot, name, size: whole, sent } of interrupted()) {
      const share = whole > 0 ? Math.floor((sent / whole) * 100) : 0;
      const text = `Interrupted at ${share} %. Choose or drop the same file and it goes on from there.`;
      const { row, bar, actions } = uploadRow(name, text);
      row.dataset.slot = slot;
      row.classList.add("interrupted");
      bar.style.inlineSize = `${share}%`;
      const forget = iconButton("#i-close", `Forget the upload of ${name}`);
      forget.addEventListener("click", () => {
        discard(slot, this.#options.key);
        row.remove();
        this.#onchange();
      });
      actions.append(forget);
      this.#list.append(row);
    }
  }
}

function uploadRow(name, text) {
  const row = element("li", "row upload");
  const body = element("div", "body");
  const line = element("p", "line", text);
  const progress = element("div", "progress");
  const bar = element("span");
  const actions = element("div", "actions");
  progress.setAttribute("role", "progressbar");
  progress.setAttribute("aria-label", `Upload of ${name}`);
  progress.append(bar);
  body.append(element("p", "name", name), line, progress);
  row.append(element("span", "dot"), body, actions);
  return { row, line, bar, actions };
}

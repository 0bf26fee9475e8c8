// The transcript on the page, hours long: every row has its text, but only rows near the view have their words in
// elements of their own. The word that is played is marked, and kept in view unless the person scrolls.

import { clock, place } from "./formats.js";
import { findings } from "./jobs-findings.js";
import { repaired, wordAt } from "./jobs-transcript.js";
import { element } from "./jobs-words.js";

const NEAR = "800px 0px";
const ROWS_AT_ONCE = 400;
const LINE_CHARACTERS = 75;
const LINGER_SECONDS = 1.5; // a word stays marked so long into a pause
const SMOOTH_MILLISECONDS = 700;

export class Reader {
  #list;
  #back;
  #dock;
  #onseek;
  #transcript = null;
  #rows = []; // elements, by item
  #items = new Map(); // items, by element
  #watch;
  #following = true;
  #scrolling = 0;
  #marked = { row: null, word: null, index: -2 };

  /** onseek(seconds): the person wants to hear it from there. `dock` covers the page's lower end. */
  constructor({ list, back, dock, onseek }) {
    this.#list = list;
    this.#back = back;
    this.#dock = dock;
    this.#onseek = onseek;
    this.#watch = new IntersectionObserver((entries) => this.#near(entries), { rootMargin: NEAR });
    list.addEventListener("click", (event) => this.#clicked(event));
    back.addEventListener("click", () => this.follow());
    for (const type of ["wheel", "touchmove"]) addEventListener(type, () => this.#leave(), { passive: true });
    addEventListener("pointerdown", ({ clientX }) => clientX >= document.documentElement.clientWidth && this.#leave());
    addEventListener("keydown", ({ key }) => /^(Page|Arrow)(Up|Down)$|^(Home|End)$/.test(key) && this.#leave());
  }

  /** Resolves when all of it is in the document, which may take a few frames. */
  async show(transcript) {
    this.clear();
    this.#transcript = transcript;
    for (let from = 0; from < transcript.items.length; from += ROWS_AT_ONCE) {
      const rows = transcript.items.slice(from, from + ROWS_AT_ONCE).map((item) => this.#row(item));
      this.#rows.push(...rows);
      this.#list.append(...rows);
      for (const row of rows) this.#watch.observe(row);
      await new Promise((resolve) => setTimeout(resolve));
      if (this.#transcript !== transcript) return;
    }
  }

  clear() {
    this.#watch.disconnect();
    this.#list.replaceChildren();
    this.#items.clear();
    this.#rows = [];
    this.#transcript = null;
    this.#marked = { row: null, word: null, index: -2 };
    this.#following = true;
    this.#back.hidden = true;
  }

  /** Mark the word that is heard at `seconds`; `live`: it is playing, so keep it in view. */
  at(seconds, live) {
    if (!this.#transcript) return;
    const { words } = this.#transcript;
    let index = wordAt(words, seconds);
    if (index >= 0 && seconds > words[index].end + LINGER_SECONDS) index = -1;
    if (index === this.#marked.index) return;
    const row = index < 0 ? null : (this.#rows[words[index].item] ?? null);
    if (row && !row.dataset.words) this.#split(row);
    const word = row?.querySelector(`[data-word="${words[index].index}"]`) ?? null;
    if (row !== this.#marked.row) {
      this.#marked.row?.classList.remove("playing");
      row?.classList.add("playing");
    }
    this.#marked.word?.classList.remove("heard");
    word?.classList.add("heard");
    this.#marked = { row, word, index };
    if (live && this.#following && (word ?? row)) this.#keepInView(word ?? row);
  }

  /** Bring the row that is at `seconds` into view, and go on following. */
  reveal(seconds) {
    const items = this.#transcript?.items ?? [];
    const found = items.findIndex((item) => item.end > seconds);
    const row = found < 0 ? this.#rows.at(-1) : this.#rows[found];
    this.#following = true;
    this.#back.hidden = true;
    if (row) this.#keepInView(row);
  }

  follow() {
    this.#following = true;
    this.#back.hidden = true;
    const { word, row } = this.#marked;
    if (word ?? row) this.#keepInView(word ?? row);
  }

  #leave() {
    if (!this.#transcript || !this.#marked.row) return;
    this.#following = false;
    this.#back.hidden = false;
  }

  #keepInView(target) {
    if (performance.now() < this.#scrolling) return;
    const top = document.querySelector(".top").offsetHeight + 24;
    const bottom = innerHeight - this.#dock.offsetHeight - 8;
    const box = target.getBoundingClientRect();
    if (box.top >= top && box.bottom <= bottom) return;
    const by = box.top - (top + (bottom - top) * 0.25);
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches || Math.abs(by) > 1.5 * innerHeight;
    if (calm) {
      // Rows between here and there have only guessed heights until they are laid out, so look again.
      scrollBy({ top: by, behavior: "instant" });
      const left = target.getBoundingClientRect().top - (top + (bottom - top) * 0.25);
      if (Math.abs(left) > 40) scrollBy({ top: left, behavior: "instant" });
    } else {
      this.#scrolling = performance.now() + SMOOTH_MILLISECONDS;
      scrollBy({ top: by, behavior: "smooth" });
    }
  }

  #clicked({ target }) {
    const row = target.closest("#transcript > li");
    const item = this.#items.get(row);
    if (!item || target.closest(".finding")) return;
    const word = target.closest("[data-word]");
    if (!target.closest("button.time") && !getSelection().isCollapsed) return;
    this.#following = true;
    this.#back.hidden = true;
    if (word) this.#onseek(item.words[word.dataset.word].start);
    else if (target.closest("button.time")) this.#onseek(item.start);
  }

  #row(item) {
    const row = element("li", item.kind);
    const time = element("button", "time", clock(item.start, 0));
    time.type = "button";
    time.setAttribute("aria-label", `Hear from ${clock(item.start, 0)}`);
    const body = element("div", "said");
    const text = element("p", "text", said(item));
    if (item.language) text.lang = item.language;
    body.append(text, ...findings(item));
    row.append(time, body);
    if (this.#transcript.channels > 1) {
      row.dataset.channel = item.channel;
      time.append(element("span", "channel", `Channel ${item.channel + 1}`));
    }
    const lines = Math.ceil(item.text.length / LINE_CHARACTERS) || 1;
    row.style.containIntrinsicBlockSize = `auto ${lines * 1.95 + 0.7}rem`;
    this.#items.set(row, item);
    return row;
  }

  #near(entries) {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting && !target.dataset.words) this.#split(target);
      else if (!isIntersecting && target.dataset.words) this.#join(target);
    }
  }

  #split(row) {
    const item = this.#items.get(row);
    if (item.words.length === 0) return;
    row.dataset.words = "true";
    row.querySelector(".text").replaceChildren(...shaded(item));
  }

  // What is selected or played stays as it is.
  #join(row) {
    if (row === this.#marked.row || (!getSelection().isCollapsed && getSelection().containsNode(row, true))) return;
    delete row.dataset.words;
    row.querySelector(".text").textContent = said(this.#items.get(row));
  }
}

function said({ kind, start, end, text }) {
  if (kind === "hole") return `${text[0]?.toUpperCase() ?? ""}${text.slice(1)}, ${clock(start)}–${clock(end)}`;
  if (kind === "taken") return "Words that nobody said were taken out here.";
  return kind === "doubt" ? "Nothing is written here." : text;
}

/** The text with each word in an element that shows how sure the model was, and whether a repair put it there. */
function shaded(item) {
  const nodes = [];
  let cursor = 0;
  place(item.text, item.words).forEach(({ from, to }, index) => {
    if (to === from) return;
    if (from > cursor) nodes.push(item.text.slice(cursor, from));
    const { confidence, start } = item.words[index];
    const word = element("span", `word ${doubt(confidence)}`, item.text.slice(from, to));
    if (repaired(item, item.words[index])) word.classList.add("mended");
    word.dataset.word = index;
    word.title = `${Math.round(confidence * 100)} % sure · ${clock(start, 2)}`;
    nodes.push(word);
    cursor = to;
  });
  if (cursor < item.text.length) nodes.push(item.text.slice(cursor));
  return nodes;
}

function doubt(confidence) {
  if (confidence >= 0.7) return "sure";
  if (confidence >= 0.5) return "doubt-1";
  return confidence >= 0.3 ? "doubt-2" : "doubt-3";
}

// The transcript on the page. Every utterance is kept in memory, but only the latest rows are in the document.

import { clock, place } from "./formats.js";

const ROWS = 200;
const NEAR_BOTTOM = 140;

export class View {
  #list;
  #earlier;
  #latest;
  #utterances = [];
  #first = 0;
  #rows = new Map();
  #following = true;
  #heard = {};

  /** `onplay(utterance)` is called when a finished utterance is to be heard. */
  constructor({ list, earlier, latest, onplay }) {
    this.#list = list;
    this.#earlier = earlier;
    this.#latest = latest;
    const utteranceOf = (target) => this.#rows.get(target.closest("li"));
    list.addEventListener("click", ({ target }) => {
      const utterance = utteranceOf(target);
      const selecting = !getSelection().isCollapsed;
      if (utterance && (target.closest("button") || !selecting)) onplay(utterance);
    });
    earlier.addEventListener("click", () => this.#showEarlier());
    latest.addEventListener("click", () => this.#follow());
    addEventListener("scroll", () => this.#scrolled(), { passive: true });
  }

  /** Show `utterance` as still being spoken. */
  live(utterance) {
    const row = utterance.row ?? this.#liveRow(utterance);
    row.stable.textContent = utterance.stable;
    row.unstable.textContent = utterance.unstable;
    if (utterance.start !== undefined) row.time.textContent = clock(utterance.start);
    this.#keepUp();
  }

  finished(utterance) {
    utterance.row?.item.remove();
    delete utterance.row;
    this.#utterances.push(utterance);
    this.#list.insertBefore(this.#row(utterance), this.#list.querySelector(".live"));
    if (this.#following) this.#trim();
    this.#keepUp();
  }

  dropped(utterance) {
    utterance.row?.item.remove();
    delete utterance.row;
  }

  clear() {
    this.#list.replaceChildren();
    this.#rows.clear();
    this.#utterances = [];
    this.#first = 0;
    this.#earlier.hidden = true;
  }

  /** Mark rows whose audio began before `seconds` as no longer playable. */
  forgetAudioBefore(seconds) {
    for (const [item, utterance] of this.#rows) {
      if (utterance.start >= seconds) break;
      if (item.classList.contains("faded")) continue;
      item.classList.add("faded");
      const button = item.querySelector("button");
      button.title = "Its audio is no longer kept: only the last 10 minutes are.";
      button.setAttribute("aria-label", `${button.textContent}, ${button.title}`);
      button.setAttribute("aria-disabled", "true");
    }
  }

  /** Show that `utterance` is heard and which of its words (index, or -1); null for silence. */
  playing(utterance, word = -1) {
    if (utterance === this.#heard.utterance && word === this.#heard.word) return;
    this.#heard = { utterance, word };
    this.#list.querySelector(".playing")?.classList.remove("playing");
    this.#list.querySelector(".heard")?.classList.remove("heard");
    for (const [item, candidate] of this.#rows) {
      if (candidate !== utterance) continue;
      item.classList.add("playing");
      item.querySelector(`[data-word="${word}"]`)?.classList.add("heard");
    }
  }

  #liveRow(utterance) {
    const item = element("li", "live");
    const time = element("span", "time");
    const text = element("p", "text");
    const stable = element("span", "stable");
    const unstable = element("span", "unstable");
    unstable.title = "These words may still change";
    text.append(stable, unstable, element("span", "caret"));
    item.append(time, text);
    this.#list.append(item);
    utterance.row = { item, time, stable, unstable };
    return utterance.row;
  }

  #row(utterance) {
    const { start, end, text, words, language, problem } = utterance;
    const item = element("li", problem === undefined ? "final" : "failed");
    const button = element("button", "time");
    button.type = "button";
    button.setAttribute("aria-label", `Hear ${clock(start)} to ${clock(end)}`);
    const until = element("span", "until");
    until.textContent = `–${clock(end)}`;
    button.append(clock(start), until);
    const paragraph = element("p", "text");
    if (language) paragraph.lang = language;
    if (problem === undefined) paragraph.append(...shaded(text, words));
    else paragraph.textContent = `These words could not be transcribed. ${problem}`;
    item.append(button, paragraph);
    this.#rows.set(item, utterance);
    return item;
  }

  #showEarlier() {
    const from = Math.max(0, this.#first - ROWS);
    const shown = [...this.#rows];
    const height = document.documentElement.scrollHeight;
    this.#rows.clear();
    const items = this.#utterances.slice(from, this.#first).map((utterance) => this.#row(utterance));
    for (const [item, utterance] of shown) this.#rows.set(item, utterance);
    this.#list.prepend(...items);
    this.#first = from;
    this.#earlier.hidden = from === 0;
    this.#following = false;
    scrollBy(0, document.documentElement.scrollHeight - height);
    items.at(-1)?.querySelector("button").focus({ preventScroll: true });
  }

  #trim() {
    for (const item of this.#rows.keys()) {
      if (this.#rows.size <= ROWS) break;
      item.remove();
      this.#rows.delete(item);
      this.#first += 1;
    }
    this.#earlier.hidden = this.#first === 0;
  }

  #scrolled() {
    const { scrollHeight, clientHeight, scrollTop } = document.documentElement;
    this.#following = scrollHeight - clientHeight - scrollTop < NEAR_BOTTOM;
    this.#latest.hidden = this.#following;
  }

  #follow() {
    this.#following = true;
    this.#trim();
    this.#keepUp();
    this.#latest.hidden = true;
  }

  #keepUp() {
    if (this.#following) scrollTo(0, document.documentElement.scrollHeight);
    else this.#latest.hidden = false;
  }
}

/** The text with each word in an element that shows how sure the model was. */
function shaded(text, words) {
  const nodes = [];
  let cursor = 0;
  place(text, words).forEach(({ from, to }, index) => {
    if (to === from) return;
    if (from > cursor) nodes.push(text.slice(cursor, from));
    const word = element("span", `word ${doubt(words[index].confidence)}`);
    word.textContent = text.slice(from, to);
    word.dataset.word = index;
    word.title = `${Math.round(words[index].confidence * 100)} % sure · ${clock(words[index].start, 2)}`;
    nodes.push(word);
    cursor = to;
  });
  if (cursor < text.length) nodes.push(text.slice(cursor));
  return nodes;
}

function doubt(confidence) {
  if (confidence >= 0.7) return "sure";
  if (confidence >= 0.5) return "doubt-1";
  return confidence >= 0.3 ? "doubt-2" : "doubt-3";
}

function element(name, className) {
  const node = document.createElement(name);
  node.className = className;
  return node;
}

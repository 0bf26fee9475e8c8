// A conversation on the page: what both said in its order, how far an answer was heard, and what its wait was made of.

import { place } from "./formats.js";
import { TurnTiming } from "./talk-timing.js";

const ROWS = 200;
const NEAR_BOTTOM = 160;
const ECHO = "speechlane-echo";

export class TalkView {
  #list;
  #who;
  #summary;
  #rows = new Map(); // of the person's utterances, by item id
  #answers = new Map(); // {row, text, words, heard, timing, cut}, by item id
  #totals = [];
  #name = "Assistant";

  constructor({ list, who, summary }) {
    this.#list = list;
    this.#who = who;
    this.#summary = summary;
  }

  get empty() {
    return this.#list.childElementCount === 0;
  }

  begin(model) {
    const echo = model === ECHO;
    this.#name = echo ? "Echo" : "Assistant";
    this.#who.textContent = echo
      ? "You talk with Echo, the embedded demonstration: it repeats what you say and tells the time. It is no language model."
      : `You talk with ${model}.`;
    this.#who.hidden = false;
    if (!this.empty) this.#row("break").text.textContent = "A new conversation";
  }

  /** What the transcript tells of the person. */
  said(kind, utterance) {
    const { id, stable = "", unstable = "", text, problem } = utterance;
    if (kind === "dropped") {
      this.#rows.get(id)?.item.remove();
      this.#rows.delete(id);
      return;
    }
    const row = this.#rows.get(id) ?? this.#row("person", "You");
    this.#rows.set(id, row);
    row.item.classList.toggle("live", kind === "live");
    if (kind === "live") row.text.replaceChildren(span("stable", stable.trimStart()), span("unstable", unstable), span("caret", ""));
    else row.text.textContent = kind === "failed" ? `These words could not be understood. ${problem}` : text;
    if (kind !== "live") this.#rows.delete(id);
    this.#keepUp();
  }

  answer(id) {
    this.#answers.set(id, { row: this.#row("assistant", this.#name), text: "", words: [], heard: 0, timing: null, cut: false });
    for (const old of [...this.#answers.keys()].slice(0, -ROWS)) this.#answers.delete(old);
  }

  words(id, delta, words = null) {
    const answer = this.#answers.get(id);
    if (!answer || answer.cut) return;
    answer.text += delta;
    answer.words.push(...(words ?? []));
    if (words === null) answer.heard = Infinity; // it is not spoken
    this.#draw(answer);
    this.#keepUp();
  }

  heard(id, seconds) {
    const answer = this.#answers.get(id);
    if (!answer || answer.cut) return;
    const before = count(answer);
    answer.heard = seconds;
    if (count(answer) !== before) this.#draw(answer);
  }

  held(id, held) {
    this.#answers.get(id)?.row.item.classList.toggle("held", held);
  }

  /** It was thrown away here; the server will say how much of it counts as heard. */
  cut(id) {
    const answer = this.#answers.get(id);
    if (!answer) return;
    answer.cut = true;
    const at = border(answer);
    this.#ending(answer, answer.text.slice(0, at), answer.text.slice(at));
  }

  truncated(id, spoken, unspoken) {
    const answer = this.#answers.get(id);
    if (!answer) return;
    answer.cut = true;
    this.#ending(answer, spoken ?? answer.text, unspoken ?? "");
  }

  failed(id, why) {
    const row = this.#answers.get(id)?.row ?? this.#row("assistant", this.#name);
    row.item.classList.add("failed");
    row.text.append(span("why", `The answer failed. ${why}`));
    this.#keepUp();
  }

  /** The parts of the wait for an answer, in seconds. */
  timing(id, parts) {
    const answer = this.#answers.get(id);
    if (!answer) return;
    answer.timing = new TurnTiming(parts);
    answer.row.item.append(answer.timing.element);
    this.#keepUp();
  }

  /** Its first audible sample was heard so many seconds after its first sound came. */
  audible(id, seconds) {
    const timing = this.#answers.get(id)?.timing;
    if (!timing) return;
    timing.played(seconds);
    this.#totals.push(timing.total);
    const sorted = this.#totals.toSorted((a, b) => a - b);
    const middle = sorted[sorted.length >> 1];
    const turns = sorted.length === 1 ? "1 answer" : `${sorted.length} answers`;
    this.#summary.textContent = `Median wait ${middle.toFixed(2)} s over ${turns}`;
    this.#summary.hidden = false;
  }

  end() {
    for (const { row } of this.#answers.values()) row.item.classList.remove("held");
  }

  #draw(answer) {
    const at = border(answer);
    const [heard, rest] = [answer.text.slice(0, at), answer.text.slice(at)];
    answer.row.text.replaceChildren(span("heard-text", heard), span("ahead", rest));
  }

  #ending(answer, spoken, unspoken) {
    answer.row.item.classList.remove("held");
    answer.row.item.classList.add("cut");
    answer.row.text.replaceChildren(span("heard-text", `${spoken.trimEnd()} `), span("unheard", unspoken.trim()));
  }

  #row(className, name = "") {
    const item = document.createElement("li");
    item.className = className;
    const text = document.createElement("p");
    text.className = "text";
    const label = span("name", name);
    item.append(label, text);
    this.#list.append(item);
    while (this.#list.childElementCount > ROWS) this.#list.firstElementChild.remove();
    this.#keepUp();
    return { item, text };
  }

  #keepUp() {
    const { scrollHeight, clientHeight, scrollTop } = document.documentElement;
    if (scrollHeight - clientHeight - scrollTop < NEAR_BOTTOM) scrollTo(0, scrollHeight);
  }
}

/** Words of an answer that were begun by now. */
function count({ words, heard }) {
  return words.findLastIndex(({ start }) => start <= heard) + 1;
}

/** Characters of an answer that those words reach to. */
function border(answer) {
  if (answer.heard === Infinity) return answer.text.length;
  const words = count(answer);
  if (words > 0 && words === answer.words.length) return answer.text.length;
  return words === 0 ? 0 : place(answer.text, answer.words)[words - 1].to;
}

function span(className, text) {
  const node = document.createElement("span");
  node.className = className;
  node.textContent = text;
  return node;
}

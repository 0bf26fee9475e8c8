// Search for what was said in finished recordings; each hit leads to the second at which it was said.

import { clock } from "./formats.js";
import { element } from "./jobs-words.js";

const SEARCH = "/v1/batch/search";
const TYPING_MILLISECONDS = 300;
const SHORTEST = 2;
const LIMIT = 20;
const NEAR = 0.2; // hits without any of the words, and farther than this from the meaning, are left out
const UNAVAILABLE = [403, 404, 405, 501];

export class SaidSearch {
  #form;
  #input;
  #found;
  #line;
  #api;
  #on;
  #timer = 0;
  #asking = null;
  #shown = "";
  #served = true;

  /** on.searching(boolean): whether hits are shown in place of the recordings; on.problem(error). */
  constructor({ form, found, line, api, on }) {
    this.#form = form;
    this.#input = form.querySelector("input");
    this.#found = found;
    this.#line = line;
    this.#api = api;
    this.#on = on;
    this.#input.addEventListener("input", () => this.#soon());
    this.#input.addEventListener("keydown", ({ key }) => key === "Escape" && this.clear());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#ask();
    });
  }

  /** There are transcripts to be searched, or none. */
  offer(any) {
    this.#form.hidden = !any || !this.#served;
    if (this.#form.hidden && this.#shown) this.clear();
  }

  clear() {
    this.#input.value = "";
    this.#show("");
  }

  /** With the key as it is now. */
  restart() {
    this.#served = true;
    this.clear();
  }

  #soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), TYPING_MILLISECONDS);
  }

  async #ask() {
    clearTimeout(this.#timer);
    const query = this.#input.value.trim();
    if (query === this.#shown) return;
    this.#asking?.abort();
    if (query.length < SHORTEST) return this.#show("");
    const control = new AbortController();
    this.#asking = control;
    this.#form.setAttribute("aria-busy", "true");
    try {
      const { data } = await this.#api.search(SEARCH, { query, limit: LIMIT }, control.signal);
      if (control.signal.aborted) return;
      this.#show(query, data.filter((hit) => hit.words !== null || hit.similarity === null || hit.similarity >= NEAR));
    } catch (error) {
      if (control.signal.aborted) return;
      if (UNAVAILABLE.includes(error.status)) {
        this.#served = false;
        this.offer(false);
      } else {
        this.#show("");
        this.#on.problem(error);
      }
    } finally {
      if (this.#asking === control) this.#form.removeAttribute("aria-busy");
    }
  }

  #show(query, hits = []) {
    if (!query) this.#asking?.abort();
    this.#shown = query;
    this.#found.replaceChildren(...hits.map((hit) => row(hit, query)));
    this.#found.hidden = !query;
    const count = hits.length === 1 ? "1 place" : `${hits.length} places`;
    this.#line.textContent = !query ? "" : hits.length > 0 ? `${count}, the best first` : "Nobody says anything like that.";
    this.#line.hidden = !query;
    this.#on.searching(Boolean(query));
  }
}

/** The address of a second in a job. */
export function momentOf(job, seconds) {
  return `#${encodeURIComponent(job)}@${seconds.toFixed(2)}`;
}

/** What an address names: {id, seconds}, null for the beginning. */
export function namedBy(hash) {
  const [, id, seconds] = /^#?(.*?)(?:@(\d+(?:\.\d+)?))?$/.exec(hash);
  return { id: decodeURIComponent(id), seconds: seconds === undefined ? null : Number(seconds) };
}

function row({ job, file, start, text }, query) {
  const item = element("li", "row hit");
  const link = element("a", "name");
  link.href = momentOf(job, start ?? 0);
  link.append(element("span", "second", clock(start ?? 0, 0)), element("span", "recording", file || job));
  const said = element("p", "said");
  said.append(...marked(text, query));
  item.append(link, said);
  return item;
}

/** The text with the words of the query marked. */
function marked(text, query) {
  const words = new Set(query.toLocaleLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);
  return text.split(/([\p{L}\p{N}]+)/u).map((part) => (words.has(part.toLocaleLowerCase()) ? element("mark", "", part) : part));
}

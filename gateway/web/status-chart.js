// A small chart of the last minutes, to be read by pointer, by keys and by screen readers.

import { clock } from "./status-words.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 600;
const HEIGHT = 100;
export const SECONDS = 600;

export class Chart {
  #root;
  #name;
  #series;
  #format;
  #scale;
  #paths = {};
  #at = [];
  #columns = {};
  #position = null; // where a moment lies, and the right edge
  #chosen = null; // which moment is read, counted from the newest

  /**
   * `series`: [{name, key, kind: "area" | "line" | "second" | "bars"}], the first is the one that is summed up;
   * `format(value)` in words; `axis` the same for the end of the scale; `least`: what the scale reaches at least; `most`: what it reaches, always;
   * `limit`: where a line is drawn.
   */
  constructor(place, { name, series, format, axis = format, least = 0, most, limit }) {
    this.#name = name;
    this.#series = series;
    this.#format = format;
    this.#scale = { axis, least, most, limit };
    this.#root = this.#build();
    place.replaceChildren(this.#root);
  }

  /** `at`: moments in Unix seconds, `columns`: a value or null for each of them by key, `now`: the right edge. */
  draw(at, columns, now) {
    this.#at = at;
    this.#columns = columns;
    const { axis, least, most: fixed, limit } = this.#scale;
    const values = this.#series.flatMap(({ key }) => columns[key] ?? []).filter((value) => value !== null);
    const most = fixed ?? round(Math.max(least, ...values));
    const x = (moment) => Math.max(0, WIDTH - ((now - moment) / SECONDS) * WIDTH);
    const y = (value) => HEIGHT - (Math.min(value, most) / most) * HEIGHT;
    for (const { key, kind } of this.#series) {
      const runs = kind === "bars" ? [] : unbroken(at, columns[key] ?? []);
      if (kind === "area") this.#paths[key].area.setAttribute("d", runs.map((run) => area(run, x, y)).join(""));
      const line = kind === "bars" ? bars(at, columns[key] ?? [], x, y) : runs.map((run) => path(run, x, y)).join("");
      this.#paths[key].line.setAttribute("d", line);
    }
    if (limit !== undefined) this.#paths.limit.setAttribute("d", `M0 ${y(limit)}H${WIDTH}`);
    this.#part(".most").textContent = axis(most);
    this.#part(".plot").setAttribute("aria-label", `${this.#name}, ${this.#summary()}`);
    this.#part(".plot").setAttribute("aria-valuemax", Math.max(0, at.length - 1));
    this.#position = { x, now };
    this.#read();
  }

  #summary() {
    const [{ key }] = this.#series;
    const seen = (this.#columns[key] ?? []).filter((value) => value !== null);
    if (seen.length === 0) return "last 10 minutes: nothing";
    return `last 10 minutes: from ${this.#format(Math.min(...seen))} to ${this.#format(Math.max(...seen))}`;
  }

  #build() {
    const figure = document.createElement("figure");
    figure.className = "chart";
    const plot = document.createElement("div");
    plot.className = "plot";
    plot.tabIndex = 0;
    plot.setAttribute("role", "slider");
    plot.setAttribute("aria-valuemin", 0);
    plot.setAttribute("aria-valuenow", 0);
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    const add = (name) => {
      const made = document.createElementNS(SVG, "path");
      made.setAttribute("class", name);
      svg.append(made);
      return made;
    };
    if (this.#scale.limit !== undefined) this.#paths.limit = add("limit");
    for (const { key, kind } of this.#series) {
      this.#paths[key] = kind === "area" ? { area: add("area"), line: add("line") } : { line: add(kind) };
    }
    const most = document.createElement("span");
    most.className = "most";
    most.setAttribute("aria-hidden", "true");
    const cursor = document.createElement("span");
    cursor.className = "cursor";
    cursor.hidden = true;
    const tip = document.createElement("output");
    tip.setAttribute("aria-live", "off");
    tip.hidden = true;
    plot.append(svg, most, cursor, tip);
    const caption = document.createElement("figcaption");
    caption.setAttribute("aria-hidden", "true");
    for (const text of ["10 min ago", "now"]) {
      const end = document.createElement("span");
      end.textContent = text;
      caption.append(end);
    }
    figure.append(plot, caption);
    plot.addEventListener("pointermove", (event) => this.#point(event));
    plot.addEventListener("pointerleave", () => this.#choose(null));
    plot.addEventListener("blur", () => this.#choose(null));
    plot.addEventListener("keydown", (event) => this.#key(event));
    return figure;
  }

  #point({ clientX }) {
    if (this.#at.length === 0) return;
    const { left, width } = this.#part(".plot").getBoundingClientRect();
    const wanted = this.#position.now - SECONDS * (1 - (clientX - left) / width);
    let nearest = 0;
    for (const [n, at] of this.#at.entries()) {
      if (Math.abs(at - wanted) < Math.abs(this.#at[nearest] - wanted)) nearest = n;
    }
    this.#choose(this.#at.length - 1 - nearest);
  }

  #key(event) {
    const oldest = this.#at.length - 1;
    const moves = { ArrowLeft: 1, ArrowDown: 1, ArrowRight: -1, ArrowUp: -1, PageDown: 12, PageUp: -12, Home: oldest, End: -oldest };
    if (event.key === "Escape") this.#choose(null);
    if (!(event.key in moves) || oldest < 0) return;
    event.preventDefault();
    this.#choose(Math.min(oldest, Math.max(0, (this.#chosen ?? 0) + moves[event.key])));
  }

  #choose(chosen) {
    this.#chosen = chosen;
    this.#read();
  }

  /** Show the values of the moment that is chosen, if one is. */
  #read() {
    const plot = this.#part(".plot");
    const n = this.#at.length - 1 - (this.#chosen ?? 0);
    const shown = this.#chosen !== null && n >= 0;
    this.#part(".cursor").hidden = !shown;
    this.#part("output").hidden = !shown;
    if (n < 0) return;
    const said = this.#series.map(({ name, key }) => `${name} ${this.#format(this.#columns[key]?.[n] ?? null)}`);
    const text = `${clock(this.#at[n])}  ${said.join(", ")}`;
    plot.setAttribute("aria-valuenow", n);
    plot.setAttribute("aria-valuetext", text);
    if (!shown) return;
    const share = Math.min(1, Math.max(0, this.#position.x(this.#at[n]) / WIDTH));
    this.#part("output").textContent = text;
    this.#part(".cursor").style.insetInlineStart = `${share * 100}%`;
    // The tip stays inside its card.
    const half = this.#part("output").offsetWidth / 2;
    const width = plot.clientWidth;
    this.#part("output").style.insetInlineStart = `${Math.min(Math.max(share * width, half), Math.max(half, width - half))}px`;
  }

  #part(selector) {
    return this.#root.querySelector(selector);
  }
}

/** The next of 1, 2, 5, 10, 20 … */
function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((step) => step * power >= value * 0.999) * power;
}

/** Runs of values with nothing missing between them, as [moment, value]. */
function unbroken(at, values) {
  const runs = [[]];
  for (const [n, value] of values.entries()) {
    if (value === null) runs.push([]);
    else runs.at(-1).push([at[n], value]);
  }
  return runs.filter((run) => run.length > 0);
}

function path(run, x, y) {
  // A lone point is a dot.
  if (run.length === 1) return `M${x(run[0][0])} ${y(run[0][1])}h0.01`;
  return `M${run.map(([at, value]) => `${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("L")}`;
}

function area(run, x, y) {
  return `M${x(run[0][0])} ${HEIGHT}L${path(run, x, y).slice(1)}L${x(run.at(-1)[0])} ${HEIGHT}Z`;
}

function bars(at, values, x, y) {
  return values.map((value, n) => (value > 0 ? `M${x(at[n]).toFixed(1)} ${HEIGHT}V${y(value).toFixed(1)}` : "")).join("");
}

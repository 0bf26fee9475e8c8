// The whole recording as a strip: how much is said where, what is missing, what was repaired, what still looks wrong,
// and where the player is. It is a slider too.

import { clock } from "./formats.js";
import { wordAt } from "./jobs-transcript.js";

const BAR = 3;
const GAP = 2;
const LANE = 13; // pixels above the bars, for the marks
const STEP_SECONDS = 5;
const LEAP_SECONDS = 30;
const TIP_WORDS = 7;
const COLOURS = ["--meter-quiet", "--accent", "--stop", "--warn", "--ink", "--soft", "--line", "--raised"];

export class Strip {
  #canvas;
  #tip;
  #onseek;
  #transcript = null;
  #seconds = 0;
  #at = 0;
  #painted = -1;
  #bars = null;
  #pointer = null;
  #drawing = 0;
  #colours = {};

  /** onseek(seconds, reveal): the person wants to be there; `reveal`: and to see the transcript there. */
  constructor(canvas, tip, onseek) {
    this.#canvas = canvas;
    this.#tip = tip;
    this.#onseek = onseek;
    new ResizeObserver(() => this.#remake()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#remake());
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.#seek(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      this.#hover(event.offsetX);
      if (event.buttons & 1) this.#seek(event);
    });
    canvas.addEventListener("pointerleave", () => this.#hover(null));
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  /** `seconds` of recording; the transcript may come later or never (null). */
  show(transcript, seconds) {
    this.#transcript = transcript;
    this.#seconds = seconds;
    this.#canvas.setAttribute("aria-valuemax", String(Math.round(seconds)));
    this.#remake();
  }

  at(seconds) {
    // In a long recording the line moves less than a pixel in many frames.
    const moved = (Math.abs(seconds - this.#painted) / this.#seconds) * this.#canvas.clientWidth * devicePixelRatio;
    this.#at = seconds;
    const rounded = String(Math.floor(seconds));
    if (this.#canvas.getAttribute("aria-valuenow") !== rounded) {
      this.#canvas.setAttribute("aria-valuenow", rounded);
      this.#canvas.setAttribute("aria-valuetext", `${clock(seconds, 0)} of ${clock(this.#seconds, 0)}`);
    }
    if (!(moved < 0.5)) this.#draw();
  }

  /** The start of the next mark (1) or the one before (-1), or null. */
  mark(direction, kind = null) {
    const slack = 0.05;
    const starts = this.#marks().filter((mark) => !kind || mark.kind === kind);
    if (direction > 0) return starts.find(({ start }) => start > this.#at + slack)?.start ?? starts[0]?.start ?? null;
    return starts.findLast(({ start }) => start < this.#at - 1)?.start ?? null;
  }

  #marks() {
    const { repairs = [], holes = [], suspicions = [] } = this.#transcript ?? {};
    return [
      ...holes.map((hole) => ({ kind: "hole", ...hole })),
      ...repairs.map((repair) => ({ ...repair, kind: "repair" })),
      ...suspicions.map((suspicion) => ({ ...suspicion, kind: "suspicion" })),
    ].sort((one, other) => one.start - other.start);
  }

  #key(event) {
    const moves = { ArrowLeft: -STEP_SECONDS, ArrowRight: STEP_SECONDS, ArrowDown: -STEP_SECONDS, ArrowUp: STEP_SECONDS };
    const leaps = { PageDown: -LEAP_SECONDS, PageUp: LEAP_SECONDS, Home: -Infinity, End: Infinity };
    const by = moves[event.key] ?? leaps[event.key];
    if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation(); // it is not a scroll of the page
    this.#onseek(Math.min(this.#seconds, Math.max(0, this.#at + by)), true);
  }

  // A press near a mark means the mark.
  #seek({ offsetX, offsetY, type }) {
    const seconds = this.#time(offsetX);
    const reach = (this.#seconds / this.#canvas.clientWidth) * 7;
    const near = this.#marks().filter(({ start, end }) => seconds > start - reach && seconds < end + reach);
    const mark = type === "pointerdown" && offsetY < LANE + 4 ? near[0] : undefined;
    this.#onseek(mark?.start ?? seconds, true);
  }

  #time(x) {
    return (Math.min(Math.max(0, x), this.#canvas.clientWidth) / this.#canvas.clientWidth) * this.#seconds;
  }

  #hover(x) {
    this.#pointer = x;
    this.#tip.hidden = x === null || this.#seconds === 0;
    if (!this.#tip.hidden) {
      const seconds = this.#time(x);
      this.#tip.textContent = [clock(seconds, 0), this.#around(seconds)].filter(Boolean).join("  ");
      const half = this.#tip.offsetWidth / 2;
      this.#tip.style.insetInlineStart = `${Math.min(Math.max(half, x), this.#canvas.clientWidth - half)}px`;
    }
    this.#draw();
  }

  #around(seconds) {
    const hole = this.#transcript?.holes.find(({ start, end }) => seconds >= start && seconds < end);
    if (hole) return "no transcript";
    const { words = [], items } = this.#transcript ?? {};
    const first = Math.max(0, wordAt(words, seconds));
    if (words.length === 0 || Math.abs(words[first].start - seconds) > 10) return "";
    return words.slice(first, first + TIP_WORDS).map(({ item, index }) => items[item].words[index].word).join(" ");
  }

  #remake() {
    const style = getComputedStyle(this.#canvas);
    this.#colours = Object.fromEntries(COLOURS.map((name) => [name.slice(2), style.getPropertyValue(name).trim()]));
    this.#bars = null;
    this.#draw();
  }

  /** Letters a second under each bar: what speech looks like from afar. In [0, 1]. */
  #measure(count) {
    const letters = new Float64Array(count);
    const { words = [], items } = this.#transcript ?? {};
    const width = this.#seconds / count;
    for (const { start, end, item, index } of words) {
      const first = Math.min(count - 1, Math.floor(start / width));
      const last = Math.min(count - 1, Math.floor(Math.max(start, end - 1e-6) / width));
      const share = items[item].words[index].word.length / (last - first + 1);
      for (let bar = first; bar <= last; bar += 1) letters[bar] += share;
    }
    const sorted = letters.filter((value) => value > 0).sort();
    const full = sorted[Math.floor(sorted.length * 0.97)] ?? 1;
    return letters.map((value) => Math.min(1, value / full));
  }

  #draw() {
    if (!this.#drawing) this.#drawing = requestAnimationFrame(() => this.#paint());
  }

  #paint() {
    this.#drawing = 0;
    this.#painted = this.#at;
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    if (width === 0 || this.#seconds === 0) return;
    const scale = devicePixelRatio;
    if (this.#canvas.width !== Math.round(width * scale)) this.#canvas.width = Math.round(width * scale);
    if (this.#canvas.height !== Math.round(height * scale)) this.#canvas.height = Math.round(height * scale);
    const pen = this.#canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    const x = (seconds) => (seconds / this.#seconds) * width;
    const holes = this.#transcript?.holes ?? [];
    for (const { start, end } of holes) this.#hole(pen, x(start), Math.max(4, x(end) - x(start)), height);
    this.#speech(pen, width, height, x(this.#at));
    for (const mark of this.#marks()) this.#mark(pen, mark, Math.min(width - 6, Math.max(6, x((mark.start + mark.end) / 2))));
    if (this.#pointer !== null) line(pen, this.#colours.soft, this.#pointer, LANE, height, 1);
    line(pen, this.#colours.ink, Math.min(width - 1, Math.max(1, x(this.#at))), LANE - 3, height, 2);
  }

  #speech(pen, width, height, played) {
    const count = Math.max(1, Math.floor(width / (BAR + GAP)));
    if (this.#bars?.length !== count) this.#bars = this.#measure(count);
    const room = height - LANE;
    const middle = LANE + room / 2;
    for (const past of [true, false]) {
      pen.fillStyle = past ? this.#colours.accent : this.#colours["meter-quiet"];
      pen.beginPath();
      for (let bar = 0; bar < count; bar += 1) {
        const left = (bar * width) / count;
        if (left + BAR / 2 <= played !== past) continue;
        const tall = this.#bars[bar] > 0 ? BAR + this.#bars[bar] * (room - BAR) : 2;
        pen.roundRect(left, middle - tall / 2, BAR, tall, Math.min(tall, BAR) / 2);
      }
      pen.fill();
    }
  }

  #hole(pen, left, wide, height) {
    pen.save();
    pen.beginPath();
    pen.roundRect(left, LANE, wide, height - LANE, 3);
    pen.clip();
    pen.globalAlpha = 0.16;
    pen.fillStyle = this.#colours.stop;
    pen.fillRect(left, LANE, wide, height);
    pen.globalAlpha = 0.75;
    pen.strokeStyle = this.#colours.stop;
    pen.lineWidth = 1.25;
    pen.beginPath();
    for (let at = left - height; at < left + wide; at += 6) {
      pen.moveTo(at, height);
      pen.lineTo(at + height, 0);
    }
    pen.stroke();
    pen.restore();
  }

  #mark(pen, { kind, kept }, at) {
    const y = 5;
    pen.beginPath();
    if (kind === "repair") {
      pen.arc(at, y, 3.6, 0, 2 * Math.PI);
      pen.lineWidth = 1.5;
      pen.strokeStyle = this.#colours.accent;
      pen.fillStyle = kept ? this.#colours.accent : this.#colours.raised;
      pen.fill();
      pen.stroke();
    } else {
      const half = kind === "hole" ? 4 : 4.6;
      pen.fillStyle = kind === "hole" ? this.#colours.stop : this.#colours.warn;
      if (kind === "hole") pen.roundRect(at - half, y - half, 2 * half, 2 * half, 2);
      else {
        pen.moveTo(at, y - half);
        pen.lineTo(at + half, y + half * 0.8);
        pen.lineTo(at - half, y + half * 0.8);
      }
      pen.fill();
    }
  }
}

function line(pen, colour, x, top, bottom, wide) {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.roundRect(x - wide / 2, top, wide, bottom - top, wide / 2);
  pen.fill();
}

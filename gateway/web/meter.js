// The level of the last seconds as bars, taller and coloured where the server hears a voice. Only a picture: the same
// is said in words beside it.

const BAR = 3;
const GAP = 2;
const FLOOR_DECIBELS = -54;

export class Meter {
  #canvas;
  #levels = [];
  #calm = matchMedia("(prefers-reduced-motion: reduce)");
  speech = false;

  constructor(canvas) {
    this.#canvas = canvas;
    new ResizeObserver(() => this.#draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
  }

  /** One frame's peak in [0, 1]. */
  push(peak) {
    const decibels = 20 * Math.log10(Math.max(peak, 1e-6));
    this.#levels.push({ height: Math.max(0, 1 - decibels / FLOOR_DECIBELS), speech: this.speech });
    if (this.#levels.length > 400) this.#levels.shift();
    this.#draw();
  }

  reset() {
    this.#levels = [];
    this.#draw();
  }

  #draw() {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const scale = devicePixelRatio;
    if (this.#canvas.width !== Math.round(width * scale)) this.#canvas.width = Math.round(width * scale);
    if (this.#canvas.height !== Math.round(height * scale)) this.#canvas.height = Math.round(height * scale);
    const pen = this.#canvas.getContext("2d");
    const style = getComputedStyle(this.#canvas);
    const quiet = style.getPropertyValue("--meter-quiet");
    const voice = style.getPropertyValue("--meter-voice");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    if (this.#calm.matches) {
      const { height: level, speech } = this.#levels.at(-1) ?? { height: 0, speech: false };
      bar(pen, quiet, 0, height / 2 - 3, width, 6);
      if (level > 0) bar(pen, speech ? voice : style.color, 0, height / 2 - 3, width * level, 6);
      return;
    }
    const count = Math.floor(width / (BAR + GAP));
    for (let i = 0; i < count; i += 1) {
      const level = this.#levels[this.#levels.length - count + i];
      const tall = Math.max(BAR, (level?.height ?? 0) * height);
      bar(pen, level?.speech ? voice : quiet, i * (BAR + GAP), (height - tall) / 2, BAR, tall);
    }
  }
}

function bar(pen, colour, x, y, width, height) {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.roundRect(x, y, width, height, Math.min(width, height) / 2);
  pen.fill();
}

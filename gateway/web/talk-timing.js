// The wait for one answer as a bar: how long each part of it took, from the last word of the question to the first
// sound of the answer at the listener's ear.

const PARTS = [
  ["vad", "pause", "Silence that was waited for, to know that you had finished"],
  ["final", "transcript", "From your last sound to its transcript"],
  ["language_model", "language model", "From the transcript to the first words of the answer"],
  ["speech", "voice", "From those words to their first sound"],
  ["playing", "player", "From the arrival of the sound to your ear"],
];
const LONGEST_SECONDS = 3; // as wide as the bar gets

export class TurnTiming {
  element;
  #parts;
  #bar;
  #legend;
  #total;

  /** `parts`: seconds by name; `playing` is added when it is known. */
  constructor(parts) {
    this.#parts = { ...parts, playing: 0 };
    this.element = document.createElement("div");
    this.element.className = "timing";
    this.#total = document.createElement("strong");
    this.#total.title = "From your last word to the first sound of the answer";
    this.#bar = document.createElement("span");
    this.#bar.className = "parts";
    this.#bar.ariaHidden = "true";
    this.#legend = document.createElement("span");
    this.#legend.className = "legend";
    this.element.append(this.#total, this.#bar, this.#legend);
    this.#draw();
  }

  get total() {
    return PARTS.reduce((sum, [name]) => sum + this.#parts[name], 0);
  }

  played(seconds) {
    this.#parts.playing = seconds;
    this.#draw();
  }

  #draw() {
    this.#total.textContent = `${this.total.toFixed(2)} s`;
    this.#bar.style.inlineSize = `${Math.min(1, this.total / LONGEST_SECONDS) * 100}%`;
    const known = PARTS.filter(([name]) => this.#parts[name] > 0);
    this.#bar.replaceChildren(
      ...known.map(([name, , title]) => {
        const part = document.createElement("span");
        part.dataset.part = name;
        part.style.flexGrow = 100 * this.#parts[name]; // less than 1 in all would leave room
        part.title = `${title}: ${this.#parts[name].toFixed(2)} s`;
        return part;
      }),
    );
    this.#legend.replaceChildren(
      ...known.map(([name, label, title]) => {
        const entry = document.createElement("span");
        entry.dataset.part = name;
        entry.title = title;
        entry.textContent = `${label} ${this.#parts[name].toFixed(2)}`;
        return entry;
      }),
    );
  }
}

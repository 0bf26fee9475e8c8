// What is chosen beside the text: the voice, its speed, and where texts are cut.

import { voices } from "./server.js";

const PLACE = "speechlane.voice";

export class VoiceOptions {
  loaded = false;
  #voice;
  #speed;
  #split;
  #told;
  #kept;

  /** The fields of the page; onchange() when the person has chosen. */
  constructor({ voice, speed, split, told }, onchange) {
    [this.#voice, this.#speed, this.#split, this.#told] = [voice, speed, split, told];
    this.#kept = stored();
    speed.value = Math.log2(this.#kept.speed ?? 1);
    split.value = this.#kept.split ?? "sentence";
    speed.addEventListener("input", () => this.#show());
    for (const field of [voice, speed, split]) {
      field.addEventListener("change", () => {
        localStorage.setItem(PLACE, JSON.stringify(this.create));
        onchange();
      });
    }
    this.#show();
  }

  /** As fields of `create`: {voice, speed, split}. */
  get create() {
    return { voice: this.#voice.value, speed: this.#factor, split: this.#split.value };
  }

  /** Ask for the voices; how many there are. Rejects with {status}. */
  async load(key) {
    const found = await voices(key);
    const chosen = this.#voice.value || this.#kept.voice;
    const options = found.map(({ id, description }) => {
      const option = new Option(id, id, false, id === chosen);
      option.title = description ?? "";
      return option;
    });
    this.#voice.replaceChildren(...options);
    this.loaded = true;
    return found.length;
  }

  get #factor() {
    return Math.round(100 * 2 ** this.#speed.valueAsNumber) / 100;
  }

  #show() {
    this.#told.textContent = `${this.#factor.toFixed(2)}×`;
    this.#speed.ariaValueText = `${this.#factor} times`;
  }
}

function stored() {
  try {
    return JSON.parse(localStorage.getItem(PLACE)) ?? {};
  } catch {
    return {};
  }
}

// The settings dialog: what a recording is transcribed with, shading, and the API key.

import { models } from "./server.js";
import { languageOptions } from "./settings.js";

const STORED = "speechlane.jobs";
const STORED_KEY = "speechlane.key";

export class Options {
  #dialog;
  #form;
  #models = [];
  #onchange;

  /** onchange(name): the setting `name` was changed by the person. */
  constructor(dialog, onchange) {
    this.#dialog = dialog;
    this.#form = dialog.querySelector("form");
    this.#onchange = onchange;
    this.#restore();
    // A key counts when it is complete, not at every letter.
    this.#form.key.addEventListener("change", ({ target }) => this.#changed(target));
    this.#form.addEventListener("input", ({ target }) => {
      if (target !== this.#form.key) this.#changed(target);
    });
  }

  get key() {
    return this.#form.key.value.trim();
  }

  get shading() {
    return this.#form.shading.checked;
  }

  /** Whether the server's models are known. */
  get loaded() {
    return this.#models.length > 0;
  }

  /** The options of a new job, as the server wants them. */
  get fields() {
    const { model, language, channels, priority, repair } = this.#form;
    return {
      ...(model.value ? { model: model.value } : {}),
      ...(language.value ? { language: language.value } : {}),
      channels: channels.value,
      priority: priority.value,
      repair: repair.checked,
    };
  }

  /** The same in a few words, "" while the models are not known. */
  get summary() {
    if (!this.loaded) return "";
    const { model, language, channels, priority, repair } = this.#form;
    const language_ = language.selectedOptions[0]?.text;
    return [
      model.value,
      language.value ? language_ : "any language",
      channels.value === "each" && "each channel",
      priority.value !== "normal" && `${priority.value} priority`,
      !repair.checked && "no repair",
    ]
      .filter(Boolean)
      .join(" · ");
  }

  /** Open the dialog; `action` "key" puts the cursor where the key goes. */
  show(action) {
    this.#dialog.showModal();
    if (action === "key") this.#form.key.focus();
  }

  get open() {
    return this.#dialog.open;
  }

  /** Ask the server for its models. Rejects with {status} when it refuses. */
  async load() {
    this.#models = await models(this.key);
    const chosen = this.#form.model.value || stored().model;
    this.#form.model.replaceChildren(...this.#models.map(({ id }) => new Option(id, id, false, id === chosen)));
    this.#fillLanguages(this.#form.language.value || stored().language || "");
  }

  #changed(target) {
    const { model, language, channels, priority, repair, key } = this.#form;
    if (target === model) this.#fillLanguages(language.value);
    const kept = { model: model.value, language: language.value, channels: channels.value, priority: priority.value };
    localStorage.setItem(STORED, JSON.stringify({ ...kept, repair: repair.checked, shading: this.shading }));
    if (this.key) sessionStorage.setItem(STORED_KEY, this.key);
    else sessionStorage.removeItem(STORED_KEY);
    this.#onchange(target === key ? "key" : target.name);
  }

  #restore() {
    const { channels = "mix", priority = "normal", repair = true, shading = true } = stored();
    this.#form.channels.value = channels;
    this.#form.priority.value = priority;
    this.#form.repair.checked = repair;
    this.#form.shading.checked = shading;
    this.#form.key.value = sessionStorage.getItem(STORED_KEY) ?? "";
  }

  #fillLanguages(chosen) {
    const name = this.#form.model.value;
    const model = this.#models.find(({ id }) => id === name);
    this.#form.language.replaceChildren(...languageOptions(name, model?.languages, chosen));
  }
}

function stored() {
  try {
    return JSON.parse(localStorage.getItem(STORED)) ?? {};
  } catch {
    return {};
  }
}

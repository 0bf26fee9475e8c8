// What the settings dialogs of both pages share: the models and their languages, shading, the API key, and keeping it.

import { models } from "./server.js";

const STORED_KEY = "speechlane.key";
const COMMON_LANGUAGES =
  "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr bg lt".split(" ");

export class Preferences {
  #dialog;
  #models = [];
  #onchange;
  #place;

  /** place: where the settings are kept. onchange(name): the setting `name` was changed by the person. */
  constructor(dialog, place, onchange) {
    this.#dialog = dialog;
    this.#place = place;
    this.#onchange = onchange;
    this.form = dialog.querySelector("form");
    this.form.key.value = sessionStorage.getItem(STORED_KEY) ?? "";
    this.restore(this.#stored());
    // A key counts when it is complete, not at every letter.
    this.form.key.addEventListener("change", ({ target }) => this.#changed(target));
    this.form.addEventListener("input", ({ target }) => {
      if (target !== this.form.key) this.#changed(target);
    });
  }

  /** Put settings that were kept, {} for none, into the form. For a page to define. */
  restore(kept) {}

  /** The settings to keep, as `restore` takes them. For a page to define. */
  get kept() {
    return {};
  }

  get shading() {
    return this.form.shading.checked;
  }

  get key() {
    return this.form.key.value.trim();
  }

  get open() {
    return this.#dialog.open;
  }

  /** Open the dialog; `action` "key" puts the cursor where the key goes. */
  show(action) {
    this.#dialog.showModal();
    if (action === "key") this.form.key.focus();
  }

  /** Whether the server's models are known. */
  get loaded() {
    return this.#models.length > 0;
  }

  /** Ask the server for its models. Rejects with {status} when it refuses. */
  async load() {
    this.#models = await models(this.key);
    const { model, language } = this.#stored();
    const chosen = this.form.model.value || model;
    this.form.model.replaceChildren(...this.#models.map(({ id }) => new Option(id, id, false, id === chosen)));
    this.fillLanguages(this.form.language.value || language || "");
  }

  /** Offer what the chosen model can be told to listen for, with `chosen` (a code, "" for none) selected. */
  fillLanguages(chosen) {
    const name = this.form.model.value;
    const model = this.#models.find(({ id }) => id === name);
    this.form.language.replaceChildren(...languageOptions(name, model?.languages, chosen));
  }

  #changed(target) {
    if (target === this.form.model) this.fillLanguages(this.form.language.value);
    localStorage.setItem(this.#place, JSON.stringify(this.kept));
    if (this.key) sessionStorage.setItem(STORED_KEY, this.key);
    else sessionStorage.removeItem(STORED_KEY);
    this.#onchange(target.name);
  }

  #stored() {
    try {
      return JSON.parse(localStorage.getItem(this.#place)) ?? {};
    } catch {
      return {};
    }
  }
}

function languageOptions(model, languages, chosen) {
  const codes = languages ?? (model.endsWith(".en") ? ["en"] : COMMON_LANGUAGES);
  const names = new Intl.DisplayNames([navigator.language, "en"], { type: "language" });
  const options = codes.map((code) => new Option(names.of(code) ?? code, code, false, code === chosen));
  options.sort((a, b) => a.text.localeCompare(b.text));
  if (codes.length !== 1) options.unshift(new Option("Detect", ""));
  return options;
}

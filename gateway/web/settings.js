// The settings dialog: model, language, length of the closing silence, shading, and the API key.

import { models } from "./server.js";

const STORED = "speechlane.settings";
const STORED_KEY = "speechlane.key";
const COMMON_LANGUAGES =
  "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr bg lt".split(" ");

export class Settings {
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

  get model() {
    return this.#form.model.value;
  }

  get language() {
    return this.#form.language.value;
  }

  /** Model and language in words, "" while the models are not known. */
  get summary() {
    return [this.model, this.#form.language.selectedOptions[0]?.text].filter(() => this.loaded).join(" · ");
  }

  /** Milliseconds of silence that end an utterance. */
  get silence() {
    return this.#form.silence.valueAsNumber;
  }

  get shading() {
    return this.#form.shading.checked;
  }

  get key() {
    return this.#form.key.value.trim();
  }

  /** Open the dialog; `action` "key" puts the cursor where the key goes. */
  show(action) {
    this.#dialog.showModal();
    if (action === "key") this.#form.key.focus();
  }

  /** The model cannot change within a session. */
  lockModel(locked) {
    this.#form.model.disabled = locked;
  }

  /** Whether the server's models are known. */
  get loaded() {
    return this.#models.length > 0;
  }

  /** Ask the server for its models. Rejects with {status} when it refuses. */
  async load() {
    this.#models = await models(this.key);
    const chosen = this.model || stored().model;
    this.#form.model.replaceChildren(...this.#models.map(({ id }) => new Option(id, id, false, id === chosen)));
    this.#fillLanguages(this.language || stored().language || "");
  }

  #changed(target) {
    if (target === this.#form.model) this.#fillLanguages(this.language);
    if (target === this.#form.silence) this.#showSilence();
    const { model, language, silence, shading } = this;
    localStorage.setItem(STORED, JSON.stringify({ model, language, silence, shading }));
    if (this.key) sessionStorage.setItem(STORED_KEY, this.key);
    else sessionStorage.removeItem(STORED_KEY);
    this.#onchange(target.name);
  }

  #restore() {
    const { language = "", silence = 500, shading = true } = stored();
    this.#form.silence.value = silence;
    this.#form.shading.checked = shading;
    this.#form.key.value = sessionStorage.getItem(STORED_KEY) ?? "";
    this.#fillLanguages(language);
    this.#showSilence();
  }

  #fillLanguages(chosen) {
    const model = this.#models.find(({ id }) => id === this.model);
    this.#form.language.replaceChildren(...languageOptions(this.model, model?.languages, chosen));
  }

  #showSilence() {
    this.#form.querySelector("output").textContent = `${(this.silence / 1000).toFixed(1)} s`;
  }
}

/** What a model can be told to listen for, by name, with `chosen` (a code, "" for none) selected if it is there. */
export function languageOptions(model, languages, chosen) {
  const codes = languages ?? (model.endsWith(".en") ? ["en"] : COMMON_LANGUAGES);
  const names = new Intl.DisplayNames([navigator.language, "en"], { type: "language" });
  const options = codes.map((code) => new Option(names.of(code) ?? code, code, false, code === chosen));
  options.sort((a, b) => a.text.localeCompare(b.text));
  if (codes.length !== 1) options.unshift(new Option("Detect", ""));
  return options;
}

function stored() {
  try {
    return JSON.parse(localStorage.getItem(STORED)) ?? {};
  } catch {
    return {};
  }
}

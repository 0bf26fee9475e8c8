// The settings dialog: model, language, length of the closing silence, shading, and the API key.

import { Preferences } from "./preferences.js";

export class Settings extends Preferences {
  constructor(dialog, onchange) {
    super(dialog, "speechlane.settings", onchange);
    this.form.silence.addEventListener("input", () => this.showSilence());
  }

  get model() {
    return this.form.model.value;
  }

  get language() {
    return this.form.language.value;
  }

  /** Model and language in words, "" while the models are not known. */
  get summary() {
    return [this.model, this.form.language.selectedOptions[0]?.text].filter(() => this.loaded).join(" · ");
  }

  /** Milliseconds of silence that end an utterance. */
  get silence() {
    return this.form.silence.valueAsNumber;
  }

  /** The model cannot change within a session. */
  lockModel(locked) {
    this.form.model.disabled = locked;
  }

  get kept() {
    const { model, language, silence, shading } = this;
    return { model, language, silence, shading };
  }

  restore({ language = "", silence = 500, shading = true }) {
    this.form.silence.value = silence;
    this.form.shading.checked = shading;
    this.fillLanguages(language);
    this.showSilence();
  }

  showSilence() {
    this.form.querySelector("output").textContent = `${(this.silence / 1000).toFixed(1)} s`;
  }
}

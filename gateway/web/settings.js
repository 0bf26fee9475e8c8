// The settings dialogs of the pages that listen: model, language, length of the closing silence, and the API key.

import { Preferences } from "./preferences.js";

/** What is said by somebody who is listened to. */
export class Listening extends Preferences {
  constructor(dialog, place, onchange) {
    super(dialog, place, onchange);
    this.form.silence.addEventListener("input", () => this.showSilence());
  }

  get model() {
    return this.form.model.value;
  }

  get language() {
    return this.form.language.value;
  }

  /** Milliseconds of silence that end an utterance. */
  get silence() {
    return this.form.silence.valueAsNumber;
  }

  get kept() {
    const { model, language, silence } = this;
    return { model, language, silence };
  }

  restore({ language = "", silence = 500 }) {
    this.form.silence.value = silence;
    this.fillLanguages(language);
    this.showSilence();
  }

  showSilence() {
    this.form.querySelector("output").textContent = `${(this.silence / 1000).toFixed(1)} s`;
  }
}

/** The same for the live page, and shading. */
export class Settings extends Listening {
  constructor(dialog, onchange) {
    super(dialog, "speechlane.settings", onchange);
  }

  /** Model and language in words, "" while the models are not known. */
  get summary() {
    return [this.model, this.form.language.selectedOptions[0]?.text].filter(() => this.loaded).join(" · ");
  }

  /** The model cannot change within a session. */
  lockModel(locked) {
    this.form.model.disabled = locked;
  }

  get kept() {
    return { ...super.kept, shading: this.shading };
  }

  restore({ shading = true, ...others }) {
    this.form.shading.checked = shading;
    super.restore(others);
  }
}

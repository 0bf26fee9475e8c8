// The settings dialog: what a recording is transcribed with, shading, and the API key.

import { Preferences } from "./preferences.js";

export class Options extends Preferences {
  constructor(dialog, onchange) {
    super(dialog, "speechlane.jobs", onchange);
  }

  /** The options of a new job, as the server wants them. */
  get fields() {
    const { model, language, channels, priority, repair } = this.form;
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
    const { model, language, channels, priority, repair } = this.form;
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

  get kept() {
    const { model, language, channels, priority, repair } = this.form;
    const chosen = { model: model.value, language: language.value, channels: channels.value, priority: priority.value };
    return { ...chosen, repair: repair.checked, shading: this.shading };
  }

  restore({ channels = "mix", priority = "normal", repair = true, shading = true }) {
    this.form.channels.value = channels;
    this.form.priority.value = priority;
    this.form.repair.checked = repair;
    this.form.shading.checked = shading;
  }
}

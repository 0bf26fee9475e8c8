// Look: a conversation about pictures and clips. What was shown stays a part of it, and is not computed again.

import { events } from "./vision-api.js";

const CLIPS = /^video\//;

export class Look {
  #list;
  #tray;
  #messages = [];
  #files = [];

  /** list: the conversation; tray: what goes with the next question. */
  constructor(list, tray) {
    this.#list = list;
    this.#tray = tray;
  }

  get empty() {
    return this.#messages.length === 0 && this.#files.length === 0;
  }

  /** Put files with the next question. */
  async add(files) {
    for (const one of files) {
      const url = await dataUrl(one);
      const clip = CLIPS.test(one.type);
      this.#files.push(clip ? { type: "video_url", video_url: { url } } : { type: "image_url", image_url: { url } });
      this.#tray.append(shown(one, url, clip));
    }
  }

  forget() {
    this.#messages = [];
    this.#files = [];
    this.#list.replaceChildren();
    this.#tray.replaceChildren();
  }

  /** Ask; resolves with the facts of the answer. */
  async ask(text, { key, signal }) {
    const content = [...this.#files, { type: "text", text }];
    const turn = this.#turn("user", text);
    turn.prepend(...this.#tray.childNodes);
    const files = this.#files;
    this.#files = [];
    this.#messages.push({ role: "user", content });
    const answer = this.#turn("assistant", "");
    const words = answer.querySelector("p");
    try {
      let facts = "";
      const body = { messages: this.#messages, stream: true, stream_options: { include_usage: true } };
      for await (const part of events("v1/chat/completions", { key, signal, body })) {
        words.append(part.choices[0]?.delta.content ?? "");
        if (part.usage) facts = counted(part.usage, facts);
        if (part.speechlane) facts = `first word after ${(part.speechlane.seconds_to_first * 1000).toFixed(0)} ms`;
      }
      this.#messages.push({ role: "assistant", content: words.textContent });
      answer.append(element("small", facts));
    } catch (error) {
      // The question can be asked again as it was.
      this.#messages.pop();
      this.#files = files;
      this.#tray.prepend(...turn.querySelectorAll("img, video"));
      turn.remove();
      answer.remove();
      throw error;
    }
  }

  #turn(role, text) {
    const item = element("li");
    item.dataset.role = role;
    item.append(element("p", text));
    this.#list.append(item);
    return item;
  }
}

function counted(usage, before) {
  const { visual_tokens: visual, cached_tokens: cached } = usage.prompt_tokens_details;
  const kept = cached ? `, ${cached} of them kept from before` : "";
  return `${before} · ${usage.prompt_tokens} tokens, ${visual} of pictures${kept}`;
}

function shown(one, url, clip) {
  const media = element(clip ? "video" : "img");
  if (clip) Object.assign(media, { controls: true, muted: true, src: URL.createObjectURL(one) });
  else Object.assign(media, { src: url, alt: one.name });
  return media;
}

function dataUrl(one) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(one);
  });
}

function element(name, text = "") {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

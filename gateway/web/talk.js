// Talk: a conversation by voice. The microphone goes in, what both sides say comes out, and who speaks interrupts.

import { Answers } from "./answers.js";
import { Conversation } from "./conversation.js";
import { problem, sourceProblem } from "./problems.js";
import { Microphone } from "./sources.js";
import { Transcript } from "./transcript.js";
import { Playout } from "./voice-playout.js";
import { decode } from "./wire.js";

const WITHOUT_MICROPHONE = {
  microphoneDenied: "Allow it for this page in the browser’s address bar, then start again. Texts can be spoken without it.",
  microphoneMissing: "Connect one and start again. Texts can be spoken without it.",
  microphoneInsecure: "Open this page over https, or on localhost. Texts can be spoken here as it is.",
  microphoneUnplugged: "The conversation has ended. Reconnect it and start again.",
};

export class Talk {
  state = "idle"; // idle, opening, listening, muted
  #settings;
  #options;
  #view;
  #on;
  #playout = null;
  #microphone = null;
  #conversation = null;
  #answers = null;
  #transcript;
  #responses = new Map(); // which answer belongs to a response
  #began = 0;
  #doing = "silence";

  /** on: change(), progress(peak of the microphone, or null), problem(problem). */
  constructor(settings, options, view, on) {
    this.#settings = settings;
    this.#options = options;
    this.#view = view;
    this.#on = on;
    this.#transcript = new Transcript((kind, utterance) => this.#view.said(kind, utterance));
  }

  /** "silence", "speech" (the person), "thinking", "answer" or "held" (an answer, while somebody speaks). */
  get doing() {
    return this.#doing;
  }

  get seconds() {
    return this.state === "idle" ? 0 : (performance.now() - this.#began) / 1000;
  }

  async start() {
    if (this.state !== "idle") return;
    this.#become("opening");
    try {
      await this.#openSound();
    } catch (error) {
      this.#silence();
      this.#become("idle");
      const cause = sourceProblem(error);
      this.#on.problem({ ...cause, text: WITHOUT_MICROPHONE[cause.id] ?? cause.text });
      return;
    }
    if (this.state !== "opening") {
      this.#silence(); // ended in the meantime
      return;
    }
    this.#began = performance.now();
    this.#conversation = new Conversation(this.#settings, this.#options, this.#settings.key, this.#playout.rate, {
      open: (model) => this.#opened(model),
      event: (event) => this.#received(event),
      ended: (cause) => this.#ended(cause),
    });
    this.#answers = new Answers(this.#playout, this.#conversation, {
      heard: (item, seconds) => this.#view.heard(item, seconds),
      audible: (item, seconds) => this.#view.audible(item, seconds),
      cut: (item) => this.#view.cut(item),
    });
    this.#playout.onreport = () => this.#tick();
    this.#microphone.onframe = (samples, peak) => {
      this.#conversation?.append(samples);
      this.#on.progress(peak);
    };
    this.#microphone.onend = () => this.#ended(problem("microphoneUnplugged", { text: WITHOUT_MICROPHONE.microphoneUnplugged }));
    this.#conversation.open();
  }

  /** End the conversation. */
  stop() {
    this.#ended(null);
  }

  mute() {
    if (this.state === "listening") {
      this.#microphone.pause();
      this.#become("muted");
    } else if (this.state === "muted") {
      this.#microphone.resume();
      this.#become("listening");
    }
  }

  /** No more of this answer. */
  interrupt() {
    if (!this.#answers) return;
    if (!this.#answers.stop() && this.#doing === "thinking") this.#conversation.cancel();
  }

  /** The settings or the voice have changed. */
  update() {
    this.#conversation?.update();
  }

  async #openSound() {
    this.#playout ??= await Playout.open();
    await this.#playout.wake();
    try {
      this.#microphone = await Microphone.open(this.#playout.context);
    } catch (error) {
      // Some browsers connect a microphone only to a context at the device's own rate; the server takes that too.
      if (error.name !== "NotSupportedError") throw error;
      await this.#playout.context.close();
      this.#playout = await Playout.open({ ownRate: true });
      await this.#playout.wake();
      this.#microphone = await Microphone.open(this.#playout.context);
    }
  }

  #opened(model) {
    this.#view.begin(model);
    this.#microphone.start();
    this.#become("listening");
  }

  #received(event) {
    this.#transcript.take(event, 0);
    switch (event.type) {
      case "input_audio_buffer.speech_started":
        this.#answers.hold();
        this.#do("speech");
        break;
      case "input_audio_buffer.speech_stopped":
        this.#do(this.#answers.sounding ? "held" : "silence");
        break;
      case "x.output_audio.held":
        this.#answers.held();
        this.#view.held(this.#responses.get(event.response_id) ?? event.item_id, true);
        break;
      case "x.output_audio.resumed":
        this.#answers.resumed();
        this.#view.held(this.#responses.get(event.response_id) ?? event.item_id, false);
        break;
      case "conversation.item.truncated":
        this.#answers.truncated(event.item_id);
        this.#view.truncated(event.item_id, event.spoken, event.unspoken);
        break;
      case "response.created":
        this.#do("thinking");
        break;
      case "response.output_item.added":
        if (event.item.type !== "message") break;
        this.#responses.set(event.response_id, event.item.id);
        this.#view.answer(event.item.id);
        break;
      case "response.output_audio.delta":
        this.#answers.sound(event.item_id, decode(event.delta));
        break;
      case "response.output_audio_transcript.delta":
      case "response.output_text.delta":
        this.#view.words(event.item_id, event.delta, event.words);
        break;
      case "response.output_audio.done":
        this.#answers.whole(event.item_id);
        break;
      case "x.response.timing":
        this.#view.timing(event.item_id ?? this.#responses.get(event.response_id), event);
        break;
      case "response.done":
        this.#finished(event.response);
        break;
    }
  }

  #finished({ id, status, status_details: details }) {
    const item = this.#responses.get(id);
    this.#responses.delete(id);
    if (status === "failed") this.#view.failed(item, details?.error?.message ?? "");
    if (!this.#answers.sounding && this.#doing === "thinking") this.#do("silence");
  }

  #tick() {
    this.#answers?.tick();
    const sounding = this.#answers?.sounding && !this.#playout.held;
    if (sounding && this.#doing !== "speech") this.#do("answer");
    else if (this.#doing === "answer" || (this.#doing === "held" && !this.#answers.sounding)) this.#do("silence");
  }

  #ended(cause) {
    if (this.state === "idle") return;
    this.#conversation?.close();
    this.#answers?.close();
    this.#conversation = this.#answers = null;
    this.#transcript.dropLive();
    this.#view.end();
    this.#silence();
    this.#do("silence");
    this.#become("idle");
    if (cause) this.#on.problem(cause);
  }

  #silence() {
    if (this.#playout) this.#playout.onreport = () => {};
    const microphone = this.#microphone;
    this.#microphone = null;
    if (!microphone) return;
    microphone.onframe = () => {};
    microphone.stop();
  }

  #do(what) {
    if (this.#doing === what) return;
    this.#doing = what;
    this.#on.change();
  }

  #become(state) {
    this.state = state;
    this.#on.change();
  }
}

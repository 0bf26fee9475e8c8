// What has been said: finished utterances in order, and those still being spoken. Times are seconds of the page's clock.

const ITEM = "conversation.item.input_audio_transcription.";

export class Transcript {
  utterances = [];
  #live = new Map();
  #onchange;

  /** onchange(kind, utterance): "live" (new or changed), "final", "failed" or "dropped" (nothing was said). */
  constructor(onchange) {
    this.#onchange = onchange;
  }

  /** Take in a server event; `offset` is the page time at which the server's session began. */
  take(event, offset) {
    switch (event.type) {
      case "input_audio_buffer.speech_started":
        this.#change(event.item_id, { start: offset + event.audio_start_ms / 1000 });
        break;
      case "input_audio_buffer.speech_stopped":
        this.#change(event.item_id, { end: offset + event.audio_end_ms / 1000 });
        break;
      case `${ITEM}delta`:
        this.#settle(event);
        break;
      case "x.transcription.unstable":
        this.#change(event.item_id, { unstable: event.text });
        break;
      case `${ITEM}completed`:
        this.#complete(event, offset);
        break;
      case `${ITEM}failed`:
        this.#close(event.item_id, "failed", { text: "", words: [], problem: event.error?.message ?? "" });
        break;
    }
  }

  /** Forget what was not finished: its audio will be sent again after a reconnect, or the session is over. */
  dropLive() {
    for (const id of [...this.#live.keys()]) this.#close(id, "dropped", {});
  }

  clear() {
    this.dropLive();
    this.utterances = [];
  }

  #change(id, fields) {
    if (id === undefined) return;
    const utterance = this.#live.get(id) ?? { id, stable: "", unstable: "" };
    this.#live.set(id, Object.assign(utterance, fields));
    this.#onchange("live", utterance);
  }

  // The words that became stable leave the tail at once, not to be read twice until the new tail comes.
  #settle({ item_id: id, delta }) {
    const { stable = "", unstable = "" } = this.#live.get(id) ?? {};
    const rest = unstable.startsWith(delta) ? unstable.slice(delta.length) : "";
    this.#change(id, { stable: stable + delta, unstable: rest });
  }

  #complete(event, offset) {
    const text = event.transcript.trim();
    const words = (event.words ?? []).map(({ word, start, end, confidence }) => ({
      word: word.trim(),
      start: offset + start,
      end: offset + end,
      confidence,
    }));
    const spoken = words.length > 0 ? { start: words[0].start, end: words.at(-1).end } : {};
    const language = event.languages?.[0]?.code ?? "";
    this.#close(event.item_id, text ? "final" : "dropped", { text, words, language, ...spoken });
  }

  #close(id, kind, fields) {
    const utterance = Object.assign(this.#live.get(id) ?? { id }, fields);
    this.#live.delete(id);
    utterance.start ??= utterance.end ?? 0;
    utterance.end ??= utterance.start;
    if (kind !== "dropped") this.utterances.push(utterance);
    this.#onchange(kind, utterance);
  }
}

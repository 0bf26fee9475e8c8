// One job opened: what became of it, its transcript, and the player with its strip.

import { clock } from "./formats.js";
import { sure } from "./jobs-list.js";
import { refusedProblem, silentPlayer } from "./jobs-problems.js";
import { readTranscript } from "./jobs-transcript.js";
import { duration, element, ENDED, facts, iconButton, length, READABLE } from "./jobs-words.js";

const FORMATS = {
  txt: "Download as text",
  srt: "Download as subtitles (SubRip)",
  vtt: "Download as subtitles (WebVTT)",
  tsv: "Download as a table",
  json: "Download with word times, confidence and repairs",
};

const $ = (id) => document.getElementById(id);

export class JobView {
  #api;
  #reader;
  #strip;
  #player;
  #on;
  #now;
  #job = null;
  #transcript = null;
  #fetching = null;
  #wanted = null; // the second to go to when the transcript is there

  /** on.act(job, what), on.remove(job), on.problem(problem); `key()` is the API key. */
  constructor({ api, key, reader, strip, player, now, on }) {
    this.#api = api;
    this.#reader = reader;
    this.#strip = strip;
    this.#player = player;
    this.#now = now;
    this.#on = { ...on, key };
    for (const [format, title] of Object.entries(FORMATS)) {
      const button = element("button", "", `.${format}`);
      button.type = "button";
      button.title = title;
      button.dataset.format = format;
      button.addEventListener("click", () => this.#download(format));
      $("downloads").append(button);
    }
    $("marks").addEventListener("click", ({ target }) => this.jump(1, target.closest("button")?.dataset.kind));
  }

  get id() {
    return this.#job?.id ?? null;
  }

  /** From `seconds` on, null for the beginning. */
  open(job, seconds = null) {
    this.close();
    this.#job = job;
    this.#wanted = seconds;
    $("job-title").textContent = job.name;
    $("job").hidden = false;
    $("player").hidden = false;
    this.#player.load(job.id);
    this.update(job);
    if (seconds === null) this.#heard(0);
    else this.#player.seek(seconds);
  }

  close() {
    this.#fetching?.abort();
    this.#fetching = null;
    this.#job = null;
    this.#transcript = null;
    this.#reader.clear();
    this.#player.unload();
    this.#strip.show(null, 0);
    $("job").hidden = true;
    $("player").hidden = true;
    $("player").classList.remove("silent");
    $("silence").textContent = "";
    $("marks").replaceChildren();
    $("job-actions").dataset.state = "";
  }

  update(job) {
    if (job.id !== this.#job?.id) return;
    const again = this.#job.state !== job.state && READABLE.includes(this.#job.state);
    this.#job = job;
    if (again) this.#forgetTranscript();
    this.#facts();
    const ended = ENDED.includes(job.state);
    $("job").dataset.state = job.state;
    $("job-progress").hidden = ended;
    $("job-progress").firstElementChild.style.inlineSize = `${job.progress * 100}%`;
    $("job-progress").setAttribute("aria-valuenow", String(Math.round(job.progress * 100)));
    const wrong = job.error ?? job.waiting ?? "";
    $("job-error").hidden = !wrong;
    $("job-error").textContent = wrong;
    this.#warn();
    if (!this.#transcript) $("job-note").hidden = ended;
    if (!ended) $("job-note").textContent = "The transcript will stand here. The recording can be heard already.";
    this.#actions(job, ended);
    $("downloads").hidden = !READABLE.includes(job.state);
    if (!this.#transcript) this.#strip.show(null, length(job));
    if (READABLE.includes(job.state)) this.#fetch();
  }

  /** The player is at `seconds`. */
  heard(seconds, playing) {
    this.#reader.at(seconds, playing);
    this.#heard(seconds);
  }

  /** It cannot be played here. */
  silent() {
    $("player").classList.add("silent");
    $("silence").textContent = silentPlayer;
    if (this.#job?.state === "failed") $("player").hidden = true; // it is no recording
  }

  seek(seconds, reveal = false) {
    if (!this.#job) return;
    this.#player.seek(seconds);
    if (reveal) this.#reader.reveal(seconds);
  }

  /** Go to the next mark (1) or the one before (-1). */
  jump(direction, kind) {
    const seconds = this.#strip.mark(direction, kind);
    if (seconds !== null) this.seek(seconds, true);
  }

  #heard(seconds) {
    this.#strip.at(seconds);
    const whole = this.#transcript?.seconds ?? (this.#job ? length(this.#job) : 0);
    const text = `${clock(seconds, 0)} / ${clock(whole, 0)}`;
    if ($("position").textContent !== text) $("position").textContent = text;
  }

  async #fetch() {
    if (this.#transcript || this.#fetching) return;
    const control = new AbortController();
    this.#fetching = control;
    try {
      const response = await this.#api.result(this.#job.id, "json", control.signal);
      const transcript = readTranscript(await response.json());
      if (control.signal.aborted) return;
      this.#transcript = transcript;
      this.#strip.show(transcript, transcript.seconds);
      this.#showMarks(transcript);
      this.#warn();
      this.#facts();
      $("job-note").hidden = transcript.items.length > 0;
      $("job-note").textContent = "Nobody speaks in this recording.";
      this.#heard(this.#player.time);
      await this.#reader.show(transcript);
      const wanted = this.#wanted;
      this.#wanted = null;
      if (wanted !== null && !control.signal.aborted) this.seek(wanted, true);
    } catch (error) {
      if (!control.signal.aborted) this.#on.problem(refusedProblem("result", error, this.#on.key()));
    } finally {
      if (this.#fetching === control) this.#fetching = null;
    }
  }

  #forgetTranscript() {
    this.#fetching?.abort();
    this.#fetching = null;
    this.#transcript = null;
    this.#reader.clear();
    $("marks").replaceChildren();
  }

  #facts() {
    const said = [...facts(this.#job, this.#now()), this.#job.options.model];
    const account = this.#transcript?.account;
    if (account?.speech > 0) {
      const share = Math.min(100, (account.words / account.speech) * 100);
      said.push(`${duration(account.speech)} of speech, ${share < 99.95 ? share.toFixed(1) : 100} % of it in words`);
    }
    $("job-facts").textContent = said.join(" · ");
  }

  #showMarks({ repairs, holes, suspicions }) {
    const kinds = [
      ["repair", repairs.length, "repair"],
      ["suspicion", suspicions.length, "doubt"],
      ["hole", holes.length, "gap"],
    ];
    $("marks").replaceChildren(
      ...kinds.filter(([, count]) => count > 0).map(([kind, count, word]) => {
        const button = element("button", `mark ${kind}`, count.toLocaleString());
        button.append(element("span", "kind", count === 1 ? word : `${word}s`));
        button.type = "button";
        button.dataset.kind = kind;
        button.title = `To the next ${word} (N: the next mark of any kind)`;
        return button;
      }),
    );
  }

  #warn() {
    const warnings = [...new Set([...this.#job.warnings, ...(this.#transcript?.warnings ?? [])])];
    $("job-warnings").hidden = warnings.length === 0;
    $("job-warnings").replaceChildren(...warnings.map((warning) => element("li", "", warning)));
  }

  #actions(job, ended) {
    const place = $("job-actions");
    if (place.dataset.state === job.state) return;
    place.dataset.state = job.state;
    if (!ended) {
      place.replaceChildren(sure("#i-close", "Cancel", "Cancel?", () => this.#on.act(this.#job, "cancel")));
      return;
    }
    const again = iconButton("#i-retry", "Try again");
    again.addEventListener("click", () => this.#on.act(this.#job, "retry"));
    const remove = iconButton("#i-delete", "Delete");
    remove.addEventListener("click", () => this.#on.remove(this.#job));
    place.replaceChildren(...(job.state === "done" ? [remove] : [again, remove]));
  }

  async #download(format) {
    const { id, name } = this.#job;
    try {
      const response = await this.#api.result(id, format);
      const link = element("a");
      link.href = URL.createObjectURL(await response.blob());
      link.download = `${name.split("/").at(-1).replace(/\.[^.]{1,5}$/, "")}.${format}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    } catch (error) {
      this.#on.problem(refusedProblem("result", error, this.#on.key()));
    }
  }
}

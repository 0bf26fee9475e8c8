// The whole page from one report of the server.

import { Chart } from "./status-chart.js";
import { options } from "./status-options.js";
import { Devices } from "./status-devices.js";
import { Latencies } from "./status-latency.js";
import { pairs, ranked, show } from "./status-parts.js";
import { NONE, count, plural, span, words } from "./status-words.js";

const PROTOCOLS = {
  realtime: "OpenAI Realtime",
  conversation: "Conversations",
  speak: "Speak",
  elevenlabs: "ElevenLabs",
  deepgram: "Deepgram",
  vosk: "vosk",
  wyoming: "Wyoming",
};
const STATES = {
  loading: "The models are loading.",
  failed: "The models could not be loaded. The log says why.",
  draining: "Going down: what runs is finished, nothing new is taken.",
  device_dead: "A device has stopped. Restart the service; its log says what happened.",
};
const ENDED = { done: "Done", partial: "Done, with holes", failed: "Failed", cancelled: "Cancelled" };
const WAITING = { queued: "Queued", running: "Running", repairing: "Being repaired", writing: "Being written" };

const ALWAYS = [WAITING.queued, WAITING.running, ENDED.done, ENDED.failed];

const $ = (id) => document.getElementById(id);

export class View {
  #devices = new Devices($("devices"), $("helpers"));
  #latencies = new Latencies($("latency"));
  #sessions = new Chart($("sessions-chart"), {
    name: "Live sessions",
    series: [{ name: "sessions", key: "sessions", kind: "area" }],
    format: count,
    least: 5,
  });
  #refused = new Chart($("refused-chart"), {
    name: "Refused in five seconds",
    series: [{ name: "refused", key: "refused", kind: "bars" }],
    format: count,
    least: 5,
  });
  #speakers = new Chart($("voices-chart"), {
    name: "Listeners",
    series: [
      { name: "listeners", key: "speakers", kind: "area" },
      { name: "underruns", key: "underruns", kind: "bars" },
    ],
    format: count,
    least: 5,
  });

  draw(report) {
    const { history, now } = report;
    $("figures").hidden = false;
    show($("headline"), headline(report));
    this.#facts(report);
    for (const element of document.querySelectorAll(".window")) show(element, `last ${span(report.window)}`);
    this.#devices.draw(report);
    this.#latencies.draw(report);
    this.#live(report);
    this.#turnedAway(report);
    this.#voices(report);
    jobs(report);
    models(report.models);
    options(report.options ?? []);
    this.#sessions.draw(history.at, history, now);
    this.#refused.draw(history.at, history, now);
    this.#speakers.draw(history.at, history, now);
  }

  #facts({ version, now, started_at: started, files }) {
    const facts = [`up for ${span(Math.max(0, now - started))}`];
    if (version) facts.unshift(`version ${version}`);
    if (files > 0) facts.push(`${plural(files, "upload")} being transcribed`);
    if ($("facts").children.length !== facts.length) {
      $("facts").replaceChildren(...facts.map(() => document.createElement("span")));
    }
    for (const [n, fact] of facts.entries()) show($("facts").children[n], fact);
  }

  #live({ sessions }) {
    show($("sessions-live"), count(sessions.live));
    const parked = sessions.parked > 0 ? `, ${count(sessions.parked)} waiting for a lost client` : "";
    show($("sessions-more"), `of ${count(sessions.most)} at most${parked}; ${count(sessions.admitted)} since the start`);
    const rows = Object.entries(sessions.protocols).filter(([, live]) => live > 0);
    rows.sort((a, b) => b[1] - a[1]);
    ranked($("protocols"), rows.map(([name, live]) => ({ name: PROTOCOLS[name] ?? words(name), value: count(live), share: live / sessions.live })));
  }

  #turnedAway({ refused, window: seconds }) {
    const lately = refused.reduce((sum, one) => sum + one.lately, 0);
    const ever = refused.reduce((sum, one) => sum + one.count, 0);
    show($("refused-lately"), count(lately));
    show($("refused-more"), `in the last ${span(seconds)}; ${count(ever)} since the start`);
    const most = Math.max(1, ...refused.map((one) => one.count));
    const row = ({ kind, reason, count: times }) => ({ name: words(reason), more: kind, value: count(times), share: times / most });
    ranked($("refused"), refused.map(row));
  }

  #voices({ voices, window: seconds }) {
    show($("voices-speaking"), count(voices.speaking));
    show($("voices-more"), voices.speaking + voices.free > 0 ? `now, room for ${count(voices.free)} more` : "now");
    pairs($("voices"), [
      [`Underruns, last ${span(seconds)}`, count(voices.lately), voices.lately > 0 ? "bad" : ""],
      ["Underruns since the start", count(voices.underruns)],
      ["Sound sent", span(voices.sent)],
      ["Sound made, not heard", voices.made > 0 ? `${span(voices.wasted)}, ${Math.round((voices.wasted / voices.made) * 100)} %` : NONE],
    ]);
  }
}

function headline({ state, devices, sessions }) {
  if (state !== "ready") return STATES[state] ?? words(state);
  const free = Math.min(sessions.most - sessions.live, devices.reduce((sum, device) => sum + (device.free_streams ?? 0), 0));
  if (free <= 0) return "Full: those who speak now come first.";
  return sessions.live > 0 ? `Listening, with room for ${count(free)} more.` : `Ready for ${plural(free, "speaker")}.`;
}

function jobs({ jobs: { state, detail, now, ended, audio } }) {
  const waiting = Object.values(now).reduce((sum, number) => sum + number, 0);
  show($("jobs-now"), state === "off" ? NONE : count(waiting));
  show($("jobs-more"), state === "off" ? "jobs are not taken here" : "jobs in hand");
  $("jobs-detail").hidden = !detail;
  show($("jobs-detail"), detail ?? "");
  const rows = [
    ...Object.entries(WAITING).map(([key, name]) => [name, now[key] ?? 0]),
    ...Object.entries(ENDED).map(([key, name]) => [name, ended[key] ?? 0]),
  ].filter(([name, number]) => number > 0 || ALWAYS.includes(name));
  const shown = rows.map(([name, number]) => [name, count(number), name === ENDED.failed && number > 0 ? "bad" : ""]);
  pairs($("jobs"), state === "off" ? [] : [...shown, ["Audio transcribed", span(audio)]]);
}

function models(list) {
  const body = $("models");
  const rows = list.map(({ name, task, languages, precision, aliases }) => [name, task, spoken(languages), precision ?? NONE, aliases.join(", ") || NONE]);
  if (body.dataset.rows === JSON.stringify(rows)) return;
  body.dataset.rows = JSON.stringify(rows);
  body.replaceChildren();
  for (const cells of rows) {
    const row = body.insertRow();
    for (const [n, text] of cells.entries()) {
      const cell = document.createElement(n === 0 ? "th" : "td");
      if (n === 0) cell.scope = "row";
      cell.textContent = text;
      row.append(cell);
    }
  }
}

function spoken(languages) {
  if (languages.length > 3) return plural(languages.length, "language");
  const names = new Intl.DisplayNames(["en"], { type: "language" });
  return languages.map((code) => names.of(code) ?? code).join(", ") || NONE;
}

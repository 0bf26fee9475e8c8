// Puts the parts of the voice page together: two tabs, one dock whose buttons belong to the tab that is shown.

import { face, showConnection, showServer } from "./controls.js";
import { clock } from "./formats.js";
import { Meter } from "./meter.js";
import { Notice } from "./notice.js";
import { problem } from "./problems.js";
import { explain, readiness } from "./server.js";
import { Listening } from "./settings.js";
import { described, Speak } from "./speak.js";
import { explanation } from "./speak-explain.js";
import { SpokenText } from "./speak-text.js";
import { Talk } from "./talk.js";
import { TalkView } from "./talk-view.js";
import { VoiceOptions } from "./voice-options.js";

const WATCH_MILLISECONDS = 5000;
const EXAMPLE =
  "Dr. Ada Moore paid $29.95 for 2.5 kg of tea on 3 May 2024. “It is the 3rd time,” she wrote to office@example.com, " +
  "“and it won’t be the last!”\n\nThe parcel left St. John’s at 7:45 p.m. and weighed 1/2 of what version 2.0.1 had promised.";

const $ = (id) => document.getElementById(id);

let tab = "speak";
let refusedKey = null; // not to be tried again by itself

const settings = new Listening($("settings"), "speechlane.listening", (name) => (name === "key" ? refresh() : talk.update()));
const options = new VoiceOptions(
  { voice: $("voice-name"), speed: $("speed"), split: $("split"), told: document.querySelector(".options output") },
  () => talk.update(),
);
const notice = new Notice($("notice"), act);
const meter = new Meter($("meter"));
const text = new SpokenText($("text"), $("mirror"));
const view = new TalkView({ list: $("turns"), who: $("who"), summary: $("summary") });
const on = (name) => ({
  change: () => shown(name),
  progress: (peak) => progress(name, peak),
  problem: (cause) => notice.show(cause),
});
const speak = new Speak(text, options, () => settings.key, on("speak"));
const talk = new Talk(settings, options, view, on("talk"));
const lanes = { speak, talk };

function act(action) {
  if (tab === "speak" && speak.rest && ["retry", "continue"].includes(action)) speak.goOn();
  else if (["retry", "play", "continue"].includes(action)) start();
  else settings.show(action);
}

/** Begin what this tab is for; one of both at a time, since a microphone would hear the other. */
function start() {
  notice.hide();
  if (tab === "speak") {
    if (!text.value.trim()) {
      text.focus();
      return;
    }
    talk.stop();
    speak.play();
  } else {
    speak.stop();
    talk.start();
  }
}

function toggle() {
  if (lanes[tab].state === "idle") start();
  else lanes[tab].stop();
}

function secondary() {
  if (tab === "speak") speak.pause();
  else talk.mute();
}

function escape() {
  if (tab === "speak") speak.stop();
  else talk.interrupt();
}

// What is shown

function shown(name) {
  $(`tab-${name}`).dataset.running = lanes[name].state !== "idle";
  if (name !== tab) return;
  const { state } = lanes[tab];
  document.body.dataset.state = state;
  showConnection(state);
  meter.speech = tab === "speak" ? state === "speaking" : talk.doing === "speech";
  if (state === "idle") meter.reset();
  if (tab === "speak") showSpeak(state);
  else showTalk(state);
  face($("toggle"), ...label(state));
  $("toggle").setAttribute("aria-disabled", String(state === "finishing"));
}

function label(state) {
  if (tab === "speak") return state === "idle" ? ["#i-resume", "Play"] : ["#i-stop", "Stop"];
  return state === "idle" ? ["#i-mic", "Start"] : ["#i-stop", "End"];
}

function showSpeak(state) {
  const paused = state === "paused";
  secondaryButton(["speaking", "paused"].includes(state), paused ? "#i-resume" : "#i-pause", paused ? "Resume" : "Pause");
  $("interrupt").hidden = true;
  $("go-on").hidden = !speak.rest;
  $("example").hidden = text.value !== "";
  $("voice").textContent = { opening: "Preparing", speaking: "Speaking", paused: "Paused", finishing: "Stopping" }[state] ?? "";
  $("voice").dataset.speech = state === "speaking";
  showResult();
  showInvitation();
}

function showResult() {
  const { spoken, all } = speak.border;
  const facts = described(speak.facts);
  const stopped = speak.rest ? `${spoken} of ${all} characters spoken` : "";
  const now = [stopped, facts].filter(Boolean).join(" · ");
  if (speak.state === "idle" && $("result").textContent !== now) $("result").textContent = now;
  if (speak.state === "opening") $("result").textContent = "";
}

function showTalk(state) {
  const muted = state === "muted";
  secondaryButton(["listening", "muted"].includes(state), muted ? "#i-mic-off" : "#i-mic", muted ? "Unmute the microphone" : "Mute the microphone");
  $("pause").setAttribute("aria-pressed", String(muted));
  $("interrupt").hidden = !["answer", "thinking", "held"].includes(talk.doing);
  $("empty").hidden = state !== "idle" || !view.empty;
  const doing = { silence: "Listening", speech: "You speak", thinking: "Thinking", answer: "Answering", held: "Waiting" };
  $("voice").textContent = state === "opening" ? "Connecting" : muted && talk.doing === "silence" ? "Muted" : doing[talk.doing];
  $("voice").dataset.speech = ["speech", "answer"].includes(talk.doing);
  for (const id of ["delay", "ahead"]) $(id).textContent = "";
  showInvitation();
}

function secondaryButton(visible, icon, name) {
  $("pause").hidden = !visible;
  face($("pause"), icon, name);
  $("pause").title = `${name} (P)`;
  $("pause").removeAttribute("aria-pressed");
}

function showInvitation() {
  const { voice, speed } = options.create;
  const how = options.loaded && voice ? `${voice} · ${speed.toFixed(2)}×` : "";
  const said = tab === "speak" ? "Hear the text as it is made" : "Talk with the assistant";
  const small = document.createElement("span");
  small.textContent = how;
  document.querySelector(".invitation").replaceChildren(said, small);
}

function progress(name, peak) {
  if (name !== tab) return;
  meter.push(peak);
  if (tab === "talk") {
    $("elapsed").textContent = clock(talk.seconds, 0);
    return;
  }
  const { heard, ahead, made, delay } = speak.facts;
  const write = (id, now) => {
    if ($(id).textContent !== now) $(id).textContent = now;
  };
  write("elapsed", clock(heard, 0) + (made === null ? "" : ` / ${clock(made, 0)}`));
  write("delay", delay === null ? "" : `first sound ${delay.toFixed(2)} s`);
  write("ahead", made === null ? `${ahead.toFixed(1)} s ahead` : "");
}

function show(name) {
  tab = name;
  document.body.dataset.tab = name;
  for (const one of ["speak", "talk"]) {
    const selected = one === name;
    $(`tab-${one}`).setAttribute("aria-selected", String(selected));
    $(`tab-${one}`).tabIndex = selected ? 0 : -1;
    $(one).hidden = !selected;
  }
  $("split-label").hidden = name !== "speak";
  meter.reset();
  shown(name);
}

// What the server says

async function refresh() {
  try {
    await settings.load();
    const voices = await options.load(settings.key);
    if (["keyMissing", "keyWrong"].includes($("notice").dataset.problem)) notice.hide();
    if (voices === 0) notice.show(problem("voiceless"));
    showInvitation();
  } catch ({ status }) {
    if (status !== 401 && status !== 403) return;
    refusedKey = settings.key;
    notice.show(problem(settings.key ? "keyWrong" : "keyMissing"));
  }
}

async function watchServer() {
  if (document.visibilityState !== "visible") return;
  const server = await readiness(settings.key).catch(() => null);
  showServer(server, lanes[tab].state);
  if (server?.ready && !options.loaded && settings.key !== refusedKey) await refresh();
}

async function explainText() {
  const panel = $("explanation");
  if (!panel.hidden) {
    panel.hidden = true;
  } else {
    try {
      panel.replaceChildren(explanation(await explain(text.value, options.create, settings.key)));
      panel.hidden = false;
      panel.scrollIntoView({ block: "start" });
    } catch (error) {
      const key = settings.key ? "keyWrong" : "keyMissing";
      if (error.status === 401) notice.show(problem(key));
      else if (error.status) notice.show(problem("notExplained", { text: error.message }));
      else notice.show(problem("unreachable"));
    }
  }
  $("explain").setAttribute("aria-expanded", String(!panel.hidden));
}

async function download() {
  if (!text.value.trim()) {
    text.focus();
    return;
  }
  notice.hide();
  await speak.download((seconds) => ($("download").textContent = `Cancel (${clock(seconds)} made)`));
  $("download").textContent = "Download .wav";
}

// What the person does

const typing = (target) => target.closest?.("input:not([type=range]), select, textarea:not([readonly]), dialog");
const pressable = (target) => target.closest?.("button, a, label, input, textarea:not([readonly])");

addEventListener("keydown", (event) => {
  if (event.repeat || event.target.closest?.("dialog")) return;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && tab === "speak") {
    event.preventDefault();
    if (speak.state === "idle") start();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") escape();
  else if (typing(event.target)) return;
  else if (event.code === "Space" && !pressable(event.target)) {
    event.preventDefault();
    toggle();
  } else if (event.key.toLowerCase() === "p") secondary();
});

document.querySelector(".tabs").addEventListener("keydown", (event) => {
  const to = { ArrowRight: "talk", ArrowLeft: "speak", Home: "speak", End: "talk" }[event.key];
  if (!to) return;
  event.preventDefault();
  location.replace(`#${to}`);
  $(`tab-${to}`).focus();
});

for (const name of ["speak", "talk"]) $(`tab-${name}`).addEventListener("click", () => location.replace(`#${name}`));
const byAddress = () => show(location.hash === "#talk" ? "talk" : "speak");
addEventListener("hashchange", byAddress);

$("toggle").addEventListener("click", toggle);
$("pause").addEventListener("click", secondary);
$("interrupt").addEventListener("click", () => talk.interrupt());
$("settings-open").addEventListener("click", () => settings.show());
$("go-on").addEventListener("click", () => speak.goOn());
$("explain").addEventListener("click", explainText);
$("download").addEventListener("click", download);
$("example").addEventListener("click", () => {
  if (speak.state !== "idle") return;
  text.value = EXAMPLE;
  textChanged();
  text.focus();
});
$("text").addEventListener("input", textChanged);
for (const id of ["voice-name", "speed"]) $(id).addEventListener("input", showInvitation);

function textChanged() {
  speak.changed();
  $("explanation").hidden = true;
  $("explain").setAttribute("aria-expanded", "false");
  showSpeak(speak.state);
}

$("host").textContent = location.host;
byAddress();
watchServer();
setInterval(watchServer, WATCH_MILLISECONDS);

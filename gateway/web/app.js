// Puts the parts together: what the buttons and keys do, and what the page says about it.

import { showLag, showMuted, showServer, showSpeech, showState } from "./controls.js";
import { offer } from "./export.js";
import { clock } from "./formats.js";
import { Meter } from "./meter.js";
import { Notice } from "./notice.js";
import { Player } from "./player.js";
import { problem, sourceProblem } from "./problems.js";
import { AudioRing } from "./ring.js";
import { readiness } from "./server.js";
import { Settings } from "./settings.js";
import { Microphone, openContext, Recording } from "./sources.js";
import { Stream } from "./stream.js";
import { Transcript } from "./transcript.js";
import { View } from "./view.js";

const RING_SECONDS = 600;
const WATCH_MILLISECONDS = 5000;
const RESUME_MILLISECONDS = 1000;

const $ = (id) => document.getElementById(id);

let state = "idle";
let context = null;
let ring = null;
let player = null;
let source = null;
let stream = null;
let file = null; // the recording to play again when a failed start is retried
let began = 0;
let muted = false;
let saved = true;
let refusedKey = null; // not to be tried again by itself

const settings = new Settings($("settings"), settingChanged);
const notice = new Notice($("notice"), (action) => (["retry", "play"].includes(action) ? start(file) : settings.show(action)));
const meter = new Meter($("meter"));
const view = new View({ list: $("transcript"), earlier: $("earlier"), latest: $("latest"), onplay: hear });
const transcript = new Transcript((kind, utterance) => {
  if (kind === "live") view.live(utterance);
  else if (kind === "dropped") view.dropped(utterance);
  else finished(utterance);
  shown();
});

async function start(recording = null) {
  if (state !== "idle") return;
  notice.hide();
  file = recording;
  become("opening");
  try {
    await prepare();
    source = recording ? await Recording.open(context, recording) : await openMicrophone();
  } catch (error) {
    idle(sourceProblem(error));
    return;
  }
  player.stop();
  began = ring.end;
  source.onframe = frame;
  source.onend = sourceEnded;
  if (recording) source.muted = muted;
  stream = new Stream(ring, settings, settings.key, {
    event: received,
    open: streamOpen,
    interrupted: streamInterrupted,
    ended: streamEnded,
  });
  // What is said while the connection is still opening waits in the ring; a recording waits itself.
  if (!recording) source.start();
  stream.open();
}

/** No more audio; the open words are finished. */
async function stop() {
  if (!source || state === "finishing") return;
  become("finishing");
  const ending = source;
  source = null;
  await ending.stop();
  await stream.finish();
}

function togglePause() {
  if (state === "listening") {
    source.pause();
    speech(false);
    become("paused");
  } else if (state === "paused") {
    source.resume();
    become("listening");
  }
}

// Browsers start sound only on a person's press, and a dropped file is none.
async function prepare() {
  if (!context) await makeContext();
  const late = new Promise((resolve) => setTimeout(resolve, RESUME_MILLISECONDS));
  await Promise.race([context.resume(), late]);
  if (context.state !== "running") throw new DOMException("no press yet", "NeedsPress");
}

async function makeContext(options) {
  context = await openContext(options);
  ring = new AudioRing(context.sampleRate, RING_SECONDS);
  player = new Player(context, ring, (utterance, word) => view.playing(utterance, word));
}

async function openMicrophone() {
  try {
    return await Microphone.open(context);
  } catch (error) {
    // Some browsers connect a microphone only to a context at the device's own rate; the server takes that too.
    if (error.name !== "NotSupportedError" || ring.end > 0) throw error;
    await context.close();
    await makeContext({ ownRate: true });
    return Microphone.open(context);
  }
}

function frame(samples, peak) {
  ring.append(samples);
  meter.push(peak);
  stream.pump();
  const seconds = (ring.end - began) / ring.rate;
  const whole = source?.kind === "file" ? ` / ${clock(source.seconds, 0)}` : "";
  $("elapsed").textContent = clock(seconds, 0) + whole;
  view.forgetAudioBefore(ring.start / ring.rate);
}

function sourceEnded(reason) {
  if (reason === "unplugged") notice.show(problem("microphoneUnplugged"));
  stop();
}

function received(event, offset) {
  transcript.take(event, offset);
  if (event.type === "input_audio_buffer.speech_started") speech(true);
  else if (event.type === "input_audio_buffer.speech_stopped") speech(false);
  else if (event.type === "x.lag") showLag(`${event.seconds.toFixed(1)} s behind`);
  else if (event.type === "page.skipped") showLag(`${event.seconds.toFixed(0)} s skipped, the network is too slow`);
}

function streamOpen() {
  if ($("notice").dataset.problem === "reconnecting") notice.hide();
  if (state === "finishing") return;
  if (state === "opening" && source.kind === "file") source.start();
  become(source.paused ? "paused" : "listening");
}

/** The connection broke; `why` comes once the server was asked, and it is tried again. */
function streamInterrupted(why) {
  if (state !== "reconnecting") {
    transcript.dropLive();
    speech(false);
    become("reconnecting");
  } else if (why) {
    const title = ["full", "starting"].includes(why.id) ? { title: why.title } : {};
    notice.show(problem("reconnecting", title));
  }
}

async function streamEnded(cause) {
  const ending = source;
  source = null;
  await ending?.stop();
  transcript.dropLive();
  idle(cause);
}

function idle(cause) {
  speech(false);
  meter.reset();
  become("idle");
  if (cause) notice.show(cause);
}

function become(next) {
  state = next;
  showState(state, source);
  settings.lockModel(state !== "idle");
  shown();
}

function finished(utterance) {
  saved = false;
  view.finished(utterance);
  $("announcer").textContent = utterance.text;
}

function shown() {
  const any = transcript.utterances.length > 0;
  $("tools").hidden = !any;
  $("empty").hidden = any || state !== "idle";
  $("waiting").hidden = state === "idle" || $("transcript").childElementCount > 0;
}

function speech(on) {
  meter.speech = on;
  showSpeech(on);
}

async function hear(utterance) {
  if (!ring) return;
  await context.resume();
  player.play(utterance);
}

function settingChanged(name) {
  document.body.classList.toggle("unshaded", !settings.shading);
  $("choice").textContent = settings.summary;
  if (name === "language" || name === "silence") stream?.update(settings);
  if (name === "key") refreshModels();
}

async function refreshModels() {
  try {
    await settings.load();
    $("choice").textContent = settings.summary;
    if (["keyMissing", "keyWrong"].includes($("notice").dataset.problem)) notice.hide();
  } catch ({ status }) {
    if (status !== 401 && status !== 403) return;
    refusedKey = settings.key;
    notice.show(problem(settings.key ? "keyWrong" : "keyMissing"));
  }
}

/** Keep saying how busy the server is; the first time it is ready, ask for its models. */
async function watchServer() {
  if (document.visibilityState !== "visible") return;
  const server = await readiness(settings.key).catch(() => null);
  showServer(server, state);
  if (server?.ready && !settings.loaded && settings.key !== refusedKey) await refreshModels();
}

function clearAll(button) {
  if (button.dataset.sure !== "true") {
    button.dataset.sure = "true";
    button.textContent = "Really clear?";
    setTimeout(() => {
      delete button.dataset.sure;
      button.textContent = "Clear";
    }, 4000);
    return;
  }
  player?.stop();
  transcript.clear();
  view.clear();
  saved = true;
  shown();
}

const typing = (target) => target.closest?.("input:not([type=file]), select, textarea, dialog");
const pressable = (target) => target.closest?.("button, a, label, input");

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || typing(event.target)) return;
  if (event.code === "Space" && !pressable(event.target)) {
    event.preventDefault();
    toggle();
  } else if (event.key.toLowerCase() === "p") {
    togglePause();
  } else if (event.key === "Escape") {
    player?.stop();
  }
});

function toggle() {
  if (state === "idle") start();
  else stop();
}

$("toggle").addEventListener("click", toggle);
$("pause").addEventListener("click", togglePause);
$("settings-open").addEventListener("click", () => settings.show());
$("mute").addEventListener("click", () => {
  muted = !muted;
  showMuted(muted);
  if (source?.kind === "file") source.muted = muted;
});
$("file").addEventListener("change", ({ target }) => {
  if (target.files.length > 0) start(target.files[0]);
  target.value = "";
});
$("tools").addEventListener("click", async ({ target }) => {
  const what = target.dataset.do;
  if (what === "clear") clearAll(target);
  else if (what && (await offer(what, transcript.utterances, target))) saved = true;
});

addEventListener("dragover", (event) => {
  if (!event.dataTransfer.types.includes("Files")) return;
  event.preventDefault();
  event.dataTransfer.dropEffect = state === "idle" ? "copy" : "none";
  $("drop").hidden = state !== "idle";
});
addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) $("drop").hidden = true;
});
addEventListener("drop", (event) => {
  event.preventDefault();
  $("drop").hidden = true;
  if (event.dataTransfer.files.length > 0) start(event.dataTransfer.files[0]);
});
addEventListener("beforeunload", (event) => {
  if (!saved) event.preventDefault();
});

$("host").textContent = location.host;
settingChanged();
shown();
watchServer();
setInterval(watchServer, WATCH_MILLISECONDS);

// Puts the parts of the recordings page together: files in, jobs listed and followed, one of them opened.

import { Api, Feed } from "./jobs-api.js";
import { chosen, dropped } from "./jobs-files.js";
import { JobList } from "./jobs-list.js";
import { Options } from "./jobs-options.js";
import { Player } from "./jobs-player.js";
import { refusedProblem } from "./jobs-problems.js";
import { Reader } from "./jobs-reader.js";
import { namedBy, SaidSearch } from "./jobs-search.js";
import { Strip } from "./jobs-strip.js";
import { Uploads } from "./jobs-uploads.js";
import { JobView } from "./jobs-view.js";
import { plural, READABLE, stage } from "./jobs-words.js";
import { Notice } from "./notice.js";

const LISTED_BY_ITSELF = 2000;
const MODELS_MILLISECONDS = 5000;

const $ = (id) => document.getElementById(id);
const CONNECTION = { opening: "Connecting", listening: "Connected", reconnecting: "Reconnecting" };

const key = () => options.key;
const now = () => Date.now() / 1000 + api.skew;

let listed = false; // the first page has come
let older = false; // there are more on the server
let routed = ""; // the address that is shown
let scrolled = 0; // where the list was when a job was opened
let wanted = LISTED_BY_ITSELF;
const heardOf = new Map(); // when the feed last told of a job, by id

const options = new Options($("settings"), optionChanged);
const notice = new Notice($("notice"), (action) => (action === "retry" ? feed.restart() : options.show(action)));
const api = new Api(key);
const list = new JobList({
  list: $("jobs"),
  filters: $("filters"),
  search: $("search"),
  now,
  on: { act, remove, shown },
});
const said = new SaidSearch({
  form: $("said"),
  found: $("found"),
  line: $("found-line"),
  api,
  on: {
    searching: (any) => $("listing").classList.toggle("searching", any),
    problem: (error) => notice.show(refusedProblem("search", error, key())),
  },
});
const uploads = new Uploads($("uploads"), {
  options,
  api,
  onjob: answered,
  onchange: () => shown(),
});
const player = new Player($("audio"), key, {
  time: (seconds, playing) => view.heard(seconds, playing),
  playing: showPlaying,
  silent: () => view.silent(),
});
const reader = new Reader({ list: $("transcript"), back: $("latest"), dock: document.querySelector(".dock"), onseek: hear });
const strip = new Strip($("strip"), $("tip"), (seconds, reveal) => view.seek(seconds, reveal));
const view = new JobView({
  api,
  key,
  reader,
  strip,
  player,
  now,
  on: { act, remove: removeOpened, problem: (problem) => notice.show(problem) },
});
const feed = new Feed("/v1/batch/events", key, { event: told, state: connection });

/** The feed is open, so nothing changes unseen from here on: now ask how everything is. */
async function connection(state, refused) {
  document.body.dataset.state = state === "open" ? "listening" : listed ? "reconnecting" : "opening";
  const said = CONNECTION[document.body.dataset.state];
  if ($("connection").textContent !== said) $("connection").textContent = said;
  if (state === "lost") {
    const serious = refused && (refused.status !== 0 || !listed);
    if (serious) notice.show(refusedProblem("list", refused, key()));
    return;
  }
  if (["unreachable", "refused-list", "keyMissing", "keyWrong"].includes($("notice").dataset.problem)) notice.hide();
  loadOptions();
  try {
    await refresh();
  } catch (error) {
    notice.show(refusedProblem("list", error, key()));
  }
}

// While the server loads its models it does not name them; recordings are listed and taken all the same.
async function loadOptions() {
  if (options.loaded) return;
  try {
    await options.load();
    showOptions();
  } catch ({ status }) {
    if (status !== 401) setTimeout(loadOptions, MODELS_MILLISECONDS);
  }
}

/** List all jobs anew, page by page; those that are gone leave the list. */
async function refresh() {
  const seen = new Set();
  let before;
  do {
    const asked = performance.now();
    const { data, has_more: more } = await api.list(before);
    for (const job of data) {
      seen.add(job.id);
      answered(job, asked);
    }
    before = data.at(-1)?.id;
    older = more;
    listed = true;
    list.flush();
    if (seen.size === data.length) route();
  } while (older && seen.size < wanted);
  list.keep(seen, older ? list.get(before).created : -Infinity);
}

async function showOlder() {
  wanted += LISTED_BY_ITSELF;
  try {
    await refresh();
  } catch (error) {
    notice.show(refusedProblem("list", error, key()));
  }
}

function told(name, data) {
  if (name === "job") {
    heardOf.set(data.id, performance.now());
    changed(data);
  } else if (name === "deleted") {
    heardOf.delete(data.id);
    list.remove(data.id);
    if (data.id === view.id) location.hash = "";
  }
}

/** A job as an answer shows it. What the feed told after the question was `asked` (performance.now) is newer. */
function answered(job, asked) {
  if (!(heardOf.get(job.id) > asked)) changed(job);
}

function changed(job) {
  const before = list.get(job.id);
  if (before && before.state !== job.state && job.state !== "writing") {
    $("announcer").textContent = `${job.name}: ${stage(job)}`;
  }
  list.put(job);
  view.update(job);
}

async function act(job, what) {
  const asked = performance.now();
  try {
    answered(await api.act(job.id, what), asked);
  } catch (error) {
    notice.show(refusedProblem(what, error, key()));
  }
}

async function remove(job) {
  try {
    await api.remove(job.id);
    return true;
  } catch (error) {
    if (error.status === 404) return true;
    notice.show(refusedProblem("delete", error, key()));
    return false;
  }
}

function removeOpened(job) {
  location.hash = "";
  // The list is shown when the address has changed; there the deletion can be taken back.
  setTimeout(() => list.removeSoon(job.id));
}

function shown(rows = null) {
  const any = list.size > 0;
  $("empty").hidden = any || !listed || $("uploads").childElementCount > 0;
  $("filters").hidden = list.size < 2;
  if (rows !== null) $("none").hidden = rows > 0 || !any;
  $("more").hidden = !older;
  said.offer(list.some((job) => READABLE.includes(job.state)));
}

/** The address names the job that is opened, and perhaps the second to go to in it. */
async function route() {
  const { id, seconds } = namedBy(location.hash);
  if (id === (view.id ?? "")) {
    if (id && seconds !== null && routed !== location.hash) view.seek(seconds, true);
    routed = location.hash;
    return;
  }
  if ($("notice").dataset.problem === "skipped") notice.hide();
  if (!id) {
    const closed = view.id;
    view.close();
    showView("list");
    scrollTo({ top: scrolled, behavior: "instant" });
    list.focus(closed);
    document.title = "Speechlane – recordings";
    return;
  }
  if (!listed) return;
  try {
    const job = list.get(id) ?? (await api.job(id));
    if (id !== namedBy(location.hash).id) return;
    routed = location.hash;
    if (!view.id) scrolled = scrollY;
    showView("job");
    view.open(job, seconds);
    document.title = `${job.name} – Speechlane`;
    scrollTo({ top: 0, behavior: "instant" });
    $("job-title").focus({ preventScroll: true });
  } catch (error) {
    notice.show(refusedProblem("result", error, key()));
    location.hash = "";
  }
}

function showView(name) {
  document.body.dataset.view = name;
  $("listing").hidden = name !== "list";
  $("adder").hidden = name !== "list";
}

function hear(seconds) {
  view.seek(seconds);
  if (!player.playing) player.toggle();
}

function showPlaying(playing) {
  $("play").querySelector("use").setAttribute("href", playing ? "#i-pause" : "#i-play");
  $("play").querySelector("span").textContent = playing ? "Pause" : "Play";
  $("play").title = `${playing ? "Pause" : "Play"} (space)`;
}

function showOptions() {
  $("choice").textContent = options.summary;
  document.body.classList.toggle("unshaded", !options.shading);
}

function optionChanged(name) {
  showOptions();
  if (name !== "key") return;
  notice.hide();
  uploads.keyChanged();
  said.restart();
  list.clear();
  listed = false;
  feed.restart();
}

/** @param found what jobs-files.js made of what was dropped or chosen, or a promise of it */
async function add(found) {
  let files;
  let skipped;
  try {
    ({ files, skipped } = await found);
  } catch (error) {
    notice.show({ id: "unreadable", title: "The folder could not be read", text: `${error.message} Choose its files instead.` });
    return;
  }
  if (location.hash) location.hash = "";
  uploads.add(files);
  if (skipped > 0) {
    const text = files.length > 0 ? "The others are on their way." : "If it holds recordings under unusual names, choose those files themselves.";
    notice.show({ id: "skipped", title: `${plural(skipped, "file")} that look like no recording were left out`, text });
  }
  scrollTo({ top: 0, behavior: "instant" });
}

const typing = (target) => target.closest?.("input:not([type=file]), select, textarea, dialog");
const pressable = (target) => target.closest?.("button, a, label, input, summary");

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || options.open || !view.id) return;
  if (event.key === "Escape") location.hash = "";
  else if (typing(event.target)) return;
  else if (event.code === "Space" && !pressable(event.target)) {
    event.preventDefault();
    player.toggle();
  } else if (event.key.toLowerCase() === "n") view.jump(1);
  else if (event.key.toLowerCase() === "p") view.jump(-1);
});

addEventListener("hashchange", route);
$("back").addEventListener("click", (event) => {
  event.preventDefault();
  location.hash = "";
});
$("play").addEventListener("click", () => player.toggle());
$("rate").addEventListener("change", ({ target }) => (player.rate = Number(target.value)));
$("more").addEventListener("click", showOlder);
$("settings-open").addEventListener("click", () => options.show());
$("choice").addEventListener("click", () => options.show());
for (const field of [$("files"), $("folder")]) {
  field.addEventListener("change", () => {
    add(chosen([...field.files]));
    field.value = "";
  });
}

addEventListener("dragover", (event) => {
  if (!event.dataTransfer.types.includes("Files")) return;
  event.preventDefault();
  event.dataTransfer.dropEffect = "copy";
  $("drop").hidden = false;
});
addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) $("drop").hidden = true;
});
addEventListener("drop", (event) => {
  event.preventDefault();
  $("drop").hidden = true;
  add(dropped(event.dataTransfer));
});
addEventListener("beforeunload", (event) => {
  if (uploads.busy) event.preventDefault();
});

$("host").textContent = location.host;
showOptions();

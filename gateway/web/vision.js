// Puts the parts of the page for pictures and clips together: three tabs, one field, one button.

import { Notice } from "./notice.js";
import { Preferences } from "./preferences.js";
import { readiness } from "./server.js";
import { Refused } from "./vision-api.js";
import { Look } from "./vision-look.js";
import { film, imagine } from "./vision-made.js";

const WATCH_MILLISECONDS = 5000;
const TABS = ["look", "imagine", "film"];
const ASKS = {
  look: ["Ask", "What is to be known of it?"],
  imagine: ["Draw", "What is to be seen? For instance: a red circle top left, a blue square bottom right"],
  film: ["Film", "What happens? For instance: a red ball moving left"],
};
const WAITS = { look: "Looking", imagine: "Drawing", film: "Filming" };

const $ = (id) => document.getElementById(id);

let tab = "imagine";
let doing = null; // an AbortController
const texts = { look: "", imagine: "", film: "" };

const settings = new Preferences($("settings"), "speechlane.vision", () => watch());
const notice = new Notice($("notice"), (action) => (action === "retry" ? start() : settings.show(action)));
const look = new Look($("turns"), $("tray"));

function choose(name) {
  texts[tab] = $("text").value;
  tab = name;
  document.body.dataset.tab = name;
  for (const one of TABS) {
    $(`tab-${one}`).setAttribute("aria-selected", String(one === name));
    $(`tab-${one}`).tabIndex = one === name ? 0 : -1;
    $(one).hidden = one !== name;
  }
  $("text").value = texts[name];
  $("text").placeholder = ASKS[name][1];
  $("making").hidden = name === "look";
  $("count-label").hidden = name !== "imagine";
  $("with").hidden = name !== "look";
  show();
}

function show() {
  const [label] = ASKS[tab];
  $("go").textContent = doing ? "Stop" : label;
  document.body.dataset.state = doing ? "working" : "idle";
  $("forget").hidden = look.empty || Boolean(doing);
  $("doing").textContent = doing ? WAITS[doing.tab] : "";
  if (!doing) $("progress").hidden = true;
}

async function start() {
  const text = $("text").value.trim();
  if (!text) {
    $("text").focus();
    return;
  }
  notice.hide();
  doing = new AbortController();
  doing.tab = tab;
  show();
  const { key } = settings;
  const { signal } = doing;
  const options = {
    count: $("count").valueAsNumber || 1,
    seed: $("seed").valueAsNumber,
    steps: $("steps").valueAsNumber,
    exact: $("exact").checked,
  };
  try {
    if (tab === "look") {
      await look.ask(text, { key, signal });
      if (tab === "look") $("text").value = "";
      texts.look = "";
    } else if (tab === "imagine") await imagine($("pictures"), text, options, { key, signal });
    else await film($("clips"), text, options, { key, signal, progress });
  } catch (error) {
    if (!signal.aborted) tell(error);
  }
  doing = null;
  show();
}

function progress(share) {
  $("progress").hidden = share === 0;
  $("progress").value = share;
}

function tell(error) {
  if (error instanceof Refused && error.status === 401) {
    notice.show({ id: "key", title: "This server asks for an API key", text: error.message, action: "key" });
  } else if (error instanceof Refused) {
    notice.show({ id: "refused", title: "The server refused", text: error.message });
  } else {
    const title = error instanceof TypeError ? "The server cannot be reached" : "It could not be made";
    notice.show({ id: "failed", title, text: error.message, action: "retry" });
  }
}

async function add(files) {
  const seen = [...files].filter((one) => /^(image|video)\//.test(one.type));
  if (seen.length === 0) return;
  if (tab !== "look") choose("look");
  await look.add(seen);
  show();
  $("text").focus();
}

async function watch() {
  try {
    const { ready, status } = await readiness(settings.key);
    $("connection").textContent = ready ? "Ready" : { loading: "Loading", draining: "Stopping" }[status] ?? "Not ready";
  } catch {
    $("connection").textContent = "Away";
  }
}

for (const name of TABS) $(`tab-${name}`).addEventListener("click", () => choose(name));
$("tabs").addEventListener("keydown", ({ key }) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
  if (!step) return;
  choose(TABS[(TABS.indexOf(tab) + step + TABS.length) % TABS.length]);
  $(`tab-${tab}`).focus();
});
$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (doing) doing.abort();
  else start();
});
$("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!doing) start();
});
$("files").addEventListener("change", ({ target }) => add(target.files).then(() => (target.value = "")));
$("forget").addEventListener("click", () => {
  look.forget();
  show();
});
addEventListener("paste", ({ clipboardData }) => add(clipboardData.files));
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  event.preventDefault();
  add(event.dataTransfer.files);
});
$("settings-open").addEventListener("click", () => settings.show());

choose(TABS.includes(location.hash.slice(1)) ? location.hash.slice(1) : tab);
watch();
setInterval(watch, WATCH_MILLISECONDS);

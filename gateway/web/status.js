// Asks the server how it is every other second, as long as somebody looks.

import { Notice } from "./notice.js";
import { Preferences } from "./preferences.js";
import { problem } from "./problems.js";
import { View } from "./status-view.js";
import { headers } from "./wire.js";

const EVERY_MILLISECONDS = 2000;
const RETRY_MILLISECONDS = 5000;
const PATIENCE_MILLISECONDS = 5000;

const $ = (id) => document.getElementById(id);
const CONNECTION = { opening: "Connecting", listening: "Live", reconnecting: "Reconnecting", idle: "Paused" };
const CHANGES = {
  ready: "The service takes work.",
  loading: "The models are loading.",
  failed: "The models could not be loaded.",
  draining: "The service is going down.",
  device_dead: "A device has stopped.",
};

const view = new View();
const notice = new Notice($("notice"), (action) => (action === "key" ? options.show(action) : ask()));
const options = new Preferences($("settings"), "speechlane.status", () => ask());

let timer = 0;
let asked = 0; // the number of the question that counts
let told = ""; // the state that was announced

async function ask() {
  clearTimeout(timer);
  const mine = ++asked;
  const again = (wait) => {
    if (mine === asked && !document.hidden) timer = setTimeout(ask, wait);
  };
  try {
    const signal = AbortSignal.timeout(PATIENCE_MILLISECONDS);
    const response = await fetch("/v1/status", { headers: headers(options.key), cache: "no-store", signal });
    const body = await response.json();
    if (mine !== asked) return;
    if (!response.ok) return refused(response, body);
    connection("listening");
    notice.hide();
    view.draw(body);
    announce(body.state);
    again(EVERY_MILLISECONDS);
  } catch (error) {
    if (mine !== asked) return;
    if (error instanceof TypeError && error.message.includes("header")) {
      connection("idle");
      notice.show(problem("keyUnsendable"));
      return;
    }
    connection(told ? "reconnecting" : "opening");
    if (!notice.shown) notice.show(problem("unreachable"));
    announce("");
    again(RETRY_MILLISECONDS);
  }
}

/** The server does not want to tell: a person has to do something, or wait. */
function refused(response, body) {
  connection("idle");
  const { message = `The server answered ${response.status}.`, code } = body.error ?? {};
  const retryAfter = Number.parseFloat(response.headers.get("retry-after")) || undefined;
  if (response.status === 401) notice.show(problem(options.key ? "keyWrong" : "keyMissing"));
  else if (code === "insufficient_scope") {
    notice.show({ id: "scope", title: "This key may not see the status", text: "It takes a key with the scope admin.", action: "key" });
  } else notice.show({ id: "refused", title: "The server does not tell", text: message, action: "retry", retryAfter });
}

function connection(state) {
  document.body.dataset.state = state;
  const said = CONNECTION[state];
  if ($("connection").textContent !== said) $("connection").textContent = said;
}

function announce(state) {
  if (state === told) return;
  if (told || (state && state !== "ready")) $("announcer").textContent = CHANGES[state] ?? "The server cannot be reached.";
  told = state;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    clearTimeout(timer);
    asked += 1;
  } else ask();
});
$("settings-open").addEventListener("click", () => options.show());

ask();

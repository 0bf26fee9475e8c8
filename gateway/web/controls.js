// What the header and the dock say: the state, whether a voice is heard, how far behind the words are.

const LAG_SHOWN_MILLISECONDS = 6000;

const STATES = {
  idle: "Ready",
  opening: "Connecting",
  listening: "Live",
  paused: "Paused",
  speaking: "Speaking",
  muted: "Muted",
  reconnecting: "Reconnecting",
  finishing: "Finishing",
};

const $ = (id) => document.getElementById(id);

/** `source` is what is heard, or null. */
export function showState(state, source) {
  document.body.dataset.state = state;
  showConnection(state);
  const running = state !== "idle";
  face($("toggle"), running ? "#i-stop" : "#i-mic", state === "finishing" ? "Finishing" : running ? "Stop" : "Start");
  $("toggle").setAttribute("aria-disabled", String(state === "finishing"));
  const paused = state === "paused";
  face($("pause"), paused ? "#i-resume" : "#i-pause", paused ? "Resume" : "Pause");
  $("pause").title = paused ? "Resume (P)" : "Pause (P)";
  $("pause").hidden = !["listening", "paused"].includes(state);
  $("mute").hidden = source?.kind !== "file";
  $("source").textContent = source?.kind === "file" ? source.name : "";
  $("file").disabled = running;
}

/** What the server's readiness (null: it is away) means to somebody who is about to speak; and its load. */
export function showServer(server, state) {
  STATES.idle = { ready: "Ready", loading: "Loading models" }[server?.status] ?? (server ? "Not ready" : "Offline");
  showConnection(state);
  $("load").hidden = server?.utilisation === undefined;
  if ($("load").hidden) return;
  const percent = Math.round(server.utilisation * 100);
  $("load").querySelector(".gauge span").style.inlineSize = `${percent}%`;
  $("load").querySelector(".label").textContent = server.free > 0 ? `${percent} % busy` : "Full";
  $("load").title = `Server ${percent} % busy, ${server.streams} live, room for ${Math.max(0, server.free)} more`;
}

export function showSpeech(on) {
  $("voice").dataset.speech = on;
  $("voice").textContent = on ? "Speech" : "Silence";
}

export function showMuted(muted) {
  $("mute").setAttribute("aria-pressed", String(muted));
  $("mute").querySelector("use").setAttribute("href", muted ? "#i-mute" : "#i-loud");
}

let lagTimer = 0;

/** Say for a while why words come late. */
export function showLag(text) {
  $("lag").textContent = text;
  $("lag").hidden = false;
  clearTimeout(lagTimer);
  lagTimer = setTimeout(() => ($("lag").hidden = true), LAG_SHOWN_MILLISECONDS);
}

// A status that is written anew is read out anew, so it is written only when it changes.
export function showConnection(state) {
  if ($("connection").textContent !== STATES[state]) $("connection").textContent = STATES[state];
}

export function face(button, icon, label) {
  button.querySelector("use").setAttribute("href", icon);
  button.querySelector("span").textContent = label;
}

// Takes the transcript out of the page: to the clipboard or as a file.

import { toJson, toSrt, toText } from "./formats.js";

const FILES = {
  txt: { write: toText, type: "text/plain" },
  srt: { write: toSrt, type: "application/x-subrip" },
  json: { write: toJson, type: "application/json" },
};

/** `what`: "copy", "txt", "srt" or "json". True when it was done; `button` tells the person so. */
export async function offer(what, utterances, button) {
  if (what === "copy") return copy(toText(utterances), button);
  const { write, type } = FILES[what];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([write(utterances)], { type }));
  link.download = `transcript-${new Date().toISOString().slice(0, 16).replace(/[T:]/g, "-")}.${what}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  return true;
}

async function copy(text, button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = copyBySelection(text); // the clipboard interface is missing on pages without https
  }
  button.textContent = done ? "Copied" : "Not copied";
  setTimeout(() => (button.textContent = "Copy"), 1500);
  return done;
}

function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden-text";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

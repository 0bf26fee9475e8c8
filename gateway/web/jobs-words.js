// Numbers and states in words.

import { clock } from "./formats.js";

export const ENDED = ["done", "partial", "failed", "cancelled"];
export const READABLE = ["done", "partial"];

const STATES = {
  queued: "Waiting",
  running: "Transcribing",
  repairing: "Repairing",
  writing: "Writing",
  done: "Done",
  partial: "Done, with gaps",
  failed: "Failed",
  cancelled: "Cancelled",
};

/** The stage a job is in. */
export function stage(job) {
  if (job.waiting) return "Delayed";
  if (job.state === "running" && job.covered === 0) return "Reading";
  if (job.state === "repairing" && job.repairs > 0) return `Repairing ${job.repairs_done} of ${plural(job.repairs, "span")}`;
  return STATES[job.state] ?? job.state;
}

/** The line under a job's name: what it is doing or how it ended. `now` is the server's time in seconds. */
export function facts(job, now, { brief = false } = {}) {
  const whole = length(job);
  const said = [stage(job)];
  if (job.state === "failed") return [said[0]];
  if (job.state === "queued") return [...said, priority(job)].filter(Boolean);
  if (ENDED.includes(job.state)) {
    if (whole > 0) said.push(clock(whole, 0));
    const rate = READABLE.includes(job.state) && job.ended > job.started ? whole / (job.ended - job.started) : 0;
    if (rate > 0 && !brief) said.push(`in ${duration(job.ended - job.started)}`);
    if (rate > 0) said.push(times(rate));
    return said;
  }
  if (job.covered > 0 || whole > 0) said.push(`${clock(job.covered, 0)} of ${whole > 0 ? clock(whole, 0) : "?"}`);
  const spent = job.started ? now - job.started : 0;
  const rate = spent > 1 ? job.covered / spent : 0;
  if (rate > 0) said.push(times(rate));
  if (rate > 0 && whole > job.covered && job.state === "running") said.push(`${duration((whole - job.covered) / rate)} left`);
  return said;
}

function priority(job) {
  return { high: "high priority", low: "low priority" }[job.options?.priority] ?? "";
}

/** Seconds of audio, as far as they are known. */
export function length(job) {
  return job.split ? job.decoded : Math.max(job.decoded, job.expected ?? 0);
}

function times(rate) {
  return `${rate < 10 ? rate.toFixed(1) : Math.round(rate)}× real time`;
}

/** 75 → "1 min 15 s"; no more exact than a person wants to know. */
export function duration(seconds) {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

export function size(bytes) {
  if (bytes < 1e6) return `${Math.max(1, Math.round(bytes / 1e3))} kB`;
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
}

export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString()} ${count === 1 ? one : many}`;
}

/** When, for people: the time of today, else the day. */
export function when(seconds) {
  const date = new Date(seconds * 1000);
  const today = date.toDateString() === new Date().toDateString();
  const year = date.getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" };
  const form = today ? { hour: "numeric", minute: "2-digit" } : { day: "numeric", month: "short", ...year };
  return new Intl.DateTimeFormat(undefined, form).format(date);
}

/** An element with a class and a text. */
export function element(name, className = "", text = "") {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

/** A button with an icon and a name that is read out and shown as a hint. */
export function iconButton(icon, label) {
  const button = element("button", "round");
  button.type = "button";
  button.title = label;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", icon);
  svg.append(use);
  button.append(svg, element("span", "hidden-text", label));
  return button;
}

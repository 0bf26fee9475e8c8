// Figures in words: shares, seconds, counts, spans of time.

const counts = new Intl.NumberFormat("en");

export const NONE = "–";

export function percent(share) {
  return share === null || share === undefined ? NONE : `${Math.round(share * 100)} %`;
}

/** Of latencies: 7 ms, 184 ms, 1.08 s. */
export function latency(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds >= 10) return "≥ 10 s";
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  return `${Math.round(seconds * 1000)} ms`;
}

export function count(number) {
  return number === null || number === undefined ? NONE : counts.format(number);
}

/** 2 days 3 h, 3 h 12 min, 12 min, 40 s */
export function span(seconds) {
  const whole = Math.floor(seconds);
  const days = Math.floor(whole / 86_400);
  const hours = Math.floor(whole / 3600) % 24;
  const minutes = Math.floor(whole / 60) % 60;
  if (days > 0) return `${plural(days, "day")} ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min` : `${whole} s`;
}

export function plural(number, word) {
  const ending = number === 1 ? "" : word.endsWith("ch") ? "es" : "s";
  return `${count(number)} ${word}${ending}`;
}

/** A code of the service in words: input_too_large → input too large. */
export function words(code) {
  return code.replaceAll("_", " ");
}

export function clock(unix) {
  return new Date(unix * 1000).toLocaleTimeString();
}

// The transcript as text, subtitles and JSON; and times for people.

const CUE_SECONDS = 6;
const CUE_CHARACTERS = 84;

/** 65.24 → "1:05.2"; hours only when there are any. */
export function clock(seconds, decimals = 1) {
  const unit = 10 ** decimals;
  const total = Math.floor(Math.max(0, seconds) * unit + 1e-6) / unit;
  const hours = Math.floor(total / 3600);
  const minutes = Math.floor(total / 60) % 60;
  const rest = (total % 60).toFixed(decimals).padStart(decimals ? 3 + decimals : 2, "0");
  return hours > 0 ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

export function toText(utterances) {
  return utterances.map((utterance) => utterance.text).filter(Boolean).join("\n") + "\n";
}

export function toSrt(utterances) {
  return utterances
    .flatMap(cues)
    .map(({ start, end, text }, index) => `${index + 1}\n${stamp(start)} --> ${stamp(end)}\n${text}\n`)
    .join("\n");
}

export function toJson(utterances) {
  const seconds = (value) => Math.round(value * 1000) / 1000;
  const rows = utterances.map(({ start, end, text, words, language, problem }) => ({
    start: seconds(start),
    end: seconds(end),
    text,
    ...(language ? { language } : {}),
    words: words.map((word) => ({ ...word, start: seconds(word.start), end: seconds(word.end) })),
    ...(problem === undefined ? {} : { error: problem }),
  }));
  return JSON.stringify({ utterances: rows }, null, 2) + "\n";
}

/** An utterance cut into subtitles a viewer can read, at word borders where the word times are known. */
function cues({ start, end, text, words }) {
  if (!text) return [];
  if (words.length === 0) return [{ start, end, text }];
  const spans = place(text, words);
  const out = [];
  let first = 0;
  for (let next = 1; next <= spans.length; next += 1) {
    const full =
      next < spans.length &&
      (words[next].end - words[first].start > CUE_SECONDS || spans[next].to - spans[first].from > CUE_CHARACTERS);
    if (next < spans.length && !full) continue;
    const from = first === 0 ? 0 : spans[first].from;
    const to = next < spans.length ? spans[next].from : text.length;
    out.push({ start: words[first].start, end: words[next - 1].end, text: text.slice(from, to).trim() });
    first = next;
  }
  return out;
}

/** Where each word stands in the text: {from, to} in characters. A word that is not found takes no room. */
export function place(text, words) {
  let cursor = 0;
  return words.map(({ word }) => {
    const found = text.indexOf(word, cursor);
    if (found < 0) return { from: cursor, to: cursor };
    cursor = found + word.length;
    return { from: found, to: cursor };
  });
}

function stamp(seconds) {
  const milliseconds = Math.round(seconds * 1000);
  const part = (value, width) => String(Math.floor(value)).padStart(width, "0");
  const hours = part(milliseconds / 3_600_000, 2);
  const minutes = part((milliseconds / 60_000) % 60, 2);
  return `${hours}:${minutes}:${part((milliseconds / 1000) % 60, 2)},${part(milliseconds % 1000, 3)}`;
}

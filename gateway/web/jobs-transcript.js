// A result of the service, as the page reads and plays it.

/**
 * {seconds, items, words, repairs, holes, suspicions, warnings, account, channels}. `items` are the rows in the order of
 * time: {kind: "speech" | "hole" | "taken" | "doubt", start, end, channel, text, words, repairs, suspicions}; "taken" is
 * what a repair took away altogether, "doubt" a suspicion where nothing is written. `words` is every word of the speech in the order of time: {start, end, confidence, item,
 * index}, index being that among the item's words.
 */
export function readTranscript(result) {
  const { segments, account, repairs, suspicions, warnings } = result;
  const items = segments.map((segment) => ({
    ...segment,
    kind: "speech",
    words: segment.words.map(({ text, ...times }) => ({ word: text.trim(), ...times })),
    repairs: [],
    suspicions: [],
  }));
  for (const hole of account.missing) {
    items.push({ ...hole, kind: "hole", text: hole.reason, words: [], repairs: [], suspicions: [] });
  }
  for (const repair of repairs) {
    const item = repair.kept && repair.after.length === 0 ? undefined : itemAt(items, repair);
    if (item) item.repairs.push(repair);
    else items.push({ ...repair, kind: "taken", text: "", words: [], repairs: [repair], suspicions: [] });
  }
  for (const suspicion of suspicions) {
    const item = itemAt(items, suspicion);
    if (item) item.suspicions.push(suspicion);
    else items.push({ ...suspicion, kind: "doubt", text: "", words: [], repairs: [], suspicions: [suspicion] });
  }
  items.sort((one, other) => one.start - other.start || one.channel - other.channel);
  const words = items.flatMap((item, at) => item.words.map((word, index) => ({ ...word, item: at, index })));
  words.sort((one, other) => one.start - other.start);
  return {
    seconds: Math.max(account.decoded, items.at(-1)?.end ?? 0),
    items,
    words,
    repairs,
    holes: account.missing,
    suspicions,
    warnings,
    account,
    channels: new Set(segments.map(({ channel }) => channel)).size > 1 ? account.channels : 1,
  };
}

// The first row that the span touches, one of speech if there is any.
function itemAt(items, { start, end, channel }) {
  const touched = items.filter((item) => item.channel === channel && item.end > start && item.start < end);
  return touched.find(({ kind }) => kind === "speech") ?? touched[0];
}

/** Index of the last word that has begun at `seconds`, -1 before the first. */
export function wordAt(words, seconds) {
  let low = 0;
  let high = words.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (words[middle].start <= seconds) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Whether a word was put there by a repair that stands. */
export function repaired(item, word) {
  return item.repairs.some(({ kept, start, end }) => kept && word.start < end && word.end > start);
}

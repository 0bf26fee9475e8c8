// How a text is read, as a table: what is written, what is said for it, by which rule, and its sounds.

const COLUMNS = ["Written", "Spoken", "Rule", "Phonemes"];

/** Rows of an answer of /v1/text/explain, in the order of the text, a body of the table for each segment. */
export function explanation({ tokens, removed, segments }) {
  const table = document.createElement("table");
  const caption = table.createCaption();
  const pieces = segments.length === 1 ? "one piece" : `${segments.length} pieces`;
  caption.textContent = `Planned in ${pieces}. Marked rows are said otherwise than they are written.`;
  const head = table.createTHead().insertRow();
  for (const name of COLUMNS) head.append(cell("th", name));
  const left = removed.map(({ written, start, policy }) => ({
    written,
    spoken: "",
    start,
    rule: `left out: ${policy}`,
    phonemes: "",
  }));
  const rows = [...tokens, ...left].sort((a, b) => a.start - b.start);
  for (const segment of segments) {
    const body = table.createTBody();
    for (const token of rows.filter(({ start }) => start >= segment.start && start < segment.end)) body.append(row(token));
    if (body.rows.length === 0) body.remove();
  }
  return table;
}

function row({ written, spoken, rule, phonemes }) {
  const row = document.createElement("tr");
  const kind = rule === "punctuation" ? "mark" : spoken === "" ? "left" : same(written, spoken) ? "plain" : "changed";
  row.className = kind;
  row.append(cell("td", written), cell("td", spoken || "—"), cell("td", rule.replaceAll("_", " ")), cell("td", phonemes));
  row.querySelectorAll("td").forEach((one, column) => (one.dataset.column = COLUMNS[column].toLowerCase()));
  return row;
}

function same(written, spoken) {
  return written.toLowerCase() === spoken.toLowerCase();
}

function cell(name, text) {
  const node = document.createElement(name);
  if (name === "th") node.scope = "col";
  node.textContent = text;
  return node;
}

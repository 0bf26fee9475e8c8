// What was repaired and what still looks wrong, under the row it is about: a word in short, the rest on demand.

import { element } from "./jobs-words.js";

// By the names that the server gives its rules.
const RULES = {
  loop: "The same words again and again, more often than they are heard",
  compression: "More repetition than speech has",
  "no voice": "Words where no voice is heard",
  "no words": "A voice is heard, but there are no words",
  rate: "More words than anybody can say in that time",
  "instant words": "Words too short to be said",
  unsure: "The model itself hardly believes it",
  "made-up phrase": "A phrase that models make up over silence",
  language: "Another language all of a sudden",
};

/** Elements, closed, for an item's repairs and remaining suspicions; none for most. */
export function findings(item) {
  return [...item.repairs.map(repairElement), ...item.suspicions.map(suspicionElement)];
}

function why({ rule, detail }) {
  const sentence = RULES[rule] ?? rule;
  return detail ? `${sentence}: ${detail}` : sentence;
}

function repairElement(repair) {
  const { kept, before, after, reasons, how, attempts, score_before: was, score_after: is } = repair;
  const box = element("details", `finding ${kept ? "repair" : "kept-old"}`);
  box.append(element("summary", "", kept ? "Repaired" : "Heard twice, left as it was"));
  const rows = element("dl");
  const say = (term, text, className = "") => {
    if (text) rows.append(element("dt", "", term), element("dd", className, text));
  };
  say(kept ? "Before" : "Kept", texts(before) || "(nothing)", kept ? "before" : "after");
  say(kept ? "After" : "Second try", texts(after) || "(nothing)", kept ? "after" : "before");
  say("Why", reasons.map(why).join("; "));
  say("How", `${how}${attempts > 1 ? `, ${attempts} tries` : ""}`);
  say("Score", `${round(was)} before, ${round(is)} after`);
  box.append(rows);
  return box;
}

function suspicionElement(suspicion) {
  const box = element("details", "finding suspicion");
  const rows = element("dl");
  box.append(element("summary", "", "Looks wrong"), rows);
  rows.append(element("dt", "", "Why"), element("dd", "", why(suspicion)));
  const { value, limit } = suspicion;
  rows.append(element("dt", "", "Measured"), element("dd", "", `${round(value)}, where the limit is ${round(limit)}`));
  return box;
}

function texts(segments) {
  return segments.map(({ text }) => text.trim()).join(" ");
}

// The server sends null for what is no number.
function round(value) {
  return value === null ? "none" : Number(value.toPrecision(3)).toLocaleString();
}

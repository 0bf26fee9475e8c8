// The text that is typed, and the same text laid out beneath it, line by line, to show what of it is heard. Both lie in
// one cell of a grid and wrap alike; the field's own letters are hidden while the marks are shown.
//
// The server counts characters in code points, this page in UTF-16 units; `#units` leads from one to the other.

export class SpokenText {
  #field;
  #mirror;
  #lines = []; // {element, text, from}: where each line begins, in UTF-16 units
  #units = null;
  #marked = -1;

  constructor(field, mirror) {
    this.#field = field;
    this.#mirror = mirror;
    field.addEventListener("input", () => this.edit());
    this.edit();
  }

  get value() {
    return this.#field.value;
  }

  set value(text) {
    this.#field.value = text;
    this.edit();
  }

  /** Characters, in code points. */
  get length() {
    return this.#units ? this.#units.length - 1 : this.value.length;
  }

  focus() {
    this.#field.focus();
  }

  /** Back to plain text that can be changed. */
  edit() {
    this.#field.readOnly = false;
    this.#field.parentElement.dataset.reading = "false";
    this.#lines = [];
    this.#mirror.textContent = `${this.value}\n`;
  }

  /** Lay the text out to be followed; nothing of it is heard yet but the first `spoken` characters. */
  read(spoken = 0) {
    this.#units = unitsOf(this.value);
    this.#field.readOnly = true;
    this.#field.parentElement.dataset.reading = "true";
    let from = 0;
    this.#lines = this.value.split("\n").map((text) => {
      const element = document.createElement("div");
      element.textContent = text || "\u200b";
      const line = { element, text, from };
      from += text.length + 1;
      return line;
    });
    this.#mirror.replaceChildren(...this.#lines.map(({ element }) => element));
    this.#marked = -1;
    this.show(spoken, spoken);
  }

  /** The characters before `start` are heard, those up to `end` are being heard. */
  show(start, end) {
    const [from, to] = [this.#unit(start), this.#unit(end)];
    const now = this.#lines.findLastIndex((line) => line.from <= from);
    for (let i = Math.max(0, this.#marked); i < now; i += 1) plain(this.#lines[i], "spoken");
    this.#marked = now;
    const line = this.#lines[now];
    if (!line?.text) return;
    const [a, b] = [from - line.from, Math.min(to - line.from, line.text.length)];
    line.element.className = "";
    line.element.replaceChildren(part("span", "spoken", line.text.slice(0, a)));
    if (b > a) line.element.append(part("mark", "", line.text.slice(a, b)));
    line.element.append(line.text.slice(b));
    if (b > a) this.#keepInView(line.element.querySelector("mark"));
  }

  /** All of it has been heard. */
  finish() {
    for (const line of this.#lines) plain(line, "spoken");
    this.#field.readOnly = false;
  }

  /** The field can be changed again, with the marks left as they are until then. */
  release() {
    this.#field.readOnly = false;
  }

  /** The text from character `start` on. */
  from(start) {
    return this.value.slice(this.#unit(start));
  }

  #unit(character) {
    return this.#units ? this.#units[Math.min(character, this.#units.length - 1)] : Math.min(character, this.value.length);
  }

  #keepInView(mark) {
    const { top, bottom } = mark.getBoundingClientRect();
    const dock = document.querySelector(".dock").getBoundingClientRect().top;
    if (bottom > dock || top < 0) mark.scrollIntoView({ block: "center" });
  }
}

function plain({ element, text }, className) {
  element.className = className;
  element.textContent = text || "\u200b";
}

function part(name, className, text) {
  const node = document.createElement(name);
  node.className = className;
  node.textContent = text;
  return node;
}

/** Where each code point begins, and where the last one ends; null where that is the same count. */
function unitsOf(text) {
  const units = [];
  let at = 0;
  for (const character of text) {
    units.push(at);
    at += character.length;
  }
  if (units.length === text.length) return null;
  units.push(at);
  return units;
}

// Elements of the status page. Nothing is written that has not changed, so that a selection or a reader is not disturbed.

/** Put `text` into an element. */
export function show(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** How much of a bar is full, 0 to 1. */
export function bars(element, share) {
  element.style.inlineSize = `${Math.min(1, Math.max(0, share ?? 0)) * 100}%`;
}

/** Make elements from [tag, class, text or children]. */
export function fill(parent, parts) {
  for (const [tag, className, inside] of parts) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (typeof inside === "string") made.textContent = inside;
    else fill(made, inside);
    parent.append(made);
  }
}

/** A description list of [term, value, class of the term]; `wrap` is the element around each pair, none by default. */
export function pairs(list, rows, wrap) {
  const have = list.querySelectorAll("dt");
  if (have.length !== rows.length) {
    list.replaceChildren();
    for (const _ of rows) {
      const pair = [["dt", "", ""], ["dd", "", ""]];
      fill(list, wrap ? [[wrap, "", pair]] : pair);
    }
  }
  const terms = list.querySelectorAll("dt");
  const values = list.querySelectorAll("dd");
  for (const [n, [term, value, className = ""]] of rows.entries()) {
    show(terms[n], term);
    show(values[n], value);
    if (terms[n].className !== className) terms[n].className = className;
    values[n].classList.toggle("bad", className === "bad");
  }
}

/** A list of {name, more, value, share}: a name, a number, and a bar as long as its share. */
export function ranked(list, rows) {
  while (list.children.length > rows.length) list.lastElementChild.remove();
  while (list.children.length < rows.length) {
    fill(list, [["li", "", [["span", "", [["span", "", ""], ["small", "", ""]]], ["span", "", ""], ["span", "share", [["span", "", ""]]]]]]);
  }
  for (const [n, { name, more = "", value, share }] of rows.entries()) {
    const [label, number, bar] = list.children[n].children;
    show(label.firstElementChild, name);
    show(label.lastElementChild, more ? ` ${more}` : "");
    show(number, value);
    bars(bar.firstElementChild, share);
  }
  list.hidden = rows.length === 0;
}

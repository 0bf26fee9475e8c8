// Small pieces of the page: elements, and text with `code` in it.

/** An element with a class (or none) and what is in it: nodes and text. */
export function node(name, className, ...inside) {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...inside.filter((one) => one !== null && one !== undefined && one !== ""));
  return element;
}

/** Text with what stands between backticks as code. */
export function phrase(text) {
  const parts = document.createDocumentFragment();
  text.split("`").forEach((part, index) => parts.append(index % 2 ? node("code", "", part) : part));
  return parts;
}

/** A paragraph for each that the text has. */
export function paragraphs(text) {
  return text
    .split(/\n{2,}/)
    .filter((one) => one.trim())
    .map((one) => node("p", "", phrase(one)));
}

/** A button that copies what `text` gives, and says that it has. */
export function copyButton(text, what) {
  const button = node("button", "copy", "Copy");
  button.type = "button";
  button.setAttribute("aria-label", `Copy ${what}`);
  button.addEventListener("click", async () => {
    button.textContent = (await copied(text())) ? "Copied" : "Press Ctrl C";
    setTimeout(() => (button.textContent = "Copy"), 1600);
  });
  return button;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Browsers have no clipboard for pages that came over plain http from another machine.
    const area = node("textarea", "hidden-text", text);
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

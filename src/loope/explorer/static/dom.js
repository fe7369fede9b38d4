// Create an element: h("div.card", {onclick}, "text", child).
export function h(name, props = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(props)) {
    if (key in element && key !== "list") element[key] = value;
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

export function select(label, options, value, onchange) {
  const made = h(
    "select",
    { onchange: () => onchange(made.value), "aria-label": label },
    options.map((each) => (each.group ? h("optgroup", { label: each.group }, each.options.map(option)) : option(each))),
  );
  made.value = value;
  return made;
}

function option(each) {
  const { value, text } = typeof each === "object" ? each : { value: each, text: each };
  return h("option", { value }, text);
}

// Put a label above a control.
export function field(label, control) {
  return h("label.field", {}, h("span", {}, label), control);
}

// Build a file picker; `take` gets the files, and its errors are shown in `message`.
export function filePicker(label, accept, message, take, multiple = false) {
  const chosen = async () => {
    try {
      if (input.files[0]) await take(input.files);
    } catch (error) {
      message.replaceChildren(problem(error));
    }
  };
  const input = h("input", { type: "file", accept, multiple, onchange: chosen });
  return h("label.button", {}, label, input);
}

// Build the grid control: a text field with suggestions, or without a server a list of the exported grids.
export function gridControl(catalog, value, onchange) {
  if (!catalog.free) return field("grid", select("grid", catalog.grids, value, onchange));
  const list = h(
    "datalist",
    { id: `grids-${Math.random().toString(36).slice(2)}` },
    catalog.grids.map((g) => h("option", { value: g })),
  );
  const input = h("input", {
    value,
    size: 7,
    list: list.id,
    spellcheck: false,
    "aria-label": "grid, height x width",
    onchange: () => {
      const read = readGrid(input.value);
      input.setCustomValidity(read ? "" : "Write it as HEIGHTxWIDTH, for example 14x14.");
      if (read) onchange(`${read[0]}x${read[1]}`);
      else input.reportValidity();
    },
  });
  return h("div.pair", {}, field("grid", input), list);
}

export function readGrid(text) {
  const match = /^\s*(\d+)(?:\s*[x×]\s*(\d+))?\s*$/.exec(text);
  return match && [Number(match[1]), Number(match[2] ?? match[1])];
}

// Parse the grid of an address; without a server only the exported grids are valid.
export function offeredGrid({ free, grids }, text, usual) {
  const given = text && readGrid(text);
  return given && (free || grids.includes(given.join("x"))) ? given : readGrid(usual);
}

export const number = (value, digits = 4) =>
  value == null ? "–" : (value + 0).toFixed(digits).replace(/^-(0\.?0*)$/, "$1");

// The ends of a scale, with the digits that its range needs.
export const numbers = (least, most) => [least, most].map((end) => number(end, most - least < 0.1 ? 3 : 2));

// Announce a text to screen readers; it is visible elsewhere on the page.
export function say(text) {
  document.getElementById("live").textContent = text;
}

export function problem(error) {
  return h("p.problem", { role: "alert" }, error.message);
}

// Describe a view and how to use it.
export function lede(title, hint) {
  return h("div.lede", {}, h("h1", {}, title), h("p.hint", {}, hint));
}

// Words for a pointer that hovers, or for a finger.
export const forPointer = (mouse, finger) => (matchMedia("(hover: none)").matches ? finger : mouse);

// A term for a list of terms, `dt` and `dd`: clicking its name shows what it means, which a finger cannot hover for.
export function term(name, help, ...rest) {
  const meaning = h("dd.help", { hidden: true }, help);
  const show = () => {
    meaning.hidden = !meaning.hidden;
    button.ariaExpanded = String(!meaning.hidden);
  };
  const button = h("button.term", { type: "button", title: help, ariaExpanded: "false", onclick: show }, name);
  return h("div", {}, h("dt", {}, button), ...rest, meaning);
}

// Placeholder while something loads.
export function waiting(text) {
  return h("span.waits", { role: "status" }, h("span.spinner", { "aria-hidden": true }), text);
}

// Rebuild a part of the page and keep the keyboard focus: on the control of the same name in the same card, else on
// the control at the same index, else on the card's first control.
export function keepFocus(root, renew) {
  const cards = () => [...root.querySelectorAll(".card")];
  const controls = (part) => [...part.querySelectorAll("select, input, button, canvas[tabindex]")];
  const name = (control) => control.ariaLabel ?? control.labels?.[0]?.textContent ?? control.textContent;
  const active = document.activeElement,
    card = cards().indexOf(active.closest(".card"));
  const place = controls(cards()[card] ?? root).indexOf(active);
  renew();
  if (place < 0) return;
  const now = controls(cards()[card] ?? root);
  const same = now.find((control) => control.tagName === active.tagName && name(control) === name(active));
  const there = now[place]?.tagName === active.tagName ? now[place] : now[0];
  (same ?? there)?.focus();
}

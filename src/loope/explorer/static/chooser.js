// What a card of Compare shows: an encoder with its options, a timm model's table, or that of a file.
// Its spec, as in the page's address: "sinusoid~order~hilbert", "timm~NAME", "file~ID", "file~ID~acts~0",
// "file~ID~aside~0". `files` maps the spec of a file to {text, file, table}.
import { post, slimSafetensors } from "./data.js";
import { field, filePicker, h, select } from "./dom.js";

export function nameOf(spec, files) {
  const [name, ...details] = spec.split("~");
  if (name === "file") return files[spec]?.text ?? "a file chosen before";
  if (name === "timm") return details.join("~");
  return [name, ...details.filter((_, place) => place % 2)].join(" ");
}

// Build the drop-down list; `card.options` gets the controls of the selected entry. `replace(spec)` shows another entry.
export function chooser(card, view, replace) {
  const [name, ...details] = card.spec.split("~");
  const encoder = view.catalog.encoders.find((each) => each.name === name);
  if (name === "timm") card.options.append(modelField(details.join("~"), replace));
  if (encoder) card.options.append(...optionFields(encoder, details, replace));
  return select("encoding", offers(card.spec, view), name === "file" ? card.spec : name, (value) => {
    if (value === "timm") replace("timm~vit_tiny_patch16_224");
    else if (value === "choose") askForFile(card, view, replace);
    else replace(value);
  });
}

function offers(spec, { catalog, files }) {
  const kinds = [...new Set(catalog.encoders.map(({ kind }) => kind))];
  const groups = kinds.map((kind) => ({
    group: kind,
    options: catalog.encoders.filter((each) => each.kind === kind).map((each) => each.name),
  }));
  if (!catalog.free) return groups;
  const before = spec.startsWith("file~") ? { [spec]: { text: nameOf(spec, files) } } : {};
  const known = Object.entries({ ...before, ...files }).map(([value, { text }]) => ({ value, text }));
  const own = [{ value: "timm", text: "timm model …" }, ...known, { value: "choose", text: ".safetensors file …" }];
  return [...groups, { group: "a trained model's own", options: own }];
}

function modelField(name, replace) {
  const input = h("input", { value: name, spellcheck: false, onchange: () => replace(`timm~${input.value.trim()}`) });
  return field("model", input);
}

function optionFields(encoder, details, replace) {
  const given = Object.fromEntries(details.flatMap((key, place) => (place % 2 ? [] : [[key, details[place + 1]]])));
  const write = (key, value) => {
    given[key] = value;
    const changed = encoder.options.filter(
      ({ name, default: usual }) => (given[name] ?? String(usual)) !== String(usual),
    );
    replace([encoder.name, ...changed.flatMap(({ name }) => [name, given[name]])].join("~"));
  };
  const fields = encoder.options.map(({ name, default: usual, choices }) => {
    const value = given[name] ?? String(usual);
    const control = choices
      ? select(name, choices, value, (text) => write(name, text))
      : h("input", { type: "number", step: "any", value, onchange: () => write(name, control.value) });
    return field(name, control);
  });
  return [...fields, h("p.hint", { title: encoder.summary }, `${encoder.kind} · ${encoder.paper}`)];
}

// Remember what a file offers; `choices` as the server describes them. What differs comes first: long names are cut.
export function remember(files, name, choices) {
  for (const [spec, what, table] of choices)
    files[spec] = { text: what ? `${what} (${name})` : name, file: name, table };
}

// Upload a file; return the spec of what it has in use.
export async function upload(view, file) {
  const { choices, grid, error } = await post("api/file.json", await slimSafetensors(file));
  if (error) throw new Error(error);
  remember(view.files, file.name, choices);
  if (grid) view.use(grid);
  return choices[0][0];
}

function askForFile(card, view, replace) {
  const picker = filePicker("Choose a .safetensors file", ".safetensors", card.scores, async ([file]) =>
    replace(await upload(view, file)),
  );
  card.options.replaceChildren(picker, h("p.hint", {}, "Only tables of positions and encoders leave your browser."));
  picker.querySelector("input").focus();
}

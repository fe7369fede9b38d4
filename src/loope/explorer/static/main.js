// The page: selects the view and keeps its state in the address.
import { csvBlob, download, pngBlob, showCode } from "./actions.js";
import { Compare } from "./compare.js";
import { json } from "./data.js";
import { h, problem, waiting } from "./dom.js";
import { loadSamples } from "./images.js";
import { Model } from "./model.js";
import { Offsets } from "./offsets.js";
import { Orders } from "./order.js";
import { ThreeCell } from "./threecell.js";

const VIEWS = { compare: Compare, order: Orders, loope: Offsets, model: Model, "three-cell": ThreeCell };
const root = document.getElementById("view"),
  tabs = document.getElementById("tabs");
const views = {};
let current = null;

// "#compare?grid=14x14&e=gilbert": the address holds the whole state.
function address() {
  const [name, query = ""] = location.hash.slice(1).split("?");
  return { name: name in VIEWS ? name : "compare", params: new URLSearchParams(query) };
}

function save(name) {
  return (params) => {
    if (name !== current) return;
    const query = params.map(([key, value]) => `${key}=${encodeURIComponent(value).replaceAll("%2C", ",")}`).join("&");
    history.replaceState(null, "", `#${name}?${query}`);
    tabs.querySelector(`[href^="#${name}"]`).href = `#${name}?${query}`;
  };
}

function open() {
  const { name, params } = address();
  views[current]?.leave?.();
  current = name;
  document.title = `${views[name].title} · loope explorer`;
  for (const tab of tabs.children) tab.setAttribute("aria-current", tab.hash.startsWith(`#${name}`) ? "page" : "false");
  delete root.dataset.ready;
  root.dataset.view = name;
  views[name].show(params);
}

async function start() {
  root.replaceChildren(waiting("Starting …"));
  try {
    const [catalog] = await Promise.all([json("api/catalog.json"), loadSamples()]);
    for (const [name, View] of Object.entries(VIEWS)) {
      views[name] = new View(root, { catalog, save: save(name) });
      tabs.append(h("a", { href: `#${name}` }, views[name].title));
    }
  } catch (error) {
    return root.replaceChildren(problem(error));
  }
  const file = (ending) => `loope-${current}.${ending}`;
  // Nothing can be exported before something is drawn.
  const button = (text, take) => h("button", { type: "button", onclick: () => root.dataset.ready && take() }, text);
  document.getElementById("actions").append(
    button("Copy as Python", () => showCode(views[current].python())),
    button("PNG", async () => download(file("png"), await pngBlob(views[current].pictures()))),
    button("CSV", () => download(file("csv"), csvBlob(views[current].csv()))),
  );
  document.querySelector(".skip").onclick = (event) => (event.preventDefault(), root.focus()); // keep the address, which belongs to the view
  addEventListener("hashchange", open);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", open);
  open();
}

start();

// Compare: how similar every patch is to a chosen one, for up to four encodings side by side.
import { chooser, nameOf } from "./chooser.js";
import { extent, legend, scale } from "./colours.js";
import { arrays } from "./data.js";
import { field, gridControl, h, keepFocus, lede, number, offeredGrid, problem, readGrid, say, select, waiting } from "./dom.js";
import { GridCanvas } from "./grid.js";
import { comparePython } from "./python.js";
import { scoreCard } from "./scores.js";

const MOST = 4;
const DEFAULTS = ["gilbert", "sinusoid", "sincos2d", "rope_axial"];

export class Compare {
  title = "Compare";

  constructor(root, { catalog, save }) {
    Object.assign(this, { root, catalog, save, cards: [], files: {} });
    this.least = h("span.number");
    this.most = h("span.number");
    this.ramp = h("span.ramp");
    legend(this.ramp, "magma");
    this.deck = h("div.deck");
    this.where = h("p.where");
  }

  show(params) {
    const dim = Number(params.get("dim") ?? 768);
    this.grid = offeredGrid(this.catalog, params.get("grid"), "14x14");
    this.dim = this.catalog.free || this.catalog.dims.includes(dim) ? dim : this.catalog.dims[0];
    const [row, column] = (params.get("patch") ?? "").split(",").map(Number);
    const inside = row >= 0 && column >= 0 && row < this.grid[0] && column < this.grid[1];
    this.patch = inside ? row * this.grid[1] + column : this.middle();
    this.pinned = params.get("pin") === "1";
    this.each = params.get("scale") === "each";
    this.reading = null;
    this.cards = (params.has("e") ? params.getAll("e") : DEFAULTS).slice(0, MOST).map((spec) => this.card(spec));
    this.render();
    this.load();
  }

  middle() {
    return Math.floor(this.grid[0] / 3) * this.grid[1] + Math.floor((2 * this.grid[1]) / 3);
  }

  // Change the grid and select its default patch.
  use(grid) {
    this.grid = grid;
    this.patch = this.middle();
  }

  params() {
    const [row, column] = this.at(this.patch);
    const params = [
      ["grid", this.grid.join("x")],
      ["dim", this.dim],
      ["patch", `${row},${column}`],
    ];
    if (this.pinned) params.push(["pin", 1]);
    if (this.each) params.push(["scale", "each"]);
    return [...params, ...this.cards.map(({ spec }) => ["e", spec])];
  }

  at = (cell) => [Math.floor(cell / this.grid[1]), cell % this.grid[1]];

  // ---- layout

  render() {
    const { catalog } = this;
    const dim = catalog.free
      ? h("input", {
          type: "number",
          min: 1,
          max: 2048,
          value: this.dim,
          onchange: () => dim.reportValidity() && this.change({ dim: dim.valueAsNumber }),
        })
      : select("width", catalog.dims, this.dim, (value) => this.change({ dim: Number(value) }));
    const each = h("input", {
      type: "checkbox",
      checked: this.each,
      onchange: () => this.change({ each: each.checked }, false),
    });
    this.root.replaceChildren(
      lede(
        "How alike is every patch to the one under your pointer?",
        "Hover to look, click to pin a patch and read values; arrow keys and Enter do the same.",
      ),
      h(
        "div.controls",
        {},
        gridControl(catalog, this.grid.join("x"), (grid) => this.change({ grid: readGrid(grid) })),
        field("width", dim),
        h("label.check", {}, each, " own colour scale for each"),
        h("div.legend", { ariaLabel: "colour scale" }, this.least, this.ramp, this.most),
      ),
      this.where,
      this.deck,
    );
    this.deck.replaceChildren(...this.cards.map((card) => card.root));
    if (this.cards.length < MOST) {
      const add = () => ((this.cards = [...this.cards, this.card("learned")]), this.change({}));
      this.deck.append(
        h("button.add", { type: "button", onclick: add }, h("span", { "aria-hidden": true }, "+"), " Compare one more"),
      );
    }
  }

  card(spec) {
    const card = { spec };
    card.map = new GridCanvas(`Similarity map of ${this.name(spec)}`, {
      hover: (cell) => this.hover(cell),
      pick: (cell) => this.pick(cell),
      move: (key) => this.move(card.map, key),
      key: (event) => this.key(event),
    });
    card.value = h("p.value");
    card.scores = h("div.scores");
    card.options = h("div.options");
    const choose = chooser(card, this, (text) => ((card.spec = text), this.change({})));
    const remove = h(
      "button.quiet",
      {
        type: "button",
        title: "Remove",
        "aria-label": `Remove ${this.name(spec)}`,
        onclick: () => ((this.cards = this.cards.filter((each) => each !== card)), this.change({})),
      },
      "×",
    );
    card.root = h(
      "article.card",
      { "aria-label": this.name(spec) },
      h("div.head", {}, choose, remove),
      card.map.element,
      card.value,
      card.options,
      card.scores,
    );
    return card;
  }

  name = (spec) => nameOf(spec, this.files);

  // ---- updates

  change(changes, reload = true) {
    Object.assign(this, changes);
    if (changes.grid) this.use(changes.grid);
    this.save(this.params());
    if (reload) keepFocus(this.root, () => this.show(new URLSearchParams(this.params())));
    else this.draw();
  }

  // Cards load independently; the view is ready when all have loaded.
  async load() {
    const { cards } = this;
    delete this.root.dataset.ready;
    this.draw();
    await Promise.all(cards.map((card) => this.loadCard(card)));
    if (cards === this.cards) this.root.dataset.ready = "compare"; // skip if the selection has changed since
  }

  async loadCard(card) {
    const address = `api/similarity/${card.spec}/${this.grid.join("x")}/${this.dim}.bin`;
    card.root.classList.add("waiting");
    card.map.shape(...this.grid);
    card.value.replaceChildren(waiting(/^timm~|~acts~/.test(card.spec) ? "Loading the model …" : "Computing …"));
    card.scores.replaceChildren();
    try {
      card.data = await arrays(address);
    } catch (error) {
      card.value.replaceChildren();
      const again = h("button", { type: "button", onclick: () => this.loadCard(card) }, "Try again");
      card.scores.replaceChildren(problem(error), again);
    }
    card.root.classList.remove("waiting");
    if (!this.cards.includes(card)) return;
    const on = { hover: (cell) => this.hover(cell), pick: (cell) => this.pick(cell) };
    this.centres = scoreCard(this.cards, this.grid, on);
    this.draw();
  }

  hover(cell) {
    if (this.pinned) this.reading = cell;
    else if (cell == null) return this.save(this.params());
    else this.patch = cell;
    this.draw();
  }

  pick(cell) {
    if (this.pinned && cell === this.patch) this.pinned = false;
    else Object.assign(this, { patch: cell, pinned: true, reading: null });
    this.settle();
  }

  move(map, key) {
    if (this.pinned) this.reading = map.step(this.reading ?? this.patch, key);
    else this.patch = map.step(this.patch, key);
    this.settle();
  }

  key(event) {
    if (event.key === "Enter" || event.key === " ") this.pick(this.reading ?? this.patch);
    else if (event.key === "Escape" && this.pinned) this.pick(this.patch);
    else return false;
    return true;
  }

  settle() {
    this.draw();
    this.save(this.params());
    const values = this.cards
      .filter(({ data }) => data)
      .map((card) => `${this.name(card.spec)} ${card.value.textContent}`);
    say(`${this.where.textContent} ${values.join(", ")}`);
  }

  // ---- drawing, at every move of the pointer

  draw() {
    const size = this.grid[0] * this.grid[1],
      shown = this.cards.filter(({ data }) => data);
    const scales = this.scales(shown);
    const told = (cell) => `row ${this.at(cell)[0]}, column ${this.at(cell)[1]}`;
    this.where.textContent =
      this.reading == null
        ? `${this.pinned ? "Pinned" : "Patch"}: ${told(this.patch)}.`
        : `From row ${this.at(this.patch).join(", column ")} to ${told(this.reading)}.`;
    for (const card of shown) {
      const values = card.data.similarity.subarray(this.patch * size, (this.patch + 1) * size),
        [least, most] = scales.get(card);
      const colour = scale("magma", least, most);
      card.map.shape(...this.grid);
      card.map.show((map) => {
        map.cells((cell) => colour(values[cell]));
        map.mark(this.patch);
        if (this.reading != null) map.mark(this.reading, false);
      });
      const range = extent(values);
      card.value.textContent =
        this.reading == null ? range.map((v) => number(v, 3)).join(" to ") : number(values[this.reading]);
      card.value.title = card.data.unit === "bias" ? "attention bias" : "similarity";
    }
    this.centres?.draw(this.patch);
  }

  // Cards with the same unit share a scale; a bias is not a cosine and has its own.
  scales(shown) {
    const key = (card) => (this.each ? card : card.data.unit);
    const groups = new Map();
    for (const card of shown) {
      const range = extent((card.range ??= extent(card.data.similarity)), groups.get(key(card)) ?? []);
      groups.set(key(card), range);
    }
    const common = !this.each && (groups.get("cosine") ?? groups.get("bias"));
    [this.least.textContent, this.most.textContent] = common ? common.map((v) => number(v, 2)) : ["least", "most"];
    return new Map(shown.map((card) => [card, groups.get(key(card))]));
  }

  // ---- export

  python() {
    return comparePython({
      grid: this.grid,
      dim: this.dim,
      patch: this.at(this.patch),
      specs: this.cards.map((c) => c.spec),
      files: this.files,
    });
  }

  pictures() {
    return this.cards
      .filter(({ data }) => data)
      .map((card) => ({ title: this.name(card.spec), canvas: card.map.canvas }));
  }

  csv() {
    const shown = this.cards.filter(({ data }) => data),
      size = this.grid[0] * this.grid[1];
    const head = ["row", "column", ...shown.map((card) => this.name(card.spec))];
    const rows = Array.from({ length: size }, (_, cell) => [
      ...this.at(cell),
      ...shown.map((card) => card.data.similarity[this.patch * size + cell]),
    ]);
    return [head, ...rows];
  }
}

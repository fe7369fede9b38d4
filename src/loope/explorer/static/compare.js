// Compare: how similar every patch is to a chosen one, for up to four encodings side by side.
import { drawCard, drawn, makeCard, tellRange } from "./card.js";
import { nameOf, remember, upload } from "./chooser.js";
import { extent } from "./colours.js";
import { arrays } from "./data.js";
import { field, filePicker, forPointer, gridControl, h, keepFocus, lede, number } from "./dom.js";
import { offeredGrid, problem, readGrid, say, select, waiting } from "./dom.js";
import { groundControls, groundOf, readGround } from "./ground.js";
import { FIRST, grey } from "./images.js";
import { comparePython } from "./python.js";
import { sizeControl } from "./resize.js";
import { scoreCard } from "./scores.js";

const MOST = 4;
const DEFAULTS = ["gilbert", "sinusoid", "sincos2d", "rope_axial"];

export class Compare {
  title = "Compare";

  constructor(root, { catalog, save }) {
    Object.assign(this, { root, catalog, save, cards: [], files: {}, own: null });
    for (const { name, choices } of catalog.files) remember(this.files, name, choices);
    this.deck = h("div.deck");
    this.where = h("p.where");
    this.message = h("div");
  }

  show(params) {
    const { catalog } = this,
      dim = Number(params.get("dim") ?? 768),
      usual = catalog.files[0]?.grid?.join("x") ?? "14x14";
    this.made = offeredGrid(catalog, params.get("grid"), usual); // encoders are created for this grid
    this.grid = (catalog.free && params.has("to") && readGrid(params.get("to"))) || this.made; // and resized to this one
    this.dim = catalog.free || catalog.dims.includes(dim) ? dim : catalog.dims[0];
    const [row, column] = (params.get("patch") ?? "").split(",").map(Number);
    const inside = row >= 0 && column >= 0 && row < this.grid[0] && column < this.grid[1];
    this.patch = inside ? row * this.grid[1] + column : this.middle();
    this.pinned = params.get("pin") === "1";
    this.shared = params.get("scale") === "one";
    // A photograph at the start only: addresses leave out that there is none.
    this.over = readGround(this, params.get("over") ?? (String(params) ? null : FIRST));
    this.picture = groundOf(this) && grey(groundOf(this));
    this.reading = this.kept = this.centres = null;
    const specs = params.has("e") ? params.getAll("e") : [...catalog.files.map(({ choices }) => choices[0][0]), ...DEFAULTS];
    this.cards = specs.slice(0, MOST).map((spec) => makeCard(this, spec));
    this.render();
    this.load();
  }

  middle() {
    return Math.floor(this.grid[0] / 3) * this.grid[1] + Math.floor((2 * this.grid[1]) / 3);
  }

  // Change the grid and select its default patch.
  use(grid) {
    this.made = this.grid = grid;
    this.patch = this.middle();
  }

  params() {
    const [row, column] = this.at(this.patch);
    const params = [["grid", this.made.join("x")]];
    if (String(this.made) !== String(this.grid)) params.push(["to", this.grid.join("x")]);
    params.push(["dim", this.dim], ["patch", `${row},${column}`]);
    if (this.pinned) params.push(["pin", 1]);
    if (this.shared) params.push(["scale", "one"]);
    if (this.over !== "nothing") params.push(["over", this.over]);
    return [...params, ...this.cards.map(({ spec }) => ["e", spec])];
  }

  at = (cell) => [Math.floor(cell / this.grid[1]), cell % this.grid[1]];
  name = (spec) => nameOf(spec, this.files);

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
    const shared = h("input", {
      type: "checkbox",
      checked: this.shared,
      onchange: () => this.change({ shared: shared.checked }, false),
    });
    const opened = async ([file]) => {
      const spec = await upload(this, file);
      this.change({ cards: [...this.cards.slice(0, MOST - 1), { spec }] });
    };
    this.message.replaceChildren();
    this.root.replaceChildren(
      lede(
        `How alike is every patch to the one under your ${forPointer("pointer", "finger")}?`,
        forPointer(
          "Hover to look, click to pin a patch and read values; arrow keys and Enter do the same.",
          "Slide a finger to look, tap to pin a patch and read values.",
        ),
      ),
      h(
        "div.controls",
        {},
        gridControl(catalog, this.made.join("x"), (grid) => this.change({ grid: readGrid(grid) })),
        catalog.free ? sizeControl(this.made, this.grid, catalog.cells, (grid) => this.resize(grid)) : "",
        field("width", dim),
        groundControls(this, this.message, (changes) => this.change(changes)),
        catalog.free ? filePicker("Open a checkpoint", ".safetensors", this.message, opened) : "",
        h("label.check", {}, shared, " one colour scale for all"),
      ),
      this.message,
      this.where,
      this.deck,
    );
    this.deck.replaceChildren(...this.cards.map((card) => card.root));
    if (this.cards.length < MOST) {
      const add = () => this.change({ cards: [...this.cards, { spec: "learned" }] });
      this.deck.append(
        h("button.add", { type: "button", onclick: add }, h("span", { "aria-hidden": true }, "+"), " Compare one more"),
      );
    }
  }

  // ---- updates

  change(changes, reload = true) {
    Object.assign(this, changes);
    if (changes.grid) this.use(changes.grid);
    this.save(this.params());
    if (reload) keepFocus(this.root, () => this.show(new URLSearchParams(this.params())));
    else this.draw();
  }

  // Resize every encoding, with the chosen patch at the same place of the image.
  resize(grid) {
    const [row, column] = this.at(this.patch);
    this.kept ??= [(row + 0.5) / this.grid[0], (column + 0.5) / this.grid[1]]; // so that it does not drift
    this.grid = grid;
    this.patch = Math.floor(this.kept[0] * grid[0]) * grid[1] + Math.floor(this.kept[1] * grid[1]);
    this.reading = this.centres = null;
    this.save(this.params());
    this.load();
  }

  // Cards load independently, each one size at a time; the view is ready when all show its size.
  load() {
    delete this.root.dataset.ready;
    this.draw();
    for (const card of this.cards) this.follow(card);
  }

  async follow(card) {
    if (card.busy) return;
    card.busy = true;
    let grid;
    do {
      grid = this.grid;
      await this.loadCard(card, grid);
      if (!this.cards.includes(card)) return; // the selection has changed since
    } while (String(grid) !== String(this.grid));
    card.busy = false;
    if (this.cards.every(({ busy }) => !busy)) this.root.dataset.ready = "compare";
  }

  async loadCard(card, grid) {
    const sizes = String(this.made) === String(grid) ? [grid] : [this.made, grid];
    const address = `api/similarity/${card.spec}/${sizes.map((each) => each.join("x")).join("~")}/${this.dim}.bin`;
    card.root.classList.add("waiting");
    if (!card.data) {
      card.map.shape(...grid);
      card.value.replaceChildren(waiting(/^timm~|~acts~/.test(card.spec) ? "Loading the model …" : "Computing …"));
      card.scores.replaceChildren();
    }
    try {
      card.data = await arrays(address);
      card.range = extent(card.data.similarity);
    } catch (error) {
      card.data = null;
      card.value.replaceChildren();
      const again = h("button", { type: "button", onclick: () => this.follow(card) }, "Try again");
      card.scores.replaceChildren(problem(error), again);
    }
    card.root.classList.remove("waiting");
    if (!this.cards.includes(card)) return;
    this.centres = scoreCard(this.cards, this.grid);
    this.draw();
  }

  hover(cell) {
    if (this.pinned) this.reading = cell;
    else if (cell == null) return this.save(this.params());
    else this.choose(cell);
    this.draw();
  }

  choose(patch) {
    Object.assign(this, { patch, kept: null });
  }

  pick(cell) {
    if (this.pinned && cell === this.patch) this.pinned = false;
    else (this.choose(cell), Object.assign(this, { pinned: true, reading: null }));
    this.settle();
  }

  move(map, key) {
    if (this.pinned) this.reading = map.step(this.reading ?? this.patch, key);
    else this.choose(map.step(this.patch, key));
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
    const values = this.shown().map((card) => `${this.name(card.spec)} ${card.value.textContent}`);
    say(`${this.where.textContent} ${values.join(", ")}`);
  }

  // ---- drawing, at every move of the pointer

  shown = () => this.cards.filter((card) => drawn(card, this.grid));

  draw() {
    const shown = this.shown(),
      told = (cell) => `row ${this.at(cell)[0]}, column ${this.at(cell)[1]}`;
    this.where.textContent =
      this.reading == null
        ? `${this.pinned ? "Pinned" : "Patch"}: ${told(this.patch)}.`
        : `From row ${this.at(this.patch).join(", column ")} to ${told(this.reading)}.`;
    for (const card of shown) {
      const alike = this.shared ? shown.filter(({ data }) => data.unit === card.data.unit) : [card]; // a bias is no cosine, nor its exponential
      const values = drawCard(card, extent(...alike.map(({ range }) => range)), this);
      card.value.textContent =
        this.reading == null
          ? tellRange(card, values)
          : number(values[this.reading]);
      card.value.title = { bias: "attention bias", cosine: "similarity" }[card.data.unit] ?? card.data.unit;
    }
    this.centres?.draw(this.patch);
  }

  // ---- export

  python() {
    return comparePython({
      made: this.made,
      grid: this.grid,
      dim: this.dim,
      patch: this.at(this.patch),
      specs: this.cards.map((c) => c.spec),
      files: this.files,
    });
  }

  pictures() {
    return this.shown().map((card) => ({
      title: this.name(card.spec),
      canvas: card.map.canvas,
      ramp: { colours: "magma", ends: card.ends.map((end) => end.textContent) },
    }));
  }

  csv() {
    const shown = this.shown(),
      size = this.grid[0] * this.grid[1];
    const head = ["row", "column", ...shown.map((card) => this.name(card.spec))];
    const rows = Array.from({ length: size }, (_, cell) => [
      ...this.at(cell),
      ...shown.map((card) => card.data.similarity[this.patch * size + cell]),
    ]);
    return [head, ...rows];
  }
}

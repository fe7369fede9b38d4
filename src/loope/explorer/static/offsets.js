// LOOPE on my image: how far each patch moves, X_C as a map, and, along a curve, which patches change places.
import { legend } from "./colours.js";
import { post, slimSafetensors } from "./data.js";
import { field, filePicker, forPointer, gridControl, h, keepFocus, lede, number, numbers, problem, readGrid, say, select } from "./dom.js";
import { drawChart, drawHeat, drawMoves } from "./draw-offsets.js";
import { GridCanvas } from "./grid.js";
import { FIRST, open, PIXELS, sample, SAMPLES } from "./images.js";
import { offsetsPython } from "./python.js";

export class Offsets {
  title = "LOOPE on my image";

  constructor(root, { catalog, save }) {
    Object.assign(this, { root, catalog, save, own: null });
    this.shipped = catalog.model?.encoders ?? [];
    this.files = Object.fromEntries(
      catalog.files.filter(({ loope }) => !loope.error).map(({ id, name }) => [id, name]),
    );
  }

  show(params) {
    if (!this.catalog.model) {
      return this.root.replaceChildren(
        lede("LOOPE reads your image", "This needs the explorer's own server:"),
        h("pre", {}, "pip install 'loope[explore]'\nloope explore"),
      );
    }
    const known = params.get("image");
    this.picked = known in SAMPLES ? known : this.own ? "own" : FIRST;
    this.image = this.picked === "own" ? this.own : sample(this.picked);
    this.grid = readGrid(params.get("grid") ?? "");
    this.checkpoint = params.get("checkpoint") ?? Object.keys(this.files)[0] ?? this.shipped[0].id;
    this.pixels = params.get("pixels") ?? this.known()?.pixels ?? "signed";
    this.patch = this.data = null;
    this.render();
    this.load();
  }

  // The shipped encoder that is shown, if it is one.
  known = () => this.shipped.find(({ id }) => id === this.checkpoint);

  params() {
    const params = [
      ["image", this.picked],
      ["pixels", this.pixels],
      ["checkpoint", this.checkpoint],
    ];
    return this.grid ? [...params, ["grid", this.grid.join("x")]] : params;
  }

  change(changes) {
    Object.assign(this, changes);
    this.save(this.params());
    keepFocus(this.root, () => this.show(new URLSearchParams(this.params())));
  }

  render() {
    const panel = (label, toCell = (cell) => cell) =>
      new GridCanvas(label, {
        hover: (cell) => this.point(cell == null ? null : toCell(cell)),
        move: (key) => this.point(this.moves.step(this.patch ?? 0, key), true),
      });
    this.moves = panel("The image with the moves of its patches along the curve");
    this.heat = panel("X_C of each patch");
    this.chart = panel("X_C along the curve", (cell) => this.along?.[cell % this.along.length]);
    this.told = h("p.where");
    this.message = h("div");
    this.ends = [h("span.number"), h("span.number")];
    this.ramp = h("span.ramp");
    this.movesTitle = h("h2", {}, "Moves along the curve");
    this.heatTitle = h("h2");
    this.linked = h("span");
    this.arrows = h("p.hint");
    this.curve = h(
      "article.card.wide",
      {},
      h("h2", {}, "Along the curve"),
      this.chart.element,
      h("p.hint", {}, "X_C at each position of X_G, up is ahead; outlined: changes places with its neighbour."),
    );
    const own = this.own ? [{ value: "own", text: this.own.name }] : [];
    const images = select("image", [...Object.keys(SAMPLES), ...own], this.picked, (picked) => this.change({ picked }));
    const weights = select("checkpoint", this.checkpoints(), this.checkpoint, (checkpoint) => {
      this.checkpoint = checkpoint;
      this.change({ grid: null, pixels: this.known()?.pixels ?? this.pixels });
    });
    this.root.replaceChildren(
      lede(
        "LOOPE reads the image and moves patches, along the curve or in the plane.",
        `${forPointer("Hover over", "Tap")} a patch to read how far it moves. Choose a file that loope.save wrote for your own model.`,
      ),
      h(
        "div.controls",
        {},
        field("image", images),
        filePicker("Choose an image", "image/*", this.message, async ([file]) => {
          this.own = await open(file);
          this.change({ picked: "own" });
        }),
        field("checkpoint", weights),
        filePicker("Choose a checkpoint", ".safetensors", this.message, async ([file]) => {
          const { id, loope } = await post("api/file.json", await slimSafetensors(file));
          if (loope.error) throw new Error(loope.error);
          this.files[id] = file.name;
          this.change({ checkpoint: id, grid: null });
        }),
        gridControl(this.catalog, this.grid?.join("x") ?? "", (grid) => this.change({ grid: readGrid(grid) })),
        field(
          "pixels",
          select("pixels", PIXELS, this.pixels, (pixels) => this.change({ pixels })),
        ),
      ),
      this.message,
      this.told,
      h(
        "div.deck.two",
        {},
        h(
          "article.card",
          {},
          this.movesTitle,
          this.moves.element,
          this.arrows,
        ),
        h(
          "article.card",
          {},
          this.heatTitle,
          this.heat.element,
          h(
            "div.hint",
            {},
            h("div.legend", {}, this.ends[0], this.ramp, this.ends[1]),
            this.linked,
          ),
        ),
      ),
      this.curve,
    );
  }

  checkpoints() {
    const known = { ...Object.fromEntries(this.shipped.map(({ id, text }) => [id, text])), ...this.files };
    if (!(this.checkpoint in known)) known[this.checkpoint] = "a file chosen before";
    return Object.entries(known).map(([value, text]) => ({ value, text }));
  }

  async load() {
    delete this.root.dataset.ready;
    const grid = this.grid ? `&height=${this.grid[0]}&width=${this.grid[1]}` : "";
    const asked = (this.asked = {}),
      query = `checkpoint=${this.checkpoint}&pixels=${this.pixels}${grid}`;
    try {
      const data = await post(`api/offsets.json?${query}`, await this.image.blob());
      if (asked !== this.asked) return; // the selection has changed since
      this.message.replaceChildren();
      this.take(data);
      this.root.dataset.ready = "loope";
    } catch (error) {
      this.message.replaceChildren(problem(error));
    }
  }

  take(data) {
    this.data = data;
    this.plane = data.index == null;
    this.along = Array(data.offsets.length);
    data.index?.forEach((position, cell) => (this.along[position] = cell));
    this.partner = new Map(
      data.swapped.flatMap(([one, two]) => [
        [one, two],
        [two, one],
      ]),
    );
    this.most = Math.max(...data.offsets.map((_, cell) => Math.abs(this.value(cell))), 1e-9);
    // Small moves are drawn longer, by a round number.
    this.times = [100, 50, 20, 10, 5, 2].find((times) => times * this.most <= 1) ?? 1;
    this.arrows.textContent = `Arrows point to where a patch moves: ${
      this.times > 1 ? `drawn ${this.times} times as long as the move` : "one cell is X_C = 1"
    }.`;
    const ends = numbers(this.plane ? 0 : -this.most, this.most);
    this.ends.forEach((end, place) => (end.textContent = ends[place]));
    legend(this.ramp, this.plane ? "viridis" : "coolwarm");
    this.movesTitle.textContent = `Moves ${this.plane ? "in the plane" : "along the curve"}`;
    this.heatTitle.replaceChildren(...(this.plane ? ["Length of the move"] : ["X", h("sub", {}, "C")]));
    this.heat.canvas.ariaLabel = this.plane ? "Length of the move of each patch" : "X_C of each patch";
    this.linked.textContent = this.plane
      ? "How far each patch moves, in cells."
      : data.swapped.length
        ? "Linked: they change places on the curve."
        : "No neighbours on the curve change places.";
    if (this.plane) this.curve.remove();
    for (const map of [this.moves, this.heat]) map.shape(...data.grid);
    this.root.querySelector("[list]").placeholder = data.grid.join("x");
    this.chart.shape(Math.max(8, Math.round(this.along.length / 5)), this.along.length);
    this.point(null);
  }

  // What the map shows of a cell: X_C with its sign on a curve, the length of the move in the plane.
  value(cell) {
    return this.plane ? Math.hypot(...this.data.offsets[cell]) : this.data.offsets[cell];
  }

  point(cell, spoken = false) {
    if (!this.data) return;
    this.patch = cell;
    this.told.textContent = this.tell(cell);
    if (spoken) say(this.told.textContent);
    this.moves.show((map) => drawMoves(map, this));
    this.heat.show((map) => drawHeat(map, this));
    if (!this.plane) this.chart.show((map) => drawChart(map, this));
  }

  tell(cell) {
    const { offsets, index, swapped, grid } = this.data,
      place = (c) => `row ${Math.floor(c / grid[1])}, column ${c % grid[1]}`;
    if (cell == null) {
      const mean = offsets.reduce((sum, _, each) => sum + Math.abs(this.value(each)), 0) / offsets.length;
      const moves = `Patches move ${number(mean)} on average, ${number(this.most)} at most`;
      if (this.plane) return `${moves}, in cells.`;
      return `${moves}; ${swapped.length} ${swapped.length === 1 ? "pair" : "pairs"} of neighbours change places.`;
    }
    const signed = (value) => `${value < 0 ? "−" : "+"} ${number(Math.abs(value))}`;
    if (this.plane) {
      const [down, right] = offsets[cell].map(signed);
      return `Row ${Math.floor(cell / grid[1])} ${down}, column ${cell % grid[1]} ${right}.`;
    }
    const other = this.partner.get(cell);
    return `Row ${place(cell).slice(4)}: position ${index[cell]} ${signed(offsets[cell])} = ${number(index[cell] + offsets[cell])}${other == null ? "" : `; changes places with ${place(other)}`}.`;
  }

  python() {
    const { grid, patch } = this.data;
    return offsetsPython({
      grid,
      patch,
      plane: this.plane,
      image: this.image,
      pixels: this.pixels,
      shipped: this.known()?.id,
      checkpoint: this.files[this.checkpoint] ?? "model.safetensors",
    });
  }

  pictures() {
    const ramp = { colours: this.plane ? "viridis" : "coolwarm", ends: this.ends.map((end) => end.textContent) };
    return [
      { title: this.movesTitle.textContent, canvas: this.moves.canvas, ramp },
      { title: this.plane ? this.heatTitle.textContent : "X_C", canvas: this.heat.canvas, ramp },
    ];
  }

  csv() {
    const { grid, index, offsets } = this.data;
    const place = (cell) => [Math.floor(cell / grid[1]), cell % grid[1]];
    if (this.plane)
      return [
        ["row", "column", "row_offset", "column_offset"],
        ...offsets.map((offset, cell) => [...place(cell), ...offset]),
      ];
    return [
      ["row", "column", "x_g", "x_c", "swapped"],
      ...offsets.map((offset, cell) => [
        ...place(cell),
        index[cell],
        offset,
        this.partner.has(cell) ? 1 : 0,
      ]),
    ];
  }
}

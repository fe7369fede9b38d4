// LOOPE on my image: X_C as a map, how far each patch moves along the curve, and who changes places.
import { legend, scale, themed } from "./colours.js";
import { post, slimSafetensors } from "./data.js";
import { field, filePicker, gridControl, h, number, problem, readGrid, say, select } from "./dom.js";
import { GridCanvas } from "./grid.js";
import { open, sample, SAMPLES } from "./images.js";
import { offsetsPython } from "./python.js";

const PIXELS = [{ value: "unit", text: "0 to 1" }, { value: "signed", text: "-1 to 1" }, { value: "imagenet", text: "ImageNet mean and std" }];

export class Offsets {
  title = "LOOPE on my image";

  constructor(root, { catalogue, save }) {
    Object.assign(this, { root, catalogue, save, own: null, files: {} });
  }

  show(params) {
    if (!this.catalogue.model) {
      return this.root.replaceChildren(h("p.lede", {}, "LOOPE reads your image, which needs its server: "), h("pre", {}, "pip install 'loope[explore]'\nloope explore"));
    }
    const known = params.get("image");
    this.picked = known in SAMPLES ? known : this.own ? "own" : "landscape";
    this.image = this.picked === "own" ? this.own : sample(this.picked);
    this.grid = readGrid(params.get("grid") ?? "");
    this.pixels = params.get("pixels") ?? "unit";
    this.checkpoint = params.get("checkpoint") ?? "shipped";
    this.patch = null;
    this.render();
    this.load();
  }

  params() {
    const params = [["image", this.picked], ["pixels", this.pixels], ["checkpoint", this.checkpoint]];
    return this.grid ? [...params, ["grid", this.grid.join("x")]] : params;
  }

  change(changes) {
    Object.assign(this, changes);
    this.image = this.picked === "own" ? this.own : sample(this.picked);
    this.save(this.params());
    this.load();
  }

  render() {
    const panel = (label, toCell = (cell) => cell) => new GridCanvas(label, {
      hover: (cell) => this.point(cell == null ? null : toCell(cell)),
      move: (key) => this.point(this.moves.step(this.patch ?? 0, key), true),
    });
    this.moves = panel("The image with the moves of its patches along the curve");
    this.heat = panel("X_C of each patch");
    this.chart = panel("X_C along the curve", (cell) => this.along?.[cell % this.along.length]);
    this.told = h("p.where");
    this.message = h("div");
    this.ends = [h("span.number"), h("span.number")];
    const ramp = h("span.ramp");
    legend(ramp, "coolwarm");
    const guarded = (take) => async (file) => {
      try {
        await take(file);
      } catch (error) {
        this.message.replaceChildren(problem(error));
      }
    };
    const images = select("image", [...Object.keys(SAMPLES), { value: "own", text: "my image" }], this.picked, (picked) => (picked !== "own" || this.own) && this.change({ picked }));
    const weights = select("checkpoint", this.checkpoints(), this.checkpoint, (checkpoint) => this.change({ checkpoint }));
    this.root.replaceChildren(
      h("p.lede", {}, "LOOPE reads the image and moves patches along the curve. ", h("span.hint", {}, "The model that ships with the page was trained on Three-Cell; choose a file that loope.save wrote for your own.")),
      h("div.controls", {},
        field("image", images),
        filePicker("Choose an image", "image/*", guarded(async (file) => {
          this.own = await open(file);
          images.value = "own";
          this.change({ picked: "own" });
        })),
        field("checkpoint", weights),
        filePicker("Choose a checkpoint", ".safetensors", guarded(async (file) => {
          const { id, loope } = await post("api/file.json", await slimSafetensors(file));
          if (loope.error) throw new Error(loope.error);
          this.files[id] = file.name;
          weights.append(h("option", { value: id }, file.name));
          weights.value = id;
          this.change({ checkpoint: id, grid: null });
        })),
        gridControl(this.catalogue, this.grid?.join("x") ?? "", (grid) => this.change({ grid: readGrid(grid) })),
        field("pixels", select("pixels", PIXELS, this.pixels, (pixels) => this.change({ pixels })))),
      this.message, this.told,
      h("div.deck.two", {},
        h("article.card", {}, h("h2", {}, "Moves along the curve"), this.moves.element, h("p.hint", {}, "Arrows point to where a patch moves: one cell is X_C = 1.")),
        h("article.card", {}, h("h2", {}, "X", h("sub", {}, "C")), this.heat.element, h("div.legend", {}, this.ends[0], ramp, this.ends[1]), h("p.hint", {}, "Linked patches change places on the curve."))),
      h("article.card.wide", {}, h("h2", {}, "Along the curve"), this.chart.element, h("p.hint", {}, "X_C at each position of X_G, up is ahead; outlined: changes places with its neighbour.")));
  }

  checkpoints() {
    const known = { shipped: "the shipped model", ...this.files };
    if (!(this.checkpoint in known)) known[this.checkpoint] = "a file chosen before";
    return Object.entries(known).map(([value, text]) => ({ value, text }));
  }

  async load() {
    delete this.root.dataset.ready;
    const grid = this.grid ? `&height=${this.grid[0]}&width=${this.grid[1]}` : "";
    const asked = (this.asked = `api/offsets.json?checkpoint=${this.checkpoint}&pixels=${this.pixels}${grid}`);
    try {
      const data = await post(asked, await this.image.blob());
      if (asked !== this.asked) return; // something else was chosen meanwhile
      this.message.replaceChildren();
      this.take(data);
      this.root.dataset.ready = "loope";
    } catch (error) {
      this.message.replaceChildren(problem(error));
    }
  }

  take(data) {
    this.data = data;
    this.along = Array(data.index.length);
    data.index.forEach((position, cell) => (this.along[position] = cell));
    this.partner = new Map(data.swapped.flatMap(([one, two]) => [[one, two], [two, one]]));
    this.most = Math.max(...data.offsets.map(Math.abs), 1e-9);
    this.ends.forEach((end, place) => (end.textContent = number(place ? this.most : -this.most, 2)));
    for (const map of [this.moves, this.heat]) map.shape(...data.grid);
    this.root.querySelector("[list]").placeholder = data.grid.join("x");
    this.chart.shape(Math.max(8, Math.round(this.along.length / 5)), this.along.length);
    this.point(null);
  }

  point(cell, spoken = false) {
    if (!this.data) return;
    this.patch = cell;
    this.told.textContent = this.tell(cell);
    if (spoken) say(this.told.textContent);
    this.moves.show(() => this.drawMoves());
    this.heat.show(() => this.drawHeat());
    this.chart.show(() => this.drawChart());
  }

  tell(cell) {
    const { offsets, index, swapped, grid } = this.data, place = (c) => `row ${Math.floor(c / grid[1])}, column ${c % grid[1]}`;
    if (cell == null) {
      const mean = offsets.reduce((sum, offset) => sum + Math.abs(offset), 0) / offsets.length;
      return `Patches move ${number(mean)} on average, ${number(this.most)} at most; ${swapped.length} ${swapped.length === 1 ? "pair" : "pairs"} of neighbours change places.`;
    }
    const sign = offsets[cell] < 0 ? "−" : "+", other = this.partner.get(cell);
    return `Row ${place(cell).slice(4)}: position ${index[cell]} ${sign} ${number(Math.abs(offsets[cell]))} = ${number(index[cell] + offsets[cell])}${other == null ? "" : `; changes places with ${place(other)}`}.`;
  }

  drawMoves() {
    const map = this.moves, { offsets, index } = this.data, colour = scale("coolwarm", -this.most, this.most), last = this.along.length - 1;
    map.context.globalAlpha = 0.8;
    map.picture(this.image.bitmap);
    map.context.globalAlpha = 1;
    map.line(this.along.map((cell) => map.centre(cell)), "#fff9", map.size / 22);
    offsets.forEach((offset, cell) => {
      const next = this.along[Math.max(0, Math.min(last, index[cell] + Math.sign(offset)))];
      const [x, y] = map.centre(cell), [u, v] = map.centre(next), share = Math.abs(offset);
      const tip = [x + (u - x) * share, y + (v - y) * share], width = map.size / 9;
      for (const [paint, wide] of [["#000", 1.9 * width], [colour(offset), width]]) map.line([[x, y], tip], paint, wide);
      map.dot(x, y, map.size / 12, "#000");
      map.dot(...tip, map.size / 9, colour(offset), "#000");
    });
    if (this.patch != null) map.mark(this.patch);
  }

  drawHeat() {
    const map = this.heat, colour = scale("coolwarm", -this.most, this.most);
    map.cells((cell) => colour(this.data.offsets[cell]));
    for (const pair of this.data.swapped) {
      const ends = pair.map((cell) => map.centre(cell));
      map.line(ends, "#000", map.size / 6);
      map.line(ends, "#ffe14d", map.size / 12);
      for (const end of ends) map.dot(...end, map.size / 9, "#ffe14d", "#000");
    }
    if (this.patch != null) map.mark(this.patch);
  }

  drawChart() {
    const map = this.chart, colour = scale("coolwarm", -this.most, this.most), middle = map.canvas.height / 2, { context } = map;
    const [ink, accent] = [themed("--ink"), themed("--accent")];
    map.line([[0, middle], [map.canvas.width, middle]], themed("--line"), devicePixelRatio);
    this.along.forEach((cell, position) => {
      const offset = this.data.offsets[cell], height = (offset / this.most) * middle * 0.94;
      const bar = [position * map.size + map.size * 0.12, middle - Math.max(height, 0), map.size * 0.76, Math.max(Math.abs(height), 1)];
      context.fillStyle = colour(offset);
      context.fillRect(...bar);
      context.strokeStyle = cell === this.patch ? accent : ink;
      context.lineWidth = (cell === this.patch ? 2.5 : 1.2) * devicePixelRatio;
      if (this.partner.has(cell) || cell === this.patch) context.strokeRect(...bar);
    });
  }

  python() {
    const { grid, patch } = this.data;
    return offsetsPython({ grid, patch, image: this.image.name, pixels: this.pixels, checkpoint: this.checkpoint === "shipped" ? null : this.files[this.checkpoint] ?? "model.safetensors" });
  }

  pictures() {
    return [{ title: "moves along the curve", canvas: this.moves.canvas }, { title: "X_C", canvas: this.heat.canvas }];
  }

  csv() {
    const { grid, index, offsets } = this.data;
    return [["row", "column", "x_g", "x_c", "swapped"], ...offsets.map((offset, cell) => [Math.floor(cell / grid[1]), cell % grid[1], index[cell], offset, this.partner.has(cell) ? 1 : 0])];
  }
}

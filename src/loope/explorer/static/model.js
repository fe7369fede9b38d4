// A whole model: how much of its tokens is position, what is the same for all images, and how far its heads look, by layer.
import { json, post } from "./data.js";
import { field, filePicker, forPointer, h, keepFocus, lede, number, problem, say, select, waiting } from "./dom.js";
import { drawAttention, drawMap, drawShares } from "./draw-model.js";
import { GridCanvas } from "./grid.js";
import { PIXELS, joined, open, threeCells } from "./images.js";
import { measuredPython, modelPython } from "./python.js";

const BUILT_IN = "built-in";
const percent = (share) => (share == null ? "–" : `${number(100 * share, 1)} %`);

export class Model {
  title = "Model";

  constructor(root, { catalog, save }) {
    Object.assign(this, { root, catalog, save, own: null });
    this.files = Object.fromEntries(catalog.files.map(({ id, name }) => [id, name]));
  }

  show(params) {
    const free = this.catalog.model != null,
      asked = params.get("checkpoint"),
      offered = this.checkpoints();
    this.checkpoint = asked && (free || offered.some(({ value }) => value === asked)) ? asked : offered[0].value;
    this.pixels = (free && params.get("pixels")) || "signed";
    this.picked = this.own && params.get("images") !== BUILT_IN ? "own" : BUILT_IN;
    this.pinned = Number(params.get("layer") ?? -1); // the last one
    this.hovered = this.data = null;
    this.render();
    this.load();
  }

  // Whether a shipped result is shown, which no model is run for.
  measured = () => this.catalog.diagnosis.measured.some(({ id }) => id === this.checkpoint);

  checkpoints() {
    return [
      ...this.catalog.diagnosis.measured.map(({ id, text }) => ({ value: id, text })),
      { value: "shipped", text: "tiny ViT, trained on Three-Cell" },
      ...Object.entries(this.files).map(([value, text]) => ({ value, text })),
    ];
  }

  params() {
    return [
      ["checkpoint", this.checkpoint],
      ["images", this.picked],
      ["pixels", this.pixels],
      ["layer", this.pinned],
    ];
  }

  change(changes) {
    Object.assign(this, changes);
    this.save(this.params());
    keepFocus(this.root, () => this.show(new URLSearchParams(this.params())));
  }

  render() {
    const chart = (label, toLayer) => {
      const made = new GridCanvas(label, {
        hover: (cell) => this.point(cell == null ? null : toLayer(cell % made.columns)),
        pick: (cell) => this.pin(toLayer(cell % made.columns)),
        move: (key) => this.pin(this.layer() + { ArrowLeft: -1, ArrowRight: 1, ArrowUp: 0, ArrowDown: 0 }[key], true),
      });
      return made;
    };
    this.shares = chart("Share of position in the variance of tokens, by layer", (column) => column);
    this.attention = chart("Distance that each head looks over, by block", (column) => column + 1);
    this.map = new GridCanvas("The part of the token map that is the same for all images");
    this.mapTitle = h("h2", {}, "The same for all images");
    this.told = h("p.where");
    this.message = h("div");
    this.minis = h("div.minis.layers");
    this.looks = h("p.hint");
    this.root.replaceChildren(
      lede(
        "What a model knows of positions",
        `${forPointer("Hover over a layer; click to keep it.", "Tap a layer.")} Compare a pretrained ViT-Tiny before and after a swap, or choose a file that loope.save wrote for your own model.`,
      ),
      this.controls(),
      this.measured() ? this.photographs() : this.strip(),
      this.message,
      this.told,
      h(
        "article.card.shares",
        {},
        h("h2", {}, "What tokens differ by"),
        this.shares.element,
        h(
          "p.hint.key",
          {},
          h("span", {}, h("i.position"), "position: the same in all images"),
          h("span", {}, h("i.image"), "image: the same in all places"),
          h("span", {}, h("i.local"), "local: this image at this place"),
        ),
      ),
      h(
        "div.deck.two",
        {},
        h(
          "article.card",
          {},
          this.mapTitle,
          this.map.element,
          h("p.hint", {}, "Mean over images at each place: three principal components as red, green and blue."),
        ),
        h("article.card", {}, h("h2", {}, "How far heads look"), this.attention.element, this.looks),
      ),
      h("article.card", {}, h("h2", {}, "The same for all images, by layer"), this.minis),
    );
  }

  controls() {
    const models = this.checkpoints();
    if (!models.some(({ value }) => value === this.checkpoint))
      models.push({ value: this.checkpoint, text: "a file chosen before" });
    const chosen = field(
      "model",
      select("model", models, this.checkpoint, (checkpoint) => this.change({ checkpoint })),
    );
    if (!this.catalog.model) return h("div", {}, h("div.controls", {}, chosen), this.needsServer());
    const file = filePicker("Choose a checkpoint", ".safetensors", this.message, async ([file]) => {
      const { id } = await post("api/file.json", file);
      this.files[id] = file.name;
      this.change({ checkpoint: id });
    });
    return h("div.controls", {}, chosen, file, this.measured() ? [] : this.imageControls());
  }

  imageControls() {
    const images = [{ value: BUILT_IN, text: "Three-Cell, built in" }];
    if (this.own) images.push({ value: "own", text: `${this.own.length} of your images` });
    return [
      field(
        "images",
        select("images", images, this.picked, (picked) => this.change({ picked })),
      ),
      filePicker(
        "Choose images",
        "image/*",
        this.message,
        async (files) => {
          const most = this.catalog.diagnosis.most;
          if (files.length < 2 || files.length > most) throw new Error(`Choose from 2 to ${most} images.`);
          this.own = await Promise.all([...files].map(open));
          this.change({ picked: "own" });
        },
        true,
      ),
      field(
        "pixels",
        select("pixels", PIXELS, this.pixels, (pixels) => this.change({ pixels })),
      ),
    ];
  }

  needsServer() {
    return h("p.hint.server", {}, "Your own checkpoints and images need the explorer's own server: ", h("code", {}, "loope explore"));
  }

  photographs() {
    return h("p.hint.measured", {}, "Measured on 16 photographs, which do not ship with the page.");
  }

  // Small pictures of the images.
  strip() {
    const { cells, grid } = this.catalog.diagnosis;
    const bitmaps = this.picked === "own" ? this.own.map(({ bitmap }) => bitmap) : cells.map((each) => threeCells(each, grid));
    const small = (bitmap) => {
      const canvas = h("canvas", { width: 96, height: 96 });
      canvas.getContext("2d").drawImage(bitmap, 0, 0, 96, 96);
      return canvas;
    };
    return h("div.strip", { role: "img", "aria-label": `${bitmaps.length} images` }, bitmaps.map(small));
  }

  async load() {
    delete this.root.dataset.ready;
    const asked = (this.asked = {});
    this.message.replaceChildren(waiting(this.measured() ? "Loading …" : "Running the model …"));
    try {
      const data = await this.ask();
      if (asked !== this.asked) return; // the selection has changed since
      this.message.replaceChildren();
      this.take(data);
      this.root.dataset.ready = "model";
    } catch (error) {
      if (asked === this.asked) this.message.replaceChildren(problem(error));
    }
  }

  async ask() {
    if (this.measured()) return json(`api/diagnosis/measured/${this.checkpoint}.json`);
    const shipped = this.checkpoint === "shipped" && this.picked === BUILT_IN && this.pixels === "signed";
    if (shipped) return json("api/diagnosis/built-in.json");
    const images = this.picked === "own" ? await Promise.all(this.own.map((each) => each.blob())) : [];
    return post(`api/diagnosis.json?checkpoint=${this.checkpoint}&pixels=${this.pixels}`, joined(images));
  }

  take(data) {
    this.data = data;
    const rows = (columns, share) => Math.max(1, Math.round(columns * share)),
      count = data.layers.length;
    this.shares.shape(rows(count, innerWidth > 720 ? 0.22 : 0.5), count);
    this.attention.shape(rows(count - 1, 0.95), count - 1);
    this.map.shape(...data.grid);
    this.minis.replaceChildren(...data.layers.map((_, layer) => this.mini(layer)));
    this.looks.textContent =
      data.attention.error ??
      `Mean distance in cells between a patch and those it attends to; each dot is a head. Dashed: attention that is the same everywhere, ${number(data.attention.uniform, 2)} cells.`;
    this.attention.element.hidden = "error" in data.attention;
    this.draw();
  }

  mini(layer) {
    const map = new GridCanvas(`Artefact map of ${this.data.layers[layer]}`, {
      hover: (cell) => this.point(cell == null ? null : layer),
      pick: () => this.pin(layer),
    });
    map.shape(...this.data.grid);
    map.show(() => drawMap(map, this.data.colours[layer]));
    const share = this.data.share[layer];
    return h("figure", {}, map.element, h("figcaption", {}, h("span", {}, this.data.layers[layer]), percent(share)));
  }

  layer() {
    const count = this.data.layers.length;
    const shown = this.hovered ?? (this.pinned < 0 ? count - 1 : this.pinned);
    return Math.max(0, Math.min(count - 1, shown));
  }

  point(layer) {
    if (!this.data) return;
    this.hovered = layer;
    this.draw();
  }

  pin(layer, spoken = false) {
    if (!this.data) return;
    this.hovered = null;
    this.pinned = Math.max(0, Math.min(this.data.layers.length - 1, layer));
    this.save(this.params());
    this.draw();
    if (spoken) say(this.told.textContent);
  }

  draw() {
    const layer = this.layer();
    this.told.textContent = this.tell(layer);
    this.mapTitle.textContent = `The same for all images: ${this.data.layers[layer]}`;
    [...this.minis.children].forEach((each, place) => each.classList.toggle("shown", place === layer));
    this.map.show((map) => drawMap(map, this.data.colours[layer]));
    this.shares.show((map) => drawShares(map, this.data, layer));
    if (!this.data.attention.error) this.attention.show((map) => drawAttention(map, this.data, layer));
  }

  tell(layer) {
    const { layers, share, parts, attention, encoders, model, images } = this.data;
    const all = parts.position[layer] + parts.image[layer] + parts.local[layer];
    const name = layers[layer][0].toUpperCase() + layers[layer].slice(1);
    const said = `${model} with ${encoders.join(", ") || "its own positions"}, ${images} images. ${name}: ${percent(share[layer])} position, ${percent(parts.image[layer] / all)} image, ${percent(parts.local[layer] / all)} local`;
    if (layer === 0 || attention.error) return `${said}.`;
    const heads = attention.distance[layer - 1],
      mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const prefix = mean(attention.prefix[layer - 1]);
    return `${said}; heads look ${number(mean(heads), 2)} cells far, ${number(Math.min(...heads), 2)} to ${number(Math.max(...heads), 2)}${prefix > 1e-6 ? `, and give ${percent(prefix)} to prefix tokens` : ""}.`;
  }

  python() {
    if (this.measured()) return measuredPython(this.checkpoint);
    return modelPython({
      size: this.data.size,
      images: this.picked === "own" ? this.own.map(({ name }) => name) : null,
      pixels: this.pixels,
      checkpoint: this.checkpoint === "shipped" ? null : (this.files[this.checkpoint] ?? "model.safetensors"),
    });
  }

  pictures() {
    const made = [
      { title: "position share", canvas: this.shares.canvas },
      { title: this.mapTitle.textContent, canvas: this.map.canvas },
    ];
    if (!this.data.attention.error) made.push({ title: "attention distance", canvas: this.attention.canvas });
    return made;
  }

  csv() {
    const { layers, share, parts, attention } = this.data;
    const heads = attention.error ? [] : attention.distance[0].map((_, head) => head);
    return [
      ["layer", "share", "position", "image", "local", ...heads.map((head) => `distance_${head}`)],
      ...layers.map((name, layer) => [
        name,
        ...[share, parts.position, parts.image, parts.local].map((values) => values[layer] ?? ""),
        ...heads.map((head) => (layer ? attention.distance[layer - 1][head] : "")),
      ]),
    ];
  }
}

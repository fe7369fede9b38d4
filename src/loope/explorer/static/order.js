// Order: curves over the grid or an image, and a slider that walks along them.
import { scale, themed } from "./colours.js";
import { json } from "./data.js";
import { forPointer, gridControl, h, keepFocus, lede, number, offeredGrid, problem, readGrid, say, select, term } from "./dom.js";
import { GridCanvas } from "./grid.js";
import { groundControls, groundOf, readGround } from "./ground.js";
import { orderPython } from "./python.js";

const SCORES = [
  [
    "neighbour_distance",
    "neighbours apart",
    "mean distance on the curve of patches that share an edge; 1 would be perfect",
    -1,
    2,
  ],
  ["kept", "kept", "share of those pairs that stay next to each other", 1, 3],
  [
    "rank_correlation",
    "correlation",
    "rank correlation of distance on the grid and on the curve, over all pairs",
    1,
    3,
  ],
];

export class Orders {
  title = "Order";

  constructor(root, { catalog, save }) {
    Object.assign(this, { root, catalog, save, own: null });
  }

  show(params) {
    this.grid = offeredGrid(this.catalog, params.get("grid"), "14x14");
    this.names = [params.get("a") ?? "gilbert", params.get("b") ?? "raster"];
    this.at = Math.max(0, Math.trunc(params.get("at") ?? 60) || 0);
    this.over = readGround(this, params.get("over"));
    this.render();
    this.change({});
  }

  params() {
    return [
      ["grid", this.grid.join("x")],
      ["a", this.names[0]],
      ["b", this.names[1]],
      ["at", this.at],
      ["over", this.over],
    ];
  }

  change(changes) {
    Object.assign(this, changes);
    this.image = groundOf(this);
    this.save(this.params());
    this.load();
  }

  render() {
    this.slider = h("input", {
      type: "range",
      min: 0,
      max: this.at, // until the curve is loaded
      value: this.at,
      ariaLabel: "position on the curve",
      oninput: () => this.walk(this.slider.valueAsNumber),
    });
    this.play = h("button", { type: "button", onclick: () => this.toggle() }, "Walk");
    this.panels = this.names.map((name, side) => {
      const panel = { told: h("p.value"), scores: h("dl.locality") };
      panel.map = new GridCanvas(`The ${side ? "second" : "first"} order's curve`, {
        hover: (cell) => this.point(panel, cell),
        pick: (cell) => panel.index && this.walk(panel.index[cell]),
        move: (key) => panel.index && this.walk(panel.index[panel.map.step(panel.path[this.at], key)]),
        key: (event) => event.key === " " && (this.toggle(), true),
      });
      const choose = select(`${side ? "second" : "first"} order`, this.catalog.orders, name, (value) => {
        this.names[side] = value;
        this.change({});
      });
      panel.root = h("article.card", {}, h("div.head", {}, choose), panel.map.element, panel.told, panel.scores);
      return panel;
    });
    this.message = h("div");
    this.root.replaceChildren(
      lede(
        "In which sequence are patches numbered?",
        `Dark is the start of the curve, light its end. ${forPointer("Hover over", "Tap")} a patch to see where it is on each curve; your image stays in the browser.`,
      ),
      h(
        "div.controls",
        {},
        gridControl(this.catalog, this.grid.join("x"), (grid) => this.change({ grid: readGrid(grid) })),
        groundControls(this, this.message, (changes) => {
          Object.assign(this, changes);
          keepFocus(this.root, () => this.render());
          this.change({});
        }),
        h("div.walk", {}, this.play, this.slider),
      ),
      this.message,
      h(
        "div.deck.two",
        {},
        this.panels.map((panel) => panel.root),
      ),
    );
  }

  async load() {
    const { grid } = this,
      names = [...this.names];
    delete this.root.dataset.ready;
    try {
      const orders = await Promise.all(names.map((name) => json(`api/order/${name}/${grid.join("x")}.json`)));
      if (String([grid, names]) !== String([this.grid, this.names])) return; // the selection has changed since
      this.panels.forEach((panel, side) => {
        panel.index = orders[side].index;
        panel.path = Array(panel.index.length);
        panel.index.forEach((position, cell) => (panel.path[position] = cell));
        this.score(panel, orders[side].locality, orders[1 - side].locality);
      });
      this.message.replaceChildren();
      this.slider.max = this.panels[0].path.length - 1;
      this.walk(Math.min(this.at, this.slider.max), false);
      this.root.dataset.ready = "order";
    } catch (error) {
      this.message.replaceChildren(problem(error));
    }
  }

  score(panel, mine, other) {
    panel.scores.replaceChildren(
      ...SCORES.map(([key, name, help, better, digits]) =>
        term(
          name,
          help,
          h(
            mine[key] != null && (mine[key] - other[key]) * better > 0 ? "dd.number.best" : "dd.number",
            {},
            key === "kept" && mine[key] != null ? `${number(100 * mine[key], 1)} %` : number(mine[key], digits),
          ),
        ),
      ),
    );
  }

  toggle() {
    clearInterval(this.timer);
    this.timer = this.timer
      ? null
      : setInterval(() => {
          if (!this.root.isConnected || this.at >= Number(this.slider.max)) return this.toggle();
          this.walk(this.at + 1, false);
        }, 60);
    if (this.timer && this.at >= Number(this.slider.max)) this.at = -1;
    this.play.textContent = this.timer ? "Stop" : "Walk";
    if (!this.timer) this.save(this.params());
  }

  leave() {
    if (this.timer) this.toggle();
  }

  walk(at, keep = true) {
    this.at = at;
    this.slider.value = at;
    this.slider.setAttribute("aria-valuetext", `position ${at}`);
    this.hovered = null;
    this.draw();
    if (keep) this.save(this.params());
    if (keep) say(this.panels.map((panel, side) => `${this.names[side]}: ${panel.told.textContent}`).join(" "));
  }

  point(panel, cell) {
    this.hovered = panel.index ? cell : null;
    this.draw();
  }

  draw() {
    for (const panel of this.panels) {
      if (!panel.path) continue;
      const place = (cell) => `row ${Math.floor(cell / this.grid[1])}, column ${cell % this.grid[1]}`;
      panel.told.textContent =
        this.hovered == null
          ? `Position ${this.at} is ${place(panel.path[this.at])}.`
          : `${place(this.hovered)} is at position ${panel.index[this.hovered]}.`.replace("row", "Row");
      panel.map.shape(...this.grid);
      panel.map.show(() => this.curve(panel));
    }
  }

  curve({ map, path }) {
    const last = path.length - 1,
      colour = scale("viridis", 0, last),
      width = Math.max(1.5, map.size / 6);
    if (this.image) {
      map.context.globalAlpha = 0.75;
      map.picture(this.image.bitmap);
      map.context.globalAlpha = 1;
    } else {
      const empty = themed("--cell");
      map.cells(() => empty);
    }
    const step = (from) => {
      const [one, two] = [map.centre(path[from]), map.centre(path[from + 1])];
      const long = Math.hypot(two[0] - one[0], two[1] - one[1]) > 1.5 * map.size;
      return [[one, two], long ? [width, 2 * width] : []];
    };
    map.context.globalAlpha = 0.3;
    for (let from = this.at; from < last; from++)
      map.line(step(from)[0], this.image ? "#fff" : colour(from), width * 0.6);
    map.context.globalAlpha = 1;
    for (let from = 0; from < Math.min(this.at, last); from++) {
      const [points, dash] = step(from);
      if (this.image) map.line(points, "#0008", width * 1.7, dash);
      map.line(points, colour(from), width, dash);
    }
    map.dot(...map.centre(path[0]), width * 0.9, colour(0));
    map.dot(...map.centre(path[this.at]), width * 1.6, themed("--accent"), "#fff");
    if (this.hovered != null) map.mark(this.hovered);
  }

  python() {
    return orderPython({ grid: this.grid, names: this.names });
  }

  pictures() {
    const ramp = { colours: "viridis", ends: ["0", this.slider.max] };
    return this.panels.map((panel, side) => ({ title: this.names[side], canvas: panel.map.canvas, ramp }));
  }

  csv() {
    const columns = this.grid[1];
    return [
      ["row", "column", ...this.names],
      ...this.panels[0].index.map((_, cell) => [
        Math.floor(cell / columns),
        cell % columns,
        ...this.panels.map((p) => p.index[cell]),
      ]),
    ];
  }
}

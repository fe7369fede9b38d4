// Three-Cell: drag three cells; see the four answers and those of a small model.
import { json } from "./data.js";
import { forPointer, gridControl, h, lede, offeredGrid, say, waiting } from "./dom.js";
import { drawCells } from "./draw-cells.js";
import { GridCanvas } from "./grid.js";
import { threeCellPython } from "./python.js";
import { answer, explain, TASKS } from "./questions.js";

const ASKS = {
  distance: "Is RG longer than RB?",
  orientation: "Which way do R, G, B run?",
  area: "Whose shadow on the ground is larger?",
  vector_sum: "Does OR + OG + OB leave the grid?",
};

export class ThreeCell {
  title = "Three-Cell";

  constructor(root, { catalog, save }) {
    Object.assign(this, { root, catalog, save });
  }

  show(params) {
    this.grid = offeredGrid(this.catalog, params.get("grid"), this.catalog.model?.grid.join("x") ?? "7x7");
    const [height, width] = this.grid,
      given = (params.get("cells") ?? "").split("-").map(Number);
    const fits =
      given.length === 6 && given.every((value, place) => value >= 0 && value < (place % 2 ? width : height));
    this.setCells(fits ? given : [4, 0, 1, 2, 3, 4].map((v, place) => Math.min(v, (place % 2 ? width : height) - 1)));
    this.moving = Math.max(0, this.catalog.colours.indexOf(params.get("moving")));
    this.question = params.get("question") in ASKS ? params.get("question") : "distance";
    this.wrongs = params.get("wrong") === "1";
    this.render();
    if (fits || !this.asked()) this.update();
    else this.openExample();
  }

  setCells(values) {
    this.cells = [0, 2, 4].map((at) => values.slice(at, at + 2));
  }

  // Start with cells about which the model is right.
  async openExample() {
    const { map } = this;
    this.note.replaceChildren(waiting("Loading the model …"));
    const { cells } = await json("api/three-cell/example.json").catch(() => ({}));
    if (map !== this.map || !map.element.isConnected) return; // another view is open, or other cells
    if (cells) this.setCells(cells);
    this.update();
  }

  // Whether the model knows this grid.
  asked = () => String(this.catalog.model?.grid) === String(this.grid);

  params() {
    const params = [
      ["grid", this.grid.join("x")],
      ["cells", this.cells.flat().join("-")],
      ["moving", this.catalog.colours[this.moving]],
      ["question", this.question],
    ];
    return this.wrongs ? [...params, ["wrong", 1]] : params;
  }

  render() {
    const { catalog } = this;
    this.map = new GridCanvas("Grid with a red, a green and a blue cell. R, G and B choose one, arrow keys move it.", {
      press: (cell) => this.grab(cell),
      drag: (cell) => this.put(cell),
      hover: (cell) => (this.map.canvas.style.cursor = cell != null && this.owner(cell) >= 0 ? "grab" : "default"),
      move: (key) => this.put(this.map.step(this.place(this.moving), key), true),
      key: (event) => this.choose("rgb".indexOf(event.key.toLowerCase())),
    });
    this.rows = Object.fromEntries(
      Object.keys(ASKS).map((task) => {
        const row = { how: h("p.how"), says: h("p.says"), model: h("p.model") };
        row.root = h(
          "button.question",
          { type: "button", onclick: () => ((this.question = task), this.update()) },
          h("h2", {}, ASKS[task]),
          row.says,
          row.how,
          row.model,
        );
        return [task, row];
      }),
    );
    const wrongs = h("input", {
      type: "checkbox",
      checked: this.wrongs,
      onchange: () => ((this.wrongs = wrongs.checked), this.update()),
    });
    this.note = h("p.hint", { role: "status" });
    this.root.replaceChildren(
      lede(
        "Three coloured cells, four questions that only position can answer.",
        forPointer(
          "Drag the cells; with the keyboard, R, G or B chooses one and arrow keys move it.",
          "Drag the cells with a finger, and tap a question to see how it is answered.",
        ),
      ),
      h(
        "div.controls",
        {},
        gridControl(catalog, this.grid.join("x"), (grid) =>
          this.show(
            new URLSearchParams(
              this.params()
                .filter(([k]) => k !== "grid" && k !== "cells")
                .concat([["grid", grid]]),
            ),
          ),
        ),
        this.asked()
          ? h("label.check", {}, wrongs, " show where the model errs if the chosen cell moved there")
          : "",
      ),
      h(
        "div.side",
        {},
        h("article.card", {}, this.map.element, this.note),
        h(
          "div.questions",
          {},
          Object.values(this.rows).map((row) => row.root),
        ),
      ),
    );
    this.map.shape(...this.grid);
  }

  place = (which) => this.cells[which][0] * this.grid[1] + this.cells[which][1];
  owner = (cell) => [0, 1, 2].find((which) => this.place(which) === cell) ?? -1;

  choose(which) {
    if (which < 0) return false;
    this.moving = which;
    this.update();
    say(`${this.catalog.colours[which]} at row ${this.cells[which].join(", column ")}`);
    return true;
  }

  grab(cell) {
    return this.choose(this.owner(cell));
  }

  put(cell, spoken = false) {
    if (this.owner(cell) >= 0) return; // taken
    this.cells[this.moving] = [Math.floor(cell / this.grid[1]), cell % this.grid[1]];
    this.update();
    if (spoken)
      say(
        `${this.catalog.colours[this.moving]} at row ${this.cells[this.moving].join(", column ")}. ${Object.values(
          this.rows,
        )
          .map((row) => row.says.textContent)
          .join(". ")}`,
      );
  }

  update() {
    const told = (this.told = answer(this.cells, this.grid)),
      how = explain(told, this.grid);
    for (const [task, row] of Object.entries(this.rows)) {
      row.how.textContent = how[task];
      row.says.textContent = told.turn || task !== "orientation" ? this.words(task, told.bits) : "they are on one line";
      row.root.setAttribute("aria-pressed", task === this.question);
    }
    this.save(this.params());
    this.draw();
    this.ask();
  }

  words(task, bits) {
    return this.catalog.words[task][TASKS[task].map((bit) => bits[bit]).join("")] ?? "no answer: both at once";
  }

  async ask() {
    const { model } = this.catalog,
      key = String([this.cells, this.moving]);
    this.model = null;
    delete this.root.dataset.ready;
    const reason = !model
      ? "The model answers where the explorer runs with its server: loope explore."
      : !this.asked()
        ? `The model was trained on ${model.grid.join("x")}.`
        : !this.told.turn
          ? "On one line: Three-Cell has no such sample, and the model is not asked."
          : "";
    this.note.textContent = reason;
    try {
      const said = reason
        ? null
        : await json(`api/three-cell/${this.catalog.colours[this.moving]}/${this.cells.flat().join("-")}.json`);
      if (key !== String([this.cells, this.moving])) return; // the cells have moved since
      this.model = said;
    } catch (error) {
      this.note.textContent = error.message;
    }
    const bits = this.model?.logits.map((logit) => Number(logit > 0));
    for (const [task, { model: line }] of Object.entries(this.rows)) {
      const right = bits && TASKS[task].every((bit) => bits[bit] === this.told.bits[bit]);
      line.textContent = bits ? `${right ? "✓" : "✗"} model: ${this.words(task, bits)} (${this.sure(task)} sure)` : "";
      line.className = `model ${right ? "right" : "wrong"}`;
    }
    if (this.model && this.wrongs) {
      const tried = this.model.wrong.filter((count) => count != null),
        bad = tried.filter((count) => count > 0).length;
      this.note.textContent = `With ${this.catalog.colours[this.moving]} elsewhere, the model errs at ${bad} of ${tried.length} places.`;
    }
    this.draw();
    this.root.dataset.ready = "three-cell";
  }

  // The model's confidence in its answer to a question, all bits together.
  sure(task) {
    const chance = TASKS[task]
      .map((bit) => 1 / (1 + Math.exp(-Math.abs(this.model.logits[bit]))))
      .reduce((one, two) => one * two);
    return chance > 0.99 ? "over 99 %" : `${Math.round(100 * chance)} %`;
  }

  draw() {
    this.map.show((map) => drawCells(map, this));
  }

  python() {
    const { model } = this.catalog;
    return threeCellPython({
      grid: this.grid,
      cells: this.cells,
      model: this.asked() ? model : null,
    });
  }

  pictures() {
    return [{ title: this.rows[this.question].says.textContent, canvas: this.map.canvas }];
  }

  csv() {
    return [
      ["question", "answer", "how", "model"],
      ...Object.entries(this.rows).map(([task, row]) => [
        task,
        row.says.textContent,
        row.how.textContent,
        row.model.textContent,
      ]),
    ];
  }
}

// A canvas of cells: sharp at every size, with pointer and arrow keys.
import { h } from "./dom.js";

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export class GridCanvas {
  // on.hover(cell or null), on.pick(cell), on.move(cell) by key, on.key(event), on.press(cell) and on.drag(cell)
  constructor(label, on = {}) {
    this.on = on;
    this.rows = this.columns = 1;
    this.draw = () => {};
    this.canvas = h("canvas.cells", { "aria-label": label });
    if (on.move) Object.assign(this.canvas, { tabIndex: 0 }).setAttribute("role", "application");
    else this.canvas.setAttribute("role", "img");
    this.element = h("div.grid", {}, this.canvas);
    this.context = this.canvas.getContext("2d");
    this.listen();
    new ResizeObserver(() => this.fit()).observe(this.element);
  }

  shape(rows, columns) {
    if (rows === this.rows && columns === this.columns) return;
    Object.assign(this, { rows, columns });
    this.fit();
  }

  // Cells are whole device pixels wide, so that their edges are sharp; tall grids are limited in height.
  fit() {
    const room = this.element.clientWidth * devicePixelRatio;
    if (!room) return;
    this.size = Math.max(1, Math.floor(Math.min(room / this.columns, (1.25 * room) / this.rows)));
    const [width, height] = [this.size * this.columns, this.size * this.rows];
    if (this.canvas.width !== width || this.canvas.height !== height) {
      Object.assign(this.canvas, { width, height });
      this.canvas.style.width = `${width / devicePixelRatio}px`;
    }
    this.paint();
  }

  // Set the drawing function; it is called again when the size changes.
  show(draw) {
    this.draw = draw;
    this.paint();
  }

  paint() {
    if (!this.size) return;
    this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.draw(this);
  }

  cells(colour, lines = true) {
    const { context, size, columns } = this,
      gap = lines && size > 14 ? Math.round(devicePixelRatio) : 0;
    for (let cell = 0; cell < this.rows * columns; cell++) {
      const fill = colour(cell);
      if (!fill) continue;
      context.fillStyle = fill;
      context.fillRect((cell % columns) * size, Math.floor(cell / columns) * size, size - gap, size - gap);
    }
  }

  // Paint the static background once per size and copy it while marks move.
  keep(paint) {
    if (this.kept?.width !== this.canvas.width || this.kept.height !== this.canvas.height) {
      paint();
      this.kept = new OffscreenCanvas(this.canvas.width, this.canvas.height);
      this.kept.getContext("2d").drawImage(this.canvas, 0, 0);
    } else this.context.drawImage(this.kept, 0, 0);
  }

  // Return the centre of a cell, in device pixels.
  centre(cell) {
    return [((cell % this.columns) + 0.5) * this.size, (Math.floor(cell / this.columns) + 0.5) * this.size];
  }

  // Draw a ring around a cell, visible on every colour.
  mark(cell, strong = true) {
    const { context, size } = this,
      line = Math.max(1, Math.min(size / 9, 2 * devicePixelRatio));
    const [x, y] = this.centre(cell),
      side = size - line;
    for (const [colour, width] of [
      ["#000", 2 * line],
      [strong ? "#7df9ff" : "#fff", line],
    ]) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.strokeRect(x - side / 2, y - side / 2, side, side);
    }
  }

  line(points, colour, width, dash = []) {
    const { context } = this;
    context.beginPath();
    points.forEach(([x, y], place) => (place ? context.lineTo(x, y) : context.moveTo(x, y)));
    Object.assign(context, { strokeStyle: colour, lineWidth: width, lineCap: "round", lineJoin: "round" });
    context.setLineDash(dash);
    context.stroke();
    context.setLineDash([]);
  }

  arrow(from, to, colour, width, wings = 4 * width) {
    const [across, down] = [to[0] - from[0], to[1] - from[1]];
    const angle = Math.atan2(down, across),
      head = Math.min(wings, 0.7 * Math.hypot(across, down));
    const wing = (turn) => [to[0] - head * Math.cos(angle + turn), to[1] - head * Math.sin(angle + turn)];
    this.line([from, to], colour, width);
    this.line([wing(0.6), to, wing(-0.6)], colour, width);
  }

  shade(points, fill) {
    this.context.beginPath();
    points.forEach(([x, y]) => this.context.lineTo(x, y));
    this.context.fillStyle = fill;
    this.context.fill();
  }

  dot(x, y, radius, fill, ring) {
    const { context } = this;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fillStyle = fill;
    context.fill();
    if (ring) (Object.assign(context, { strokeStyle: ring, lineWidth: radius / 3 }), context.stroke());
  }

  picture(image) {
    this.context.drawImage(image, 0, 0, this.canvas.width, this.canvas.height);
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * this.rows);
    const column = Math.floor(((event.clientX - box.left) / box.width) * this.columns);
    const inside = row >= 0 && column >= 0 && row < this.rows && column < this.columns;
    return inside ? row * this.columns + column : null;
  }

  step(cell, key) {
    const [down, right] = STEPS[key],
      { rows, columns } = this;
    const row = Math.min(rows - 1, Math.max(0, Math.floor(cell / columns) + down));
    return row * columns + Math.min(columns - 1, Math.max(0, (cell % columns) + right));
  }

  listen() {
    const { canvas, on } = this;
    let last = null,
      dragging = false;
    const follow = (event) => {
      const cell = this.at(event);
      if (cell === last) return;
      last = cell;
      if (dragging && cell != null) on.drag(cell);
      on.hover?.(cell);
    };
    canvas.addEventListener("pointermove", follow);
    canvas.addEventListener("pointerdown", (event) => {
      follow(event);
      if (!on.drag || last == null || !on.press(last)) return;
      dragging = true;
      canvas.setPointerCapture(event.pointerId);
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (dragging = false));
    canvas.addEventListener("pointerleave", () => ((last = null), on.hover?.(null)));
    canvas.addEventListener("click", (event) => this.at(event) != null && on.pick?.(this.at(event)));
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key in STEPS && on.move) on.move(event.key);
      else if (!on.key?.(event)) return;
      event.preventDefault();
    });
  }
}

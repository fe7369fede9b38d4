// The slider that resizes encodings: over the longer side of the grid, up to twice its length.
import { field, h } from "./dom.js";

const MOST = 2; // times the grid

// `made` is the grid that encoders are created for, `grid` the present one; `change` gets another.
export function sizeControl(made, grid, cells, change) {
  const long = Math.max(...made),
    most = Math.floor(Math.sqrt((cells * long) / Math.min(...made)));
  const told = h("output.number", {}, grid.join("x"));
  const slider = h("input", {
    type: "range",
    min: Math.min(2, long),
    max: Math.max(long, Math.min(most, MOST * long)),
    value: Math.max(...grid),
    ariaLabel: "resize",
    oninput: () => {
      const to = made.map((side) => Math.max(1, Math.round((side * slider.valueAsNumber) / long)));
      told.textContent = to.join("x");
      slider.setAttribute("aria-valuetext", to.join(" by "));
      change(to);
    },
  });
  return field("resized to", h("span.size", {}, slider, told));
}

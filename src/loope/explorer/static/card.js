// A card of Compare: which encoding, its map with the colour scale, and a place for PESI.
import { chooser, nameOf } from "./chooser.js";
import { extent, legend, scale } from "./colours.js";
import { h, number, numbers } from "./dom.js";
import { GridCanvas } from "./grid.js";

export function makeCard(view, spec) {
  const card = { spec },
    name = nameOf(spec, view.files);
  // A map that has not been resized yet has other cells than the view.
  const current = (act) => (cell) => (cell == null || drawn(card, view.grid)) && act(cell);
  card.on = { hover: current((cell) => view.hover(cell)), pick: current((cell) => view.pick(cell)) };
  card.map = new GridCanvas(`Similarity map of ${name}`, {
    ...card.on,
    move: (key) => view.move(card.map, key),
    key: (event) => view.key(event),
  });
  card.ends = [h("span.number"), h("span.number")];
  const ramp = h("span.ramp");
  legend(ramp, "magma");
  card.value = h("p.value");
  card.scores = h("div.scores");
  card.options = h("div.options");
  const choose = chooser(card, view, (text) => ((card.spec = text), view.change({})));
  const remove = h(
    "button.quiet",
    {
      type: "button",
      title: "Remove",
      "aria-label": `Remove ${name}`,
      onclick: () => view.change({ cards: view.cards.filter((each) => each !== card) }),
    },
    "×",
  );
  card.root = h(
    "article.card",
    { "aria-label": name },
    h("div.head", {}, choose, remove),
    card.map.element,
    h("div", {}, h("div.legend", { ariaLabel: "colour scale" }, card.ends[0], ramp, card.ends[1]), card.value),
    card.options,
    card.scores,
  );
  return card;
}

// What a card says of the similarities to a patch. Some biases start at zero.
export function tellRange({ spec, data, range }, values) {
  if (range[0] < range[1]) return extent(values).map((value) => number(value, 3)).join(" to ");
  const starts = data.unit === "bias" && range[0] === 0 && !/^(file|timm)~/.test(spec);
  return starts ? "starts at zero: all alike until trained" : "all alike";
}

export const drawn = ({ data }, grid) => data != null && String(data.grid) === String(grid);

// Draw the similarity of every patch to a chosen one; over a picture, the map is translucent.
export function drawCard(card, [least, most], { patch, reading, picture }) {
  const { grid, similarity } = card.data,
    size = grid[0] * grid[1];
  const values = similarity.subarray(patch * size, (patch + 1) * size),
    colour = scale("magma", least, most);
  card.map.shape(...grid);
  card.map.show((map) => {
    if (picture) map.picture(picture);
    map.context.globalAlpha = picture ? 0.6 : 1;
    map.cells((cell) => colour(values[cell]), !picture);
    map.context.globalAlpha = 1;
    map.mark(patch);
    if (reading != null) map.mark(reading, false);
  });
  numbers(least, most).forEach((end, place) => (card.ends[place].textContent = end));
  return values;
}

// PESI of each card: scores with their ceilings, and a map of the score of each centre.
import { drawn } from "./card.js";
import { extent, scale } from "./colours.js";
import { h, number, term } from "./dom.js";
import { GridCanvas } from "./grid.js";

const MAPS = [
  ["m_u", "M_U", "viridis"],
  ["m_d", "M_D", "viridis"],
  ["a_su_bounded", "A_SU", "magma"],
];
const HELP = {
  m_u: "Undirected monotonicity: does similarity fall from ring to ring? 2 from every centre; 1, where the bar starts, is all alike, and random vectors score a little more.",
  m_d: "Directed monotonicity: does it fall in each direction? The tick is the most that this grid allows.",
  a_su: "Undirected asymmetry: does similarity differ on a ring? 0: it is a matter of distance alone. Bounded: over the range instead of the mean.",
  shift: "How much similarity depends on the offset of two patches alone.",
  near: "Rank correlation of similarity and nearness over all pairs of patches.",
};

export function scoreCard(cards, grid) {
  const shown = cards.filter((card) => drawn(card, grid));
  const minis = [];
  for (const [key, , colours] of MAPS) {
    // One scale for all cards, up to the maximum.
    const [least, most] = extent(...shown.map(({ data }) => data[key]));
    const top = { m_u: 2, m_d: shown[0]?.data.scores.m_d_ceiling }[key] ?? most;
    for (const card of shown)
      minis.push({ card, key, colour: scale(colours, least, Math.max(top, most)), map: new GridCanvas("", card.on) });
  }
  for (const card of shown)
    fill(
      card,
      minis.filter((mini) => mini.card === card),
    );
  return {
    draw(patch) {
      for (const { card, key, colour, map, told } of minis) {
        const values = card.data[key];
        told.textContent = number(values[patch], 3);
        map.shape(...grid);
        map.show(() => {
          map.keep(() => map.cells((cell) => colour(values[cell])));
          map.mark(patch);
        });
      }
    },
  };
}

function fill(card, minis) {
  const { scores, published } = card.data;
  const paper =
    published &&
    h(
      "p.paper",
      {},
      `Paper, “${published.called}”: ${[published.m_u, published.m_d, published.a_su].map((v) => number(v)).join(" · ")}`,
    );
  card.scores.replaceChildren(
    h(
      "dl",
      {},
      row("m_u", "M_U", number(scores.m_u), "of 2", meter(scores.m_u)),
      row("m_d", "M_D", number(scores.m_d), `of ${number(scores.m_d_ceiling)}`, meter(scores.m_d, scores.m_d_ceiling)),
      row(
        "a_su",
        "A_SU",
        number(scores.a_su) + (scores.a_su_says_little ? "*" : ""),
        `bounded ${number(scores.a_su_bounded, 3)}`,
      ),
      row("shift", "shift", number(scores.translation_consistency, 3)),
      row("near", "near", number(scores.nearness_correlation, 3)),
    ),
    scores.a_su_says_little ? h("p.hint", {}, "* divides by a mean near zero: look at “bounded”.") : "",
    h(
      "div.minis",
      {},
      minis.map((mini) => {
        const label = MAPS.find(([key]) => key === mini.key)[1];
        mini.told = h("span.number");
        mini.map.canvas.setAttribute("aria-label", `${label} of each centre`);
        return h("figure", {}, mini.map.element, h("figcaption", {}, label, mini.told));
      }),
    ),
    paper ?? "",
  );
}

function row(help, name, value, beside = "", bar = "") {
  return term(name, HELP[help], h("dd", {}, h("b.number", {}, value), " ", h("small", {}, beside)), bar);
}

const share = (score) => `${100 * Math.max(0, score - 1)}%`;

// A bar from 1 (all similarities equal) to 2, with a tick at the ceiling.
function meter(value, ceiling) {
  const bar = h("span.meter", { "aria-hidden": true }, h("i"));
  bar.firstChild.style.width = share(value);
  if (ceiling) {
    const tick = h("u");
    tick.style.left = share(ceiling);
    bar.append(tick);
  }
  return bar;
}

// The four questions of Three-Cell in integers, as in loope.three_cell.questions; a test compares all answers.
// cells: [row, column] of red, green, blue. grid: [height, width].
export function answer(cells, grid) {
  const [[redRow, redColumn], [greenRow, greenColumn], [blueRow, blueColumn]] = cells,
    [height, width] = grid;
  const green = [greenColumn - redColumn, redRow - greenRow],
    blue = [blueColumn - redColumn, redRow - blueRow]; // x, y up
  const lengths = [green, blue].map(([x, y]) => x * x + y * y);
  const turn = green[0] * blue[1] - green[1] * blue[0];
  // Twice the area of the trapezoid under a segment: its width times the sum of its heights, an integer.
  const heights = [greenRow, blueRow].map((row) => 2 * height - 1 - redRow - row);
  const shadows = [Math.abs(green[0]) * heights[0], Math.abs(blue[0]) * heights[1]];
  // Twice the sum of the vectors from the centre, an integer.
  const sum = [
    2 * (redColumn + greenColumn + blueColumn) - 3 * (width - 1),
    3 * (height - 1) - 2 * (redRow + greenRow + blueRow),
  ];
  const outside = Math.abs(sum[0]) > width || Math.abs(sum[1]) > height;
  const bits = [
    lengths[0] > lengths[1],
    lengths[0] < lengths[1],
    turn > 0,
    shadows[0] > shadows[1],
    shadows[0] < shadows[1],
    outside,
  ];
  return { bits: bits.map(Number), green, blue, lengths, turn, heights, shadows, sum };
}

export const TASKS = { distance: [0, 1], orientation: [2], area: [3, 4], vector_sum: [5] };

// Explain each answer with its numbers.
export function explain(told, [height, width]) {
  const { green, blue, lengths, turn, heights, shadows, sum } = told,
    half = (value) => value / 2;
  const less = (one, two) => (one < two ? "<" : one > two ? ">" : "=");
  return {
    distance: `RG² = ${green.map((v) => `${Math.abs(v)}²`).join(" + ")} = ${lengths[0]} ${less(...lengths)} ${lengths[1]} = ${blue.map((v) => `${Math.abs(v)}²`).join(" + ")} = RB²`,
    orientation: `RG × RB = ${green[0]}·${paren(blue[1])} − ${paren(green[1])}·${paren(blue[0])} = ${turn} ${less(turn, 0)} 0`,
    area: `${Math.abs(green[0])} · ${half(heights[0])} = ${half(shadows[0])} ${less(...shadows)} ${half(shadows[1])} = ${Math.abs(blue[0])} · ${half(heights[1])} (width · mean height)`,
    vector_sum: `OR + OG + OB = (${sum.map(half).join(", ")}); the grid ends at ±${half(width)}, ±${half(height)}`,
  };
}

const paren = (value) => (value < 0 ? `(${value})` : value);

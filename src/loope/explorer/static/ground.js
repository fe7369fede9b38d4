// What maps are drawn over: nothing, a built-in image, or the visitor's own. A view keeps the choice in `over`, its file
// in `own`.
import { field, filePicker, select } from "./dom.js";
import { open, sample, SAMPLES } from "./images.js";

const NOTHING = "nothing";

// Parse the choice of an address; the visitor's image is not part of it.
export function readGround(view, over) {
  return over in SAMPLES || (over === "own" && view.own) ? over : NOTHING;
}

export function groundOf({ over, own }) {
  return over in SAMPLES ? sample(over) : over === "own" ? own : null;
}

// Build the controls; `change` gets what to change in the view, and builds them again.
export function groundControls(view, message, change) {
  const own = view.own ? [{ value: "own", text: view.own.name }] : [];
  const offered = [{ value: NOTHING, text: NOTHING }, ...Object.keys(SAMPLES), ...own];
  return [
    field(
      "drawn over",
      select("drawn over", offered, view.over, (over) => change({ over })),
    ),
    filePicker("Choose an image", "image/*", message, async ([file]) => change({ own: await open(file), over: "own" })),
  ];
}

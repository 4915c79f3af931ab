// Colours of the canvas, read from the page's styles, which know about dark and light.
const COLOURS = ["text", "muted", "line", "grid", "panel", "band", "source", "operator", "output", "select", "cause", "effect", "late", "cti", "window", "unsettled"];

function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const palette = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  return { ...palette, cause: [palette.cause, stripes(palette.cause)], effect: [palette.effect, dots(palette.effect)] };
}

function rowColour(palette, flow, node) {
  if (node === flow.output) return palette.output;
  return node.isSource ? palette.source : palette.operator;
}

function makePattern(paint) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const ink = tile.getContext("2d");
  paint(ink);
  return ink.createPattern(tile, "repeat");
}

// what tells causes from effects without colour: stripes and dots
function stripes(colour) {
  return makePattern((ink) => {
    ink.fillStyle = colour;
    ink.fillRect(0, 0, 6, 6);
    ink.strokeStyle = "rgba(255,255,255,.75)";
    ink.lineWidth = 1.5;
    for (const shift of [-6, 0, 6]) { ink.moveTo(shift, 6); ink.lineTo(shift + 6, 0); }
    ink.stroke();
  });
}

function dots(colour) {
  return makePattern((ink) => {
    ink.fillStyle = colour;
    ink.fillRect(0, 0, 6, 6);
    ink.fillStyle = "rgba(255,255,255,.85)";
    ink.fillRect(2, 2, 2, 2);
  });
}

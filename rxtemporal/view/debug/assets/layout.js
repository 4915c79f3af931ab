// The plan in layers, from left to right: a node stands one layer after its last input.
const BOX = { width: 200, height: 92, across: 44, down: 16 };

function findLayers(flow) {
  const depths = new Map();
  const depth = (node) => {
    if (!depths.has(node.id)) {
      depths.set(node.id, Math.max(-1, ...node.inputs.map((id) => depth(flow.byId.get(id)))) + 1);
    }
    return depths.get(node.id);
  };
  flow.nodes.forEach(depth);
  return depths;
}

// links of one layer each: places are kept free where a longer one passes
function splitLinks(flow, depths) {
  const layers = Array.from({ length: Math.max(...depths.values()) + 1 }, () => []);
  for (const node of flow.nodes) layers[depths.get(node.id)].push({ node, from: [] });
  const cells = new Map(layers.flat().map((cell) => [cell.node.id, cell]));
  for (const node of flow.nodes) {
    for (const id of node.inputs) {
      let from = cells.get(id);
      for (let layer = depths.get(id) + 1; layer < depths.get(node.id); layer++) {
        const through = { node: null, from: [from], above: flow.byId.get(id), below: node };
        layers[layer].push(through);
        from = through;
      }
      cells.get(node.id).from.push(from);
    }
  }
  return layers;
}

// sources stand beside what reads them, and each layer in the order of its inputs
function orderLayers(layers) {
  const middle = (cells, fallback) => cells.length ? cells.reduce((sum, cell) => sum + cell.place, 0) / cells.length : fallback;
  for (let round = 0; round < 4; round++) {
    for (const layer of layers) {
      layer.forEach((cell, i) => { cell.place = middle(cell.from, cell.place ?? i); });
      layer.sort((a, b) => a.place - b.place).forEach((cell, i) => { cell.place = i; });
    }
    for (const layer of [...layers].reverse()) {
      const after = (cell) => layers.flat().filter((other) => other.from.includes(cell));
      layer.sort((a, b) => middle(after(a), a.place) - middle(after(b), b.place)).forEach((cell, i) => { cell.place = i; });
    }
  }
}

// boxes with their places, and links as curves between them
function layPlan(flow) {
  const layers = splitLinks(flow, findLayers(flow));
  orderLayers(layers);
  const tallest = Math.max(...layers.map((layer) => layer.length));
  layers.forEach((layer, column) => layer.forEach((cell, i) => {
    cell.x = column * (BOX.width + BOX.across);
    cell.y = (i + (tallest - layer.length) / 2) * (BOX.height + BOX.down);
  }));
  const cells = layers.flat();
  const links = cells.flatMap((cell) => cell.from.map((from) => ({ above: from.node ?? from.above, below: cell.node ?? cell.below, to: cell, path: drawLink(from, cell) })));
  return {
    boxes: cells.filter((cell) => cell.node), links,
    width: layers.length * (BOX.width + BOX.across) - BOX.across,
    height: tallest * (BOX.height + BOX.down) - BOX.down,
  };
}

function drawLink(from, to) {
  const [x1, y1] = [from.x + BOX.width, from.y + BOX.height / 2];
  const [x2, y2] = [to.x, to.y + BOX.height / 2];
  const bend = (x2 - x1) / 2;
  const through = to.node ? "" : ` h ${BOX.width}`;
  return `M ${x1} ${y1} C ${x1 + bend} ${y1}, ${x2 - bend} ${y2}, ${x2} ${y2}${through}`;
}

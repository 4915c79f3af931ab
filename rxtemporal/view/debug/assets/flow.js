// The flow: nodes with their rows, arrivals, CTIs; made from the JSON of the page.
const VERDICTS = ["accepted", "adjusted", "late", "CTI"];
const KINDS = ["point", "interval", "edge start", "edge end", "CTI"];
const ADJUSTED = 1;
const LATE = 2;
const CTI = 3;

const NO_ROWS = { start: { n: 0, values: [] }, end: { n: 0, values: [] }, payload: [] };

class Arrivals {
  constructor(spec, times, fields) {
    this.stream = spec.stream;
    this.times = times;
    this.n = columnLength(spec.step);
    this.step = decodeNumbers(spec.step);
    this.start = decodeTimes(spec.start, times.base);
    this.end = decodeTimes(spec.end, times.base);
    this.verdict = decodeNumbers(spec.verdict);
    this.kind = decodeNumbers(spec.kind);
    this.by = decodeNumbers(spec.by);
    this.row = decodeNumbers(spec.row);
    this.position = decodeNumbers(spec.position);
    this.input = spec.input && new Cells(spec.input, times);
    this.reason = spec.reason && new Cells(spec.reason, times);
    this.fields = (spec.fields || fields).map((field) => show(field.name, 60));
    this.cells = spec.payload.map((column) => new Cells(column, times));
  }

  verdictText(index) {
    const verdict = this.verdict[index];
    if (verdict !== LATE && verdict !== ADJUSTED) return VERDICTS[verdict];
    return `${VERDICTS[verdict]} by ${this.times.span(this.by[index])}`;
  }

  // how late an event was, to sort by; CTIs and those in time stand before all late ones
  lateness(index) {
    const verdict = this.verdict[index];
    return verdict === LATE || verdict === ADJUSTED ? this.by[index] : verdict - CTI - 1;
  }

  // late events, dropped or adjusted, in the order of their start times
  get late() {
    return (this.lates ??= Int32Array.from(this.start, (_, i) => i)
      .filter((i) => this.verdict[i] === LATE || this.verdict[i] === ADJUSTED)
      .sort((a, b) => this.start[a] - this.start[b]));
  }

  // the arrival that made a row
  ofRow(row) {
    if (!this.byRow) {
      this.byRow = new Map();
      for (let i = this.n - 1; i >= 0; i--) if (this.row[i] >= 0) this.byRow.set(this.row[i], i);
    }
    return this.byRow.get(row) ?? -1;
  }
}

class FlowNode {
  constructor(spec, times) {
    this.spec = spec;
    this.id = spec.id;
    this.name = show(spec.name, 80);
    this.isSource = spec.kind === "source";
    this.inputs = spec.inputs;
    this.leastGap = times.isDate ? SECOND : 10;
    this.rows = new Rows(spec.rows, spec.fields, times);
    // results so far, on a live page: they are not final, and the next look may find others
    this.soFar = new Rows(spec.soFar?.rows ?? NO_ROWS, spec.fields, times);
    this.ctiSteps = decodeNumbers(spec.ctis.step);
    this.ctis = decodeTimes(spec.ctis.cti, times.base);
    this.heldSteps = decodeNumbers(spec.heldCurve.step);
    this.heldRows = decodeNumbers(spec.heldCurve.rows);
    this.window = spec.window && {
      start: decodeTimes(spec.window.start, times.base),
      end: decodeTimes(spec.window.end, times.base),
    };
  }

  // results so far in the order of their starts, without those that have meanwhile come as rows, final or open
  get notFinal() {
    return (this.notFinals ??= this.soFar.n ? this.findNotFinal() : []);
  }

  findNotFinal() {
    const cti = this.ctis.at(-1) ?? -Infinity;
    const sign = (rows, row) => `${rows.start[row]} ${rows.start[row] < cti ? rows.key(row) : rows.summary(row)}`;
    const come = new Set(Array.from(this.rows.start, (_, row) => sign(this.rows, row)));
    return [...this.soFar.byStart].filter((row) => !come.has(sign(this.soFar, row)));
  }

  // with those that are too many to be on the page
  countNotFinal() {
    return this.notFinal.length + (this.spec.soFar?.count ?? 0) - this.soFar.n;
  }

  // starts of all rows in order, final or not
  get starts() {
    const { sortedStarts } = this.rows;
    return this.soFar.n ? Float64Array.of(...sortedStarts, ...this.soFar.start).sort() : sortedStarts;
  }

  ctiAt(step) {
    const at = firstAbove(this.ctiSteps, step);
    return at ? this.ctis[at - 1] : -Infinity;
  }

  // the last start that counts for the timeline: past the CTI, rows up to a gap that is longer than all before it
  findFront() {
    const cti = this.ctis.findLast(Number.isFinite);
    const { starts } = this;
    const first = starts[firstAbove(starts, -Number.MAX_VALUE)];
    if (cti === undefined || !(first < cti)) return Infinity;
    let [at, front] = [firstAbove(starts, cti), cti];
    while (starts[at] - front <= Math.max(cti - first, this.leastGap)) front = starts[at++];
    return front;
  }

  heldAt(step) {
    const at = firstAbove(this.heldSteps, step);
    return at ? this.heldRows[at - 1] : 0;
  }
}

class Flow {
  constructor(spec) {
    this.spec = spec;
    this.times = new Times(spec.time, findBase(spec));
    this.nodes = spec.nodes.map((node) => new FlowNode(node, this.times));
    this.byId = new Map(this.nodes.map((node) => [node.id, node]));
    for (const node of this.nodes) node.below = node.inputs.map((id) => this.byId.get(id));
    this.arrivals = spec.arrivals.map(
      (each) => new Arrivals(each, this.times, this.byId.get(each.stream).spec.fields));
    this.arrivalsOf = new Map(this.arrivals.map((each) => [each.stream, each]));
    this.output = this.nodes.find((node) => node.spec.output)
      ?? this.byId.get(spec.output) ?? this.nodes.at(-1);
    this.last = this.lastStep();
    this.whole = this.findExtent(() => Infinity, -Infinity);
    this.extent = this.findUsualExtent();
    const [first, last] = this.extent.map((ticks) => this.times.parts(ticks).date);
    this.times.isOneDay = first === last;
  }

  lastStep() {
    const steps = this.arrivals.map((each) => (each.n ? each.step[each.n - 1] : 0));
    return Math.max(0, (this.spec.steps ?? 0) - 1, ...steps);
  }

  // without rows and late events that a wrong clock has put far from all others
  findUsualExtent() {
    const [low, high] = this.findExtent((node) => node.findFront());
    return this.findExtent((node) => node.findFront(), low - (high - low));
  }

  // from the earliest to the latest finite time of rows up to a front, late events, and last CTIs
  findExtent(front, back = Infinity) {
    let [low, high] = [Infinity, -Infinity];
    const reach = (value) => {
      if (value < low && value !== -Infinity) low = value;
      if (value > high && value !== Infinity) high = value;
    };
    for (const node of this.nodes) {
      const last = front(node);
      for (const { start, end } of [node.rows, node.soFar]) {
        for (let i = 0; i < start.length; i++) {
          if (start[i] > last) continue;
          reach(start[i]);
          reach(end[i]);
        }
      }
      node.ctis.subarray(-1).forEach(reach);
    }
    for (const each of this.arrivals) for (const i of each.late) if (each.start[i] >= back) reach(each.start[i]);
    const least = this.times.isDate ? SECOND : 10;
    if (low > high) return [0, 60 * least];
    return high - low < least ? [low - least / 2, high + least / 2] : [low, high];
  }

  // the arrival of a step: its stream and its place there
  arrivalAt(step) {
    for (const each of this.arrivals) {
      const at = firstAbove(each.step, step) - 1;
      if (at >= 0 && each.step[at] === step) return { arrivals: each, index: at };
    }
    return null;
  }

  // all sources above a node, itself included if it is one
  sourcesOf(node) {
    if (node.isSource) return [node];
    return [...new Set(node.inputs.flatMap((id) => this.sourcesOf(this.byId.get(id))))];
  }
}

function findBase(spec) {
  const soFar = spec.nodes.flatMap((node) => node.soFar?.rows ?? []);
  const columns = [...spec.arrivals, ...spec.nodes.map((node) => node.rows), ...soFar].map((each) => each.start);
  const found = columns.find((column) => columnLength(column) && column.origin);
  return BigInt(found ? found.origin : "0");
}

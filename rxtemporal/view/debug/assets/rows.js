// Rows that left one node: lifetimes, the steps at which they became known, payload.
class Rows {
  constructor(spec, fields, times) {
    this.spec = spec;
    this.n = columnLength(spec.start);
    this.times = times;
    this.fields = fields.map((field) => show(field.name, 60));
    this.cells = spec.payload.map((column) => new Cells(column, times));
  }

  get start() {
    return (this.starts ??= decodeTimes(this.spec.start, this.times.base));
  }

  get end() {
    return (this.ends ??= decodeTimes(this.spec.end, this.times.base));
  }

  get known() {
    return (this.knowns ??= decodeNumbers(this.spec.known));
  }

  get closed() {
    return (this.closeds ??= decodeSteps(this.spec.closed));
  }

  get keys() {
    return (this.keyCells ??= this.spec.lane ? new Cells(this.spec.lane, this.times) : null);
  }

  // the place of each row by its number, on a live page
  get placeOf() {
    return (this.places ??= new Map([...decodeNumbers(this.spec.number)].map((number, row) => [number, row])));
  }

  key(row) {
    return this.keys ? this.keys.text(row) : "";
  }

  // known steps in ascending order, to count what was known when
  get knownOrder() {
    return (this.ordered ??= isAscending(this.known) ? this.known : this.known.slice().sort());
  }

  countKnown(step) {
    return firstAbove(this.knownOrder, step);
  }

  // the end as it was known at a step: Infinity while the row was open
  endAt(row, step) {
    return this.closed[row] > step ? Infinity : this.end[row];
  }

  isPoint(row) {
    return this.end[row] - this.start[row] <= 1;
  }

  get byStart() {
    return (this.startOrder ??= sortedOrder(this.start));
  }

  // places in `byStart` are those of these times
  get sortedStarts() {
    return (this.inOrder ??= Float64Array.from(this.byStart, (row) => this.start[row]));
  }

  summary(row) {
    return this.fields.map((name, i) => `${name} ${this.cells[i].text(row)}`).join(", ");
  }

  lifetime(row, step = Infinity) {
    if (this.isPoint(row)) return `at ${this.times.full(this.start[row])}`;
    return `from ${this.times.full(this.start[row])} to ${this.times.full(this.endAt(row, step))}`;
  }
}

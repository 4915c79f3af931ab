// The span of time that the timeline shows; it changes without the rest of the page being made anew.
class View {
  constructor(flow) {
    this.listeners = new Set();
    this.isAll = false;
    this.setFlow(flow);
    this.fit();
  }

  // where the rows of a flow lie: all of them, or without those that wrong clocks have put far away
  setFlow({ extent, whole }) {
    this.all = whole;
    this.usual = extent;
    this.whole = this.isAll ? whole : extent;
  }

  get hasMore() {
    return this.all[0] < this.usual[0] || this.all[1] > this.usual[1];
  }

  showAll(isAll) {
    this.isAll = isAll;
    this.whole = isAll ? this.all : this.usual;
    this.fit();
  }

  set(from, to) {
    const [low, high] = this.whole;
    const room = (high - low) * 0.5;
    const size = Math.min(Math.max(to - from, 8), (high - low) * 1.6);
    const start = Math.min(Math.max(from, low - room), high + room - size);
    this.from = start;
    this.to = start + size;
    for (const listener of this.listeners) listener();
  }

  fit() {
    const margin = (this.whole[1] - this.whole[0]) * 0.03;
    this.set(this.whole[0] - margin, this.whole[1] + margin);
  }

  // zoom by a factor (above one: closer) with a time that stays where it is
  zoom(factor, at = (this.from + this.to) / 2) {
    const size = Math.min(Math.max((this.to - this.from) / factor, 8), (this.whole[1] - this.whole[0]) * 1.6);
    const part = (at - this.from) / (this.to - this.from);
    this.set(at - part * size, at + (1 - part) * size);
  }

  // move by a part of the width
  pan(part) {
    const shift = part * (this.to - this.from);
    this.set(this.from + shift, this.to + shift);
  }

  // bring a time into sight
  reveal(start, end = start) {
    const size = this.to - this.from;
    if (start >= this.from && start <= this.to - size * 0.02) return;
    // a row of a wrong clock lies outside of what is shown otherwise
    if (!this.isAll && Number.isFinite(start) && (start < this.whole[0] || start > this.whole[1])) {
      this.isAll = true;
      this.whole = this.all;
    }
    if (!Number.isFinite(start)) {
      // a row that has always been there is seen at its end
      if (Number.isFinite(end) && (end < this.from || end > this.to)) this.set(end - size / 2, end + size / 2);
      return;
    }
    const middle = Number.isFinite(end) ? start + Math.min((end - start) / 2, size / 3) : start;
    this.set(middle - size / 2, middle + size / 2);
  }
}

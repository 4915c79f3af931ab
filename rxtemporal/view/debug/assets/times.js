// Application times: ticks from the page's base, as UTC texts or as plain ticks.
const SECOND = 1e6;
const UNITS = [[86400 * SECOND, "d"], [3600 * SECOND, "h"], [60 * SECOND, "min"], [SECOND, "s"], [1000, "ms"], [1, "µs"]];
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5]
  .concat([1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200].map((s) => s * SECOND))
  .concat([1, 2, 7, 14, 30, 90, 180, 365, 730, 1825, 3650, 36500].map((d) => d * 86400 * SECOND));

class Times {
  constructor(kind, base) {
    this.isDate = kind !== "ticks";
    this.base = base;
  }

  parts(ticks) {
    const whole = this.base + BigInt(Math.round(ticks));
    if (!this.isDate) return { whole, date: "", clock: whole.toString() };
    const micros = ((whole % 1000000n) + 1000000n) % 1000000n;
    const moment = new Date(Number((whole - micros) / 1000n));
    if (isNaN(moment)) return { whole, date: "", clock: whole.toString() };
    const [date, clock] = moment.toISOString().split("T");
    const fraction = micros ? "." + micros.toString().padStart(6, "0").replace(/0+$/, "") : "";
    return { whole, date, clock: clock.slice(0, 8) + fraction };
  }

  // the whole time: a date, a time of day, UTC
  full(ticks) {
    if (ticks === Infinity) return "open end";
    if (ticks === -Infinity) return "before all time";
    const { date, clock } = this.parts(ticks);
    return date ? `${date} ${clock} UTC` : clock;
  }

  // the time of day, where the date is clear
  short(ticks) {
    if (!Number.isFinite(ticks)) return ticks > 0 ? "∞" : "−∞";
    return this.parts(ticks).clock;
  }

  // a time without the digits that a span of this length does not need
  coarse(ticks, span) {
    const unit = [60 * SECOND, SECOND, 1000, 1].find((size) => size <= Math.max(span / 600, 1));
    const excess = this.excess(unit);
    return this.isDate ? Math.round((ticks + excess) / unit) * unit - excess : ticks;
  }

  // what the page's base is past the last whole unit
  excess(unit) {
    return Number(((this.base % BigInt(unit)) + BigInt(unit)) % BigInt(unit));
  }

  // from one time to another; the date once where it is the same
  range(from, to) {
    const [first, last] = [from, to].map((each) => (Number.isFinite(each) ? this.parts(each).date : ""));
    if (!first || first !== last) return `${this.full(from)} – ${this.full(to)}`;
    return `${this.full(from).slice(0, -4)} – ${this.short(to)} UTC`;
  }

  // tables leave the date out where all is of one day
  cell(ticks) {
    if (!Number.isFinite(ticks)) return this.full(ticks);
    const { date, clock } = this.parts(ticks);
    return this.isOneDay || !date ? clock : `${date} ${clock}`;
  }

  span(ticks) {
    if (!Number.isFinite(ticks)) return "for ever";
    const size = Math.abs(ticks);
    if (!this.isDate) return plural(Math.round(ticks), "tick");
    const at = UNITS.findIndex(([unit]) => size >= unit);
    if (at < 0) return "0 s";
    const [unit, name] = UNITS[at];
    if (at >= 3) return `${Number((size / unit).toPrecision(3))} ${name}`;
    const [below, smaller] = UNITS[at + 1];
    const whole = Math.floor(size / unit);
    const rest = Math.floor((size - whole * unit) / below);
    return `${whole} ${name}` + (rest ? ` ${rest} ${smaller}` : "");
  }

  // places of the axis' lines, at least `gap` ticks apart
  grid(from, to, gap) {
    const step = this.isDate ? STEPS.find((size) => size >= gap) || gap : this.decimal(gap);
    const shift = Number(this.base % BigInt(Math.max(1, Math.round(step))));
    const first = Math.ceil((from + shift) / step) * step - shift;
    const places = [];
    for (let at = first; at <= to && places.length < 200; at += step) places.push(at);
    return { step, places };
  }

  decimal(gap) {
    const power = 10 ** Math.floor(Math.log10(Math.max(gap, 1)));
    return Math.max(1, [1, 2, 5, 10].map((n) => n * power).find((size) => size >= gap));
  }

  // a label of the axis: dates at midnight, no seconds where they are all zero
  label(ticks, step) {
    const { date, clock } = this.parts(ticks);
    if (!date) return clock;
    if (step >= 86400 * SECOND) return date;
    if (clock === "00:00:00") return date.slice(5);
    return step >= 60 * SECOND ? clock.slice(0, 5) : clock;
  }
}

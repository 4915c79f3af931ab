// Cells of payloads and keys: numbers, texts by code, times, spans; all shown as plain text.
class Cells {
  constructor(column, times) {
    this.column = column;
    this.times = times;
  }

  get codes() {
    return (this.decoded ??= this.decode());
  }

  decode() {
    const { column } = this;
    if (column.type === "dict") return decodeNumbers(column.codes);
    if (column.as === "time") return decodeTimes(column, this.times.base);
    return decodeNumbers(column);
  }

  isNull(row) {
    const { column } = this;
    if (column.type === "dict") return this.codes[row] < 0;
    this.nulls ??= column.nulls ? decodeNumbers(column.nulls) : [];
    return this.nulls[row] === 1;
  }

  // the number in a cell, for comparing; NaN where there is none
  number(row) {
    if (this.isNull(row)) return NaN;
    const value = this.codes[row];
    return this.column.type === "dict" ? Number(this.column.values[value]) : value;
  }

  // whether cells are numbers, and neither times nor spans
  get isNumeric() {
    return this.column.type !== "dict" && !this.column.as;
  }

  // a number that stands in the order of the cells: texts have their place in the alphabet
  rank(row) {
    if (this.isNull(row)) return NaN;
    if (this.column.type !== "dict") return this.codes[row];
    this.ranks ??= rankWords(this.column.values);
    return this.ranks[this.codes[row]];
  }

  text(row) {
    return this.write(row, rounded);
  }

  // the text with all digits
  exact(row) {
    return this.write(row, String);
  }

  write(row, number) {
    if (this.isNull(row)) return "null";
    const value = this.codes[row];
    if (this.column.type === "dict") return this.word(value);
    if (this.column.as === "time") return this.times.full(value);
    if (this.column.as === "span") return this.times.span(value);
    return number(value);
  }

  word(code) {
    this.words ??= new Map();
    if (!this.words.has(code)) this.words.set(code, show(this.column.values[code]));
    return this.words.get(code);
  }
}

// four digits after the point, or four that count where there are only zeros before them
function rounded(value) {
  return String(Math.abs(value) >= 1 ? Number(value.toFixed(4)) : Number(value.toPrecision(4)));
}

function rankWords(words) {
  const { compare } = new Intl.Collator("en", { numeric: true });
  const ranks = new Float64Array(words.length);
  words.map((word, code) => [String(word), code]).sort(([a], [b]) => compare(a, b)).forEach(([, code], rank) => { ranks[code] = rank; });
  return ranks;
}

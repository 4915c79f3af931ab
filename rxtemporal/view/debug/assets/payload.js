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

  text(row) {
    if (this.isNull(row)) return "null";
    const value = this.codes[row];
    if (this.column.type === "dict") return this.word(value);
    if (this.column.as === "time") return this.times.full(value);
    if (this.column.as === "span") return this.times.span(value);
    return String(value);
  }

  word(code) {
    this.words ??= new Map();
    if (!this.words.has(code)) this.words.set(code, show(this.column.values[code]));
    return this.words.get(code);
  }
}

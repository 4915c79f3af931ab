// The filter of the table: words that must occur, and comparisons such as room=office or value>20.
const COMPARISON = /^([^=<>]+)(=|<|>)(.+)$/;

function parseFilter(text) {
  return text.trim().split(/\s+/).filter(Boolean).map((word) => {
    const parts = COMPARISON.exec(word);
    return parts ? { name: parts[1], sign: parts[2], value: parts[3] } : { word: word.toLowerCase() };
  });
}

// a test of rows: all words and comparisons hold
function makeFilter(text, columns) {
  const tests = parseFilter(text).map((part) => (part.word ? wordTest(part.word, columns) : compareTest(part, columns)));
  return (row) => tests.every((test) => test(row));
}

// times are slow to write out: they are looked at only for words that can be in them
function wordTest(word, columns) {
  const isInTimes = /\d/.test(word) || "point open end cti".includes(word);
  const searched = columns.filter(({ isTime }) => !isTime || isInTimes);
  return (row) => searched.some((column) => column.text(row).toLowerCase().includes(word));
}

function compareTest({ name, sign, value }, columns) {
  const column = columns.find((each) => each.name.toLowerCase() === name.toLowerCase());
  if (!column) return () => false;
  const limit = Number(value);
  const number = column.number ?? ((row) => Number(column.text(row)));
  // a number is the same with all its digits, and as the table shows it
  if (sign === "=") return (row) => column.text(row).toLowerCase() === value.toLowerCase() || number(row) === limit;
  return sign === "<" ? (row) => number(row) < limit : (row) => number(row) > limit;
}

// Columns of the flow: base64 texts that become typed arrays when somebody first asks for them.
const ARRAYS = { f64: Float64Array, i32: Int32Array, u8: Uint8Array };

function decodeBytes(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return bytes;
}

function decodeNumbers(column) {
  if (column.data === undefined) return column.values.slice();
  return new ARRAYS[column.type](decodeBytes(column.data).buffer);
}

function decodeTimes(column, base) {
  const values = decodeNumbers(column);
  const shift = Number(BigInt(column.origin || "0") - base);
  if (shift !== 0) for (let i = 0; i < values.length; i++) values[i] += shift;
  return values;
}

// steps, where a negative one means never
function decodeSteps(column) {
  return Float64Array.from(decodeNumbers(column), (step) => (step < 0 ? Infinity : step));
}

function columnLength(column) {
  return column.type === "dict" ? column.codes.n : column.n;
}

// the first place in ascending values whose value is above the limit
function firstAbove(values, limit, low = 0, high = values.length) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

function isAscending(values) {
  for (let i = 1; i < values.length; i++) if (values[i] < values[i - 1]) return false;
  return true;
}

// row numbers in the order of their values; equal ones stay in the order of the rows
function sortedOrder(values) {
  const order = Int32Array.from(values, (_, row) => row);
  if (isAscending(values)) return order;
  return order.sort((a, b) => values[a] - values[b] || a - b);
}

// the same for values that may be infinite, in one direction or the other; what is no number stands last
function directedOrder(values, down) {
  const sign = down ? -1 : 1;
  const last = (row) => (Number.isNaN(values[row]) ? 1 : 0);
  return Int32Array.from(values, (_, row) => row).sort((a, b) => last(a) - last(b)
    || (values[a] < values[b] ? -sign : values[a] > values[b] ? sign : a - b));
}

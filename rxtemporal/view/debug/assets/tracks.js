// Rows of one lane laid into tracks without overlap, as far as there are tracks.
// Each track is its own index: rows by start, and `reach`, the latest end of all rows up to each.
const MOST_TRACKS = 4;

class Track {
  constructor(rows, table) {
    this.rows = Int32Array.from(rows);
    this.starts = Float64Array.from(rows, (row) => table.start[row]);
    this.ends = Float64Array.from(rows, (row) => table.end[row]);
    this.reach = new Float64Array(rows.length);
    let high = -Infinity;
    for (let i = 0; i < rows.length; i++) this.reach[i] = high = Math.max(high, this.ends[i]);
  }

  // places in the track of the rows that overlap a span of time
  span(from, to) {
    return [firstAbove(this.reach, from), firstAbove(this.starts, to)];
  }
}

// the rows go behind those that have filled the tracks up to these ends
function packTracks(table, rows, ends) {
  const lists = [];
  for (const row of rows) {
    const start = table.start[row];
    let at = ends.findIndex((end) => end <= start);
    if (at < 0) at = ends.length < MOST_TRACKS ? ends.length : ends.indexOf(Math.min(...ends));
    (lists[at] ??= []).push(row);
    ends[at] = Math.max(ends[at] ?? -Infinity, table.end[row]);
  }
  return Array.from(lists, (list = []) => new Track(list, table));
}

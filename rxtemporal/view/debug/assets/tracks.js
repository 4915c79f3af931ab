// Rows of one lane laid into tracks without overlap, as far as there are tracks.
// Each track is its own index: rows by start, and `reach`, the latest end of all rows up to each.
const MOST_TRACKS = 4;

class Track {
  constructor(rows, table) {
    this.rows = Int32Array.from(rows);
    this.starts = Float64Array.from(rows, (row) => table.start[row]);
    this.reach = new Float64Array(rows.length);
    let high = -Infinity;
    for (let i = 0; i < rows.length; i++) this.reach[i] = high = Math.max(high, table.end[rows[i]]);
  }

  // places in the track of the rows that overlap a span of time
  span(from, to) {
    return [firstAbove(this.reach, from), firstAbove(this.starts, to)];
  }
}

function packTracks(table, rows) {
  const lists = [];
  const ends = [];
  for (const row of rows) {
    const start = table.start[row];
    let at = ends.findIndex((end) => end <= start);
    if (at < 0) at = ends.length < MOST_TRACKS ? ends.length : ends.indexOf(Math.min(...ends));
    (lists[at] ??= []).push(row);
    ends[at] = Math.max(ends[at] ?? -Infinity, table.end[row]);
  }
  return lists.map((list) => new Track(list, table));
}

// The whole run in one strip: how many rows begin when, and which part the timeline shows.
function Overview({ state, view, gutter, palette }) {
  const canvas = useRef(null);
  const width = useWidth(canvas);
  const counts = useMemo(() => countStarts(state.flow, view.whole), [state.flow, view.whole[0], view.whole[1]]);
  useEffect(() => {
    const paint = () => paintOverview(canvas.current, palette, { width, gutter }, counts, view);
    const frame = onFrame(paint);
    frame();
    view.listeners.add(frame);
    return () => view.listeners.delete(frame);
  }, [width, gutter, counts, palette]);
  useEffect(() => watchBrush(canvas.current, view, () => gutter), [gutter]);
  return html`<canvas class="overview" ref=${canvas} role="img"
    aria-label="Overview of the whole run; drag to choose the part that the timeline shows"></canvas>`;
}

// at most one call a frame
function onFrame(call) {
  let asked;
  return () => (asked ??= requestAnimationFrame(() => { asked = undefined; call(); }));
}

function useSize(ref) {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([{ contentRect: { width, height } }]) => setSize({ width, height }));
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return size;
}

function useWidth(ref) {
  return useSize(ref).width;
}

function countStarts(flow, [from, to]) {
  const counts = new Float64Array(300);
  for (const { rows } of flow.nodes) {
    for (const start of rows.start) {
      const at = Math.floor((start - from) / (to - from) * counts.length);
      if (at >= 0 && at < counts.length) counts[at]++;
    }
  }
  const most = Math.max(...counts, 1);
  return counts.map((each) => each / most);
}

function overviewScale(width, gutter, view) {
  const [from, to] = view.whole;
  const margin = (to - from) * 0.03;
  const scale = (width - gutter) / (to - from + 2 * margin);
  return { x: (time) => gutter + (time - from + margin) * scale, time: (x) => from - margin + (x - gutter) / scale };
}

function paintOverview(canvas, palette, { width, gutter }, counts, view) {
  if (!width) return;
  const height = 36;
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  Object.assign(canvas, { width: width * ratio, height: height * ratio });
  const ink = canvas.getContext("2d");
  ink.scale(ratio, ratio);
  const { x } = overviewScale(width, gutter, view);
  const [from, to] = view.whole;
  const bar = (to - from) / counts.length;
  ink.fillStyle = palette.band;
  ink.fillRect(gutter, 0, width, height);
  ink.fillStyle = palette.operator;
  counts.forEach((part, i) => {
    const tall = part ? Math.max(2, part * (height - 8)) : 0;
    ink.fillRect(x(from + i * bar), height - tall, x(bar) - x(0), tall);
  });
  paintWindow(ink, palette, Math.max(x(view.from), gutter), Math.min(x(view.to), width), height, gutter, width);
}

function paintWindow(ink, palette, left, right, height, gutter, width) {
  ink.globalAlpha = 0.66;
  ink.fillStyle = palette.panel;
  ink.fillRect(gutter, 0, left - gutter, height);
  ink.fillRect(right, 0, width - right, height);
  ink.globalAlpha = 1;
  ink.strokeStyle = palette.select;
  ink.lineWidth = 1.5;
  ink.strokeRect(left + 0.75, 0.75, Math.max(3, right - left - 1.5), height - 1.5);
}

// drag inside the shown part to move it, elsewhere to choose another
function watchBrush(canvas, view, gutter) {
  let drag = null;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return overviewScale(box.width, gutter(), view).time(event.clientX - box.left);
  };
  canvas.onpointerdown = (event) => {
    const at = place(event);
    const whole = view.to - view.from > (view.whole[1] - view.whole[0]) * 0.98;
    drag = { at, from: view.from, to: view.to, inside: !whole && at > view.from && at < view.to };
    canvas.setPointerCapture(event.pointerId);
  };
  canvas.onpointermove = (event) => {
    if (!drag) return;
    const now = place(event);
    if (drag.inside) view.set(drag.from + now - drag.at, drag.to + now - drag.at);
    else if (Math.abs(now - drag.at) * 100 > view.whole[1] - view.whole[0]) view.set(Math.min(now, drag.at), Math.max(now, drag.at));
  };
  canvas.onpointerup = canvas.onpointercancel = () => { drag = null; };
}

// The canvas of the timeline: asks for at most one picture a frame, at the sharpness of the screen.
const MEASURED = location.hash === "#measure";

class Painter {
  constructor(canvas, view) {
    this.canvas = canvas;
    this.view = view;
    this.scroll = 0;
    this.brush = null;
    this.ink = canvas.getContext("2d");
  }

  update(inputs) {
    Object.assign(this, inputs);
    this.request();
  }

  request() {
    this.asked ??= requestAnimationFrame(() => {
      this.asked = undefined;
      this.paint();
    });
  }

  scene() {
    return makeScene(this.ink, this.size, this.layout, this.state, this.view, this.palette, this.scroll);
  }

  paint() {
    if (!this.size?.width) return;
    const begun = performance.now();
    this.resize();
    const scene = this.scene();
    drawScene(scene);
    if (this.brush) this.paintBrush(scene);
    if (MEASURED) this.measure(begun);
  }

  // for the benchmark: what a picture costs, and when the first one was there
  measure(begun) {
    if (!this.isOpen) performance.mark("open");
    this.isOpen = true;
    performance.measure("frame", { start: begun });
  }

  resize() {
    const { canvas, size } = this;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const [width, height] = [Math.round(size.width * ratio), Math.round(size.height * ratio)];
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    this.ink.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  paintBrush({ ink, palette, height }) {
    const [from, to] = [this.brush.from, this.brush.to].sort((a, b) => a - b);
    ink.globalAlpha = 0.25;
    ink.fillStyle = palette.select;
    ink.fillRect(from, AXIS, to - from, height);
    ink.globalAlpha = 1;
  }
}

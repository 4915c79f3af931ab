// Mouse, touch and wheel on the timeline: drag to pan, Shift and drag to brush, pinch or wheel to zoom.
const CLICK = 4;

class Pointer {
  constructor(element, view, handlers) {
    Object.assign(this, { element, view, handlers, down: new Map(), moved: 0, brush: null });
    for (const [name, handler] of Object.entries({
      pointerdown: this.press, pointermove: this.move, pointerup: this.release, pointercancel: this.release,
      pointerleave: this.leave, wheel: this.wheel,
    })) element.addEventListener(name, handler.bind(this), { passive: false });
  }

  // place in the timeline's picture, and the time there
  place(event) {
    const box = this.element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  press(event) {
    if (event.button > 0 || event.target.closest("button")) return;
    const at = this.place(event);
    this.down.set(event.pointerId, at);
    if (this.down.size === 1) this.moved = 0;
    this.brush = event.shiftKey ? { from: at.x, to: at.x } : null;
  }

  move(event) {
    const at = this.place(event);
    const before = this.down.get(event.pointerId);
    if (!before) return this.handlers.hover(at);
    const shift = at.x - before.x;
    this.moved += Math.abs(shift);
    if (this.moved > CLICK) {
      this.element.setPointerCapture?.(event.pointerId);
      this.handlers.hover(null);
    }
    if (this.down.size === 2) this.pinch(event.pointerId, before, at);
    else if (this.brush) this.handlers.brush((this.brush = { ...this.brush, to: at.x }));
    else if (this.moved > CLICK) this.view.pan(-shift / this.handlers.width());
    this.down.set(event.pointerId, at);
  }

  // the two fingers keep the times below them
  pinch(id, before, at) {
    const [other] = [...this.down].filter(([key]) => key !== id).map(([, place]) => place);
    const [was, now] = [Math.abs(before.x - other.x), Math.abs(at.x - other.x)];
    this.moved += CLICK;
    if (was > 8 && now > 8) this.view.zoom(now / was, this.handlers.time((at.x + other.x) / 2));
  }

  release(event) {
    const at = this.down.get(event.pointerId);
    if (!at) return;
    this.down.delete(event.pointerId);
    if (this.brush && this.moved > CLICK) this.endBrush();
    else if (this.moved <= CLICK && event.type === "pointerup") this.handlers.click(at);
    this.brush = null;
    this.handlers.brush(null);
  }

  endBrush() {
    const [from, to] = [this.brush.from, this.brush.to].sort((a, b) => a - b);
    this.view.set(this.handlers.time(from), this.handlers.time(to));
  }

  leave() {
    this.handlers.hover(null);
  }

  wheel(event) {
    const at = this.place(event);
    if (event.altKey || at.x < this.handlers.gutter()) return;
    event.preventDefault();
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (sideways) this.view.pan((event.deltaX || event.deltaY) / this.handlers.width());
    else this.view.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.002)), this.handlers.time(at.x));
  }
}

// One stretch of time that all charts share, and the gestures that change it.

/** Axis is the visible stretch [from, to] of a run of the given length, in microseconds. */
export class Axis {
  constructor(length) {
    this.length = Math.max(length, 1000);
    this.from = 0;
    this.to = this.length;
    this.listeners = [];
    this.pending = false;
  }

  onChange(listener) {
    this.listeners.push(listener);
  }

  /** show makes [from, to] visible; it is kept inside the run and never shorter than 2 ms. */
  show(from, to) {
    const width = Math.min(Math.max(to - from, 2000), this.length);
    const middle = (from + to) / 2;
    from = Math.min(Math.max(middle - width / 2, 0), this.length - width);
    if (from === this.from && from + width === this.to) return;
    this.from = from;
    this.to = from + width;
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      for (const listener of this.listeners) listener();
    });
  }

  fit() {
    this.show(0, this.length);
  }

  /** zoom makes the visible stretch longer or shorter by factor, around a time. */
  zoom(factor, around = (this.from + this.to) / 2) {
    const width = Math.min(Math.max((this.to - this.from) * factor, 2000), this.length);
    const share = (around - this.from) / (this.to - this.from);
    this.show(around - share * width, around + (1 - share) * width);
  }

  /** pan moves the visible stretch by a share of its length. */
  pan(share) {
    const by = share * (this.to - this.from);
    const from = Math.min(Math.max(this.from + by, 0), this.length - (this.to - this.from));
    this.show(from, from + (this.to - this.from));
  }

  get whole() {
    return this.to - this.from >= this.length - 1;
  }

  /** scale maps time to pixels of a plot that begins at left and is width wide. */
  scale(left, width) {
    const k = width / (this.to - this.from);
    const at = (t) => left + (t - this.from) * k;
    at.time = (x) => this.from + (x - left) / k;
    return at;
  }

  /** ticks are round times, about one per 110 pixels. */
  ticks(width) {
    const want = ((this.to - this.from) / Math.max(width, 1)) * 110;
    const step = steps.find((s) => s >= want) || steps[steps.length - 1];
    const out = [];
    for (let t = Math.ceil(this.from / step) * step; t <= this.to; t += step) out.push(t);
    return { step, times: out };
  }
}

const steps = [100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 3e7, 6e7, 3e8, 6e8, 18e8, 36e8, 144e8];

/**
 * gestures lets node change the axis: drag to zoom into a stretch, wheel with Ctrl (or a pinch) to zoom, sideways wheel
 * to pan, double click to see all; two fingers pinch, one finger pans. plot() gives {left, width} of the plot.
 */
export function gestures(node, axis, plot, { onSelect, onClick }) {
  const pointers = new Map();
  let start = null;
  const xOf = (e) => e.clientX - node.getBoundingClientRect().left;
  const timeAt = (x) => axis.scale(plot().left, plot().width).time(Math.min(Math.max(x, plot().left), plot().left + plot().width));

  node.addEventListener('wheel', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) {
      e.preventDefault();
      axis.zoom(Math.exp(Math.min(Math.max(e.deltaY, -60), 60) * 0.01), timeAt(xOf(e)));
    } else if (Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey) {
      e.preventDefault();
      axis.pan((e.deltaX || e.deltaY) / plot().width);
    }
  }, { passive: false });

  node.addEventListener('pointerdown', (e) => {
    if (e.button !== 0) return;
    pointers.set(e.pointerId, xOf(e));
    node.setPointerCapture(e.pointerId);
    start = { x: xOf(e), y: e.clientY, from: axis.from, to: axis.to, touch: e.pointerType === 'touch', moved: false };
  });

  node.addEventListener('pointermove', (e) => {
    if (!pointers.has(e.pointerId) || !start) return;
    const before = [...pointers.values()];
    pointers.set(e.pointerId, xOf(e));
    const after = [...pointers.values()];
    if (after.length === 2) {
      start.moved = true;
      const was = Math.abs(before[0] - before[1]) || 1;
      axis.zoom(was / (Math.abs(after[0] - after[1]) || 1), timeAt((after[0] + after[1]) / 2));
      return;
    }
    if (Math.abs(xOf(e) - start.x) > 4) start.moved = true;
    if (!start.moved) return;
    if (start.touch) axis.pan((before[0] - after[0]) / plot().width);
    else onSelect(Math.min(start.x, xOf(e)), Math.max(start.x, xOf(e)));
  });

  const end = (e) => {
    if (!pointers.delete(e.pointerId) || !start || pointers.size > 0) return;
    const was = start;
    start = null;
    onSelect(0, 0);
    if (e.type !== 'pointerup') return;
    if (!was.moved) onClick(e);
    else if (!was.touch && Math.abs(xOf(e) - was.x) > 4) {
      const [a, b] = [timeAt(was.x), timeAt(xOf(e))];
      axis.show(Math.min(a, b), Math.max(a, b));
    }
  };
  node.addEventListener('pointerup', end);
  node.addEventListener('pointercancel', end);
  node.addEventListener('dblclick', () => axis.fit());
}

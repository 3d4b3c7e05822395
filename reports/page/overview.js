// The whole run as a thin strip: where the faults, refusals and violations are, and which part the charts show. Drag it
// to move along.
import { colours } from './dom.js';
import { prepare, gutter } from './canvas.js';

export const overviewHeight = 34;

export function draw(canvas, width, data, axis) {
  const c = prepare(canvas, width, overviewHeight);
  const colour = colours();
  const left = gutter(width);
  const plot = width - left - 1;
  const at = (t) => left + (t / axis.length) * plot;
  c.fillStyle = colour('muted');
  c.textAlign = 'left';
  c.fillText(width < 560 ? 'whole' : 'whole run', 2, overviewHeight / 2);
  c.fillStyle = colour('lane');
  c.fillRect(left, 4, plot, overviewHeight - 8);
  c.fillStyle = colour('fault-line');
  const rows = Math.max(data.clients.length, 1);
  const row = (overviewHeight - 20) / rows;
  for (const w of data.windows) { // a thin line of its own for every lane
    const y = w.client < 0 ? 10 : 10 + w.client * row;
    c.fillRect(at(w.from), y, Math.max(at(w.to) - at(w.from), 1), w.client < 0 ? row * rows : Math.max(row - 0.4, 1));
  }
  for (const m of data.marks) {
    if (!m.stale) continue;
    c.fillStyle = colour(m.point === 'rail' ? 'refused-rail' : 'refused-row');
    c.fillRect(at(m.at) - 0.75, m.point === 'rail' ? 5 : overviewHeight - 11, 1.5, 6);
  }
  c.fillStyle = colour('red');
  for (const g of data.guilty) c.fillRect(at(g.at) - 1, 2, 2.5, overviewHeight - 4);
  if (axis.whole) return;
  const a = at(axis.from);
  const b = Math.max(at(axis.to), a + 3);
  c.fillStyle = colour('veil');
  c.fillRect(left, 4, a - left, overviewHeight - 8);
  c.fillRect(b, 4, left + plot - b, overviewHeight - 8);
  c.strokeStyle = colour('accent');
  c.lineWidth = 2;
  c.strokeRect(a, 3, b - a, overviewHeight - 6);
}

/** drag lets the strip move the axis. */
export function drag(canvas, axis) {
  const timeAt = (e) => {
    const box = canvas.getBoundingClientRect();
    const left = gutter(box.width);
    return ((e.clientX - box.left - left) / (box.width - left - 1)) * axis.length;
  };
  const move = (e) => {
    if (!canvas.hasPointerCapture(e.pointerId)) return;
    const half = (axis.to - axis.from) / 2;
    axis.show(timeAt(e) - half, timeAt(e) + half);
  };
  canvas.addEventListener('pointerdown', (e) => {
    canvas.setPointerCapture(e.pointerId);
    move(e);
  });
  canvas.addEventListener('pointermove', move);
}

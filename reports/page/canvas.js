// What all charts over time have in common.
import { clock } from './words.js';

/** prepare sizes a canvas for the screen's pixels and returns its context, in CSS pixels. */
export function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = height + 'px';
  const c = canvas.getContext('2d');
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  c.font = '12px ' + fonts;
  c.textBaseline = 'middle';
  return c;
}

export const fonts = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

/** gutter is the room for names at the left of every chart. */
export const gutter = (width) => (width < 560 ? 62 : 104);

/** grid draws the round times, with their names where y is given. */
export function grid(c, axis, at, left, width, top, bottom, colour, labelY) {
  const { step, times } = axis.ticks(width);
  c.strokeStyle = colour('line');
  c.fillStyle = colour('muted');
  c.lineWidth = 1;
  for (const t of times) {
    const x = Math.round(at(t)) + 0.5;
    c.beginPath();
    c.moveTo(x, top);
    c.lineTo(x, bottom);
    c.stroke();
    if (labelY === undefined) continue;
    const text = clock(t, step);
    const half = c.measureText(text).width / 2;
    c.textAlign = 'left';
    c.fillText(text, Math.min(Math.max(x - half, left), left + width - 2 * half), labelY);
  }
}

/** hatch fills a box with slanted lines: a fault, in print and for eyes that see no colours. */
export function hatch(c, x, y, w, h, fill, stroke) {
  c.save();
  c.beginPath();
  c.rect(x, y, w, h);
  c.clip();
  c.fillStyle = fill;
  c.fillRect(x, y, w, h);
  c.strokeStyle = stroke;
  c.lineWidth = 1;
  c.beginPath();
  const first = Math.floor((x - h) / 6) * 6;
  for (let d = first; d < x + w; d += 6) {
    c.moveTo(d, y + h);
    c.lineTo(d + h, y);
  }
  c.stroke();
  c.restore();
}

/** fit shortens a text to a width. */
export function fit(c, text, width) {
  if (c.measureText(text).width <= width) return text;
  let n = text.length;
  while (n > 1 && c.measureText(text.slice(0, n) + '…').width > width) n--;
  return text.slice(0, n) + '…';
}

// Throughput and latency over the same stretch of time as the lanes, with the faults behind them.
import { colours } from './dom.js';
import { prepare, gutter, grid } from './canvas.js';
import { clock, span } from './words.js';

const panel = 84;
const gap = 26;
export const chartHeight = 2 * panel + 2 * gap;

/** draw paints both panels; hover is a time under the pointer, or −1. */
export function draw(canvas, width, data, axis, hover) {
  const c = prepare(canvas, width, chartHeight);
  const colour = colours();
  const left = gutter(width);
  const plot = width - left - 1;
  const at = axis.scale(left, plot);
  const s = data.series;
  const perSecond = 1e6 / s.bucket;
  const panels = [
    { top: gap - 6, name: data.nouns.done, format: rate, lines: [{ values: s.posted.map((n) => n * perSecond), colour: 'lease-chosen', area: true }] },
    { top: panel + 2 * gap - 6, name: data.nouns.calls, format: span, lines: [{ values: s.p99, colour: 'violet' }, { values: s.p50, colour: 'lease-chosen' }] },
  ];
  for (const p of panels) drawPanel(c, p, { axis, at, left, plot, colour, bucket: s.bucket, windows: data.windows, hover });
  key(c, left, plot, panels[1].top - 10, colour);
}

const rate = (n) => (n >= 100 ? String(Math.round(n)) : n.toFixed(n % 1 ? 1 : 0));

function drawPanel(c, p, v) {
  const bottom = p.top + panel;
  const from = Math.max(Math.floor(v.axis.from / v.bucket) - 1, 0);
  const to = Math.ceil(v.axis.to / v.bucket) + 1;
  const most = round(Math.max(1, ...p.lines.flatMap((l) => l.values.slice(from, to))));
  const y = (n) => bottom - (n / most) * (panel - 6);
  grid(c, v.axis, v.at, v.left, v.plot, p.top, bottom, v.colour);
  c.save();
  c.beginPath();
  c.rect(v.left, p.top, v.plot, panel + 1);
  c.clip();
  c.fillStyle = v.colour('fault-soft'); // translucent: two faults at once are darker
  for (const w of v.windows) c.fillRect(v.at(w.from), p.top, Math.max(v.at(w.to) - v.at(w.from), 1), panel);
  for (const line of p.lines) drawLine(c, line, from, to, v, y, bottom);
  if (v.hover >= 0) {
    c.strokeStyle = v.colour('muted');
    c.lineWidth = 1;
    c.beginPath();
    c.moveTo(Math.round(v.at(v.hover)) + 0.5, p.top);
    c.lineTo(Math.round(v.at(v.hover)) + 0.5, bottom);
    c.stroke();
  }
  c.restore();
  c.strokeStyle = v.colour('line-strong');
  c.beginPath();
  c.moveTo(v.left, bottom + 0.5);
  c.lineTo(v.left + v.plot, bottom + 0.5);
  c.stroke();
  c.textAlign = 'left';
  c.fillStyle = v.colour('ink');
  c.fillText(p.name[0], 2, p.top + panel / 2 - 8);
  c.fillText(p.name[1], 2, p.top + panel / 2 + 8);
  c.fillStyle = v.colour('muted');
  c.fillText(p.format(most), v.left + 4, p.top + 2);
}

function drawLine(c, line, from, to, v, y, bottom) {
  c.strokeStyle = v.colour(line.colour);
  c.lineWidth = 1.75;
  c.lineJoin = 'round';
  c.beginPath();
  let open = false;
  const points = [];
  for (let i = from; i < Math.min(to, line.values.length); i++) {
    const n = line.values[i];
    if (n < 0) { open = false; continue; }
    const x = v.at((i + 0.5) * v.bucket);
    if (open) c.lineTo(x, y(n));
    else c.moveTo(x, y(n));
    open = true;
    points.push([x, y(n)]);
  }
  c.stroke();
  if (!line.area || points.length < 2) return;
  c.globalAlpha = 0.14;
  c.fillStyle = v.colour(line.colour);
  c.beginPath();
  c.moveTo(points[0][0], bottom);
  for (const [x, h] of points) c.lineTo(x, h);
  c.lineTo(points[points.length - 1][0], bottom);
  c.fill();
  c.globalAlpha = 1;
}

function key(c, left, plot, y, colour) {
  let x = left + plot;
  c.textAlign = 'right';
  for (const [name, tint] of [['p99', 'violet'], ['p50', 'lease-chosen']]) {
    c.fillStyle = colour('muted');
    c.fillText(name, x, y);
    x -= c.measureText(name).width + 5;
    c.fillStyle = colour(tint);
    c.fillRect(x - 12, y - 1.5, 12, 3);
    x -= 24;
  }
}

/** round makes the top of a scale a number that can be read. */
function round(n) {
  const unit = 10 ** Math.floor(Math.log10(n));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((k) => k * unit).find((k) => k >= n) || n;
}

/** describe says what the charts show at a time. */
export function describe(t, data) {
  const s = data.series;
  const i = Math.min(Math.max(Math.floor(t / s.bucket), 0), s.posted.length - 1);
  const perSecond = 1e6 / s.bucket;
  const lines = [`${clock(i * s.bucket)} to ${clock((i + 1) * s.bucket)}`, `${rate(s.posted[i] * perSecond)} ${data.nouns.doneLong}`];
  if (s.p50[i] >= 0) lines.push(`${data.nouns.callsLong} answered: ${s.calls[i]}, p50 ${span(s.p50[i])}, p99 ${span(s.p99[i])}`);
  if (s.refused[i]) lines.push(`${s.refused[i]} refused`);
  return lines;
}

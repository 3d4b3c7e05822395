// The token ladder of one account: the grants as they were made, the fence and the rail's mark as they went up.
import { colours } from './dom.js';
import { prepare, gutter, grid, fit } from './canvas.js';
import { clock, compareTokens } from './words.js';

export const ladderHeight = 150;
const top = 14;
const bottom = ladderHeight - 8;

/** steps collects what an account's tokens did, and numbers the tokens: their distances mean nothing, their order all. */
export function collect(data, account) {
  const ladder = data.ladders.find((l) => l.account === account) || { fence: [], mark: [] };
  const leases = data.leases.filter((l) => l.account === account);
  const refusals = data.marks.filter((m) => m.account === account && m.stale);
  const values = new Set([...ladder.fence, ...ladder.mark].map(([, v]) => v));
  for (const l of leases) values.add(l.token);
  for (const m of refusals) values.add(m.token);
  const sorted = [...values].sort(compareTokens);
  return { ladder, leases, refusals, rank: new Map(sorted.map((v, i) => [v, i])), sorted };
}

export function draw(canvas, width, l, data, axis) {
  const c = prepare(canvas, width, ladderHeight);
  const colour = colours();
  const left = gutter(width);
  const plot = width - left - 1;
  const at = axis.scale(left, plot);
  const [low, high] = visible(l, axis);
  const y = (token) => bottom - (((l.rank.get(token) ?? low) - low + 0.5) / Math.max(high - low + 1, 1)) * (bottom - top);
  grid(c, axis, at, left, plot, top, bottom, colour);
  c.textAlign = 'left';
  c.fillStyle = colour('ink');
  c.fillText('tokens', 2, ladderHeight / 2);
  c.fillStyle = colour('muted');
  c.font = '11px ui-monospace, Menlo, Consolas, monospace';
  if (l.sorted.length) {
    c.fillText(fit(c, l.sorted[high] ?? '', left - 8), 2, top + 4);
    c.fillText(fit(c, l.sorted[low] ?? '', left - 8), 2, bottom - 4);
  }
  c.save();
  c.beginPath();
  c.rect(left, top - 6, plot, bottom - top + 12);
  c.clip();
  for (const lease of l.leases) {
    c.fillStyle = colour('who-' + (lease.client % 6));
    c.fillRect(at(lease.from), y(lease.token) - 2.5, Math.max(at(lease.to) - at(lease.from), 2), 5);
  }
  stairs(c, l.ladder.fence, at, y, axis, colour('refused-row'), []);
  stairs(c, l.ladder.mark, at, y, axis, colour('refused-rail'), [5, 3]);
  for (const m of l.refusals) {
    c.strokeStyle = colour('red');
    c.lineWidth = 2;
    const [x, h] = [at(m.at), y(m.token)];
    c.beginPath();
    c.moveTo(x - 4, h - 4);
    c.lineTo(x + 4, h + 4);
    c.moveTo(x + 4, h - 4);
    c.lineTo(x - 4, h + 4);
    c.stroke();
  }
  c.restore();
}

/** visible is the range of ranks that the visible stretch of time uses. */
function visible(l, axis) {
  let low = Infinity;
  let high = -Infinity;
  const take = (token) => {
    const r = l.rank.get(token);
    low = Math.min(low, r);
    high = Math.max(high, r);
  };
  for (const lease of l.leases) if (lease.to >= axis.from && lease.from <= axis.to) take(lease.token);
  for (const m of l.refusals) if (m.at >= axis.from && m.at <= axis.to) take(m.token);
  for (const [t, v] of [...l.ladder.fence, ...l.ladder.mark]) if (t >= axis.from && t <= axis.to) take(v);
  return low <= high ? [low, high] : [0, Math.max(l.sorted.length - 1, 0)];
}

function stairs(c, rungs, at, y, axis, colour, dash) {
  if (!rungs.length) return;
  c.strokeStyle = colour;
  c.lineWidth = 1.5;
  c.setLineDash(dash);
  c.beginPath();
  c.moveTo(at(rungs[0][0]), y(rungs[0][1]));
  for (let i = 1; i < rungs.length; i++) {
    c.lineTo(at(rungs[i][0]), y(rungs[i - 1][1]));
    c.lineTo(at(rungs[i][0]), y(rungs[i][1]));
  }
  c.lineTo(at(axis.length), y(rungs[rungs.length - 1][1]));
  c.stroke();
  c.setLineDash([]);
}

/** describe says what stood at a time. */
export function describe(t, l, data, account) {
  const last = (rungs) => rungs.filter(([at]) => at <= t).pop();
  const holder = l.leases.filter((x) => x.from <= t && x.to >= t).pop();
  const lines = [`${data.nouns.subject} ${data.accountName(account)} at ${clock(t)}`];
  lines.push(holder ? `${data.clients[holder.client]} holds it under token ${holder.token}` : 'nobody holds it');
  const fence = last(l.ladder.fence);
  const mark = last(l.ladder.mark);
  if (fence) lines.push(`account fence ${fence[1]}`);
  if (mark) lines.push(`rail’s mark ${mark[1]}`);
  return lines;
}

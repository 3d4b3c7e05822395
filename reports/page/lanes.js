// Lanes over real time: who held which lease, who was stopped, which writes were refused, what broke.
import { colours } from './dom.js';
import { prepare, gutter, grid, hatch, fit, fonts } from './canvas.js';
import { clock, endName, pointName, short, span } from './words.js';

const pad = 5;
const strip = 13; // room for marks above the leases of a lane
const axisHeight = 22;

/** layOut puts leases into lanes and, where they overlap, into rows of a lane. */
export function layOut(data, by) {
  const executors = by === 'executor';
  const names = executors ? data.clients : data.accounts.map((a) => short(a, data.tail.accounts));
  const lanes = names.map((name, id) => ({ name, id, rows: [], leases: [], top: 0, height: 0 }));
  for (const lease of data.leases) {
    const lane = lanes[executors ? lease.client : lease.account];
    if (!lane) continue;
    let row = lane.rows.findIndex((end) => end <= lease.from);
    if (row < 0) row = lane.rows.length < 8 ? lane.rows.length : 7;
    lane.rows[row] = lease.to;
    lane.leases.push({ lease, row });
  }
  const used = executors ? lanes : lanes.filter((l) => l.leases.length > 0);
  const rowHeight = used.length > 16 ? 5 : 10;
  let top = 4;
  for (const lane of used) {
    lane.top = top;
    lane.rowHeight = rowHeight;
    lane.height = 2 * pad + strip + Math.max(lane.rows.length, 1) * rowHeight;
    top += lane.height + 3;
  }
  return { lanes: used, by, height: top + axisHeight };
}

/** draw paints lanes; chosen(thing) tells what is searched for, everything else fades. */
export function draw(canvas, width, layout, data, axis, chosen, select) {
  const c = prepare(canvas, width, layout.height);
  const colour = colours();
  const left = gutter(width);
  const plot = width - left - 1;
  const at = axis.scale(left, plot);
  const bottom = layout.height - axisHeight;
  grid(c, axis, at, left, plot, 2, bottom, colour, bottom + 12);
  for (const lane of layout.lanes) drawName(c, lane, left, colour, layout, data);
  c.save();
  c.beginPath();
  c.rect(left, 0, plot + 1, bottom);
  c.clip();
  for (const lane of layout.lanes) {
    c.fillStyle = colour('lane');
    c.fillRect(left, lane.top, plot, lane.height);
  }
  if (data.density && layout.by === 'executor') drawDensity(c, data, layout, at, axis, colour);
  for (const w of data.windows) drawWindow(c, w, layout, at, colour);
  for (const lane of layout.lanes) for (const item of lane.leases) drawLease(c, lane, item, at, axis, colour, chosen, layout);
  for (const g of data.guilty) drawGuilty(c, g, layout, at, bottom, colour);
  for (const m of data.marks) drawMark(c, m, layout, at, axis, colour, chosen);
  if (select && select.to > select.from) {
    c.fillStyle = colour('select');
    c.fillRect(select.from, 0, select.to - select.from, bottom);
  }
  c.restore();
}

function drawName(c, lane, left, colour, layout, data) {
  if (layout.by === 'account') {
    c.font = '11px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace';
  } else c.font = '12px ' + fonts;
  c.fillStyle = colour('ink');
  c.textAlign = 'left';
  const name = left < 90 ? lane.name.replace(/^executor-/, 'ex-').replace(/^lock-client-/, 'lc-') : lane.name;
  c.fillText(fit(c, name, left - 10), 2, lane.top + lane.height / 2);
  c.font = '12px ' + fonts;
}

const laneOf = (layout, client, account) => layout.lanes.find((l) => l.id === (layout.by === 'executor' ? client : account));

const onLink = (w) => w.target.includes('→');

/** drawWindow paints a fault: a stop over the whole lane, one of a link above the leases only, as its client goes on. */
function drawWindow(c, w, layout, at, colour) {
  if (layout.by !== 'executor') return;
  const lane = w.client >= 0 ? laneOf(layout, w.client) : null;
  const x = at(w.from);
  const width = Math.max(at(w.to) - x, 2);
  const last = layout.lanes[layout.lanes.length - 1];
  if (lane) hatch(c, x, lane.top, width, onLink(w) ? pad + strip : lane.height, colour('fault'), colour('fault-line'));
  else if (w.client < 0 && last && onLink(w)) { // of a link that no lane is about: behind all of them
    c.fillStyle = colour('fault-soft');
    c.fillRect(x, 2, width, last.top + last.height);
  } else if (w.client < 0 && last) hatch(c, x, 2, width, last.top + last.height, colour('fault'), colour('fault-line'));
}

function drawDensity(c, data, layout, at, axis, colour) {
  const { bucket } = data.series;
  const most = Math.max(1, ...data.density.leases.map((row) => Math.max(0, ...row)));
  c.fillStyle = colour('density');
  for (const lane of layout.lanes) {
    const row = data.density.leases[lane.id] || [];
    row.forEach((n, i) => {
      if (!n || (i + 1) * bucket < axis.from || i * bucket > axis.to) return;
      const h = (n / most) * (lane.height - 2 * pad);
      c.fillRect(at(i * bucket), lane.top + lane.height - pad - h, Math.max(at((i + 1) * bucket) - at(i * bucket) - 0.5, 1), h);
    });
  }
}

function leaseBox(lane, item, at) {
  const x = at(item.lease.from);
  return { x, y: lane.top + pad + strip + item.row * lane.rowHeight, w: Math.max(at(item.lease.to) - x, 1.5), h: lane.rowHeight - 2 };
}

function drawLease(c, lane, item, at, axis, colour, chosen, layout) {
  const { lease } = item;
  if (lease.to < axis.from || lease.from > axis.to) return;
  const b = leaseBox(lane, item, at);
  c.globalAlpha = chosen && !chosen(lease) ? 0.16 : 1;
  c.fillStyle = layout.by === 'account' ? colour('who-' + (lease.client % 6)) : colour(chosen && chosen(lease) ? 'lease-chosen' : 'lease');
  c.beginPath();
  c.roundRect(b.x, b.y, b.w, b.h, Math.min(2, b.w / 2));
  c.fill();
  if (lease.end === 1 || lease.end === 3) { // it ended without its holder: a cap that says so
    c.fillStyle = colour('amber');
    c.fillRect(b.x + b.w - 2.5, b.y - 1, 2.5, b.h + 2);
  }
  if (b.w > 40 && b.h >= 6) {
    c.fillStyle = colour('on-lease');
    c.font = '600 9px ' + fonts;
    c.textAlign = 'left';
    c.fillText(fit(c, lease.token, b.w - 8), b.x + 4, b.y + b.h / 2 + 0.5);
    c.font = '12px ' + fonts;
  }
  c.globalAlpha = 1;
}

function markBox(m, layout, at) {
  const lane = laneOf(layout, m.client, m.account);
  return lane && { x: at(m.at), y: lane.top + pad + strip / 2 - 1, lane };
}

function drawMark(c, m, layout, at, axis, colour, chosen) {
  if (m.at < axis.from || m.at > axis.to) return;
  const b = markBox(m, layout, at);
  if (!b) return;
  c.globalAlpha = chosen && !chosen(m) ? 0.2 : 1;
  c.fillStyle = m.point === 'revoke' ? colour('violet') : m.stale ? colour(m.point === 'rail' ? 'refused-rail' : 'refused-row') : colour('muted');
  c.strokeStyle = colour('lane');
  c.lineWidth = 1.5;
  c.beginPath();
  shape(c, m.point, b.x, b.y);
  c.closePath();
  c.stroke();
  c.fill();
  c.globalAlpha = 1;
}

/** shape outlines the sign of a point: a triangle for the rail, a disc for the account row and the lock, a square for the ledger and a revoke. */
export function shape(c, point, x, y) {
  if (point === 'rail') {
    c.moveTo(x, y - 5);
    c.lineTo(x + 5, y + 4);
    c.lineTo(x - 5, y + 4);
  } else if (point === 'ledger' || point === 'revoke') c.rect(x - 4, y - 4, 8, 8);
  else c.arc(x, y, 4.2, 0, 2 * Math.PI);
}

function drawGuilty(c, g, layout, at, bottom, colour) {
  const x = Math.round(at(g.at)) + 0.5;
  c.strokeStyle = colour('red');
  c.lineWidth = 1.5;
  c.beginPath();
  c.moveTo(x, 0);
  c.lineTo(x, bottom);
  c.stroke();
  const lane = laneOf(layout, g.client, g.account);
  if (!lane) return;
  const y = lane.top + pad + strip / 2 - 1;
  c.lineWidth = 3;
  c.beginPath();
  c.moveTo(x - 5, y - 5);
  c.lineTo(x + 5, y + 5);
  c.moveTo(x + 5, y - 5);
  c.lineTo(x - 5, y + 5);
  c.stroke();
}

/** hit finds what lies under a point: a violation, a refusal, a lease or a fault, in that order. */
export function hit(x, y, width, layout, data, axis) {
  const left = gutter(width);
  const at = axis.scale(left, width - left - 1);
  if (x < left) return null;
  for (const g of data.guilty) if (Math.abs(at(g.at) - x) < 4) return { kind: 'guilty', it: g };
  let best = null;
  for (const m of data.marks) {
    const b = markBox(m, layout, at);
    const d = b ? Math.hypot(b.x - x, b.y - y) : 99;
    if (d < 9 && (!best || d < best.d)) best = { kind: 'mark', it: m, d };
  }
  if (best) return best;
  const lane = layout.lanes.find((l) => y >= l.top && y <= l.top + l.height);
  if (!lane) return null;
  for (const item of lane.leases) {
    const b = leaseBox(lane, item, at);
    if (x >= b.x - 2 && x <= b.x + b.w + 2 && y >= b.y - 1 && y <= b.y + b.h + 1) return { kind: 'lease', it: item.lease };
  }
  const t = axis.scale(left, width - left - 1).time(x);
  const w = layout.by === 'executor' && data.windows.find((f) => (f.client === lane.id || f.client < 0) && t >= f.from && t <= f.to);
  return w ? { kind: 'window', it: w } : null;
}

/** describe says in lines what was hit. */
export function describe(found, data) {
  const { kind, it } = found;
  if (kind === 'guilty') return [it.inv + ' violated at ' + clock(it.at), it.text];
  if (kind === 'window') {
    return [`${it.name} of ${it.target}`, `${clock(it.from)} to ${clock(it.to)}, ${span(it.to - it.from)}`, it.note, it.failed ? 'It did not take effect as planned.' : ''].filter(Boolean);
  }
  const who = data.clients[it.client] || 'somebody';
  if (kind === 'mark') {
    if (it.point === 'revoke') return [`${who} revoked token ${it.token}`, `key ${data.accountName(it.account)}`, clock(it.at)];
    if (it.point === 'lock') return [`${who}: ${it.op} under token ${it.token} answered LOCK_LOST`, `key ${data.accountName(it.account)}, granted last with token ${it.highest}`, clock(it.at)];
    const lines = [`${who}: ${it.op} under token ${it.token} refused at ${pointName(it.point)}`, `highest token there: ${it.highest}`];
    if (!it.stale) lines.push('the same token again: a retry, no danger');
    lines.push(`account ${data.accountName(it.account)}` + (it.payout >= 0 ? `, payout ${data.payoutName(data.payouts[it.payout].id)}` : ''), clock(it.at));
    return lines;
  }
  return [`${who} held ${data.nouns.subject} ${data.accountName(it.account)} under token ${it.token}`, `${clock(it.from)} to ${clock(it.to)}, ${span(it.to - it.from)}`, endName(it.end)];
}

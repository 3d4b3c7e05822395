// The story of one payout: a sequence diagram, or the same as a list for narrow screens and screen readers.
import { byId, el, onWidth, replace, svg } from './dom.js';
import { fonts } from './canvas.js';
import { clock, compareTokens, span } from './words.js';

const time = 84; // the column of times
const laneMin = 118;
const narrow = 700;

export class Stories {
  constructor(data) {
    this.data = data;
    this.now = 0;
    this.form = null; // chosen by the reader; else by the width
    this.width = 0;
    if (!data.stories.length) {
      byId('story-caption').textContent = 'No payout was worked on in this run.';
      return;
    }
    this.build();
    onWidth(byId('story-body'), (w) => { this.width = w; this.draw(); });
  }

  build() {
    const groups = new Map();
    this.data.stories.forEach((s, i) => groups.set(s.kind, [...(groups.get(s.kind) || []), i]));
    this.pick = el('select', { id: 'story-pick', 'aria-label': 'Payout', onchange: () => this.tell(Number(this.pick.value)) },
      [...groups].map(([kind, list]) => el('optgroup', { label: kind }, list.map((i) => el('option', { value: i }, `payout ${this.data.payoutName(this.data.stories[i].payout)}`)))));
    const button = (text, label, act, extra) => el('button', { type: 'button', 'aria-label': /[a-z]/.test(text) ? null : label, title: label, onclick: act, ...extra }, text);
    this.forms = ['diagram', 'list'].map((f) => button(f[0].toUpperCase() + f.slice(1), 'Show as a ' + f, () => { this.form = f; this.draw(); }, { 'data-form': f }));
    replace(byId('story-bar'), el('label', {}, 'Payout ', this.pick),
      el('span', { class: 'group' }, button('‹', 'Previous story', () => this.step(-1)), button('›', 'Next story', () => this.step(1))),
      el('span', { class: 'group' }, this.forms));
    this.caption();
  }

  step(by) {
    const n = this.data.stories.length;
    this.tell((this.now + by + n) % n);
  }

  /** tell shows a story; with go it also brings it into view. */
  tell(n, go) {
    if (!this.data.stories[n]) return;
    this.now = n;
    this.pick.value = String(n);
    this.caption();
    this.draw();
    if (go) byId('story').scrollIntoView({ behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth' });
  }

  caption() {
    const s = this.data.stories[this.now];
    replace(byId('story-caption'), s.caption + ' ', el('span', { class: 'ids' }, 'payout ', el('code', {}, s.payout), s.account ? ', account ' : '', s.account ? el('code', {}, s.account) : ''));
  }

  draw() {
    if (!this.width) return;
    const s = this.data.stories[this.now];
    const form = this.form || (this.width < narrow ? 'list' : 'diagram');
    for (const b of this.forms) b.setAttribute('aria-pressed', String(b.dataset.form === form));
    const tint = tints(s);
    const body = form === 'list' ? asList(s, tint) : asDiagram(s, this.width, tint);
    replace(byId('story-body'), body, s.left ? el('p', { class: 'dim' }, `${s.left} later steps are left out; the history has them.`) : null);
  }
}

const ruler = document.createElement('canvas').getContext('2d');

function textWidth(text, tone) {
  const bold = ['refused', 'unknown', 'money', 'bad'].includes(tone);
  ruler.font = (bold ? '650 ' : '') + '12px ' + fonts;
  return ruler.measureText(text).width;
}

function chipWidth(token) {
  if (!token) return 0;
  ruler.font = '600 11px ui-monospace, SFMono-Regular, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace';
  return ruler.measureText(token).width + 12;
}

/** tints gives every token of a story a colour of its own, in the order of the tokens. */
function tints(s) {
  const tokens = [...new Set(s.holds.map((h) => h.token).concat(s.steps.map((x) => x.token).filter(Boolean)))];
  tokens.sort(compareTokens);
  return (token) => (token ? 'tok-' + (tokens.indexOf(token) % 6) : '');
}

function since(s, step) {
  const us = step.at - s.from;
  return us < 10_000_000 ? `+${Math.floor(us / 1000)} ms` : '+' + span(us);
}

function asList(s, tint) {
  return el('ol', { class: 'steps' }, s.steps.map((x) => {
    const who = x.kind === 'note' ? s.lanes[x.from] : `${s.lanes[x.from]} → ${s.lanes[x.to]}`;
    return el('li', { class: `${x.kind} tone-${x.tone || 'none'}` }, el('span', { class: 'when' }, since(s, x)),
      el('span', { class: 'what' }, el('b', {}, who), ' ', x.token ? el('span', { class: 'token ' + tint(x.token) }, x.token) : null, ' ', x.text.join(', ')));
  }));
}

function asDiagram(s, width, tint) {
  const pitch = Math.max(laneMin, (width - time - 8) / s.lanes.length);
  const full = time + pitch * s.lanes.length;
  const x = (lane) => time + pitch * (lane + 0.5);
  const rows = place(s);
  const height = rows.height + 14;
  const head = svg('svg', { class: 'heads', width: full, height: 30, 'aria-hidden': true }, s.lanes.map((name, i) => laneHead(name, x(i), pitch)));
  const art = svg('svg', { class: 'sequence', width: full, height, role: 'img', 'aria-label': 'Sequence diagram. ' + s.caption },
    markers(), s.lanes.map((_, i) => svg('line', { class: 'life', x1: x(i), x2: x(i), y1: 0, y2: height })),
    s.bands.map((b) => drawBand(b, x, rows)), s.holds.map((h) => drawHold(h, x, rows, tint)),
    s.steps.map((step, i) => drawStep(s, step, rows.at[i], x, pitch, tint)));
  const box = el('div', { class: 'diagram' + (full > width + 1 ? ' wide' : ''), tabindex: full > width + 1 ? 0 : null, role: 'group', 'aria-label': 'Sequence diagram' }, el('div', { class: 'stick' }, head), art);
  return [box, el('div', { class: 'visually-hidden' }, asList(s, tint))];
}

/** place gives every step its height; a pause in the story leaves a little air. */
function place(s) {
  const at = [];
  let y = 10;
  s.steps.forEach((step, i) => {
    if (i && step.at - s.steps[i - 1].at > 100_000) y += 14;
    const h = step.kind === 'note' ? 10 + 15 * step.text.length : 30;
    at.push({ top: y, height: h, middle: step.kind === 'note' ? y + h / 2 : y + h - 7 });
    y += h + (step.kind === 'note' ? 6 : 2);
  });
  return { at, height: y };
}

function laneHead(name, x, pitch) {
  let text = name;
  while (text.length > 2 && textWidth(text, 'bad') * 1.06 > pitch - 18) text = text.slice(0, -2) + '…';
  return svg('g', {}, svg('rect', { x: x - pitch / 2 + 5, y: 2, width: pitch - 10, height: 25, rx: 5 }), svg('text', { x, y: 19 }, text), svg('title', {}, name));
}

function markers() {
  const tip = (id) => svg('marker', { id, viewBox: '0 0 8 8', refX: 7.4, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto-start-reverse' }, svg('path', { d: 'M0 0.6 L8 4 L0 7.4 z' }));
  return svg('defs', {}, tip('tip-plain'), tip('tip-refused'), tip('tip-unknown'),
    svg('pattern', { id: 'slant', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' }, svg('rect', { class: 'slant-bg', width: 6, height: 6 }), svg('line', { class: 'slant-line', x1: 0, y1: 0, x2: 0, y2: 6 })));
}

function drawBand(b, x, rows) {
  const [from, to] = [rows.at[b.from], rows.at[b.to]];
  if (!from || !to) return null;
  const top = from.middle;
  const height = Math.max(to.middle - top, 8);
  return svg('g', { class: 'band' }, svg('rect', { x: x(b.lane) - 19, y: top, width: 38, height, rx: 4, fill: 'url(#slant)' }), svg('title', {}, b.text));
}

function drawHold(h, x, rows, tint) {
  const [from, to] = [rows.at[h.from], rows.at[h.to]];
  if (!from || !to) return null;
  return svg('g', { class: 'hold ' + tint(h.token) + (h.stale ? ' stale' : '') },
    svg('rect', { x: x(h.lane) - 4, y: from.middle, width: 8, height: Math.max(to.middle - from.middle, 6), rx: 3 }), svg('title', {}, `lease under token ${h.token}`));
}

function drawStep(s, step, row, x, pitch, tint) {
  const when = svg('text', { class: 'when', x: time - 14, y: row.middle + 4 }, since(s, step));
  const title = svg('title', {}, `${clock(step.at)} · seen by ${step.who || 'the history'}`);
  if (step.kind === 'note') return svg('g', { class: `step note tone-${step.tone || 'none'}` }, when, drawNote(step, row, x(step.from), pitch, tint), title);
  const [a, b] = [x(step.from), x(step.to)];
  const side = b > a ? -6 : 6;
  const mark = step.tone === 'refused' || step.tone === 'bad' ? 'refused' : step.tone === 'unknown' ? 'unknown' : 'plain';
  return svg('g', { class: `step ${step.kind} tone-${step.tone || 'none'}` }, when,
    svg('line', { x1: a - side, x2: b + side, y1: row.middle, y2: row.middle, 'marker-end': `url(#tip-${mark})` }),
    label(step, beside(step, x, pitch), row.middle - 7, tint), title);
}

/** beside is the middle of the gap next to the client, where no other lane runs through the words. */
function beside(step, x, pitch) {
  const [client, server] = step.kind === 'call' ? [step.from, step.to] : [step.to, step.from];
  return x(client) + (server > client ? 0.5 : -0.5) * pitch;
}

/** label writes a step's token, as a chip, and its words, centred. */
function label(step, x, y, tint) {
  const text = step.text.join(', ');
  const chip = chipWidth(step.token);
  const width = chip + (chip ? 5 : 0) + textWidth(text, step.tone);
  const left = x - width / 2;
  return svg('g', { class: 'label' }, chip ? token(step.token, left, y, chip, tint) : null,
    svg('text', { x: left + chip + (chip ? 5 : 0), y: y + 1 }, text));
}

function token(value, x, y, width, tint) {
  return svg('g', { class: 'chip ' + tint(value) }, svg('rect', { x, y: y - 11, width, height: 15, rx: 4 }), svg('text', { x: x + width / 2, y: y + 0.5 }, value));
}

function drawNote(step, row, x, pitch, tint) {
  const chip = chipWidth(step.token);
  const longest = Math.max(...step.text.map((t) => textWidth(t, step.tone)));
  const width = Math.max(longest + (chip ? chip + 6 : 0) + 18, 60);
  const first = row.top + 17;
  return svg('g', {}, svg('rect', { class: 'paper', x: x - width / 2, y: row.top + 2, width, height: row.height - 2, rx: 5 }),
    chip ? token(step.token, x - width / 2 + 7, first, chip, tint) : null,
    step.text.map((t, i) => svg('text', { x: x - width / 2 + 9 + (chip ? chip + 5 : 0), y: first + i * 15 }, t)));
}

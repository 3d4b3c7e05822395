// The run over time: overview, lanes, charts and ladder on one axis, with zoom, search and jumps.
import { byId, el, onTheme, onWidth, replace } from './dom.js';
import { Axis, gestures } from './axis.js';
import { gutter } from './canvas.js';
import * as lanes from './lanes.js';
import * as charts from './charts.js';
import * as overview from './overview.js';
import * as ladders from './ladder.js';
import { find } from './search.js';
import { hideTip, showTip } from './tip.js';
import { clock, plural } from './words.js';

const hint = 'Drag to zoom in, Ctrl + wheel to zoom, double click to see all. Point at anything for details.';

export class Timeline {
  constructor(data, tell) {
    this.data = data;
    this.tell = tell;
    this.axis = new Axis(data.span);
    this.width = 0;
    this.layout = lanes.layOut(data, 'executor');
    this.chosen = null;
    this.select = null;
    this.hover = -1;
    this.at = -1;
    this.jumps = [...data.guilty.map((g) => ({ at: g.at, what: `${g.inv} violated` })), ...data.marks.filter((m) => m.stale).map((m) => ({ at: m.at, what: `stale ${m.op} refused` }))].sort((a, b) => a.at - b.at);
    this.first = data.guilty.reduce((first, g, i) => (first < 0 || g.at < data.guilty[first].at ? i : first), -1);
    this.account = data.guilty.map((g) => g.account).concat(data.marks.map((m) => m.account), 0).find((a) => a >= 0);
    this.ladder = ladders.collect(data, this.account);
    this.build();
  }

  build() {
    const canvas = (label) => el('canvas', { role: 'img', 'aria-label': label });
    this.strip = canvas('The whole run in small; drag to move');
    this.map = canvas(this.summary());
    this.chart = canvas(this.data.nouns.chart);
    this.steps = canvas(this.data.nouns.ladder);
    this.strip.className = 'strip';
    this.map.tabIndex = 0;
    this.map.id = 'lanes';
    this.keyNode = el('div', { class: 'key' });
    replace(byId('time-body'), this.strip, this.map, this.keyNode, this.chart, this.ladderBar(), this.steps, this.table());
    replace(byId('time-bar'), this.bar());
    this.say('');
    this.drawKey();
    this.coarse();
    this.axis.onChange(() => this.draw());
    onWidth(byId('time-body'), (w) => { this.width = w; this.draw(); });
    onTheme(() => this.draw());
    overview.drag(this.strip, this.axis);
    for (const node of [this.map, this.chart, this.steps]) this.listen(node);
    this.map.addEventListener('keydown', (e) => this.key(e));
  }

  summary() {
    const d = this.data;
    return `Lanes of ${plural(d.clients.length, d.nouns.holder, d.nouns.holders)}: ${plural(d.leases.length, 'lease', 'leases')}, ${plural(d.windows.length, 'fault', 'faults')}, ${plural(d.marks.length, 'refusal', 'refusals')}, ${plural(d.guilty.length, 'violation', 'violations')}. Keys: plus and minus zoom, arrows move, n and p go to the next and previous refusal, v to the first violation, 0 shows all.`;
  }

  bar() {
    const button = (label, title, act, extra) => el('button', { type: 'button', title, 'aria-label': /[a-z]/.test(label) ? null : title, onclick: act, ...extra }, label);
    const jump = this.data.guilty.length
      ? button('First violation', 'Jump to the first violation (v)', () => this.violation(this.first), { class: 'bad', id: 'first-violation' })
      : null;
    const { nouns } = this.data;
    const by = ['executor', 'account'].map((name, i) => [name, [nouns.holder, nouns.subject][i]]).map(([name, noun]) => button('by ' + noun, `One lane per ${noun}`, () => this.group(name), { 'aria-pressed': name === 'executor', 'data-by': name }));
    this.input = el('input', { type: 'search', id: 'search', placeholder: nouns.search, 'aria-label': 'Search by ' + nouns.search.toLowerCase(), autocomplete: 'off', spellcheck: 'false', oninput: () => this.search(false), onkeydown: (e) => { if (e.key === 'Enter') this.search(true); if (e.key === 'Escape') this.clear(); } });
    this.byButtons = by;
    return [
      el('span', { class: 'group' }, button('−', 'Zoom out (−)', () => this.axis.zoom(2)), button('+', 'Zoom in (+)', () => this.axis.zoom(0.5)), button('All', 'Show the whole run (0)', () => this.axis.fit())),
      el('span', { class: 'group' }, button('‹', 'Previous refusal or violation (p)', () => this.jump(-1)), button('›', 'Next refusal or violation (n)', () => this.jump(1), { id: 'next-refusal' })),
      jump, el('span', { class: 'group' }, by), this.input,
    ].filter(Boolean);
  }

  ladderBar() {
    const pick = el('select', { 'aria-label': `The token ladder’s ${this.data.nouns.subject}`, onchange: (e) => this.ladderOf(Number(e.target.value)) },
      this.data.accounts.map((id, i) => el('option', { value: i, selected: i === this.account }, this.data.accountName(i))));
    this.pick = pick;
    return el('div', { class: 'key ladder-key' }, el('label', {}, `Token ladder of ${this.data.nouns.subject} `, pick),
      this.data.locks ? null : [el('span', {}, el('i', { class: 'swatch line-row' }), 'fence'), el('span', {}, el('i', { class: 'swatch line-rail' }), 'rail’s mark')],
      el('span', {}, el('i', { class: 'swatch cross' }), this.data.locks ? 'LOCK_LOST' : 'stale write refused'), el('span', { class: 'coarse' }));
  }

  drawKey() {
    const sign = (name, text) => el('span', {}, el('i', { class: 'swatch ' + name }), text);
    const executors = this.layout.by === 'executor';
    const many = executors && this.data.density ? sign('many', 'leases, where they are too many to keep') : null;
    const holders = executors ? [sign('lease', 'lease'), many] : this.data.clients.slice(0, 12).map((name, i) => sign('who-' + (i % 6), name));
    replace(this.keyNode, holders, sign('lapsed', 'lease ran out'), executors && sign('fault', this.data.windows.some((w) => w.target.includes('→')) ? 'stopped, or above the leases: a link of its broken' : 'stopped'), this.data.locks ? [sign('row', 'LOCK_LOST: it came to use a grant that was over'), sign('revoked', 'revoked')] : [sign('rail', 'refused at the rail'), sign('row', 'refused at the account row')], this.data.guilty.length ? sign('cross', 'violation') : null);
  }

  table() {
    const all = this.data.marks.filter((m) => m.point !== 'revoke');
    const rows = all.slice(0, 300);
    if (!rows.length) return null;
    return el('details', { class: 'refusals' }, el('summary', {}, `The refusals as a table (${rows.length < all.length ? 'first ' : ''}${rows.length})`),
      el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Table of the refusals' }, el('table', {},
        el('thead', {}, el('tr', {}, this.columns().map((h) => el('th', { scope: 'col' }, h)))),
        el('tbody', {}, rows.map((m) => el('tr', {}, el('td', { class: 'num' }, clock(m.at)), el('td', {}, this.data.clients[m.client] || ''), el('td', {}, m.op), this.data.locks ? null : el('td', {}, m.point + (m.stale ? '' : ' (same token)')), el('td', { class: 'num' }, m.token), el('td', { class: 'num' }, m.highest), el('td', {}, el('code', {}, this.data.accountName(m.account))), this.data.locks ? null : el('td', {}, this.payoutCell(m))))))));
  }

  columns() {
    return this.data.locks
      ? ['Time', 'Client', 'Request', 'Token', 'Granted last', 'Key']
      : ['Time', 'Client', 'Write', 'Fence point', 'Token', 'Highest', 'Account', 'Payout'];
  }

  payoutCell(m) {
    if (m.payout < 0) return '';
    const { id } = this.data.payouts[m.payout];
    const story = this.data.storyAt.get(id);
    const name = el('code', { title: id }, this.data.payoutName(id));
    return story === undefined ? name : el('button', { type: 'button', class: 'link', onclick: () => this.tell(story, true) }, name);
  }

  listen(node) {
    const plot = () => ({ left: gutter(this.width), width: this.width - gutter(this.width) - 1 });
    const local = (e) => { const b = node.getBoundingClientRect(); return [e.clientX - b.left, e.clientY - b.top]; };
    gestures(node, this.axis, plot, {
      onSelect: (from, to) => { this.select = to > from ? { from, to } : null; this.drawLanes(); },
      onClick: (e) => { if (node === this.map) this.click(lanes.hit(...local(e), this.width, this.layout, this.data, this.axis)); },
    });
    node.addEventListener('pointermove', (e) => {
      if (e.pointerType === 'touch' || e.buttons) return;
      const [x, y] = local(e);
      const t = this.axis.scale(plot().left, plot().width).time(x);
      const inside = x >= plot().left;
      let lines = null;
      if (node === this.map) {
        const found = lanes.hit(x, y, this.width, this.layout, this.data, this.axis);
        node.style.cursor = found ? 'pointer' : 'crosshair';
        lines = found && lanes.describe(found, this.data);
      } else if (inside) {
        lines = node === this.chart ? charts.describe(t, this.data) : ladders.describe(t, this.ladder, this.data, this.account);
      }
      if (lines) showTip(e.clientX, e.clientY, lines);
      else hideTip();
      if (node === this.chart) { this.hover = inside ? t : -1; charts.draw(this.chart, this.width, this.data, this.axis, this.hover); }
    });
    node.addEventListener('pointerleave', () => {
      hideTip();
      if (node === this.chart) { this.hover = -1; charts.draw(this.chart, this.width, this.data, this.axis, -1); }
    });
  }

  click(found) {
    if (!found) return;
    this.say(lanes.describe(found, this.data).join(' · '));
    const payout = found.kind === 'mark' && found.it.payout >= 0 ? this.data.payouts[found.it.payout].id : found.it.payout;
    if (this.data.storyAt.has(payout)) this.tell(this.data.storyAt.get(payout), false);
    if (found.it.account >= 0) this.ladderOf(found.it.account);
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const acts = { '+': () => this.axis.zoom(0.5), '=': () => this.axis.zoom(0.5), '-': () => this.axis.zoom(2), 0: () => this.axis.fit(), ArrowLeft: () => this.axis.pan(-0.2), ArrowRight: () => this.axis.pan(0.2), Home: () => this.axis.show(0, this.axis.to - this.axis.from), End: () => this.axis.show(this.axis.length - (this.axis.to - this.axis.from), this.axis.length), n: () => this.jump(1), p: () => this.jump(-1), v: () => this.violation(this.first) };
    if (!acts[e.key]) return;
    e.preventDefault();
    acts[e.key]();
  }

  /** violation shows the neighbourhood of a violation. */
  violation(n) {
    const g = this.data.guilty[n];
    if (!g) return;
    this.around(g.at);
    if (g.account >= 0) this.ladderOf(g.account);
    this.say(`${g.inv} violated at ${clock(g.at)}: ${g.text}`);
  }

  jump(direction) {
    const from = this.at < 0 ? (direction > 0 ? this.axis.from - 1 : this.axis.to + 1) : this.at;
    const next = direction > 0 ? this.jumps.find((j) => j.at > from) : this.jumps.findLast((j) => j.at < from);
    if (!next) return this.say(direction > 0 ? 'Nothing was refused after this.' : 'Nothing was refused before this.');
    this.around(next.at);
    this.say(`${next.what} at ${clock(next.at)}`);
  }

  around(t) {
    this.at = t;
    this.axis.show(t - 1_200_000, t + 1_200_000);
  }

  group(by) {
    this.layout = lanes.layOut(this.data, by);
    for (const b of this.byButtons) b.setAttribute('aria-pressed', String(b.dataset.by === by));
    this.drawKey();
    this.draw();
  }

  ladderOf(account) {
    this.account = account;
    this.pick.value = String(account);
    this.ladder = ladders.collect(this.data, account);
    this.coarse();
    if (this.width) ladders.draw(this.steps, this.width, this.ladder, this.data, this.axis);
  }

  coarse() {
    document.querySelector('.coarse').textContent = this.ladder.ladder.coarse ? 'simplified: not every step is kept' : '';
  }

  /** search lists what matches; with go it shows the first match. */
  search(go) {
    const hits = find(this.data, this.input.value, 8);
    if (!this.input.value.trim()) return this.clear();
    if (!hits.length) {
      this.chosen = null;
      this.say(`Nothing here is that ${this.data.nouns.search.toLowerCase()}.`);
      return this.draw();
    }
    if (go) return this.show(hits[0]);
    replace(byId('time-found'), hits.map((h) => el('button', { type: 'button', class: 'hit', onclick: () => this.show(h) }, h.kind + ' ', el('code', {}, h.label), h.note ? ' ' + h.note : '')));
  }

  show(h) {
    this.chosen = h.match;
    const margin = Math.max((h.to - h.from) * 0.15, 100_000);
    this.axis.show(h.from - margin, h.to + margin);
    if (h.account >= 0) this.ladderOf(h.account);
    if (h.story >= 0) this.tell(h.story, false);
    this.say(`${h.kind} ${h.label}${h.note ? ': ' + h.note : ''}${h.story >= 0 ? '. Its story is told above.' : ''}`);
    this.draw();
  }

  clear() {
    this.input.value = '';
    this.chosen = null;
    this.say('');
    this.draw();
  }

  say(text) {
    replace(byId('time-found'), text || hint);
  }

  drawLanes() {
    if (this.width) lanes.draw(this.map, this.width, this.layout, this.data, this.axis, this.chosen, this.select);
  }

  draw() {
    if (!this.width) return;
    overview.draw(this.strip, this.width, this.data, this.axis);
    this.drawLanes();
    charts.draw(this.chart, this.width, this.data, this.axis, this.hover);
    ladders.draw(this.steps, this.width, this.ladder, this.data, this.axis);
  }
}

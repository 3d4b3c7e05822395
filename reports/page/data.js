// The data that the run's report embeds, with its rows turned into objects. reports/model.go describes the rows.
import { byId } from './dom.js';
import { compareTokens, nouns, short } from './words.js';

export function load() {
  const d = JSON.parse(byId('data').textContent);
  d.payouts = d.payouts.map(([id, account, from, to, tokens, state, moved, atRail, atRow]) => ({
    id, account, from, to, tokens: tokens ? tokens.split(' ') : [], state, moved, atRail, atRow,
  }));
  d.leases = d.leases.map(([client, account, from, to, token, end]) => ({ client, account, from, to, token, end }));
  d.marks = d.marks.map(([at, client, account, payout, point, op, token, highest]) => ({
    at, client, account, payout, point, op, token, highest, stale: point === 'lock' || compareTokens(token, highest) < 0,
  }));
  d.payoutAt = new Map(d.payouts.map((p, i) => [p.id, i]));
  d.storyAt = new Map(d.stories.map((s, i) => [s.payout, i]));
  d.nouns = nouns[d.locks ? 'lock' : 'payout'];
  d.accountName = (i) => (i < 0 ? `no ${d.nouns.subject}` : short(d.accounts[i], d.tail.accounts));
  d.payoutName = (id) => short(id, d.tail.payouts);
  return d;
}

// Search by payout, account or token.

/** find returns the best matches for a text, at most limit of them: {kind, label, note, match, from, to, story}. */
export function find(data, text, limit) {
  const q = text.trim().toLowerCase();
  if (!q) return [];
  const out = [];
  if (/^[1-9][0-9]*$/.test(q)) out.push(...tokens(data, q));
  data.accounts.forEach((id, account) => {
    if (out.length < limit && id.toLowerCase().includes(q)) out.push(accountHit(data, id, account));
  });
  for (const p of data.payouts) {
    if (out.length >= limit) break;
    if (p.id.toLowerCase().includes(q)) out.push(payoutHit(data, p));
  }
  return out.slice(0, limit);
}

function tokens(data, token) {
  const leases = data.leases.filter((l) => l.token === token);
  const marks = data.marks.filter((m) => m.token === token);
  const payouts = data.payouts.filter((p) => p.tokens.includes(token));
  if (!leases.length && !marks.length && !payouts.length) return [];
  const times = [...leases.flatMap((l) => [l.from, l.to]), ...marks.map((m) => m.at), ...(leases.length ? [] : payouts.flatMap((p) => [p.from, p.to]))];
  const told = payouts.find((p) => data.storyAt.has(p.id));
  const who = leases.length ? `${data.clients[leases[0].client]}, ${data.nouns.subject} ${data.accountName(leases[0].account)}` : '';
  return [{
    kind: 'token', label: token, note: who, from: Math.min(...times), to: Math.max(...times),
    match: (x) => x.token === token, story: told ? data.storyAt.get(told.id) : -1, account: leases.length ? leases[0].account : -1,
  }];
}

function accountHit(data, id, account) {
  return { kind: data.nouns.subject, label: id, note: '', from: 0, to: data.span, match: (x) => x.account === account, story: -1, account };
}

function payoutHit(data, p) {
  const at = data.payoutAt.get(p.id);
  const used = new Set(p.tokens);
  const note = [p.state, p.moved > 1 ? `money moved ${p.moved} times` : '', p.atRail ? 'refused at the rail' : '', p.atRow ? 'refused at the account row' : ''];
  return {
    kind: 'payout', label: p.id, note: note.filter(Boolean).join(', '), from: p.from, to: p.to, account: p.account,
    match: (x) => x.payout === at || (x.payout === undefined && x.account === p.account && used.has(x.token)),
    story: data.storyAt.has(p.id) ? data.storyAt.get(p.id) : -1,
  };
}

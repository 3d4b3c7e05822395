// Numbers and times in words. Tokens are strings and stay strings.

/** clock is a time of the run: microseconds → "12.345 s". */
export function clock(us, step) {
  const seconds = us / 1e6;
  if (step !== undefined) {
    const digits = step >= 1e6 ? 0 : Math.min(6, Math.ceil(6 - Math.log10(step)));
    if (seconds >= 120 && step >= 1e6) {
      const h = Math.floor(seconds / 3600);
      const m = Math.floor(seconds / 60) % 60;
      const s = String(Math.floor(seconds % 60)).padStart(2, '0');
      return h ? `${h}:${String(m).padStart(2, '0')}:${s}` : `${m}:${s}`;
    }
    return seconds.toFixed(digits) + ' s';
  }
  return seconds.toFixed(3) + ' s';
}

/** span is a length of time: "480 µs", "12 ms", "1.42 s". */
export function span(us) {
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 10_000) return `${(us / 1000).toFixed(1)} ms`;
  if (us < 1_000_000) return `${Math.round(us / 1000)} ms`;
  if (us < 120_000_000) return `${(us / 1e6).toFixed(2)} s`;
  return `${Math.floor(us / 6e7)} min ${Math.floor((us / 1e6) % 60)} s`;
}

/** short is enough of an id to tell it from the others: its head, or its tail where the heads are alike. */
export function short(id, tail) {
  if (id.length <= 12) return id;
  return tail ? '…' + id.slice(-8) : id.slice(0, 8);
}

export const plural = (n, one, many) => `${n} ${n === 1 ? one : many}`;

/** nouns are what things are called by workload: what a key stands for, who holds it, what is counted. */
export const nouns = {
  payout: {
    subject: 'account', holder: 'executor', holders: 'executors', search: 'Payout, account or token', refusal: 'Write',
    done: ['payouts', 'posted /s'], doneLong: 'payouts posted per second', calls: ['latency', 'of writes'], callsLong: 'writes',
    chart: 'Payouts posted per second, and latency of writes at p50 and p99, over time',
    ladder: 'Tokens granted, fence and rail mark of one account over time',
  },
  lock: {
    subject: 'key', holder: 'client', holders: 'clients', search: 'Key or token', refusal: 'Request',
    done: ['grants', '/s'], doneLong: 'grants per second', calls: ['latency', 'of releases'], callsLong: 'releases and renewals',
    chart: 'Grants per second, and latency of releases and renewals at p50 and p99, over time',
    ladder: 'Tokens that one key was granted with over time',
  },
};

const points = { rail: 'the rail', account: 'the account row', ledger: 'the ledger', lock: 'the lock' };
export const pointName = (p) => points[p] || p;

const ends = ['released', 'ran out', 'superseded by the next grant', 'ended with its session', 'still held at the end', 'revoked by the operator'];
export const endName = (n) => ends[n] || '';

/** compareTokens orders tokens as the numbers they are; what is no number, from damaged evidence, comes last. */
export function compareTokens(a, b) {
  const [x, y] = [a, b].map((t) => (/^[0-9]{1,40}$/.test(t) ? BigInt(t) : null));
  if (x === null || y === null) return x === y ? (a < b ? -1 : a > b ? 1 : 0) : x === null ? 1 : -1;
  return x < y ? -1 : x > y ? 1 : 0;
}

// Numbers and times as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (n) => (n >= 1e6 ? short.format(n) : whole.format(n));

export function rate(n) {
  if (!(n > 0)) return "0";
  if (n < 10) return n.toFixed(1);
  return n >= 1e5 ? short.format(n) : whole.format(n);
}

export function percent(part) {
  if (!(part > 0)) return "0%";
  if (part < 0.001) return "<0.1%";
  return `${(part * 100).toFixed(part < 0.1 ? 1 : 0)}%`;
}

export function ms(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  if (n < 1) return `${n.toFixed(2)} ms`;
  if (n < 100) return `${n.toFixed(1)} ms`;
  return n < 1000 ? `${Math.round(n)} ms` : `${(n / 1000).toFixed(1)} s`;
}

export function duration(n) {
  if (n > 0 && n < 1000) return `${Math.round(n)} ms`;
  const s = Math.max(0, Math.round(n / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

// Of today the time; of other days the day, too.
export function when(at) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "–";
  const today = new Date().toDateString() === date.toDateString();
  return today ? clock.format(date) : `${day.format(date)} ${clock.format(date)}`;
}

// The quantile of counts by bucket, in the buckets' unit: linear within its bucket, as Prometheus does. null: nothing is counted.
export function quantile(bounds, counts, q) {
  const all = counts.reduce((sum, n) => sum + n, 0);
  if (all <= 0) return null;
  let left = q * all;
  for (let i = 0; i < counts.length; i++) {
    if (left > counts[i]) {
      left -= counts[i];
      continue;
    }
    if (i >= bounds.length) return bounds[bounds.length - 1];
    const from = i > 0 ? bounds[i - 1] : 0;
    return from + (bounds[i] - from) * (counts[i] > 0 ? left / counts[i] : 1);
  }
  return bounds[bounds.length - 1];
}

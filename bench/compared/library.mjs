// Runs decisions of rate-limiter-flexible on Redis in a closed loop of one, for bench/compare: what library.py does for Python.
// usage: node library.mjs DIRECTORY PORT KEYS (COUNT | SECONDSs) LIMIT PER_SECONDS      DIRECTORY: where the library is installed
import { createRequire } from 'node:module';

const [directory, port, keys, amount, limit, seconds] = process.argv.slice(2);
const require = createRequire(`${directory}/`);
const { RateLimiterRedis, RateLimiterRes } = require('rate-limiter-flexible');
const { Redis } = require('ioredis');

const client = new Redis({ port: Number(port), enableOfflineQueue: false, lazyConnect: true });
client.on('error', () => {}); // each call says what became of it
await client.connect();
const limiter = new RateLimiterRedis({ storeClient: client, points: Number(limit), duration: Number(seconds) });

async function decide(key) {
  try {
    await limiter.consume(key);
    return 'admitted';
  } catch (reason) {
    return reason instanceof RateLimiterRes ? 'refused' : 'failed';
  }
}

await decide('key:0');
const took = [];
const outcomes = { admitted: 0, refused: 0, failed: 0 };
const begun = performance.now();
const cpu = process.cpuUsage();
const count = amount.endsWith('s') ? Infinity : Number(amount);
const end = amount.endsWith('s') ? begun + 1000 * parseFloat(amount) : Infinity;
while (took.length < count && performance.now() < end) {
  const key = keys === '1' ? 'key:hot' : `key:${String(Math.floor(Math.random() * Number(keys))).padStart(12, '0')}`;
  const before = performance.now();
  outcomes[await decide(key)]++;
  took.push(1000 * (performance.now() - before));
}
const elapsed = (performance.now() - begun) / 1000;
const used = process.cpuUsage(cpu);
took.sort((a, b) => a - b);
const at = (part) => took[Math.floor(took.length * part)];
console.log(JSON.stringify({
  decisions: took.length, admitted: outcomes.admitted, failed: outcomes.failed, seconds: elapsed, rps: took.length / elapsed,
  cpu_us: (used.user + used.system) / took.length, max_us: took[took.length - 1], p50_us: at(0.5), p99_us: at(0.99), p999_us: at(0.999),
}));
client.disconnect();

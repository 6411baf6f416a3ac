// ioredis: the job and the answer of ../python/client.py.
const Redis = require("ioredis");

const plain = (error, reply) => (error ? { error: error.message } : reply);

async function main() {
  const job = JSON.parse(require("fs").readFileSync(0, "utf8"));
  // Before version 20, Node.js takes the first address of "localhost" only, which may be ::1.
  const client = new Redis({ host: "127.0.0.1", port: job.port, password: job.token ?? undefined });
  const single = [];
  for (const [name, ...args] of job.commands) {
    single.push(await client.call(name, ...args).catch((error) => plain(error)));
  }
  const pipeline = client.pipeline();
  for (const [name, ...args] of job.commands) {
    pipeline.call(name, ...args);
  }
  const piped = (await pipeline.exec()).map(([error, reply]) => plain(error, reply));
  await client.quit();
  console.log(JSON.stringify({ single, pipeline: piped }));
}

main();

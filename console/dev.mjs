// Serves the page from the sources, built anew for each visit, and passes everything else on to a server.
// Usage: node dev.mjs [--server http://localhost:8080] [--port 8090]
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile } from 'node:fs/promises';
import { createServer, request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';

const here = dirname(fileURLToPath(import.meta.url));
const { values } = parseArgs({ options: { server: { type: 'string', default: 'http://localhost:8080' }, port: { type: 'string', default: '8090' } } });
const target = new URL(values.server);
const dist = await mkdtemp(join(tmpdir(), 'swiftwater-console-'));
const run = promisify(execFile);
const TYPES = { js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8', svg: 'image/svg+xml', txt: 'text/plain; charset=utf-8' };
const BASE = 'v1/console/development';

function headersOf(nonce) {
  const policy = `default-src 'none'; script-src 'self'; style-src 'self' 'nonce-${nonce}'; connect-src 'self'; img-src 'self' data: blob:; font-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'`;
  return { 'content-security-policy': policy, 'cross-origin-opener-policy': 'same-origin', 'cross-origin-embedder-policy': 'require-corp', 'cache-control': 'no-store' };
}

async function page(response) {
  const nonce = randomBytes(16).toString('base64');
  await run(process.execPath, [join(here, 'build.mjs'), dist]);
  const values = { base: BASE, nonce, from: 'none', build: '', mode: 'on' };
  const text = (await readFile(join(dist, 'index.html'), 'utf8')).replace(/\{\{(\w+)\}\}/g, (_, name) => values[name] ?? '');
  response.writeHead(200, { ...headersOf(nonce), 'content-type': 'text/html; charset=utf-8' });
  response.end(text);
}

/** The server answers only to hosts and origins that it knows: it sees its own. */
function passed(request) {
  const headers = { ...request.headers, host: target.host };
  if (headers.origin !== undefined) headers.origin = target.origin;
  delete headers.referer;
  return { host: target.hostname, port: target.port || 80, path: request.url, method: request.method, headers };
}

const server = createServer((request, response) => {
  const path = new URL(request.url, 'http://page').pathname;
  const failed = (status) => (error) => {
    if (!response.headersSent) response.writeHead(status, { 'content-type': 'text/plain' });
    response.end(String(error.stderr ?? error.message));
  };
  if (path === '/' && request.method === 'GET') {
    page(response).catch(failed(500));
    return;
  }
  const asset = new RegExp(`^/${BASE}/([a-z]+\\.([a-z]+))$`).exec(path);
  if (asset !== null) {
    readFile(join(dist, asset[1])).then((bytes) => {
      response.writeHead(200, { ...headersOf(''), 'content-type': TYPES[asset[2]] ?? 'application/octet-stream' });
      response.end(bytes);
    }, failed(404));
    return;
  }
  const onward = httpRequest(passed(request), (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  onward.on('error', failed(502));
  response.on('close', () => onward.destroy());
  request.pipe(onward);
});

server.on('upgrade', (request, socket, head) => {
  const onward = httpRequest(passed(request));
  const close = () => (socket.destroy(), onward.destroy());
  onward.on('upgrade', (answer, other, first) => {
    const lines = Object.entries(answer.headers).flatMap(([name, value]) => [value].flat().map((one) => `${name}: ${one}`));
    socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join('\r\n')}\r\n\r\n`);
    if (first.length > 0) socket.write(first);
    if (head.length > 0) other.write(head);
    socket.pipe(other).pipe(socket);
    other.on('error', close);
    socket.on('error', close);
  });
  onward.on('response', (answer) => {
    socket.end(`HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}\r\nconnection: close\r\n\r\n`);
  });
  onward.on('error', close);
  onward.end();
});

server.listen(Number(values.port), '127.0.0.1', () => {
  process.stdout.write(`http://127.0.0.1:${values.port}/ shows ${target.origin}\n`);
});

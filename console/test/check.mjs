// Checks what is committed: types, forbidden ways to make markup or code, the built bytes, their weight, the lock file.
import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const here = join(dirname(fileURLToPath(import.meta.url)), '..');
const PAGE = ['index.html', 'app.js', 'worker.js', 'style.css'];
/** [name, files, the most bytes of them after gzip]; null stands for every file. */
const WEIGHTS = [
  ['to the first answer', PAGE, 110_000],
  ['with the editor', [...PAGE, 'editor.js'], 250_000],
  ['all', null, 400_000],
];
const FORBIDDEN = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\s*\(|new Function\b|dangerouslySetInnerHTML/g;
const faults = [];
const print = (text) => process.stdout.write(`${text}\n`);

function run(name, command, ...rest) {
  const { status, stdout, stderr } = spawnSync(command, rest, { cwd: here, encoding: 'utf8' });
  if (status !== 0) faults.push(`${name}:\n${stdout}${stderr}`);
}

run('types', process.execPath, join(here, 'node_modules/typescript/bin/tsc'), '-p', here);

for (const name of (await readdir(join(here, 'src'), { recursive: true })).filter((name) => /\.\w+$/.test(name))) {
  const text = await readFile(join(here, 'src', name), 'utf8');
  for (const found of text.match(FORBIDDEN) ?? []) faults.push(`src/${name}: ${found} is forbidden`);
  if (/\son\w+\s*=\s*"|<script(?![^>]*\ssrc=)|style\s*=\s*"/i.test(name === 'index.html' ? text : '')) faults.push('index.html: inline script or style');
}

const built = await mkdtemp(join(tmpdir(), 'swiftwater-console-'));
run('build', process.execPath, join(here, 'build.mjs'), built);
const names = new Set([...(await readdir(built)), ...(await readdir(join(here, 'dist')))]);
for (const name of [...names].sort()) {
  const [fresh, committed] = await Promise.all([built, join(here, 'dist')].map((directory) => readFile(join(directory, name)).catch(() => null)));
  if (fresh === null || committed === null || !fresh.equals(committed)) faults.push(`dist/${name} is not what the sources give: run \`npm run build\``);
  if (committed?.includes('\r')) faults.push(`dist/${name} has a carriage return`);
}
await rm(built, { recursive: true });

const weights = new Map();
for (const name of (await readdir(join(here, 'dist'))).sort()) {
  const bytes = gzipSync(await readFile(join(here, 'dist', name)), { level: 9 }).length;
  weights.set(name, bytes);
  print(`${name.padEnd(20)} ${(bytes / 1000).toFixed(1).padStart(6)} kB gzip`);
}
for (const [name, files, most] of WEIGHTS) {
  const weight = (files ?? [...weights.keys()]).reduce((sum, file) => sum + (weights.get(file) ?? 0), 0);
  print(`${name.padEnd(20)} ${(weight / 1000).toFixed(1).padStart(6)} kB of ${most / 1000}`);
  if (weight > most) faults.push(`${name}: ${weight} bytes, ${most} are allowed`);
}
for (const name of [...weights.keys()].filter((name) => name.endsWith('.js'))) {
  const found = (await readFile(join(here, 'dist', name), 'utf8')).match(FORBIDDEN) ?? [];
  if (found.length > 0) print(`note: dist/${name} contains ${[...new Set(found)].join(', ')}, from a dependency`);
}
if ((await readFile(join(here, 'package-lock.json'), 'utf8')).includes('"resolved"')) faults.push('package-lock.json names a registry');

for (const fault of faults) print(`FAIL ${fault}`);
process.exitCode = faults.length === 0 ? 0 : 1;

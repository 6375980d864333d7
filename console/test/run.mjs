// Compiles the tests of the pure modules and runs them by `node --test`.
import { build } from 'esbuild';
import { spawnSync } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const out = await mkdtemp(join(here, '../node_modules/.tests-'));
try {
  const files = (await readdir(here)).filter((name) => name.endsWith('.test.ts'));
  await build({
    entryPoints: files.map((name) => join(here, name)),
    outdir: out,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    external: ['fast-check', 'ajv'],
    logLevel: 'warning',
  });
  const { status } = spawnSync(process.execPath, ['--test', ...files.map((name) => join(out, name.replace(/\.ts$/, '.mjs')))], { stdio: 'inherit', cwd: join(here, '..') });
  process.exitCode = status ?? 1;
} finally {
  await rm(out, { recursive: true });
}

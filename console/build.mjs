// Builds the page into one directory: index.html, app.js, editor.js, worker.js, style.css, icon.svg, licences.txt.
// The same sources give the same bytes. Usage: node build.mjs [OUTDIR]
import { build } from 'esbuild';
import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, 'dist'));
const LICENCES = ['MIT', 'ISC', 'BSD-2-Clause', 'BSD-3-Clause', 'Apache-2.0', '0BSD'];

const lf = (text) => text.replace(/\r\n/g, '\n');

async function bundle(entry, file) {
  const result = await build({
    entryPoints: [join(here, 'src', entry)],
    bundle: true,
    write: false,
    metafile: true,
    minify: true,
    format: 'esm',
    target: ['chrome115', 'firefox115', 'safari16.4'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    charset: 'ascii',
    legalComments: 'none',
    absWorkingDir: here,
    logLevel: 'warning',
    outfile: join(out, file),
  });
  await writeFile(join(out, file), lf(result.outputFiles[0].text));
  return Object.keys(result.metafile.inputs);
}

/** The packages whose files are in the bundles, by name. */
function packagesOf(inputs) {
  const names = new Set();
  for (const input of inputs) {
    const match = /(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (match !== null) names.add(match[1]);
  }
  return [...names].sort();
}

async function licenceOf(name) {
  const directory = join(here, 'node_modules', name);
  const { license, version } = JSON.parse(await readFile(join(directory, 'package.json'), 'utf8'));
  if (!LICENCES.includes(license)) throw new Error(`${name} has the licence ${license}, which may not be shipped`);
  const file = (await readdir(directory)).find((entry) => /^licen[cs]e(\.|$)/i.test(entry));
  if (file === undefined) throw new Error(`${name} has no licence file`);
  const text = lf(await readFile(join(directory, file), 'utf8')).trim();
  return `${name} ${version} (${license})\n\n${text}\n`;
}

await mkdir(out, { recursive: true });
const inputs = [];
for (const [entry, file] of [['main.tsx', 'app.js'], ['editor.ts', 'editor.js'], ['worker.ts', 'worker.js'], ['style.css', 'style.css']]) inputs.push(...(await bundle(entry, file)));
const licences = await Promise.all(packagesOf(inputs).map(licenceOf));
await writeFile(join(out, 'licences.txt'), licences.join(`\n${'-'.repeat(78)}\n\n`));
for (const name of ['index.html', 'icon.svg']) await writeFile(join(out, name), lf(await readFile(join(here, 'src', name), 'utf8')));

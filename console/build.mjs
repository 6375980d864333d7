// Builds the page into one directory: index.html, app.js, pages.js, editor.js, worker.js, style.css, icon.svg, licences.txt.
// The same sources give the same bytes. Usage: node build.mjs [OUTDIR]
import { build } from 'esbuild';
import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, 'dist'));
const LICENCES = ['MIT', 'ISC', 'BSD-2-Clause', 'BSD-3-Clause', 'Apache-2.0', '0BSD'];

/** The files that are loaded when they are needed: [entry in src/, file in dist/]. */
const LAZY = [['pages.tsx', 'pages.js']];

const lf = (text) => text.replace(/\r\n/g, '\n');

async function bundle(entry, file, { keep = true, ...options } = {}) {
  const result = await build({
    ...(typeof entry === 'string' ? { entryPoints: [join(here, 'src', entry)] } : { stdin: entry }),
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
    ...options,
  });
  const text = lf(result.outputFiles[0].text);
  if (keep) await writeFile(join(out, file), text);
  return { inputs: Object.keys(result.metafile.inputs), text };
}

/**
 * A plugin for files that are loaded later: what `app.js` contains already is imported from it, so both share one instance.
 * `load` gets the path of such a module and returns the text that stands for it, or null for a path that stays a plain import.
 */
function imported(modules, load) {
  return {
    name: 'imported',
    setup(context) {
      context.onResolve({ filter: /.*/ }, async ({ path, resolveDir, kind, pluginData }) => {
        if (pluginData === 'asked' || kind === 'entry-point' || path === './app.js') return undefined;
        const found = await context.resolve(path, { resolveDir, kind, pluginData: 'asked' });
        const name = relative(here, found.path).split(sep).join('/');
        if (!modules.has(name)) return undefined;
        return load === null ? { path: `app:${name}`, external: true } : { path: name, namespace: 'app' };
      });
      if (load !== null) context.onLoad({ filter: /.*/, namespace: 'app' }, ({ path }) => ({ contents: load(path), loader: 'js' }));
    },
  };
}

/**
 * Builds `app.js` of `main.tsx` and a file of each lazy entry. Code that both contain is in `app.js` only, which exports the names
 * that the lazy files import. So the first answer needs one script, and there is one instance of each module.
 */
async function bundleApp(lazy) {
  const first = await bundle('main.tsx', 'app.js', { keep: false });
  const modules = new Set(first.inputs);
  const names = new Set();
  for (const [entry, file] of lazy) {
    const { text } = await bundle(entry, file, { keep: false, minify: false, plugins: [imported(modules, null)] });
    for (const [, list, module] of text.matchAll(/^import \{([^}]*)\} from "app:([^"]+)";/gm)) {
      for (const item of list.split(',')) names.add(`${module} ${item.trim().split(' as ')[0]}`);
    }
    if (/^import (?!\{).*"app:/m.test(text)) throw new Error(`${file} imports a whole module of app.js: import names`);
  }
  const exported = [...names].sort().map((key, i) => [...key.split(' '), `_${i.toString(36)}`]);
  const lines = exported.map(([module, name, short]) => `export { ${name} as ${short} } from ${JSON.stringify(`./${module}`)};`);
  const inputs = (await bundle({ contents: ["import './src/main.tsx';", ...lines].join('\n'), resolveDir: here, sourcefile: 'app', loader: 'js' }, 'app.js')).inputs;
  for (const [entry, file] of lazy) {
    const load = (path) => `export { ${exported.filter(([module]) => module === path).map(([, name, short]) => `${short} as ${name}`).join(', ')} } from "./app.js";`;
    inputs.push(...(await bundle(entry, file, { external: ['./app.js'], plugins: [imported(modules, load)] })).inputs);
  }
  return inputs;
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
const inputs = await bundleApp(LAZY);
for (const [entry, file] of [['editor.ts', 'editor.js'], ['worker.ts', 'worker.js'], ['style.css', 'style.css']]) inputs.push(...(await bundle(entry, file)).inputs);
const licences = await Promise.all(packagesOf(inputs).map(licenceOf));
await writeFile(join(out, 'licences.txt'), licences.join(`\n${'-'.repeat(78)}\n\n`));
for (const name of ['index.html', 'icon.svg']) await writeFile(join(out, name), lf(await readFile(join(here, 'src', name), 'utf8')));

// Holds the published schemas of dashboards and notebooks against the cases that the server's own check is held against.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';

/** Tests run in the console's folder. */
const CONTENT = join(process.cwd(), '../crates/engine/src/objects/saved/content');
const content = (name: string): unknown => JSON.parse(readFileSync(join(CONTENT, name), 'utf8'));

interface Case {
  kind: 'dashboard' | 'notebook';
  content: unknown;
  fault: string | null;
  /** The schema cannot express the rule. */
  beyond_schema: boolean;
}

test('schemas accept and refuse what the server does', () => {
  const ajv = new Ajv2020({ strict: true, strictRequired: false, allowUnionTypes: true });
  const validate = { dashboard: ajv.compile(content('dashboard-1.json') as object), notebook: ajv.compile(content('notebook-1.json') as object) };
  const cases = content('cases.json') as Case[];
  assert.ok(cases.length > 40);
  for (const one of cases) {
    const expected = one.fault === null || one.beyond_schema;
    assert.equal(validate[one.kind](one.content), expected, JSON.stringify(one));
  }
});

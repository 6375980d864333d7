/** What the editor asks the server for: completions and functions. An older server has neither; then they are quietly absent. */
import { signal } from '@preact/signals';
import { documentBase } from './client.ts';
import { type FunctionHelp, type Options, completeBody, readFunctions, readOptions } from './completion.ts';
import type { Dialect } from './fragment.ts';
import { formatJson, parseJson } from './json.ts';

let absent = false;

/** Options at `cursor`, in UTF-16 units. */
export async function complete(text: string, cursor: number, dialect: Dialect, abort: AbortSignal): Promise<Options | null> {
  if (absent) return null;
  try {
    const answer = await fetch(new URL('v1/complete', documentBase), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: formatJson(completeBody(text, cursor, dialect)),
      signal: abort,
    });
    absent = answer.status === 404 || answer.status === 405;
    return answer.ok ? readOptions(parseJson(await answer.text()), text, cursor) : null;
  } catch {
    return null;
  }
}

const asked = new Set<Dialect>();
const known = signal(new Map<Dialect, Map<string, FunctionHelp>>());

/** The functions of a dialect by their names in capitals; empty until the server has answered. */
export function functionsOf(dialect: Dialect): ReadonlyMap<string, FunctionHelp> {
  return known.value.get(dialect) ?? new Map();
}

export async function loadFunctions(dialect: Dialect): Promise<void> {
  if (asked.has(dialect)) return;
  asked.add(dialect);
  try {
    const answer = await fetch(new URL(`v1/functions?dialect=${dialect}`, documentBase));
    if (answer.ok) known.value = new Map(known.value).set(dialect, readFunctions(parseJson(await answer.text())));
    else if (answer.status !== 404) asked.delete(dialect);
  } catch {
    asked.delete(dialect);
  }
}

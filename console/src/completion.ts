/**
 * Completions and functions as the server returns them (`POST v1/complete`, `GET v1/functions`), and which of them fit what is typed.
 *
 * Pure. Labels are text from outside: they are shown by `text.ts`; what is inserted is exactly `insert`. Limits: `OPTIONS_MAX`.
 */
import type { Json } from './json.ts';
import { charactersBefore, offsetAfter } from './places.ts';
import { isObject } from './protocol.ts';

export const OPTIONS_MAX = 500;
/** An answer with as many options may be a part of all: it is not used again while the word goes on. */
const WHOLE_MAX = 100;

/** The letter of each kind and its name for readers. */
export const KINDS: { [kind: string]: [letter: string, name: string] } = {
  keyword: ['K', 'keyword'],
  function: ['ƒ', 'function'],
  aggregate: ['Σ', 'aggregate'],
  path: ['.', 'field'],
  column: ['C', 'column'],
  stream: ['S', 'stream'],
  view: ['V', 'view'],
  table: ['T', 'table'],
  alias: ['A', 'alias'],
  value: ['=', 'value'],
  unit: ['U', 'unit'],
  type: ['τ', 'type'],
  parameter: ['$', 'parameter'],
  query: ['Q', 'query'],
};

export interface Option {
  label: string;
  kind: string;
  type: string;
  detail: string;
  doc: string;
  insert: string;
}

export interface Options {
  /** Offsets in UTF-16 units. */
  from: number;
  to: number;
  options: Option[];
  /** Whether no option is left out, so that a longer word needs no new request. */
  whole: boolean;
}

const text = (value: Json | undefined) => (typeof value === 'string' ? value : '');

/** The server's answer for `document` with the cursor at `cursor`, in units; null if it does not fit. */
export function readOptions(data: Json, document: string, cursor: number): Options | null {
  if (!isObject(data) || typeof data.from !== 'number' || typeof data.to !== 'number' || !Array.isArray(data.options)) return null;
  const from = offsetAfter(document, data.from);
  const to = offsetAfter(document, data.to);
  if (!(data.from >= 0) || from > cursor || to < cursor) return null;
  const options: Option[] = [];
  for (const item of data.options.slice(0, OPTIONS_MAX)) {
    if (!isObject(item) || typeof item.label !== 'string' || typeof item.insert !== 'string') continue;
    const { label, insert } = item;
    const kind = typeof item.kind === 'string' && Object.hasOwn(KINDS, item.kind) ? item.kind : 'keyword';
    options.push({ label, kind, type: text(item.type), detail: text(item.detail), doc: text(item.doc), insert });
  }
  return { from, to, options, whole: data.options.length < WHOLE_MAX };
}

/** The options that fit what is typed: first those that begin with it, then those that contain it, each in the server's order. */
export function matching(options: readonly Option[], typed: string): Option[] {
  const plain = typed.replace(/^['"]/, '').toLowerCase();
  if (plain === '') return [...options];
  const begins: Option[] = [];
  const contains: Option[] = [];
  for (const option of options) {
    const label = option.label.replace(/^['"]/, '').toLowerCase();
    if (label.startsWith(plain) || option.insert.toLowerCase().startsWith(typed.toLowerCase())) begins.push(option);
    else if (label.includes(plain)) contains.push(option);
  }
  return [...begins, ...contains];
}

/** Whether `typed` is still one word, or one text or name in quotes that is not closed. */
export function isOneWord(typed: string): boolean {
  return /^(?:[\p{L}\p{N}_$]*|'[^']*|"[^"]*)$/u.test(typed);
}

/**
 * Whether a completion is worth a request while the reader types: behind a letter, behind a mark that begins a name or a value, and
 * behind a space that follows a comma or a keyword. `line` is the text of the line up to the cursor.
 */
export function isPromising(line: string): boolean {
  if (/[\p{L}_][\p{L}\p{N}_]*$|[.'"($]$/u.test(line)) return true;
  return /(?:,|\b(?:select|from|where|by|and|or|not|having|windowing|join|on|as|in|like|rlike|distinct))\s$/i.test(line);
}

export interface Insertion {
  from: number;
  to: number;
  insert: string;
  /** Where the cursor is then. */
  cursor: number;
}

/**
 * The change that puts `insert` in place of `[from, to)`. A `(` at its end gets its `)` behind the cursor, unless a bracket is there
 * already; a quote that the editor has closed is not closed twice.
 */
export function insertion(document: string, from: number, to: number, insert: string): Insertion {
  const next = document[to] ?? '';
  const cursor = from + insert.length;
  const quote = insert[insert.length - 1] ?? '';
  if (insert.endsWith('(')) {
    if (next === '(') return { from, to: to + 1, insert, cursor };
    return { from, to, insert: next === ')' ? insert : `${insert})`, cursor };
  }
  const replaced = document.slice(from, to);
  if ((quote === "'" || quote === '"') && next === quote && replaced.split(quote).length % 2 === 0) return { from, to: to + 1, insert, cursor };
  return { from, to, insert, cursor };
}

/** The body of `POST v1/complete`. */
export function completeBody(document: string, cursor: number, dialect: string): Json {
  return { text: document, cursor: charactersBefore(document, cursor), dialect };
}

export interface FunctionHelp {
  name: string;
  kind: string;
  signatures: string[];
  returns: string;
  doc: string;
}

/** The functions of the server's answer by their names in capitals. */
export function readFunctions(data: Json): Map<string, FunctionHelp> {
  const functions = new Map<string, FunctionHelp>();
  if (!isObject(data) || !Array.isArray(data.functions)) return functions;
  for (const item of data.functions) {
    if (!isObject(item) || typeof item.name !== 'string') continue;
    const signatures = Array.isArray(item.signatures) ? item.signatures.filter((one) => typeof one === 'string').slice(0, 8) : [];
    functions.set(item.name.toUpperCase(), { name: item.name, kind: text(item.kind), signatures, returns: text(item.returns), doc: text(item.doc) });
  }
  return functions;
}

/**
 * Saved queries as the server reports them: their addresses and their answers.
 *
 * Pure. A list has no contents; `GET` of one query has.
 */
import { parseTime } from './format.ts';
import { type Dialect, wellFormed } from './fragment.ts';
import type { Json } from './json.ts';
import { isObject } from './protocol.ts';
import { isDots } from './text.ts';

export interface SavedFacts {
  name: string;
  comment: string | null;
  revision: number;
  /** Milliseconds since 1970; null if the server reports none. */
  changed: number | null;
}

export interface SavedQuery extends SavedFacts {
  /** The text as it was written: BQL, or Bullet's JSON form. */
  content: string;
  dialect: Dialect;
  /** False: in memory only. */
  kept: boolean;
}

export interface SavedPage {
  objects: SavedFacts[];
  /** The name that the next page begins after; null: this is the last one. */
  next: string | null;
  kept: boolean;
}

export const SAVED = 'v1/saved/queries';

/** The address of an object: of a query, unless `list` is the address of another kind. */
export const savedPath = (name: string, list = SAVED): string => `${list}/${encodeURIComponent(wellFormed(name))}`;

export function savedPage(prefix: string, after: string | null, limit: number): string {
  const values = new URLSearchParams({ limit: String(limit) });
  if (prefix !== '') values.set('prefix', wellFormed(prefix));
  if (after !== null) values.set('after', wellFormed(after));
  return `${SAVED}?${values.toString()}`;
}

/** The address of the `most` queries that changed last, the newest first. */
export const savedLast = (most: number): string => `${SAVED}?sort=changed&limit=${most}`;

/** Why no request can name this object; null: one can. The server decides on all other names. */
export function nameFault(name: string): string | null {
  if (name === '') return 'A name is needed.';
  return isDots(name) ? 'A name cannot be . or .. alone: a browser takes it out of the address.' : null;
}

function readFacts(data: Json | undefined): SavedFacts | null {
  if (!isObject(data) || typeof data.name !== 'string' || typeof data.revision !== 'number') return null;
  return { name: data.name, comment: typeof data.comment === 'string' ? data.comment : null, revision: data.revision, changed: parseTime(data.changed) };
}

export function readSavedPage(data: Json): SavedPage {
  if (!isObject(data)) return { objects: [], next: null, kept: true };
  const objects = Array.isArray(data.objects) ? data.objects.map(readFacts).filter((one) => one !== null) : [];
  return { objects, next: typeof data.next === 'string' ? data.next : null, kept: data.kept !== false };
}

/** One query with its text; null if the answer is none. */
export function readSaved(data: Json): SavedQuery | null {
  const facts = readFacts(data);
  if (facts === null || !isObject(data) || typeof data.content !== 'string') return null;
  // Texts of the page have no carriage returns, so a text that came back is equal to the one in the editor.
  const dialect = data.dialect === 'bullet' ? 'bullet' : 'native';
  return { ...facts, content: data.content.replace(/\r\n/g, '\n'), dialect, kept: data.kept !== false };
}

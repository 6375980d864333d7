/**
 * Which picture suits a result: from the roles of its columns, or, where the server names none, from the query's text and values.
 *
 * Pure. The rules, first match wins: FREQ → histogram; TOP → bars with error whiskers; no measure → table; one row without a key
 * → value; by window, one key (or quantile points) → lines, two keys → heat map; once, one key → bars, two keys → heat map;
 * single matches and all else → table.
 */
import type { DeclaredColumn } from './protocol.ts';
import type { Form } from './fragment.ts';
import type { Json } from './json.ts';
import { parseTime } from './format.ts';

export type Role = 'key' | 'measure' | 'time' | 'window_start' | 'window_end' | 'point' | 'range' | 'other';

export interface Column {
  name: string;
  role: Role;
  /** The type that the server declares, in capitals; empty if it declares none. */
  type: string;
  /** Whether values of different groups may be added: counts and sums. */
  additive: boolean;
}

export interface Facts {
  columns: readonly Column[];
  windowed: boolean;
  /** The most rows that one emit had so far. */
  rows: number;
  /** Whether the query aggregates, rather than returning single matches. */
  aggregates: boolean;
  top: boolean;
}

const AGGREGATE =
  /\b(count|sum|avg|min|max|top|freq|cumfreq|quantile|approx_\w+|first|last|arg_min|arg_max|min_by|max_by|collect_list|collect_set|array_agg)\s*\(/i;

export function choose(facts: Facts): Form {
  const { columns } = facts;
  const having = (role: Role) => columns.filter((column) => column.role === role);
  const measures = having('measure');
  if (having('range').length > 0 && measures.length > 0) return 'histogram';
  if (facts.top && measures.length > 0) return 'top';
  if (measures.length === 0 || !facts.aggregates) return 'table';
  const keys = having('key').length;
  const points = having('point').length;
  if (keys === 0 && points === 0) return facts.rows <= 1 ? 'value' : 'table';
  if (facts.windowed && keys + points === 1) return 'line';
  if (keys === 1 && points === 0) return 'bar';
  if (keys === 2 && points === 0) return 'heat';
  return 'table';
}

/** Whether `text` aggregates; a guess, for a server that names no roles. */
export function aggregates(text: string): boolean {
  return /\bgroup\s+by\b/i.test(text) || AGGREGATE.test(text);
}

/** Whether `text` asks for a plan in place of results. */
export function explains(text: string): boolean {
  return /^\s*explain\b/i.test(text);
}

export function isTop(text: string): boolean {
  return /\bselect\s+top\s*\(/i.test(text);
}

/**
 * Columns with their roles. `names` are all that were seen, `sample` some of the records. A role that the server declares is
 * taken; the others come from the query's `GROUP BY`, from usual names, and from the values.
 */
export function describe(
  names: Iterable<string>,
  declared: readonly DeclaredColumn[] | null,
  sample: ReadonlyArray<{ [name: string]: Json }>,
  text: string,
): Column[] {
  const grouped = groupedNames(text);
  const known = new Map((declared ?? []).map((column) => [column.name, column]));
  const columns: Column[] = [];
  for (const name of names) {
    const own = known.get(name);
    const role = isRole(own?.role) ? own.role : guessRole(name, own, sample, grouped);
    columns.push({ name, role, type: own?.type?.toUpperCase() ?? '', additive: role === 'measure' && isAdditive(name, own, text) });
  }
  return columns;
}

export const isNumberType = (type: string): boolean => /^(LONG|INTEGER|INT|BIGINT|FLOAT|DOUBLE|DECIMAL.*|NUMBER)$/.test(type);
export const isTimeType = (type: string): boolean => type.startsWith('TIMESTAMP');

const ROLES: readonly string[] = ['key', 'measure', 'time', 'window_start', 'window_end', 'point', 'range', 'other'];

function isRole(role: string | undefined): role is Role {
  return role !== undefined && ROLES.includes(role);
}

function guessRole(
  name: string,
  declared: DeclaredColumn | undefined,
  sample: ReadonlyArray<{ [name: string]: Json }>,
  grouped: ReadonlySet<string>,
): Role {
  if (name === 'window_start' || name === 'window_end') return name;
  if (name === 'Range') return 'range';
  if (name === 'Quantile') return 'point';
  if (grouped.has(name.toLowerCase())) return 'key';
  const type = declared?.type?.toUpperCase() ?? guessType(name, sample);
  if (isNumberType(type)) return 'measure';
  if (isTimeType(type)) return 'time';
  return type === 'STRING' || type === 'BOOLEAN' ? 'key' : 'other';
}

function guessType(name: string, sample: ReadonlyArray<{ [name: string]: Json }>): string {
  let type = '';
  for (const record of sample) {
    const value = Object.hasOwn(record, name) ? record[name] : undefined;
    if (value === null || value === undefined) continue;
    const own =
      typeof value === 'number' || typeof value === 'bigint'
        ? 'NUMBER'
        : typeof value === 'boolean'
          ? 'BOOLEAN'
          : typeof value === 'string'
            ? parseTime(value) === null
              ? 'STRING'
              : 'TIMESTAMP'
            : 'OTHER';
    if (type !== '' && type !== own) return own === 'OTHER' || type === 'OTHER' ? 'OTHER' : 'STRING';
    type = own;
  }
  return type;
}

/** The lower-case names of columns that `GROUP BY` lists, also by `path AS name`. */
function groupedNames(text: string): Set<string> {
  const names = new Set<string>();
  const clause = /\bgroup\s+by\s+([\s\S]*?)(?:\bhaving\b|\border\s+by\b|\bwindowing\b|\blimit\b|$)/i.exec(text)?.[1] ?? '';
  for (const part of clause.replace(/\b(grouping\s+sets|rollup|cube)\b/gi, '').split(/[(),]/)) {
    const path = part.trim().replace(/"/g, '');
    if (path === '') continue;
    names.add(path.toLowerCase());
    const escaped = path.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    const alias = new RegExp(`(?:^|[\\s,(])${escaped}\\s+as\\s+"?([\\w.]+)"?`, 'i').exec(text)?.[1];
    if (alias !== undefined) names.add(alias.toLowerCase());
  }
  return names;
}

function isAdditive(name: string, declared: DeclaredColumn | undefined, text: string): boolean {
  if (name === 'Count') return true;
  if (declared?.aggregate !== undefined) return /^(count|sum)$/i.test(declared.aggregate);
  const escaped = name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const call = new RegExp(`\\b(count|sum)\\s*\\(\\s*(?!distinct)[^()]*\\)(?:\\s*filter\\s*\\([^()]*\\))?\\s+(?:as\\s+)?"?${escaped}"?`, 'i');
  return call.test(text) || /^(count|sum)\((?!distinct)/i.test(name);
}

/**
 * The document of a dashboard, version 1: its types, and how JSON is checked against them.
 *
 * The server checks what it saves. The page checks as well, because a file that is imported and a draft of this browser come from
 * elsewhere. All faults are listed with their path, `/panels/3/source/text`. Pure.
 */
import type { Json } from '../json.ts';
import type { Placed } from './layout.ts';

export type Scalar = string | number | boolean | null;
export type Bound = Scalar | { variable: string } | { time: 'from' | 'to' };

export type Variable = { name: string; label?: string; default?: Scalar } & (
  | { kind: 'text' }
  | { kind: 'list'; values: Scalar[] }
  | { kind: 'query'; sql: string }
);

export type Time = { last_ms: number } | { from: string; to: string };

export type Source =
  | { kind: 'live'; text: string; dialect?: 'native' | 'bullet'; parameters?: Bound[] }
  | { kind: 'live'; saved: string; parameters?: Bound[] }
  | { kind: 'view'; view: string; prefix?: string; limit?: number }
  | { kind: 'sql'; text: string; parameters?: Bound[] }
  | { kind: 'search'; table: string; query: string; limit?: number }
  | { kind: 'metrics'; families: string[] }
  | { kind: 'text'; markdown: string };

export const SHAPES = ['auto', 'table', 'json', 'line', 'area', 'bar', 'stacked', 'histogram', 'heat', 'bands', 'top', 'value', 'gauge'] as const;
export type Shape = (typeof SHAPES)[number];
export const KINDS = ['live', 'view', 'sql', 'search', 'metrics', 'text'] as const;

export interface Panel extends Placed {
  title?: string;
  source: Source;
  show?: { as: Shape; options?: { [name: string]: Json } };
  refresh_ms?: number;
}

export interface Dashboard {
  version: 1;
  title: string;
  description?: string;
  variables?: Variable[];
  time?: Time;
  zone?: string;
  refresh_ms?: number;
  panels: Panel[];
}

export const PANELS_MAX = 100;
export const LAST_MS = 900_000;
export const REFRESH_MS = 10_000;
const VARIABLES_MAX = 50;
const FAULTS_MAX = 20;

export interface Fault {
  path: string;
  message: string;
}

export type Read = { dashboard: Dashboard } | { faults: Fault[] };

type Members = { [name: string]: Json };
type Check = (value: Json, path: string, faults: Fault[]) => void;

const isMembers = (value: Json | undefined): value is Members => typeof value === 'object' && value !== null && !Array.isArray(value);
const isScalar = (value: Json): boolean => value === null || typeof value !== 'object';

const text = (least: number, most: number): Check => (value, path, faults) => {
  if (typeof value !== 'string' || value.length < least || value.length > most) faults.push({ path, message: `must be text of ${least} to ${most} characters` });
};
const whole = (least: number, most: number): Check => (value, path, faults) => {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < least || value > most) faults.push({ path, message: `must be a whole number from ${least} to ${most}` });
};
const among = (names: readonly string[]): Check => (value, path, faults) => {
  if (typeof value !== 'string' || !names.includes(value)) faults.push({ path, message: `must be one of ${names.join(', ')}` });
};
const scalar: Check = (value, path, faults) => {
  if (!isScalar(value)) faults.push({ path, message: 'must be text, a number, true, false or null' });
};
const anyObject: Check = (value, path, faults) => {
  if (!isMembers(value)) faults.push({ path, message: 'must be an object' });
};
const matching = (pattern: RegExp, message: string): Check => (value, path, faults) => {
  if (typeof value !== 'string' || !pattern.test(value)) faults.push({ path, message });
};
const list = (check: Check, least: number, most: number): Check => (value, path, faults) => {
  if (!Array.isArray(value) || value.length < least || value.length > most) faults.push({ path, message: `must be a list of ${least} to ${most}` });
  else value.forEach((item, i) => check(item, `${path}/${i}`, faults));
};

/** An object with these members and no others. A name that ends with `?` may be missing. */
function members(checks: { [name: string]: Check }): Check {
  const known = new Map(Object.entries(checks).map(([name, check]) => [name.replace('?', ''), { check, needed: !name.endsWith('?') }]));
  return (value, path, faults) => {
    if (!isMembers(value)) {
      faults.push({ path, message: 'must be an object' });
      return;
    }
    for (const name of Object.keys(value)) if (!known.has(name)) faults.push({ path: `${path}/${name}`, message: 'is no member here' });
    for (const [name, { check, needed }] of known) {
      if (Object.hasOwn(value, name)) check(value[name] as Json, `${path}/${name}`, faults);
      else if (needed) faults.push({ path: `${path}/${name}`, message: 'is missing' });
    }
  };
}

const NAME = /^[a-z_][a-z0-9_]{0,63}$/i;
const variableName = matching(NAME, 'must be a name: a letter or `_`, then letters, digits, `_`');
export const isVariableName = (name: string): boolean => NAME.test(name);

const time: Check = (value, path, faults) => {
  const at: Check = (one, where, found) => {
    if (typeof one !== 'string' || Number.isNaN(Date.parse(one))) found.push({ path: where, message: 'must be a time, such as 2026-11-30T12:00:00Z' });
  };
  if (isMembers(value) && Object.hasOwn(value, 'last_ms')) members({ last_ms: whole(1000, Number.MAX_SAFE_INTEGER) })(value, path, faults);
  else members({ from: at, to: at })(value, path, faults);
};

const bound: Check = (value, path, faults) => {
  if (isScalar(value)) return;
  if (isMembers(value) && Object.hasOwn(value, 'variable')) members({ variable: variableName })(value, path, faults);
  else members({ time: among(['from', 'to']) })(value, path, faults);
};

/** By one of its members an object is of one of several kinds. */
const byKind = (kinds: { [kind: string]: { [name: string]: Check } }): Check => (value, path, faults) => {
  const kind = isMembers(value) && Object.hasOwn(value, 'kind') ? value.kind : undefined;
  if (typeof kind !== 'string' || !Object.hasOwn(kinds, kind)) faults.push({ path: `${path}/kind`, message: `must be one of ${Object.keys(kinds).join(', ')}` });
  else members({ kind: among([kind]), ...kinds[kind] })(value, path, faults);
};

const TEXT_MAX = 1 << 20;
const parameters = list(bound, 0, 64);
const named = { name: variableName, 'label?': text(0, 200), 'default?': scalar };
const variable = byKind({ text: named, list: { ...named, values: list(scalar, 0, 1000) }, query: { ...named, sql: text(1, TEXT_MAX) } });
const sources = byKind({
  live: { text: text(1, TEXT_MAX), 'dialect?': among(['native', 'bullet']), 'parameters?': parameters },
  view: { view: text(1, 256), 'prefix?': text(0, 4096), 'limit?': whole(1, 10_000) },
  sql: { text: text(1, TEXT_MAX), 'parameters?': parameters },
  search: { table: text(1, 256), query: text(0, 65_536), 'limit?': whole(1, 1000) },
  metrics: { families: list(text(1, 256), 1, 20) },
  text: { markdown: text(0, 65_536) },
});
const saved = members({ kind: among(['live']), saved: text(1, 128), 'parameters?': parameters });
const source: Check = (value, path, faults) => (isMembers(value) && value.kind === 'live' && Object.hasOwn(value, 'saved') ? saved : sources)(value, path, faults);

const panel = members({
  id: text(1, 64), 'title?': text(0, 200), x: whole(0, 11), y: whole(0, 9999), w: whole(1, 12), h: whole(1, 40), source,
  'show?': members({ as: among(SHAPES), 'options?': anyObject }), 'refresh_ms?': whole(1000, Number.MAX_SAFE_INTEGER),
});
const dashboard = members({
  version: whole(1, 1), title: text(1, 200), 'description?': text(0, 65_536), 'variables?': list(variable, 0, VARIABLES_MAX), 'time?': time,
  'zone?': text(1, 64), 'refresh_ms?': whole(1000, Number.MAX_SAFE_INTEGER), panels: list(panel, 0, PANELS_MAX),
});

function unique(names: readonly string[], path: string, faults: Fault[]): void {
  names.forEach((name, i) => {
    if (names.indexOf(name) < i) faults.push({ path: `${path}/${i}`, message: 'has the name of an earlier one' });
  });
}

/** Reads a document; the first 20 faults where it is none. */
export function readDashboard(value: Json): Read {
  const faults: Fault[] = [];
  dashboard(value, '', faults);
  if (faults.length === 0) {
    const read = value as unknown as Dashboard;
    unique(read.panels.map(({ id }) => id), '/panels', faults);
    unique((read.variables ?? []).map(({ name }) => name), '/variables', faults);
    read.panels.forEach(({ x, w }, i) => {
      if (x + w > 12) faults.push({ path: `/panels/${i}/w`, message: 'reaches beyond the 12 columns' });
    });
    if (faults.length === 0) return { dashboard: read };
  }
  return { faults: faults.slice(0, FAULTS_MAX) };
}

export const emptyDashboard = (title: string): Dashboard => ({ version: 1, title, panels: [] });

/** An id that no panel has. */
export function freshId(panels: readonly Placed[]): string {
  let number = panels.length + 1;
  while (panels.some(({ id }) => id === `p${number}`)) number += 1;
  return `p${number}`;
}

/** The name that a reader sees: the title, or what the source is. */
export function nameOf({ title, source, id }: Panel): string {
  if (title !== undefined && title.trim() !== '') return title;
  if (source.kind === 'view') return source.view;
  if (source.kind === 'search') return source.table;
  if (source.kind === 'metrics') return source.families[0] ?? id;
  return `Panel ${id}`;
}
